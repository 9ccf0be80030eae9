package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// replica is one of several servers, in memory.
type replica struct {
	*upstreamtest.Peer

	down atomic.Bool
}

// kill makes a replica unreachable and breaks its streams.
func (r *replica) kill() {
	r.down.Store(true)
	r.Break()
}

// gets returns the number of gets that arrived.
func (r *replica) gets() int { return len(r.Seen(wire.PromptsGet)) }

// network connects to replicas by host name.
type network map[string]*replica

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	to := n[r.URL.Host]
	if to.down.Load() {
		return nil, errors.New("connection refused")
	}
	return upstreamtest.Memory{Handler: to.Peer}.RoundTrip(r)
}

// withReplicas runs a connector to replicas a, b, c … in a synctest bubble. Offers has the prompts
// of each replica.
func withReplicas(
	t *testing.T, change func(*config.Upstream), test func(*testing.T, *upstream.Connector, ...*replica), offers ...[]string,
) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		there, urls := network{}, []string{}
		replicas := make([]*replica, len(offers))
		for i, names := range offers {
			replicas[i] = &replica{Peer: upstreamtest.NewPeer(t)}
			replicas[i].Prompts(names...)
			host := string(rune('a'+i)) + ".example"
			there[host], urls = replicas[i], append(urls, "http://"+host+"/mcp")
		}
		u := upstreamtest.HTTP("replicated", urls[0], urls[1:]...)
		if change != nil {
			change(&u)
		}
		c := start(t, u, upstream.Options{Transport: there})
		synctest.Wait()
		test(t, c, replicas...)
	})
}

func complete(ctx context.Context, c *upstream.Connector, name string) error {
	ref := wire.Object{}.With("type", wire.Quote("ref/prompt")).With("name", wire.Quote(name))
	_, err := c.Call(ctx, &upstream.Request{Method: wire.Complete, Params: wire.Object{}.With("ref", ref.JSON())}, nil)
	return err
}

func TestReplicas_CompleteWhereItIsDeclared(t *testing.T) {
	withReplicas(t, nil, func(t *testing.T, c *upstream.Connector, replicas ...*replica) {
		if c.Completes() {
			t.Error("Completes() = true where none does")
		}
		knows := replicas[1]
		knows.Result(wire.Initialize, `{"protocolVersion":"2025-11-25","capabilities":{"prompts":{},"completions":{}}}`)
		knows.Result(wire.Complete, `{"completion":{"values":[]}}`)
		knows.kill()
		knows.Forget()
		time.Sleep(time.Minute)
		knows.down.Store(false)
		time.Sleep(time.Minute)
		for range 4 {
			if err := complete(t.Context(), c, "p"); err != nil || !c.Completes() {
				t.Errorf("complete = %v, Completes() = %v", err, c.Completes())
			}
		}
	}, []string{"p"}, []string{"p"})
}

func TestReplicas_LeaveHalfTheTimeForTheNext(t *testing.T) {
	withReplicas(t, func(u *config.Upstream) { u.Breaker.Cooldown = time.Hour }, func(t *testing.T, c *upstream.Connector, replicas ...*replica) {
		replicas[0].Handle(wire.PromptsGet, hang)
		begun := time.Now()
		mustGet(t, c, "p")
		if took := time.Since(begun); took != config.DefaultTimeout/2 {
			t.Errorf("the get took %s", took)
		}
		replicas[1].Handle(wire.PromptsGet, hang)
		begun = time.Now()
		wantFailure(t, c, "p", upstream.Timeout)
		if took := time.Since(begun); took != config.DefaultTimeout {
			t.Errorf("the get failed after %s", took)
		}
		replicas[1].Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(config.DefaultTimeout * 3 / 4)
			r.Result(w, `{}`)
		})
		for range config.DefaultBreakerFailures { // too slow for half of the time, until the other breaker opens
			_, _ = get(t.Context(), c, "p")
		}
		mustGet(t, c, "p")
		replicas[1].Handle(wire.PromptsGet, hang)
		for range config.DefaultBreakerFailures {
			_, _ = get(t.Context(), c, "p")
		}
		wantFailure(t, c, "p", upstream.BreakerOpen)
	}, []string{"p"}, []string{"p"})
}

func TestReplicas_HaveOwnBreakers(t *testing.T) {
	withReplicas(t, nil, func(t *testing.T, c *upstream.Connector, replicas ...*replica) {
		replicas[0].Status(wire.PromptsGet, http.StatusBadGateway)
		for range 40 {
			mustGet(t, c, "p")
		}
		if n := replicas[0].gets(); n != config.DefaultBreakerFailures {
			t.Errorf("the failing one was asked %d times, want %d", n, config.DefaultBreakerFailures)
		}
		replicas[0].Result(wire.PromptsGet, `{}`)
		time.Sleep(config.DefaultBreakerCooldown + 1)
		before := replicas[0].gets()
		for range 10 {
			mustGet(t, c, "p")
		}
		if n := replicas[0].gets() - before; n != 5 {
			t.Errorf("it was asked %d times of 10 when it was well again, want 5", n)
		}
	}, []string{"p"}, []string{"p"})
}

func TestReplicas_AreNotAskedAfterAnAnswer(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *upstreamtest.Request){
		"error":          refuses(`{"code":-32603,"message":"no"}`),
		"denied":         status(http.StatusForbidden),
		"too often":      status(http.StatusTooManyRequests),
		"half an answer": text(http.StatusOK, wire.ContentJSON, `{"jsonrpc":`),
		"progress": func(w http.ResponseWriter, _ *upstreamtest.Request) {
			upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		},
		"progress, then silence": func(w http.ResponseWriter, r *upstreamtest.Request) {
			upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			withReplicas(t, func(u *config.Upstream) { u.Attempts = 5 }, func(t *testing.T, c *upstream.Connector, replicas ...*replica) {
				replicas[0].Handle(wire.PromptsGet, answer)
				_, err := get(t.Context(), c, "p")
				if err == nil || replicas[0].gets() != 1 || replicas[1].gets() != 0 {
					t.Errorf("get = %v after %d and %d gets", err, replicas[0].gets(), replicas[1].gets())
				}
				if u, ok := errors.AsType[*upstream.Unavailable](err); ok && u.Unanswered() {
					t.Errorf("%v says that another server may be asked", err)
				}
			}, []string{"p"}, []string{"p"})
		})
	}
}

func TestReplicas_AreNotAskedAfterCallerGaveUp(t *testing.T) {
	withReplicas(t, func(u *config.Upstream) { u.Attempts = 5 }, func(t *testing.T, c *upstream.Connector, replicas ...*replica) {
		replicas[0].Handle(wire.PromptsGet, hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := get(ctx, c, "p"); !errors.Is(err, context.Canceled) || unavailable(err) != "" || replicas[1].gets() != 0 {
			t.Errorf("get = %v, and %d gets elsewhere", err, replicas[1].gets())
		}
	}, []string{"p"}, []string{"p"})
}

func TestReplicas_DegradeOnlyIfPromptIsOutOfReach(t *testing.T) {
	withReplicas(t, nil, func(t *testing.T, c *upstream.Connector, replicas ...*replica) {
		both, more, lists := replicas[0], replicas[1], c.State().Lists
		both.kill()
		time.Sleep(time.Minute)
		state := c.State()
		if !state.Connected || state.Problem != nil || state.Endpoints[0].Connected || state.Endpoints[0].Problem == nil || state.Endpoints[1].Problem != nil {
			t.Errorf("one is down: %+v", state)
		}
		mustGet(t, c, "p")
		both.down.Store(false)
		time.Sleep(time.Minute)
		more.kill()
		time.Sleep(time.Minute)
		if state := c.State(); !state.Connected || state.Problem == nil || state.Problem != state.Endpoints[1].Problem || names(c) != "p own" {
			t.Errorf("the one with more is down: %+v, names %s", state, names(c))
		}
		mustGet(t, c, "p")
		wantFailure(t, c, "own", upstream.Unreachable)
		both.kill()
		time.Sleep(time.Minute)
		if state := c.State(); state.Connected || !state.Listed || state.Problem != state.Endpoints[0].Problem {
			t.Errorf("both are down: %+v", state)
		}
		both.down.Store(false)
		more.down.Store(false)
		time.Sleep(time.Minute)
		if state := c.State(); state.Problem != nil || state.Lists != lists {
			t.Errorf("both are back: %+v", state)
		}
		mustGet(t, c, "own")
	}, []string{"p"}, []string{"p", "own"})
}

func TestReplicas_WorkWhileOneIsUnreachable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gone := &replica{Peer: upstreamtest.NewPeer(t)}
		gone.down.Store(true)
		there := network{"a.example": gone, "b.example": {Peer: upstreamtest.NewPeer(t)}}
		there["b.example"].Handle(wire.Discover, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(time.Second)
			r.Error(w, http.StatusOK, `{"code":-32601,"message":"no"}`)
		})
		c := start(t, upstreamtest.HTTP("halved", "http://a.example", "http://b.example"), upstream.Options{Transport: there})
		synctest.Wait()
		if state := c.State(); state.Tried || state.Listed || state.Problem == nil {
			t.Errorf("while one was not tried: %+v", state)
		}
		time.Sleep(2 * time.Second)
		if state := c.State(); !state.Tried || !state.Listed || state.Problem != nil {
			t.Errorf("when one was listed: %+v", state)
		}
		mustGet(t, c, "p")
	})
}

func TestReplicas_ReportDifferencesOfARollingDeployment(t *testing.T) {
	t.Parallel()
	define := func(p *upstreamtest.Peer, list string) {
		p.Result(wire.PromptsList, `{"prompts":[`+list+`]}`)
		p.Changed()
	}
	const (
		before = `{"name":"p","description":"before"},{"name":"q"}`
		same   = `{ "description":"before", "name":"p"},{"name":"q"}`
		after  = `{"name":"p","description":"after"},{"name":"new"},{"name":"q"}`
	)
	var log upstreamtest.Log
	peers := []*upstreamtest.Peer{upstreamtest.NewPeer(t), upstreamtest.NewPeer(t), upstreamtest.NewPeer(t)}
	var urls []string
	for i, list := range []string{before, same, before} {
		define(peers[i], list)
		urls = append(urls, upstreamtest.Serve(t, peers[i]).URL)
	}
	c := start(t, upstreamtest.HTTP("rolling", urls[0], urls[1:]...), upstream.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	want := func(list string, differences ...string) {
		t.Helper()
		upstreamtest.Eventually(t, list, func() bool {
			var definitions []string
			for _, d := range c.State().Definitions {
				definitions = append(definitions, string(d))
			}
			return strings.Join(definitions, ",") == list && slices.Equal(c.State().Differences, differences)
		})
		mustGet(t, c, "p")
	}
	upstreamtest.Eventually(t, "streams", func() bool { return peers[0].Streams()*peers[1].Streams()*peers[2].Streams() == 1 })
	want(before)
	if strings.Contains(log.String(), "differently") {
		t.Errorf("a difference that is none was reported:\n%s", log.String())
	}
	define(peers[2], after)
	want(before+`,{"name":"new"}`, "p")
	define(peers[1], after)
	want(before+`,{"name":"new"}`, "p")
	define(peers[0], after)
	want(after)
	if n := strings.Count(log.String(), "differently"); n != 1 || strings.Count(log.String(), "identically again") != 1 {
		t.Errorf("a difference was reported %d times:\n%s", n, log.String())
	}
}

// One of three servers of the official SDK is killed under load, and comes back.
func TestReplicas_KeepServingWhenOneIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mcp.StreamableHTTPOptions{
		"sessions, SSE": {}, "sessions, JSON": {JSONResponse: true}, "modern": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served [3]atomic.Int64
			handler := func(i int) http.Handler {
				h := sdkHandler(upstreamtest.SDK(mcp.ServerOptions{}, "p", "q"), options)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					served[i].Add(1)
					h.ServeHTTP(w, r)
				})
			}
			servers := make([]*upstreamtest.Server, len(served))
			for i := range servers {
				servers[i] = upstreamtest.Serve(t, handler(i))
			}
			c := start(t, upstreamtest.HTTP("killed", servers[0].URL, servers[1].URL, servers[2].URL), upstream.Options{})
			healthy := func(want int) {
				t.Helper()
				upstreamtest.Eventually(t, fmt.Sprint(want, " healthy endpoints"), func() bool {
					n := 0
					for _, e := range c.State().Endpoints {
						if e.Connected && e.Problem == nil {
							n++
						}
					}
					return n == want && names(c) == "p q" && c.State().Problem == nil
				})
			}
			healthy(3)
			ctx, stop := context.WithCancel(t.Context())
			var load sync.WaitGroup
			defer load.Wait()
			defer stop()
			var gets atomic.Int64
			for range 4 {
				load.Go(func() {
					for ctx.Err() == nil {
						if got, err := get(t.Context(), c, "p"); err != nil || !strings.Contains(got, "p: wéirs") {
							t.Errorf("get = %s, %v", got, err)
						}
						gets.Add(1)
					}
				})
			}
			busy := func(i int) { // waits until server i has load, as the others have
				t.Helper()
				before, all := served[i].Load(), gets.Load()
				upstreamtest.Eventually(t, "load", func() bool { return served[i].Load() > before+20 && gets.Load() > all+100 })
			}
			for i, server := range servers[:2] {
				busy(i)
				server.Down()
				healthy(2)
				busy(2)
				server.Up(handler(i))
				healthy(3)
			}
			busy(0)
			busy(1)
		})
	}
}

func TestState_MasksAddresses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	err := os.WriteFile(path, []byte(`team "t" {
		members = []
		upstream "u" { urls = ["http://a.example/mcp", "http://b.example/${env("KEY")}"] }
	}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	loaded, diags := config.Load(path, config.Options{LookupEnv: func(string) (string, bool) { return "s3cret", true }})
	if diags.Err() != nil {
		t.Fatal(diags.Err())
	}
	var addresses []string
	for _, e := range upstream.New(loaded.Upstreams()[0], upstream.Options{}, nil).State().Endpoints {
		addresses = append(addresses, e.Address)
	}
	if want := []string{"http://a.example/mcp", "(sensitive)"}; !slices.Equal(addresses, want) {
		t.Error(cmp.Diff(want, addresses))
	}
}
