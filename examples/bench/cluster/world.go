//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/lean"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/examples/bench/internal/toxiproxy"
)

const (
	replicas = 3
	// prompts is how many there are without a limit, pageSize how many are on a page.
	prompts, pageSize = 1000, 50
	// rate and burst are those of the prompt "limited", places those of "places"; "counted" has a limit that nobody reaches.
	rate, burst, places = 100, 10, 5
	// token is the caller's credential.
	token = "caller"
	// patience bounds the wait for what must happen.
	patience = 10 * time.Second
	// idle is how long a connection without requests is kept: less than HAProxy does, which would close it as the next request comes.
	idle = 20 * time.Second
)

// world is all programs of the rig, and the servers that this one runs.
type world struct {
	client *http.Client
	// url is where HAProxy listens.
	url string

	dir string
	// program is that of the gateways, configuration theirs, without two addresses and the upstream "plain".
	program, configuration string

	// plain is the server of the configuration, and other the one that it is changed to. Changes counts those of both lists.
	plain, other offering
	changes      atomic.Int64

	asking   *askingServer
	gateways []*process.Gateway
	haproxy  *process.Process
	store    *store
	// toxiproxy is nil where there is none.
	toxiproxy *toxiproxy.Server
}

// design is what a world may have more or less of.
type design struct {
	replicas int
	// toxiproxy is between the gateways and the store, under the name "store".
	toxiproxy bool
}

// newWorld starts everything. Close must be called, also after an error.
func newWorld(ctx context.Context, s *settings, d design) (*world, error) {
	w := &world{client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: idle},
	}}
	var err error
	if w.dir, err = os.MkdirTemp("", "cluster"); err != nil {
		return w, err
	}
	w.startServers()
	if w.store, err = newStore(ctx, w.dir); err != nil {
		return w, err
	}
	address := w.store.address
	if d.toxiproxy {
		if w.toxiproxy, err = toxiproxy.Start(ctx, s.bin); err != nil {
			return w, err
		}
		if address, err = w.toxiproxy.Proxy(ctx, "store", address); err != nil {
			return w, err
		}
	}
	w.setConfiguration(s, address)
	for range d.replicas {
		g, err := w.startGateway(ctx, "127.0.0.1:0", "127.0.0.1:0", w.plain.block())
		if err != nil {
			return w, err
		}
		w.gateways = append(w.gateways, g)
	}
	return w, w.startHAProxy(ctx)
}

// configurationOf returns that of a replica with another upstream.
func (w *world) configurationOf(g *process.Gateway, upstream string) string {
	listen, admin := addresses(g)
	return fmt.Sprintf(w.configuration, listen, admin, upstream)
}

// configurationAlone returns that of a gateway without a cluster.
func (w *world) configurationAlone() string {
	text := fmt.Sprintf(w.configuration, "127.0.0.1:0", "127.0.0.1:0", w.plain.block())
	before, rest, _ := strings.Cut(text, "cluster {")
	_, after, _ := strings.Cut(rest, "\n")
	return before + after
}

// addresses returns where a gateway listens.
func addresses(g *process.Gateway) (listen, admin string) {
	return strings.TrimSuffix(strings.TrimPrefix(g.Endpoint, "http://"), "/mcp"), strings.TrimPrefix(g.Admin, "http://")
}

// startGateway starts a gateway at two addresses, and waits until it uses the store.
func (w *world) startGateway(ctx context.Context, listen, admin, upstream string) (*process.Gateway, error) {
	g, err := process.StartGateway(ctx, fmt.Sprintf(w.configuration, listen, admin, upstream), w.program)
	if err != nil {
		return nil, err
	}
	return g, awaitLog(g, "store in use", 1)
}

// writeLogs writes the last lines that each gateway has logged.
func (w *world) writeLogs() {
	const most = 20
	for i, g := range w.gateways {
		lines := strings.SplitAfter(g.Log(), "\n")
		for _, line := range lines[max(0, len(lines)-most):] {
			fmt.Fprintf(os.Stderr, "replica %d: %s", i+1, line)
		}
		fmt.Fprintln(os.Stderr)
	}
}

// at returns the world as seen by a client of one replica.
func (w *world) at(replica int) *world {
	return &world{client: w.client, url: strings.TrimSuffix(w.gateways[replica].Endpoint, "/mcp")}
}

func (w *world) close() {
	if w.haproxy != nil {
		_ = w.haproxy.Kill() // it has nothing to finish
	}
	for _, g := range w.gateways {
		g.Stop()
	}
	if w.toxiproxy != nil {
		w.toxiproxy.Stop()
	}
	if w.store != nil {
		w.store.kill()
	}
	if w.asking != nil {
		w.plain.http.Close()
		w.other.http.Close()
		w.asking.Close()
	}
	_ = os.RemoveAll(w.dir) // a temporary folder
}

func (w *world) startServers() {
	for _, o := range []*offering{&w.plain, &w.other} {
		o.streams = map[*http.Request]struct{}{}
		o.Answer(`{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":"Hello."}}]}`)
	}
	w.other.wants = "other"
	w.offer(0)
	w.plain.http, w.other.http = httptest.NewServer(&w.plain), httptest.NewServer(&w.other)
	w.asking = newAskingServer()
}

// offering is a server that offers the prompts of the rig.
type offering struct {
	lean.Server

	http *httptest.Server
	// wants is the value of the header X-Rig that requests must have, and strangers counts those that have another.
	wants     string
	strangers atomic.Int64
	// lists counts how often the server was listed.
	lists atomic.Int64

	mu      sync.Mutex // guards streams
	streams map[*http.Request]struct{}
}

// ServeHTTP implements [http.Handler].
func (o *offering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Rig") != o.wants {
		o.strangers.Add(1)
	}
	switch r.Header.Get("Mcp-Method") {
	case "prompts/list":
		o.lists.Add(1)
	case "subscriptions/listen":
		o.mu.Lock()
		o.streams[r] = struct{}{}
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			delete(o.streams, r)
			o.mu.Unlock()
		}()
	}
	o.Server.ServeHTTP(w, r)
}

// standing returns the addresses from which streams of changes are open.
func (o *offering) standing() (addresses []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for r := range o.streams {
		addresses = append(addresses, r.RemoteAddr)
	}
	return addresses
}

// block returns the upstream of a configuration that has this server.
func (o *offering) block() string {
	headers := ""
	if o.wants != "" {
		headers = fmt.Sprintf("headers = { X-Rig = %q }", o.wants)
	}
	return fmt.Sprintf("upstream \"plain\" {\n url = %q\n %s\n }", o.http.URL, headers)
}

// offer has the servers' lists change: they end in a mark, which says which change it was, and at which of the servers.
func (w *world) offer(mark int) {
	all := definitions()
	for o, server := range map[*offering]string{&w.plain: "plain", &w.other: "other"} {
		o.Offer(append(slices.Clip(all), lean.Prompt(fmt.Sprintf("mark%05d%s", mark, server), "The newest."))...)
	}
}

// definitions returns the prompts that are always there.
func definitions() (all []string) {
	for i := range prompts {
		all = append(all, lean.Prompt(fmt.Sprintf("p%04d", i), "One of many."))
	}
	for _, name := range []string{"limited", "places", "counted"} {
		all = append(all, lean.Prompt(name, "One with a limit."))
	}
	return all
}

// markOf returns the mark of a prompt that is one, and its server.
func markOf(name string) (mark int, server string, ok bool) {
	_, text, ok := strings.Cut(name, "plain.mark")
	if !ok {
		return 0, "", false
	}
	_, err := fmt.Sscanf(text, "%05d%s", &mark, &server)
	return mark, server, err == nil
}

func (w *world) setConfiguration(s *settings, store string) {
	w.program = filepath.Join(s.bin, "promptweir")
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	w.configuration = fmt.Sprintf(`
gateway {
  listen      = %%q
  cursor_keys = [%q]
  page_size   = %d
  drain_delay = "1s"
}
admin { listen = %%q }
cluster { store = "redis://%s" }
auth {
  token %q { sha256 = "%x" }
}
team "rig" {
  members = ["user:nobody"]
  %%s
  upstream "ask" { url = %q }
  expose "limited" {
    prompts = ["plain.limited"]
    to      = ["*"]
    limit {
      rate  = %d
      burst = %d
    }
  }
  expose "places" {
    prompts = ["plain.places"]
    to      = ["*"]
    limit { concurrency = %d }
  }
  expose "counted" {
    prompts = ["plain.counted"]
    to      = ["*"]
    limit { rate = 1000000 }
  }
  expose "rest" {
    prompts = ["plain.p????", "plain.mark*", "ask.*"]
    to      = ["*"]
  }
}
`, base64.StdEncoding.EncodeToString(key[:]), pageSize, store, token, sha256.Sum256([]byte(token)), w.asking.URL, rate, burst, places)
}

// awaitLog waits until a gateway has logged a message a number of times.
func awaitLog(g *process.Gateway, message string, times int) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Count(g.Log(), message) >= times {
			return nil
		}
	}
	return fmt.Errorf("the gateway has not logged %q %d times after %v:\n%s", message, times, patience, g.Log())
}

// haproxyConfiguration sends each request to the next server, and asks each server's readiness, which a busy machine may answer late. Streams
// may last. Without http-no-delay, HAProxy keeps an event back for up to 200 ms, in case another one follows. Responses say which server
// they are of.
const haproxyConfiguration = `defaults
  mode http
  balance roundrobin
  option redispatch 1
  option http-no-delay
  retries 3
  retry-on conn-failure
  timeout connect 1s
  timeout check 2s
  timeout client 60s
  timeout server 60s
  option httpchk GET /readyz
frontend front
  bind 127.0.0.1:%s
  default_backend back
backend back
  http-response set-header X-Replica %%s
`

// startHAProxy starts HAProxy in front of the gateways.
func (w *world) startHAProxy(ctx context.Context) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, haproxyConfiguration, port)
	for i, g := range w.gateways {
		endpoint, err := url.Parse(g.Endpoint)
		if err != nil {
			return err
		}
		admin, err := url.Parse(g.Admin)
		if err != nil {
			return err
		}
		check := ""
		if len(w.gateways) > 1 { // otherwise there is nowhere else to send a request
			check = fmt.Sprintf(" check port %s inter 200ms fall 1 rise 1", admin.Port())
		}
		fmt.Fprintf(&text, "  server replica%d %s%s\n", i+1, endpoint.Host, check)
	}
	path := filepath.Join(w.dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return err
	}
	program := "haproxy"
	if _, err := exec.LookPath(program); err != nil {
		program = "/usr/sbin/haproxy" // which not all users have in PATH
	}
	if w.haproxy, err = process.Start(ctx, program, "-db", "-f", path); err != nil {
		return fmt.Errorf("%w: apt-get install haproxy", err)
	}
	w.url = "http://127.0.0.1:" + port
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := w.call(ctx, "prompts/list", `{}`); err == nil {
			return nil
		}
	}
	return fmt.Errorf("HAProxy does not answer:\n%s", w.haproxy.Log())
}

func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// store is a valkey-server or redis-server that keeps nothing on disk.
type store struct {
	address string

	ctx context.Context //nolint:containedctx // its processes end with it
	dir string
	cmd *exec.Cmd
}

func newStore(ctx context.Context, dir string) (*store, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s := &store{address: "127.0.0.1:" + port, ctx: ctx, dir: dir}
	return s, s.start()
}

// start starts the store, empty and at its address.
func (s *store) start() error {
	program := "valkey-server"
	if _, err := exec.LookPath(program); err != nil {
		program = "redis-server"
	}
	_, port, _ := net.SplitHostPort(s.address) // it was made of one
	s.cmd = exec.CommandContext(s.ctx, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("%w: apt-get install redis-server", err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		c, err := (&net.Dialer{}).DialContext(s.ctx, "tcp", s.address)
		if err == nil {
			return c.Close()
		}
	}
	return errors.New("the store does not answer")
}

// kill ends the store as kill -9 does.
func (s *store) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // says that it was killed
}

// command has the store carry out a command without a result.
func (s *store) command(text string) error {
	c, err := (&net.Dialer{Timeout: patience}).DialContext(s.ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%s\r\n", text); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "+OK\r\n" {
		err = fmt.Errorf("%s: %s", text, answer)
	}
	return err
}

// hang has the store keep its connections and answer nothing, until resume is called.
func (s *store) hang() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

func (s *store) resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
