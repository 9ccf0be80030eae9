package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
)

const (
	replicas = 3
	// pageSize is how many prompts are on a page.
	pageSize = 50
	// server is the label of the server whose list changes.
	server = "plain"
	// rate and burst are those of the prompt "limited"; "counted" has a limit that nobody reaches.
	rate, burst = 100, 10
	// token is the callers' credential, and strangerToken that of somebody who sees nothing.
	token, strangerToken = "caller", "stranger"
	// timeout bounds the wait for what must happen.
	timeout = 10 * time.Second
	// idleTimeout is how long a connection without requests is kept: less than HAProxy does, which
	// would close it as the next request comes.
	idleTimeout = 20 * time.Second
)

// world is gateways, the server behind them, and a store, if they share one.
type world struct {
	st      *rig.Stage
	program string
	client  light.Client
	// server has a number of prompts, and a mark that says how many changes there have been.
	server   *light.Server
	url      string
	prompts  int
	changes  atomic.Int64
	gateways []*rig.Gateway
	store    *store
	// proxies are what each gateway reaches the store through, if there are any.
	proxies []*rig.Proxy
}

// newWorld starts the server of a world without gateways.
func newWorld(st *rig.Stage, s *settings, prompts int) *world {
	w := &world{st: st, program: s.build, prompts: prompts, server: light.NewServer(false, 300)}
	w.client = light.Client{Token: token, Transport: &http.Transport{
		MaxIdleConnsPerHost: 512, IdleConnTimeout: idleTimeout, ResponseHeaderTimeout: time.Minute,
	}}
	w.offer(0)
	w.url = st.Serve(w.server)
	return w
}

// newReplicas starts gateways with one store.
func newReplicas(st *rig.Stage, s *settings, prompts int, proxied bool) *world {
	w := newWorld(st, s, prompts)
	w.store = newStore(st)
	for range replicas {
		address := w.store.address
		if proxied {
			w.proxies = append(w.proxies, st.Proxy(address))
			address = w.proxies[len(w.proxies)-1].Address
		}
		w.gateways = append(w.gateways, st.Gateway(w.configuration(cluster(address)), nil, w.program))
	}
	rig.Check(w.awaitStore())
	return w
}

func cluster(store string) string { return fmt.Sprintf("cluster { store = \"redis://%s\" }", store) }

// configuration returns that of a gateway, with further blocks. All have the same key.
func (w *world) configuration(blocks string) string {
	key := sha256.Sum256([]byte("cursors"))
	return fmt.Sprintf(`
gateway {
  listen      = "127.0.0.1:0"
  cursor_keys = [%q]
  page_size   = %d
  drain_delay = "1s"
}
admin {
  listen = "127.0.0.1:0"
}
%s
auth {
  token %q { sha256 = "%x" }
  token %q { sha256 = "%x" }
}
team "rig" {
  members = ["user:nobody"]
  upstream "plain" { url = %q }
  expose "limited" {
    prompts = ["plain.limited"]
    to      = ["*"]
    limit {
      rate  = %d
      burst = %d
    }
  }
  expose "counted" {
    prompts = ["plain.counted"]
    to      = ["*"]
    limit { rate = 1000000 }
  }
  expose "rest" {
    prompts = ["plain.p?????", "plain.mark*"]
    to      = ["*"]
  }
}
`, base64.StdEncoding.EncodeToString(key[:]), pageSize, blocks, token, sha256.Sum256([]byte(token)),
		strangerToken, sha256.Sum256([]byte(strangerToken)), w.url, rate, burst)
}

// awaitStore waits until the last line of each gateway's log about the store says that it is in use.
func (w *world) awaitStore() error {
	return rig.Eventually(2*timeout, func() error {
		for i, g := range w.gateways {
			log := g.Log()
			if strings.LastIndex(log, "store in use") <= strings.LastIndex(log, "store unavailable") {
				return fmt.Errorf("replica %d does not use the store:\n%s", i+1, log)
			}
		}
		return nil
	})
}

// endpoints are those of the gateways.
func (w *world) endpoints() (all []string) {
	for _, g := range w.gateways {
		all = append(all, g.Endpoint)
	}
	return all
}

// at returns a client of one gateway.
func (w *world) at(endpoint string) *light.Client {
	c := w.client
	c.Endpoint = endpoint
	return &c
}

// front starts HAProxy in front of gateways, and returns the endpoint.
func (w *world) front(gateways ...*rig.Gateway) string {
	var servers []string
	for _, g := range gateways {
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(g.Admin, "http://")) // it is one
		server := g.Address()
		if len(gateways) > 1 { // otherwise there is nowhere else to send a request
			server += fmt.Sprintf(" check port %s inter 200ms fall 1 rise 1", port)
		}
		servers = append(servers, server)
	}
	endpoint := "http://" + w.st.HAProxy(servers...) + "/mcp"
	rig.Check(rig.Eventually(timeout, func() error {
		_, err := w.at(endpoint).Page(w.st.Context(), "")
		return err
	}))
	return endpoint
}

// offer has the server's list change: it ends in a mark, which says which change it was.
func (w *world) offer(mark int) {
	w.server.Offer(append(light.Prompts(w.prompts), light.Prompt("limited", "One with a limit."),
		light.Prompt("counted", "One with another limit."), light.Prompt(fmt.Sprintf("mark%05d", mark), "The newest."))...)
}

func (w *world) change() (mark string) {
	n := int(w.changes.Add(1))
	w.offer(n)
	return fmt.Sprintf("%05d", n)
}

// read returns the mark of a list. An error means that the list is not whole.
func (w *world) read(names map[string]bool) (seen map[string]string, _ []string, err error) {
	seen = map[string]string{}
	for name := range names {
		if mark, ok := strings.CutPrefix(name, "plain.mark"); ok {
			seen[server] = mark
		}
	}
	if want := w.prompts + 3; len(names) != want {
		err = fmt.Errorf("a list has %d prompts, want %d", len(names), want)
	}
	return seen, nil, err
}

// store is a valkey-server or redis-server that keeps nothing on disk but what it is told to.
type store struct {
	st                *rig.Stage
	address, cli, dir string
	process           *rig.Process
}

func newStore(st *rig.Stage) *store {
	s := &store{
		st: st, address: rig.FreeAddress(st.Context()), cli: rig.Program("valkey-cli", "redis-cli"), dir: st.Dir(),
	}
	s.start()
	return s
}

// start starts the store, empty and at its address.
func (s *store) start() {
	_ = os.Remove(filepath.Join(s.dir, "dump.rdb")) // there may be none
	s.restore()
}

// restore starts the store with what it has saved.
func (s *store) restore() {
	_, port, _ := net.SplitHostPort(s.address) // it was made of one
	command := append(clocked(s.clock()), rig.Program("valkey-server", "redis-server"), "--port", port, "--bind",
		"127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	s.process = s.st.Start(command[0], command[1:]...)
	rig.Check(rig.Eventually(timeout, func() error { return s.command("PING") }))
}

func (s *store) clock() string { return filepath.Join(s.dir, "clock") }

// setClock sets the store's clock, relative to that of the machine.
func (s *store) setClock(by string) { rig.Check(os.WriteFile(s.clock(), []byte(by), 0o600)) }

// hang has the store keep its connections and answer nothing, until resume is called.
func (s *store) hang() { s.process.Signal(syscall.SIGSTOP) }

func (s *store) resume() { s.process.Signal(syscall.SIGCONT) }

// command has the store carry out commands without spaces in their arguments.
func (s *store) command(all ...string) error {
	ctx, cancel := context.WithTimeout(s.st.Context(), timeout)
	defer cancel()
	for _, text := range all {
		args := append([]string{"-e", "-u", "redis://" + s.address}, strings.Fields(text)...)
		if out, err := exec.CommandContext(ctx, s.cli, args...).CombinedOutput(); err != nil { //nolint:gosec // constants
			return fmt.Errorf("%s: %s, %w", text, out, err)
		}
	}
	return nil
}
