package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// benchTeams own benchUpstreams. The upstreams of the first team change.
	benchTeams     = 100
	benchUpstreams = 1_000
	// benchList is the number of prompts of an upstream that changes.
	benchList = 100
	// benchAudiences are in use. Every second one sees all prompts; the others see those of a team that does not change.
	benchAudiences = 100
)

// fleet is a gateway with running connectors and real servers, over loopback.
type fleet struct {
	*Gateway

	peers []*lister
	// lists are offered in turn by the servers that change.
	lists [2]string
	turn  int
	// principals has one of each audience in use, see benchAudiences.
	principals []policy.Principal
}

// benchSizes runs a benchmark at growing sizes of the catalog.
func benchSizes(b *testing.B, run func(b *testing.B, n int)) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { run(b, n) })
	}
}

// newFleet makes a gateway whose servers offer no prompts yet. The functions in beside run together with the connectors
// until the benchmark ends.
func newFleet(b *testing.B, beside ...func(ctx context.Context, g *Gateway) error) *fleet {
	b.Helper()
	c := &fleet{lists: [2]string{benchPrompts(benchList, 1), benchPrompts(benchList, 2)}}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	cfg := &config.Config{
		Gateway: config.Gateway{
			Listen: config.DefaultListen, Path: config.DefaultPath, PageSize: config.DefaultPageSize, Separator: config.DefaultSeparator,
		},
		Teams: make([]config.Team, benchTeams),
		Auth:  &config.Auth{Tokens: []config.Token{{Subject: "reader", SHA256: sha256.Sum256([]byte("reader")), Groups: []string{"readers"}}}},
	}
	for i := range benchUpstreams {
		path, team := fmt.Sprintf("/%d", i), &cfg.Teams[i*benchTeams/benchUpstreams]
		team.Name = fmt.Sprintf("team%d", i*benchTeams/benchUpstreams)
		u := upstreamtest.HTTP(fmt.Sprintf("upstream%d", i), server.URL+path)
		u.Team = team.Name
		team.Upstreams = append(team.Upstreams, u)
		c.peers = append(c.peers, &lister{list: benchPrompts(0, 0), changed: make(chan struct{}, 1)})
		mux.Handle(path, c.peers[i])
	}
	everything, err := config.ParsePattern("*")
	if err != nil {
		b.Fatal(err)
	}
	readers := config.Rule{Prompts: []config.Pattern{everything}, To: []config.Selector{{Kind: config.Group, Name: "readers"}}}
	for i := range cfg.Teams {
		cfg.Teams[i].Members = []config.Selector{{Kind: config.Group, Name: cfg.Teams[i].Name}}
		cfg.Teams[i].Exposes = []config.Rule{readers}
	}
	if c.Gateway, err = New(cfg, Options{}); err != nil {
		b.Fatal(err)
	}
	for i := range benchAudiences {
		who := policy.Principal{Subject: fmt.Sprintf("user:%d", i), Groups: []string{fmt.Sprintf("group:team%d", i)}}
		if i%2 == 0 {
			who.Groups = append(who.Groups, "group:readers")
		}
		c.principals = append(c.principals, who)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	for _, connector := range c.Snapshot().Connectors {
		group.Go(func() error { return connector.Run(ctx) })
	}
	for _, run := range beside {
		group.Go(func() error { return run(ctx, c.Gateway) })
	}
	b.Cleanup(func() {
		cancel()
		_ = group.Wait() // its context has ended
		server.CloseClientConnections()
		server.Close()
	})
	for i, connector := range c.Snapshot().Connectors {
		upstreamtest.Eventually(b, "the upstream is ready", func() bool { return connector.State().Listed && c.peers[i].watched.Load() })
	}
	return c
}

// publishing runs the publisher of a gateway.
func publishing(ctx context.Context, g *Gateway) error { return g.publisher.Run(ctx) }

// fill makes the servers offer n prompts in all, benchList of them on each of the first team's, and waits for the lists.
func (c *fleet) fill(b *testing.B, n int) {
	b.Helper()
	changing := benchUpstreams / benchTeams
	each, more := (n-changing*benchList)/(benchUpstreams-changing), (n-changing*benchList)%(benchUpstreams-changing)
	rest := [2]string{benchPrompts(each, 0), benchPrompts(each+1, 0)}
	for i, peer := range c.peers {
		switch {
		case i < changing:
			peer.offer(c.lists[0])
		case i < changing+more:
			peer.offer(rest[1])
		default:
			peer.offer(rest[0])
		}
	}
	listed := func() (all int) {
		for _, connector := range c.Snapshot().Connectors {
			all += len(connector.State().Definitions)
		}
		return all
	}
	upstreamtest.Eventually(b, "all upstreams have listed", func() bool { return listed() == n })
}

// change makes the next of the changing servers offer another list, in which every definition is new.
func (c *fleet) change() {
	changing := benchUpstreams / benchTeams
	c.peers[c.turn%changing].offer(c.lists[(c.turn/changing+1)%2])
	c.turn++
}

// lister is a server of 2026-07-28 that keeps nothing but its list, so that its memory is small beside the gateway's.
type lister struct {
	mu      sync.Mutex // guards list
	list    string
	changed chan struct{}
	watched atomic.Bool
}

// offer replaces the list and announces it.
func (l *lister) offer(list string) {
	l.mu.Lock()
	l.list = list
	l.mu.Unlock()
	l.changed <- struct{}{}
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	message, err := wire.Parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", wire.ContentJSON)
	switch message.Method {
	case wire.Listen:
		l.stream(w, r)
	case wire.Discover:
		_, _ = w.Write(wire.AppendResult(nil, message.ID, jsontext.Value(`{"resultType":"complete","supportedVersions":["2026-07-28"],`+
			`"ttlMs":0,"cacheScope":"public","capabilities":{"prompts":{"listChanged":true}}}`)))
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = w.Write(wire.AppendResult(nil, message.ID, jsontext.Value(l.list)))
	}
}

func (l *lister) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", wire.ContentSSE)
	method := wire.Acknowledged
	for {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", wire.AppendNotification(nil, method, jsontext.Value(`{"notifications":{}}`)))
		_ = http.NewResponseController(w).Flush()
		l.watched.Store(true)
		method = wire.PromptsListChanged
		select {
		case <-l.changed:
		case <-r.Context().Done():
			return
		}
	}
}

// subscribeAll opens a subscription of each audience.
func (c *fleet) subscribeAll() (affected, others []*snapshot.Subscription) {
	for i, who := range c.principals {
		if sub := c.publisher.Subscribe(who); i%2 == 0 {
			affected = append(affected, sub)
		} else {
			others = append(others, sub)
		}
	}
	return affected, others
}

// benchPrompts returns a result of prompts/list with ordinary definitions: two arguments and some prose.
func benchPrompts(n, version int) string {
	list := []byte(`{"prompts":[`)
	for i := range n {
		if i > 0 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, `{"name":"review_Thing_%d","title":"Review %d","description":%q,"arguments":[`+
			`{"name":"code","description":"The code to review","required":true},`+
			`{"name":"style","description":"Which style guide to apply"}],"_meta":{"com.example/owner":"payments"}}`,
			i, version, strings.Repeat("Reviews a change and says what is wrong. ", 4))
	}
	return string(append(list, "]}"...))
}

// BenchmarkPublish measures the time from a new list, with 100 new definitions, to the published snapshot and the last
// wake-up of those subscriptions of 100 audiences whose view changed. To be run with -benchtime Nx, for the time between
// two iterations is longer.
func BenchmarkPublish(b *testing.B) {
	benchSizes(b, func(b *testing.B, n int) {
		c := newFleet(b, publishing)
		c.fill(b, n)
		upstreamtest.Eventually(b, "all prompts are published", func() bool { return len(c.Snapshot().Catalog.Entries()) == n })
		affected, others := c.subscribeAll()
		var worst time.Duration
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			time.Sleep(30 * time.Millisecond) // the connector delays a change that follows the last one sooner
			connector := c.Snapshot().Connectors[c.turn%(benchUpstreams/benchTeams)]
			lists := connector.State().Lists
			c.change()
			for connector.State().Lists == lists {
				runtime.Gosched()
			}
			begun := time.Now()
			b.StartTimer()
			for _, sub := range affected {
				<-sub.Changed()
			}
			b.StopTimer()
			worst = max(worst, time.Since(begun))
			for _, sub := range others {
				if len(sub.Changed()) > 0 {
					b.Fatal("a subscription woke whose view did not change")
				}
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(worst), "worst-ns")
	})
}

// BenchmarkChange is BenchmarkPublish from the server's list_changed notification on, so that it includes the request for
// the list over HTTP.
func BenchmarkChange(b *testing.B) {
	benchSizes(b, func(b *testing.B, n int) {
		c := newFleet(b, publishing)
		c.fill(b, n)
		upstreamtest.Eventually(b, "all prompts are published", func() bool { return len(c.Snapshot().Catalog.Entries()) == n })
		affected, _ := c.subscribeAll()
		for b.Loop() {
			b.StopTimer()
			time.Sleep(30 * time.Millisecond) // the connector delays a change that follows the last one sooner
			b.StartTimer()
			c.change()
			for _, sub := range affected {
				<-sub.Changed()
			}
		}
	})
}

// nowhere is a client that discards responses.
type nowhere struct {
	header http.Header
	size   int
}

func (w *nowhere) Header() http.Header { return w.header }
func (w *nowhere) WriteHeader(int)     {}
func (w *nowhere) Write(p []byte) (int, error) {
	w.size += len(p)
	return len(p), nil
}

// BenchmarkListHandler lists a page of 100 from the middle, from the HTTP request to the last byte of the response.
func BenchmarkListHandler(b *testing.B) {
	benchSizes(b, func(b *testing.B, n int) {
		c := newFleet(b, publishing)
		c.fill(b, n)
		upstreamtest.Eventually(b, "all prompts are published", func() bool { return len(c.Snapshot().Catalog.Entries()) == n })
		handler, entries := c.Handler(), c.Snapshot().Catalog.Entries()
		cursor := c.Snapshot().Sealer.SealCursor(wire.PromptsList, "user:reader", entries[len(entries)/2].Name)
		body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"cursor":%q,"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
			`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`, cursor)
		reader := bytes.NewReader(body)
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+config.DefaultListen+config.DefaultPath, reader)
		r.Header = http.Header{
			"Authorization": {"Bearer reader"}, "Content-Type": {wire.ContentJSON}, "Accept": {wire.ContentJSON + ", " + wire.ContentSSE},
			wire.HeaderProtocolVersion: {wire.Rev20260728}, wire.HeaderMethod: {wire.PromptsList},
		}
		w := &nowhere{header: http.Header{}}
		b.ReportAllocs()
		for b.Loop() {
			reader.Reset(body)
			r.Body, w.size = io.NopCloser(reader), 0
			handler.ServeHTTP(w, r)
		}
		if w.size < benchList*len(entries[0].JSON) {
			b.Fatalf("the response has %d bytes, too few for the page", w.size)
		}
	})
}

// BenchmarkGatewayMemory measures the memory per prompt, including the upstreams' lists, without and with the views of 100
// audiences. It does not count the servers and the connections to them.
func BenchmarkGatewayMemory(b *testing.B) {
	benchSizes(b, func(b *testing.B, n int) {
		for b.Loop() {
			c := newFleet(b, publishing)
			before := heap()
			c.fill(b, n)
			upstreamtest.Eventually(b, "all prompts are published", func() bool { return len(c.Snapshot().Catalog.Entries()) == n })
			entries := c.Snapshot().Catalog.Entries()
			filled := heap()
			for _, who := range c.principals {
				c.Snapshot().View(c.Snapshot().Policy.Audience(who))
			}
			viewed := heap()
			size := float64(len(entries[0].JSON))
			b.ReportMetric(0, "ns/op") // has no meaning here
			b.ReportMetric(float64(filled-before)/float64(len(entries)), "B/entry")
			b.ReportMetric(float64(filled-before)/float64(len(entries))-2*size, "B/entry-2def")
			b.ReportMetric(float64(viewed-before)/float64(len(entries)), "B/entry+views")
			runtime.KeepAlive(c)
		}
	})
}

// heap returns the bytes in use after requests in flight have ended and a collection.
func heap() int64 {
	time.Sleep(200 * time.Millisecond)
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // for objects that finalizers and pools released in the first one
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
