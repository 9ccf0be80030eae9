package simulation_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

const (
	replicas = 2
	// listeners are clients that listen, and rate and burst the limit of a prompt.
	listeners   = 5
	rate, burst = 2, 3
)

// configurations are those of each gate. They are read once.
func configurations(t *testing.T) (all []*config.Config) {
	t.Helper()
	for gate := range light.Gates {
		all = append(all, gatewaytest.Load(t, "gateway { cursor_keys = [\"%KEY%\"] }\ncluster { store = \"redis://store:6379\" }\n"+
			light.Blocks(gate, rate, burst, `"http://plain/mcp"`, `"http://spare/mcp"`)))
	}
	return all
}

// world is replicas, their store and their servers in one bubble.
type world struct {
	t        *testing.T
	id       int
	rng      *dice
	configs  []*config.Config
	store    *miniredis.Miniredis
	servers  map[string]*server
	replicas []*replica
	audience *light.Audience
	gate     int
}

// server is one behind the gateways.
type server struct {
	*light.Source

	link    bubble.Link
	http    *http.Server
	listens *bubble.Listener
}

// replica is a gateway and the ways to it and to its store.
type replica struct {
	number  int
	clients bubble.Link
	store   bubble.Link
	gate    int

	gateway *gateway.Gateway
	listens *bubble.Listener
	pipes   *bubble.Listener
	http    *http.Server
	stop    func()
}

var (
	worldsMu sync.Mutex         //nolint:gochecknoglobals // worlds are told apart by the addresses that they dial
	worlds   = map[int]*world{} //nolint:gochecknoglobals // as above
)

func dial(_ context.Context, _, address string) (net.Conn, error) {
	var name string
	var number, id int
	if _, err := fmt.Sscanf(strings.NewReplacer("-", " ", ":", " ").Replace(address), "%s %d %d", &name, &number, &id); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	worldsMu.Lock()
	w := worlds[id]
	worldsMu.Unlock()
	switch name {
	case "store":
		return w.replicas[number-1].store.Join(w.store.Dial)
	case "replica":
		r := w.replicas[number-1]
		return r.clients.Join(func() (net.Conn, error) { return r.listens.Connect() })
	}
	s := w.servers[name]
	return s.link.Join(s.listens.Connect)
}

// run has a world live through a schedule, and returns its history.
func run(t *testing.T, id int, seed uint64, configs []*config.Config, steps []step) history.History {
	store, err := clustertest.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, id: id, rng: &dice{rng: rand.New(rand.NewPCG(seed, 1))}, configs: configs, store: store, //nolint:gosec // to be repeated
		servers: map[string]*server{}, audience: &light.Audience{Principals: light.Principals(), SSE: true, Read: light.Read},
	}
	worldsMu.Lock()
	worlds[id] = w
	worldsMu.Unlock()
	transport := &http.Transport{DialContext: dial, ResponseHeaderTimeout: 2 * time.Second, MaxIdleConnsPerHost: 2}
	w.audience.Client.Transport = transport
	w.audience.Pipes = []light.Pipe{{At: 1, Open: w.pipe}}
	for i, label := range []string{"plain", "spare"} {
		w.servers[label] = w.serve(label, i == 0)
	}
	for i := range replicas {
		r := &replica{number: i + 1}
		r.clients.Delay, r.store.Delay = w.rng.delay, func() time.Duration { return w.rng.span(2 * time.Millisecond) }
		r.clients.Cut() // until it is ready
		w.replicas = append(w.replicas, r)
		w.audience.Endpoints = append(w.audience.Endpoints, fmt.Sprintf("http://replica-%d-%d/mcp", i+1, id))
	}
	pause := func() time.Duration { return w.rng.span(600 * time.Millisecond) }
	w.audience.Start(t.Context(), listeners,
		w.audience.Getter(101, "ann", pause, w.rng.n), w.audience.Getter(102, "bob", pause, w.rng.n))
	for _, s := range w.servers {
		w.change(s)
	}
	for _, r := range w.replicas {
		w.start(r)
	}
	w.live(steps)
	h := w.audience.Stop()
	for _, r := range w.replicas {
		r.kill()
	}
	for _, s := range w.servers {
		s.link.Cut()
		_ = s.http.Close()
	}
	transport.CloseIdleConnections()
	store.Close()
	worldsMu.Lock()
	delete(worlds, id)
	worldsMu.Unlock()
	time.Sleep(time.Minute) // whatever still waits for a time ends
	return h
}

// pipe returns a client's end of the pipes of the first replica.
func (w *world) pipe(ctx context.Context) (io.ReadWriteCloser, error) {
	r := w.replicas[0]
	client, err := r.clients.Join(func() (net.Conn, error) { return r.pipes.Connect() })
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = client.Close() }) // a pipe returns none
	return client, nil
}

// servePipes serves ann over each pair of pipes until a replica is killed.
func servePipes(g *gateway.Gateway, pipes *bubble.Listener) {
	credential := func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
		return a.FromToken(ctx, light.Principals()[0])
	}
	for {
		pipe, err := pipes.Accept()
		if err != nil {
			return
		}
		go func() {
			_ = g.ServeStdio(context.Background(), credential, pipe, pipe) // until it is cut
			_ = pipe.Close()
		}()
	}
}

func (w *world) serve(label string, legacy bool) *server {
	s := &server{Source: light.NewSource(label, legacy), listens: bubble.NewListener()}
	s.link.Delay = w.rng.delay
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(s.listens) }()
	return s
}

// isBehind reports whether a client has not listed the last change.
func (w *world) isBehind() bool {
	return w.audience.Missing("plain", w.servers["plain"].Mark()) != nil || w.audience.Missing("spare", w.servers["spare"].Mark()) != nil
}

func (w *world) change(s *server) { s.Change(w.audience.Recorder) }

// config returns what a replica loads.
func (w *world) config(r *replica) *config.Config {
	cfg := *w.configs[r.gate]
	cluster := *cfg.Cluster
	cluster.Store.Addresses = []string{fmt.Sprintf("store-%d-%d:6379", r.number, w.id)}
	cfg.Cluster, cfg.Teams = &cluster, slices.Clone(cfg.Teams)
	cfg.Gateway.AllowedHosts = []string{fmt.Sprintf("replica-%d-%d", r.number, w.id)}
	team := &cfg.Teams[0]
	team.Upstreams = slices.Clone(team.Upstreams)
	for i := range team.Upstreams {
		u := &team.Upstreams[i]
		u.URLs = []string{fmt.Sprintf("http://%s-0-%d/mcp", u.Name, w.id)}
	}
	return &cfg
}

// note notes the rules that are in force at a replica.
func (w *world) note(r *replica, sent time.Time) {
	w.audience.Note(light.Rules(r.number, r.gate), sent, nil)
}

func (w *world) start(r *replica) {
	sent := time.Now()
	g, err := gateway.New(w.config(r), gateway.Options{
		Load: func(*config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
			return w.config(r), nil, config.Diagnostics{}
		},
	})
	if err != nil {
		w.t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = g.Run(ctx) // it is killed
	}()
	w.audience.Note(history.Op{Name: history.Started, At: r.number}, sent, nil)
	w.note(r, sent)
	r.gateway, r.listens, r.pipes = g, bubble.NewListener(), bubble.NewListener()
	go servePipes(g, r.pipes)
	r.stop = func() { cancel(); <-ended }
	r.http = &http.Server{Handler: g.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.http.Serve(edge.New(edge.Options{}).Listen(r.http, r.listens, nil)) }()
	for !g.IsReady() { // clients come to one that is
		time.Sleep(10 * time.Millisecond)
	}
	r.clients.Heal()
}

// kill ends a replica. Nobody hears of it any more.
func (r *replica) kill() {
	r.clients.Cut()
	r.store.Cut()
	_ = r.http.Close()
	_ = r.pipes.Close() // it returns none
	r.stop()
}

// reload gives replicas other rules, one after the other.
func (w *world) reload(pauses ...time.Duration) {
	w.gate = (w.gate + 1 + w.rng.n(light.Gates-1)) % light.Gates
	sent := time.Now()
	for i, r := range w.replicas {
		began := time.Now()
		r.gate = w.gate
		if err := r.gateway.Reload(w.t.Context()); err != nil {
			w.t.Errorf("reload: %v", err)
		}
		w.note(r, began)
		time.Sleep(pauses[i])
	}
	w.audience.Note(light.RulesChange(w.gate), sent, nil)
}

func (w *world) labels() []string { return slices.Sorted(maps.Keys(w.servers)) }
