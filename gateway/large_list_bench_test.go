package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// largeList is a list of 6 000 definitions of 10 KB, of which one differs from version to version.
func largeList(version int) string {
	text := strings.Repeat("Reviews a change and says what is wrong. ", 250)
	list := []byte(`{"prompts":[`)
	for i := range 6_000 {
		if i > 0 {
			list = append(list, ',')
		}
		v := 0
		if i == 3_000 {
			v = version
		}
		list = fmt.Appendf(list, `{"name":"large_%d","title":"Version %d","description":%q}`, i, v, text)
	}
	return string(append(list, "]}"...))
}

// BenchmarkChangeBesideALargeList measures the time from one team's list_changed notification to the wake-up of a
// subscription, while another team's list of 60 MB rests, or changes as often as the gateway asks for it. The 99th
// percentiles of the two are what to compare.
func BenchmarkChangeBesideALargeList(b *testing.B) {
	large := [2]string{largeList(1), largeList(2)}
	for _, changes := range []bool{false, true} {
		b.Run(fmt.Sprintf("changes=%v", changes), func(b *testing.B) {
			small := &lister{list: benchPrompts(benchList, 1), changed: make(chan struct{}, 1)}
			noisy := &lister{list: large[0], changed: make(chan struct{}, 1)}
			g := serveBeside(b, small, noisy)
			sub := g.publisher.Subscribe(policy.Principal{Subject: "user:ann", Groups: []string{"group:readers"}})
			ctx, cancel := context.WithCancel(b.Context())
			var group errgroup.Group
			if changes {
				group.Go(func() error { noisy.keepChanging(ctx, large); return nil })
			}
			lists := [2]string{benchPrompts(benchList, 1), benchPrompts(benchList, 2)}
			var took []time.Duration
			turn := 0
			for b.Loop() {
				time.Sleep(300 * time.Millisecond) // a change that follows the last one sooner waits for a quarter of a second
				for len(sub.Changed()) > 0 {
					<-sub.Changed()
				}
				turn++
				begun, label := time.Now(), fmt.Sprintf("small.review_Thing_%d", 0)
				small.offer(lists[turn%2])
				for version := []string{"Review 1", "Review 2"}[turn%2]; ; <-sub.Changed() { // the other team's changes wake it too
					if e := g.Snapshot().Catalog.Lookup(label); e != nil && strings.Contains(string(e.JSON), version) {
						break
					}
				}
				took = append(took, time.Since(begun))
			}
			cancel()
			_ = group.Wait()
			slices.Sort(took)
			b.ReportMetric(0, "ns/op") // of no interest: it is mostly the pause
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(g.Snapshot().Connector("noisy").State().Lists), "large-lists")
		})
	}
}

// keepChanging offers two lists in turn, faster than any gateway asks for them, until ctx ends.
func (l *lister) keepChanging(ctx context.Context, lists [2]string) {
	for turn := 1; ; turn++ {
		l.mu.Lock()
		l.list = lists[turn%2]
		l.mu.Unlock()
		select {
		case l.changed <- struct{}{}:
		case <-ctx.Done():
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// serveBeside runs a gateway of two teams.
func serveBeside(b *testing.B, small, noisy *lister) *Gateway {
	b.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	cfg := &config.Config{Gateway: config.Gateway{
		Listen: config.DefaultListen, Path: config.DefaultPath, PageSize: config.DefaultPageSize, Separator: config.DefaultSeparator,
	}}
	for label, peer := range map[string]*lister{"small": small, "noisy": noisy} {
		mux.Handle("/"+label, peer)
		u := upstreamtest.HTTP(label, server.URL+"/"+label)
		u.Team, u.Prefix, u.MaxMessage, u.Timeout = label, label, 64<<20, time.Minute
		cfg.Teams = append(cfg.Teams, config.Team{
			Name: label, Upstreams: []config.Upstream{u}, Members: []config.Selector{{Kind: config.Group, Name: "readers"}},
		})
	}
	g, err := New(cfg, Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	upstreamtest.Eventually(b, "both lists are published", func() bool {
		return len(g.Snapshot().Catalog.Entries()) == benchList+6_000 && small.watched.Load() && noisy.watched.Load()
	})
	return g
}
