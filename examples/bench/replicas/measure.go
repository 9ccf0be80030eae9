package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
	"github.com/promptweir/promptweir/examples/bench/internal/lean"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// servers is how many there are, prompts how many each has, clients how many listen.
	servers, prompts, clients = 5, 20, 30
	// idleTime is for how long a fleet is watched without a change, and settling what it has to become quiet before.
	idleTime, settling = 15 * time.Second, 8 * time.Second
	// putCommands is how many the store gets at least for a list that is put there, beside messages.
	putCommands = 2
	// patience bounds the wait for what must happen.
	patience = 30 * time.Second
)

// measured is what was seen of a fleet. The counts are of all changes.
type measured struct {
	replicas                     int
	streams                      int
	lists, commands, published   int
	told, clientLists            int
	latencies                    []time.Duration
	idleCommands                 float64
	sharesWatch, tellsOfItsLists bool
}

// fleet returns the model of what was measured. Whether replicas watch together, and tell each other of their lists, is seen and not known:
// both may be of another version.
func (m *measured) fleet() fleet {
	return fleet{
		replicas: m.replicas, servers: servers, listeners: clients, teams: 1, pages: 1, answer: time.Millisecond, clientPages: 1, listSize: 1,
		shared: m.sharesWatch, tells: m.tellsOfItsLists,
	}
}

// counter is a server that counts what it is asked.
type counter struct {
	lean.Server

	lists, streams atomic.Int64
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m) // the server says so
	switch m.Method {
	case wire.PromptsList:
		c.lists.Add(1)
	case wire.Listen:
		c.streams.Add(1)
		defer c.streams.Add(-1)
	}
	c.Server.ServeHTTP(w, r)
}

// offer gives the server a list of a version.
func (c *counter) offer(version int) {
	var definitions []string
	for i := range prompts {
		definitions = append(definitions, lean.Prompt(fmt.Sprintf("p%d", i), fmt.Sprint("Version ", version)))
	}
	c.Offer(definitions...)
}

// world is a running fleet.
type world struct {
	servers  []*counter
	web      []*httptest.Server
	store    *exec.Cmd
	address  string
	monitor  *monitor
	gateways []*process.Gateway
	crowd    *crowd
}

func (w *world) close() {
	if w.crowd != nil {
		w.crowd.close()
	}
	for _, g := range w.gateways {
		g.Stop()
	}
	if w.store != nil {
		_ = w.store.Process.Kill() // it has nothing to keep
		_ = w.store.Wait()
	}
	for _, web := range w.web {
		web.CloseClientConnections()
		web.Close()
	}
}

// measure runs a fleet, and changes its servers' lists one after another.
func measure(ctx context.Context, bin string, replicas, changes int, alone bool) (*measured, error) {
	w := &world{}
	defer w.close()
	if err := w.start(ctx, bin, replicas, alone); err != nil {
		return nil, err
	}
	m := &measured{replicas: replicas}
	if err := pause(ctx, settling); err != nil { // what follows from the start
		return nil, err
	}
	before := w.monitor.seen()
	if err := pause(ctx, idleTime); err != nil {
		return nil, err
	}
	idle := w.monitor.seen()
	m.idleCommands = float64(idle.commands-before.commands) / idleTime.Seconds()
	for _, s := range w.servers {
		m.streams += int(s.streams.Load())
		s.lists.Store(0)
	}
	w.crowd.reset()
	began := time.Now()
	for i := range changes {
		w.crowd.change(func() { w.servers[i%servers].offer(i + 1) })
		if err := pause(ctx, spacing); err != nil {
			return nil, err
		}
	}
	took := time.Since(began)
	after := w.monitor.seen()
	m.commands = max(0, after.commands-idle.commands-int(m.idleCommands*took.Seconds()))
	m.published = after.published - idle.published
	m.sharesWatch = m.commands-m.published >= changes*putCommands
	m.tellsOfItsLists = m.published > changes/2 && (!m.sharesWatch || m.published > changes*3/2)
	for _, s := range w.servers {
		m.lists += int(s.lists.Load())
	}
	m.told, m.clientLists, m.latencies = w.crowd.figures()
	return m, w.crowd.err()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) start(ctx context.Context, bin string, replicas int, alone bool) error {
	if err := w.startStore(ctx); err != nil {
		return err
	}
	var upstreams strings.Builder
	for i := range servers {
		s := &counter{}
		s.offer(0)
		web := httptest.NewServer(s)
		w.servers, w.web = append(w.servers, s), append(w.web, web)
		fmt.Fprintf(&upstreams, "  upstream \"s%d\" { url = %q }\n", i, web.URL)
	}
	sharing := ""
	if alone {
		sharing = "shared_watch = false"
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	text := fmt.Sprintf(`
gateway {
  listen      = "127.0.0.1:0"
  cursor_keys = [%q]
  page_size   = 1000
}
admin { listen = "127.0.0.1:0" }
cluster {
  store = "redis://%s"
  %s
}
team "rig" {
%s}
`, base64.StdEncoding.EncodeToString(key[:]), w.address, sharing, upstreams.String())
	for range replicas {
		g, err := process.StartGateway(ctx, text, filepath.Join(bin, "promptweir"))
		if err != nil {
			return err
		}
		w.gateways = append(w.gateways, g)
	}
	for _, g := range w.gateways {
		if err := await(ctx, "gateway that uses the store", func() bool { return strings.Contains(g.Log(), "store in use") }); err != nil {
			return err
		}
	}
	var err error
	w.crowd, err = newCrowd(ctx, w.gateways)
	return err
}

// startStore starts a store at a free port, and a connection to which it says all that it is asked.
func (w *world) startStore(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.address = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(w.address) // it was made of one
	program := "valkey-server"
	if _, err := exec.LookPath(program); err != nil {
		program = "redis-server"
	}
	w.store = exec.CommandContext(ctx, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err := w.store.Start(); err != nil {
		w.store = nil
		return fmt.Errorf("%w: apt-get install redis-server", err)
	}
	return await(ctx, "store", func() bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
		if err == nil {
			w.monitor = watchStore(conn)
		}
		return err == nil
	})
}

func await(ctx context.Context, what string, is func() bool) error {
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("no %s within %v", what, patience)
		}
	}
	return nil
}

// monitor counts what the store is asked.
type monitor struct {
	mu     sync.Mutex // guards what follows
	seeing traffic
}

// traffic is what the store was asked: commands of clients, but for PING on idle connections, and not those that a script makes of one.
type traffic struct{ commands, published int }

var monitored = regexp.MustCompile(`^\+[\d.]+ \[\d+ ([^\]]+)\] "(\w+)"`)

func watchStore(conn net.Conn) *monitor {
	m := &monitor{}
	go func() {
		defer conn.Close()
		_, _ = conn.Write([]byte("MONITOR\r\n")) // a failure ends what follows
		lines := bufio.NewReaderSize(conn, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if match := monitored.FindStringSubmatch(line); match != nil && match[1] != "lua" && !strings.EqualFold(match[2], "ping") {
				m.mu.Lock()
				m.seeing.commands++
				if strings.EqualFold(match[2], "publish") {
					m.seeing.published++
				}
				m.mu.Unlock()
			}
		}
	}()
	return m
}

func (m *monitor) seen() traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seeing
}

// crowd is the clients. Each listens at one gateway and, when it is told of a change, lists at the next one.
type crowd struct {
	conns []*client.Conn
	wait  sync.WaitGroup

	mu        sync.Mutex // guards what follows
	changedAt time.Time
	told      int
	listed    int
	latencies []time.Duration
	errs      []error
	closed    bool
}

func newCrowd(ctx context.Context, gateways []*process.Gateway) (*crowd, error) {
	c := &crowd{}
	for i := range clients {
		here, next := gateways[i%len(gateways)], gateways[(i+1)%len(gateways)]
		conn, err := client.Dial(ctx, hostOf(here.Endpoint))
		if err != nil {
			return c, err
		}
		c.conns = append(c.conns, conn)
		listening := client.Client{Endpoint: here.Endpoint, Transport: conn}
		stream, err := listening.Listen(ctx)
		if err != nil {
			return c, err
		}
		listing := client.Client{Endpoint: next.Endpoint, Transport: http.DefaultTransport}
		c.wait.Go(func() { c.note(client.Changes(stream, func() { c.hear(ctx, &listing) })) })
	}
	return c, nil
}

func hostOf(endpoint string) string {
	return strings.TrimSuffix(strings.TrimPrefix(endpoint, "http://"), "/mcp")
}

// hear counts a notification, and lists.
func (c *crowd) hear(ctx context.Context, listing *client.Client) {
	now := time.Now()
	c.mu.Lock()
	c.told++
	c.latencies = append(c.latencies, now.Sub(c.changedAt))
	c.mu.Unlock()
	for cursor := ""; ; {
		_, next, err := listing.Page(ctx, cursor)
		if err != nil {
			c.note(err)
			return
		}
		c.mu.Lock()
		c.listed++
		c.mu.Unlock()
		if cursor = next; cursor == "" {
			return
		}
	}
}

// note keeps an error, unless the crowd is about to end.
func (c *crowd) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.errs = append(c.errs, err)
	}
}

func (c *crowd) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.listed, c.latencies = 0, 0, nil
}

func (c *crowd) change(offer func()) {
	c.mu.Lock()
	c.changedAt = time.Now()
	c.mu.Unlock()
	offer()
}

func (c *crowd) figures() (told, listed int, latencies []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latencies = slices.Clone(c.latencies)
	slices.Sort(latencies)
	return c.told, c.listed, latencies
}

func (c *crowd) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

func (c *crowd) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // it was only read from
	}
	c.wait.Wait()
}
