package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// A server that flaps gets few runs: the pause grows with their length, and from one lost connection to the next. The last change is
// never missed.
func TestWatcher_PausesBetweenRuns(t *testing.T) {
	const flapping, each = 10 * time.Minute, 130 * time.Millisecond
	for name, test := range map[string]struct {
		takes time.Duration // each run
		flap  func(*upstreamtest.Peer)
		// least is the least time from the end of a run to the next, and most bounds the runs.
		least time.Duration
		most  int
	}{
		"changes":          {0, (*upstreamtest.Peer).Changed, leastRest, 301},
		"a run of seconds": {3 * time.Second, (*upstreamtest.Peer).Changed, 27 * time.Second, 21},
		"a run of minutes": {2 * time.Minute, (*upstreamtest.Peer).Changed, lastPause, 5},
		"lost connections": {0, func(p *upstreamtest.Peer) { p.Forget(); p.Break() }, firstPause, 16},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				for _, newPeer := range []func(testing.TB) *upstreamtest.Peer{upstreamtest.NewPeer, upstreamtest.NewModernPeer} {
					peer, runs := newPeer(t), 0
					var begun, ended time.Time
					w := newWatcher(newQuery(newApp(streams{nil, io.Discard, io.Discard})), func(context.Context, *client.Session) error {
						if begun = time.Now(); !ended.IsZero() && begun.Sub(ended) < test.least {
							t.Errorf("a run begins %v after another one, want at least %v", begun.Sub(ended), test.least)
						}
						runs++
						time.Sleep(test.takes)
						ended = time.Now()
						return nil
					})
					w.connect = func(ctx context.Context, options client.SessionOptions, use func(*client.Session) error) error {
						s, err := client.ConnectFor(ctx, upstreamtest.HTTP("gateway", "http://gateway.example/mcp"),
							upstream.Options{Transport: upstreamtest.Memory{Handler: peer}}, options)
						if err != nil {
							return err
						}
						defer s.Close()
						return use(s)
					}
					ctx, end := context.WithCancel(t.Context())
					followed := make(chan error, 1)
					go func() { followed <- w.follow(ctx) }()
					var last time.Time
					for range flapping / each {
						time.Sleep(each)
						last = time.Now()
						test.flap(peer)
					}
					time.Sleep(5 * time.Minute)
					if runs < 2 || runs > test.most || !begun.After(last) {
						t.Errorf("%d runs, want 2 to %d; the last one at %v, want after the last change at %v", runs, test.most, begun, last)
					}
					end()
					if err := <-followed; err == nil {
						t.Error("follow returns no error")
					}
				}
			})
		})
	}
}
