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
	// permanent prompts of each upstream are always there; volatile ones come and go.
	permanent = 4
	volatile  = 8
	// teams own the upstreams by turns.
	teams = 2
	// longestPause is between two things that happen.
	longestPause = 60 * time.Millisecond
)

// world is all upstreams.
type world struct {
	upstreams []*upstream
	// changes, deaths and returns are how often each happened so far.
	changes, deaths, returns int

	mu sync.Mutex // guards truth
	// truth is what each team's upstreams offer, by exposed name.
	truth [teams]map[string]string
}

// upstream is one server with its life.
type upstream struct {
	name string
	team int
	host host
	up   bool
	// prompts are descriptions by name.
	prompts map[string]string
}

// host keeps an upstream's server where the gateway finds it.
type host interface {
	offer(prompts []string)
	down()
	up() error
	// block is how the server is reached, as an attribute of its upstream block.
	block() string
	// idle closes connections that nobody uses.
	idle()
}

// newWorld returns with all upstreams up.
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
		legacy := i%4 < 2 // of both teams
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

// rage lets things happen for a while. At the end all upstreams are up.
func (w *world) rage(ctx context.Context, chance *rand.Rand, length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		u := w.upstreams[chance.IntN(len(w.upstreams))]
		switch what := chance.IntN(10); {
		case !u.up && what < 5:
			w.returns++
			if err := u.rise(); err != nil {
				w.returns-- // its port is not free yet: it stays down
			}
		case u.up && what < 2:
			w.deaths++
			u.fall()
		default: // what changes while the server is down is found when it is back
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

// change adds, removes or describes anew one or a few prompts.
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

// offer lets the upstream say what it has, and makes that the truth.
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

// sees returns what is offered to members of these teams.
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

// up begins a new life on the old port.
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

// down ends the server as a kill would: its connections break.
func (h *web) down() {
	if h.serving != nil {
		_ = h.serving.Close()
	}
}

func (h *web) idle() {
	h.serving.SetKeepAlivesEnabled(false)
	h.serving.SetKeepAlivesEnabled(true)
}

// nursery is where children of the gateway call home: a child cannot be told by its parent, which is the gateway, what
// it is to offer.
type nursery struct {
	listener net.Listener
	program  string

	mu       sync.Mutex // guards children and what they have
	children map[string]*child
}

// child is an upstream on stdio. The process behind it comes and goes; each one dials the nursery, says its name, is
// told what to offer whenever that changes, and dies when the connection ends.
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

// legacySuffix is in the name of a child that speaks the legacy revision.
const legacySuffix = "-legacy"

func (n *nursery) child(name string, legacy bool) *child {
	if legacy {
		name += legacySuffix
	}
	c := &child{nursery: n, name: name}
	n.children[name] = c
	return c
}

// welcome finds out which child has called.
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
	c.tell()
}

// tell sends a child's process what to offer. The nursery's lock is held.
func (c *child) tell() {
	if c.conn != nil {
		_ = json.NewEncoder(c.conn).Encode(c.prompts) // it has died, and another will call
	}
}

func (c *child) offer(prompts []string) {
	c.nursery.mu.Lock()
	defer c.nursery.mu.Unlock()
	c.prompts = prompts
	c.tell()
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

// playChild is the life of a child's process, to its exit code.
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
	told := json.NewDecoder(home)
	listen := func() error {
		var prompts []string
		if err := told.Decode(&prompts); err != nil {
			return err
		}
		server.Offer(prompts...)
		return nil
	}
	if err := listen(); err != nil {
		return 1
	}
	ended := make(chan error, 2)
	go func() {
		for {
			if err := listen(); err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() { ended <- errors.Join(server.ServeStdio(os.Stdin, os.Stdout), io.EOF) }()
	<-ended //nolint:errcheck // whichever end it was
	return 1
}
