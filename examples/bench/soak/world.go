package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/lean"
)

const (
	// permanent is the number of prompts that each upstream always has; volatile is the number of those that come and go.
	permanent = 4
	volatile  = 8
	// teams is the number of teams, which own the upstreams in turn.
	teams = 2
	// longestPause bounds the time between two events.
	longestPause = 60 * time.Millisecond
)

// world is all upstreams.
type world struct {
	upstreams []*upstream
	// changes, deaths and returns count the events of each kind.
	changes, deaths, returns int

	mu sync.Mutex // guards truth
	// truth holds the descriptions that each team's upstreams offer, by exposed name.
	truth [teams]map[string]string
}

// upstream is one server that comes and goes.
type upstream struct {
	name string
	team int
	host host
	up   bool
	// prompts are descriptions by name.
	prompts map[string]string
}

// host runs an upstream's server.
type host interface {
	offer(prompts []string)
	down()
	up() error
	// block is the body of the upstream block that names the server.
	block() string
	// idle closes idle connections.
	idle()
}

// newWorld starts all upstreams.
func newWorld(ctx context.Context, s settings) (*world, error) {
	w := &world{}
	for i := range w.truth {
		w.truth[i] = map[string]string{}
	}
	nursery, err := newNursery(ctx)
	if err != nil {
		return nil, err
	}
	for i := range s.upstreams {
		u := &upstream{name: fmt.Sprintf("u%02d", i), team: i % teams, prompts: map[string]string{}}
		legacy := i%4 < 2 // half of the upstreams of each team
		if i < s.children {
			u.host = nursery.child(u.name, legacy)
		} else {
			u.host = &web{server: lean.Server{Legacy: legacy}, address: "127.0.0.1:0"}
		}
		for p := range permanent {
			u.prompts[fmt.Sprintf("permanent%d", p)] = "version 0"
		}
		w.upstreams = append(w.upstreams, u)
		w.offer(u)
		if err := u.rise(); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// rage makes upstreams change, die and return for a while. At its end all are up.
func (w *world) rage(ctx context.Context, chance *rand.Rand, length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		u := w.upstreams[chance.IntN(len(w.upstreams))]
		switch event := chance.IntN(10); {
		case !u.up && event < 5:
			w.returns++
			if err := u.rise(); err != nil {
				w.returns-- // its port is still in use: it stays down
			}
		case u.up && event < 2:
			w.deaths++
			u.fall()
		default: // a change while the server is down becomes visible when it returns
			w.changes++
			u.change(chance)
			w.offer(u)
		}
		pause(ctx, time.Duration(chance.Int64N(int64(longestPause))))
	}
	for _, u := range w.upstreams {
		for !u.up && ctx.Err() == nil {
			if err := u.rise(); err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			w.returns++
		}
	}
}

func pause(ctx context.Context, length time.Duration) {
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
}

// change adds, removes or changes a few prompts.
func (u *upstream) change(chance *rand.Rand) {
	version := fmt.Sprint("version ", chance.Uint32())
	for range 1 + chance.IntN(3) {
		if name := fmt.Sprintf("volatile%d", chance.IntN(volatile)); chance.IntN(3) > 0 {
			u.prompts[name] = version
		} else {
			delete(u.prompts, name)
		}
	}
	u.prompts[fmt.Sprintf("permanent%d", chance.IntN(permanent))] = version
}

// offer publishes the prompts of an upstream and records them as the truth.
func (w *world) offer(u *upstream) {
	var definitions []string
	w.mu.Lock()
	truth := w.truth[u.team]
	maps.DeleteFunc(truth, func(name, _ string) bool { return strings.HasPrefix(name, u.name+".") })
	for _, name := range slices.Sorted(maps.Keys(u.prompts)) {
		definitions = append(definitions, lean.Prompt(name, u.prompts[name]))
		truth[u.name+"."+name] = u.prompts[name]
	}
	w.mu.Unlock()
	u.host.offer(definitions)
}

// sees returns the prompts that a member of these teams must see.
func (w *world) sees(teams []int) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for _, team := range teams {
		maps.Copy(all, w.truth[team])
	}
	return all
}

func (u *upstream) rise() error {
	err := u.host.up()
	u.up = err == nil
	return err
}

func (u *upstream) fall() {
	u.host.down()
	u.up = false
}

func (w *world) String() string {
	return fmt.Sprintf("%d changes, %d deaths, %d returns", w.changes, w.deaths, w.returns)
}

func (w *world) idle() {
	for _, u := range w.upstreams {
		u.host.idle()
	}
}

func (w *world) close() {
	for _, u := range w.upstreams {
		u.host.down()
	}
}

// web is a server over HTTP.
type web struct {
	server  lean.Server
	address string
	serving *http.Server
}

func (h *web) offer(prompts []string) { h.server.Offer(prompts...) }
func (h *web) block() string          { return fmt.Sprintf("url = %q", "http://"+h.address) }

// up starts the server, on its old port if it had one.
func (h *web) up() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", h.address)
	if err != nil {
		return err
	}
	h.address = listener.Addr().String()
	h.server.Forget()
	serving := &http.Server{Handler: &h.server, ReadHeaderTimeout: time.Minute}
	h.serving = serving
	go func() { _ = serving.Serve(listener) }() // until down
	return nil
}

// down breaks all connections, as a crash does.
func (h *web) down() {
	if h.serving != nil {
		_ = h.serving.Close()
	}
}

func (h *web) idle() {
	h.serving.SetKeepAlivesEnabled(false)
	h.serving.SetKeepAlivesEnabled(true)
}

// nursery tells child processes which prompts to offer. They are children of the gateway and not of this process, so each of them
// connects to the nursery.
type nursery struct {
	listener net.Listener
	program  string

	mu       sync.Mutex // guards children and their fields
	children map[string]*child
}

// child is an upstream on stdio. Its process comes and goes: it connects to the nursery, sends its name, receives its prompts
// whenever they change, and exits when the connection ends.
type child struct {
	nursery *nursery
	name    string
	alive   bool
	prompts []string
	conn    net.Conn
}

func newNursery(ctx context.Context) (*nursery, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &nursery{listener: listener, program: program, children: map[string]*child{}}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // ctx has ended
			}
			go n.welcome(conn)
		}
	}()
	return n, nil
}

// legacySuffix ends the name of a child that speaks 2025-11-25.
const legacySuffix = "-legacy"

func (n *nursery) child(name string, legacy bool) *child {
	if legacy {
		name += legacySuffix
	}
	c := &child{nursery: n, name: name}
	n.children[name] = c
	return c
}

// welcome assigns a new connection to its child.
func (n *nursery) welcome(conn net.Conn) {
	var name string
	if err := json.NewDecoder(conn).Decode(&name); err != nil {
		_ = conn.Close()
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.children[name]
	if c == nil || !c.alive {
		_ = conn.Close()
		return
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = conn
	c.tellLocked()
}

// tellLocked sends the prompts to the child's process. The caller holds the nursery's lock.
func (c *child) tellLocked() {
	if c.conn != nil {
		_ = json.NewEncoder(c.conn).Encode(c.prompts) // fails only if the process has died: the next one will connect
	}
}

func (c *child) offer(prompts []string) {
	c.nursery.mu.Lock()
	defer c.nursery.mu.Unlock()
	c.prompts = prompts
	c.tellLocked()
}

func (c *child) up() error {
	c.nursery.mu.Lock()
	defer c.nursery.mu.Unlock()
	c.alive = true
	return nil
}

func (c *child) down() {
	c.nursery.mu.Lock()
	defer c.nursery.mu.Unlock()
	c.alive = false
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *child) block() string {
	return fmt.Sprintf("command = [%q, \"-child\", %q]", c.nursery.program, c.name+"@"+c.nursery.listener.Addr().String())
}

func (c *child) idle() {}

// playChild is the main function of a child process. It returns the exit code.
func playChild(who string) int {
	name, address, _ := strings.Cut(who, "@")
	home, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return 1
	}
	defer home.Close()
	if err := json.NewEncoder(home).Encode(name); err != nil {
		return 1
	}
	server := lean.Server{Legacy: strings.HasSuffix(name, legacySuffix)}
	offers := json.NewDecoder(home)
	receive := func() error {
		var prompts []string
		if err := offers.Decode(&prompts); err != nil {
			return err
		}
		server.Offer(prompts...)
		return nil
	}
	if err := receive(); err != nil {
		return 1
	}
	ended := make(chan error, 2)
	go func() {
		for {
			if err := receive(); err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() { ended <- errors.Join(server.ServeStdio(os.Stdin, os.Stdout), io.EOF) }()
	<-ended //nolint:errcheck // either end of the process is its end
	return 1
}
