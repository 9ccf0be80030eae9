package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	replicas = 3
	// prompts is how many there are without a limit, pageSize how many are on a page.
	prompts, pageSize = 1000, 50
	// rate and burst are those of the prompt "limited"; "counted" has a limit that nobody reaches, "slots" one of concurrency.
	rate, burst, slots = 100, 10, 5
	// token is the caller's credential.
	token = "caller"
	// timeout bounds the wait for what must happen.
	timeout = 10 * time.Second
	// idleTimeout is how long a connection without requests is kept: less than HAProxy does, which would close it as the next request comes.
	idleTimeout = 20 * time.Second
)

// world is all programs of the rig, and the servers that this one runs.
type world struct {
	// client is one of 2026-07-28, and endpoint where HAProxy listens.
	client   rig.Client
	endpoint string

	dir string
	// program is that of the gateways, configuration theirs, without two addresses and the upstream "plain".
	program, configuration string

	// plain is the server of the configuration, and other the one that it is changed to. Changes counts those of both lists.
	plain, other *offering
	changes      atomic.Int64

	asking   *asking
	gateways []*rig.Gateway
	haproxy  *rig.Process
	store    *store
	// toxiproxy, between the gateways and the store, is nil where there is none.
	toxiproxy *rig.Toxiproxy
	stops     []func()
}

// newWorld starts everything. Close must be called, also after an error.
func newWorld(ctx context.Context, s *settings, withToxiproxy bool) (*world, error) {
	w := &world{program: s.promptweir(), client: rig.Client{Token: token, Elicits: true, Transport: &http.Transport{
		MaxIdleConnsPerHost: 512, IdleConnTimeout: idleTimeout, ResponseHeaderTimeout: time.Minute,
	}}}
	var err error
	if w.dir, err = os.MkdirTemp("", "cluster"); err != nil {
		return w, err
	}
	w.plain, w.other, w.asking = newOffering(""), newOffering("other"), newAsking()
	w.offer(0)
	for handler, target := range map[http.Handler]*string{w.plain: &w.plain.url, w.other: &w.other.url, w.asking.server: &w.asking.url} {
		var stop func()
		if *target, stop, err = rig.Serve(ctx, handler); err != nil {
			return w, err
		}
		w.stops = append(w.stops, stop)
	}
	if w.store, err = newStore(ctx, w.dir); err != nil {
		return w, err
	}
	address := w.store.address
	if withToxiproxy {
		if w.toxiproxy, err = rig.StartToxiproxy(ctx, s.bin); err != nil {
			return w, err
		}
		if address, err = w.toxiproxy.Proxy(ctx, "store", address); err != nil {
			return w, err
		}
	}
	w.configure(address)
	for range replicas {
		g, err := w.startGateway(ctx, "127.0.0.1:0", "127.0.0.1:0")
		if err != nil {
			return w, err
		}
		w.gateways = append(w.gateways, g)
	}
	return w, w.startHAProxy(ctx)
}

func (w *world) configure(store string) {
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
  expose "slots" {
    prompts = ["plain.slots"]
    to      = ["*"]
    limit { concurrency = %d }
  }
  expose "counted" {
    prompts = ["plain.counted"]
    to      = ["*"]
    limit { rate = 1000000 }
  }
  expose "rest" {
    prompts = ["plain.p?????", "plain.mark*", "ask.*"]
    to      = ["*"]
  }
}
`, base64.StdEncoding.EncodeToString(key[:]), pageSize, store, token, sha256.Sum256([]byte(token)), w.asking.url, rate, burst, slots)
}

// startGateway starts a gateway at two addresses, and waits until it uses the store.
func (w *world) startGateway(ctx context.Context, listen, admin string) (*rig.Gateway, error) {
	g, err := rig.StartGateway(ctx, fmt.Sprintf(w.configuration, listen, admin, w.plain.block()), nil, w.program)
	if err != nil {
		return nil, err
	}
	return g, rig.Eventually(timeout, func() error { return usesStore(g) })
}

// usesStore returns an error unless the last line of a gateway's log about the store says that it is in use.
func usesStore(g *rig.Gateway) error {
	if log := g.Log(); strings.LastIndex(log, "store in use") <= strings.LastIndex(log, "store away") {
		return fmt.Errorf("the store is not in use:\n%s", log)
	}
	return nil
}

func (w *world) awaitStore() error {
	return rig.Eventually(2*timeout, func() error {
		for _, g := range w.gateways {
			if err := usesStore(g); err != nil {
				return err
			}
		}
		return nil
	})
}

func addresses(g *rig.Gateway) (listen, admin string) {
	return g.Address(), strings.TrimPrefix(g.Admin, "http://")
}

// alone returns a world with a gateway that has no store, in front of the same servers. Close must be called, also after an error.
func (w *world) alone(ctx context.Context) (*world, error) {
	a := &world{client: w.client}
	var err error
	if a.dir, err = os.MkdirTemp("", "alone"); err != nil {
		return a, err
	}
	text := fmt.Sprintf(w.configuration, "127.0.0.1:0", "127.0.0.1:0", w.plain.block())
	before, rest, _ := strings.Cut(text, "cluster {")
	_, after, _ := strings.Cut(rest, "\n")
	g, err := rig.StartGateway(ctx, before+after, nil, w.program)
	if err != nil {
		return a, err
	}
	a.gateways = []*rig.Gateway{g}
	return a, a.startHAProxy(ctx)
}

func (w *world) at(replica int) *rig.Client {
	c := w.client
	c.Endpoint = w.gateways[replica].Endpoint
	return &c
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
	for _, stop := range w.stops {
		stop()
	}
	_ = os.RemoveAll(w.dir) // a temporary folder
}

func (w *world) writeLogs() {
	for i, g := range w.gateways {
		lines := strings.SplitAfter(g.Log(), "\n")
		fmt.Fprintf(os.Stderr, "replica %d:\n%s\n", i+1, strings.Join(lines[max(0, len(lines)-20):], ""))
	}
}

// haproxyAround sends each request to the next server, and asks each server's readiness, which a busy machine may answer late. Streams
// may last. Without http-no-delay, HAProxy keeps an event back for up to 200 ms, in case another one follows. Responses say which server
// they are of.
const haproxyAround = `defaults
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
  bind ADDRESS
  default_backend back
backend back
  http-response set-header X-Replica %s
`

func (w *world) startHAProxy(ctx context.Context) error {
	var text strings.Builder
	text.WriteString(haproxyAround)
	for i, g := range w.gateways {
		listen, admin := addresses(g)
		_, port, _ := net.SplitHostPort(admin) // it is one
		check := ""
		if len(w.gateways) > 1 { // otherwise there is nowhere else to send a request
			check = fmt.Sprintf(" check port %s inter 200ms fall 1 rise 1", port)
		}
		fmt.Fprintf(&text, "  server replica%d %s%s\n", i+1, listen, check)
	}
	var address string
	var err error
	if w.haproxy, address, err = rig.StartHAProxy(ctx, w.dir, text.String()); err != nil {
		return err
	}
	w.endpoint = "http://" + address
	w.client.Endpoint = w.endpoint + "/mcp"
	return rig.Eventually(timeout, func() error {
		_, err := w.client.Page(ctx, "")
		return err
	})
}

// offering is a server that offers the prompts of the rig.
type offering struct {
	*rig.Server

	url string
	// wants is the value of the header X-Rig that requests must have, and strangers counts those that have another.
	wants     string
	strangers atomic.Int64
}

func newOffering(wants string) *offering {
	return &offering{Server: rig.NewServer(false, 300), wants: wants}
}

// ServeHTTP implements [http.Handler].
func (o *offering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Rig") != o.wants {
		o.strangers.Add(1)
	}
	o.Server.ServeHTTP(w, r)
}

func (o *offering) block() string {
	headers := ""
	if o.wants != "" {
		headers = fmt.Sprintf("headers = { X-Rig = %q }", o.wants)
	}
	return fmt.Sprintf("upstream \"plain\" {\n url = %q\n %s\n }", o.url, headers)
}

// offer has the servers' lists change: they end in a mark, which says which change it was, and at which of the servers.
func (w *world) offer(mark int) {
	all := rig.Prompts(prompts)
	for _, name := range []string{"limited", "slots", "counted"} {
		all = append(all, rig.Prompt(name, "One with a limit."))
	}
	for o, server := range map[*offering]string{w.plain: "plain", w.other: "other"} {
		o.Offer(append(slices.Clip(all), rig.Prompt(fmt.Sprintf("mark%05d%s", mark, server), "The newest."))...)
	}
}

func (w *world) change() (mark int) {
	mark = int(w.changes.Add(1))
	w.offer(mark)
	return mark
}

// marks returns the newest mark of a list, and the servers that have marked it. An error means that the list is not whole.
func marks(names map[string]bool) (newest int, servers []string, err error) {
	unmarked := 0
	for name := range names {
		_, text, ok := strings.Cut(name, "plain.mark")
		if !ok {
			unmarked++
			continue
		}
		var mark int
		var server string
		if _, err := fmt.Sscanf(text, "%05d%s", &mark, &server); err != nil {
			return 0, nil, err
		}
		newest, servers = max(newest, mark), append(servers, server)
	}
	if want := prompts + 4; unmarked != want { // three with limits, and the one that asks
		err = fmt.Errorf("a list has %d prompts, want %d", unmarked, want)
	}
	return newest, servers, err
}

// asking is an MCP server of 2025-11-25 whose prompt "ask" sends an elicitation during the get; the result has the reply.
type asking struct {
	server *rig.Server
	url    string

	// abandoned counts gets that the gateway gave up: it closes their streams, or says so in place of a reply.
	abandoned, asked atomic.Int64

	mu      sync.Mutex // guards replies
	replies map[string]chan []byte
}

func newAsking() *asking {
	a := &asking{server: rig.NewServer(true, 300, rig.Prompt("ask", "One that asks.")), replies: map[string]chan []byte{}}
	a.server.OnGet, a.server.OnReply = a.get, a.reply
	return a
}

func (a *asking) get(w http.ResponseWriter, r *http.Request, m wire.Message) (done bool) {
	name, reply := fmt.Sprint("q", a.asked.Add(1)), make(chan []byte, 1)
	a.mu.Lock()
	a.replies[name] = reply
	a.mu.Unlock()
	w.Header().Set("Content-Type", wire.ContentSSE)
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"method\":\"elicitation/create\",\"params\":{\"message\":\"Who?\","+
		"\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}}}\n\n", name)
	_ = http.NewResponseController(w).Flush() // an error means that the gateway has gone
	select {
	case result := <-reply:
		if result == nil {
			a.abandoned.Add(1)
			break
		}
		text, _ := json.Marshal(string(result)) // a string
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":%s}}]}}\n\n", m.ID, text)
	case <-r.Context().Done():
		a.abandoned.Add(1)
	}
	return true
}

func (a *asking) reply(m wire.Message) {
	var name string
	_ = json.Unmarshal(m.ID, &name) // an empty name belongs to none
	a.mu.Lock()
	defer a.mu.Unlock()
	if reply := a.replies[name]; reply != nil {
		delete(a.replies, name)
		reply <- m.Result
	}
}

// store is a valkey-server or redis-server that keeps nothing on disk.
type store struct {
	address, dir string
	process      *rig.Process
	ctx          context.Context //nolint:containedctx // its processes end with it
}

func newStore(ctx context.Context, dir string) (*store, error) {
	address, err := rig.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s := &store{address: address, ctx: ctx, dir: dir}
	return s, s.start()
}

// start starts the store, empty and at its address.
func (s *store) start() (err error) {
	_, port, _ := net.SplitHostPort(s.address) // it was made of one
	s.process, err = rig.Start(s.ctx, rig.Program("valkey-server", "redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: apt-get install redis-server", err)
	}
	return rig.Eventually(timeout, func() error { return s.command("PING", "+PONG") })
}

func (s *store) kill() { _ = s.process.Kill() }

// hang has the store keep its connections and answer nothing, until resume is called.
func (s *store) hang() { _ = s.process.Signal(syscall.SIGSTOP) }

func (s *store) resume() { _ = s.process.Signal(syscall.SIGCONT) }

func (s *store) command(text, want string) error {
	c, err := (&net.Dialer{Timeout: timeout}).DialContext(s.ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%s\r\n", text); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != want+"\r\n" {
		err = fmt.Errorf("%s: %s", text, answer)
	}
	return err
}
