package upstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func lists(p *upstreamtest.Peer) int { return len(p.Seen(wire.PromptsList)) }

// wantLists checks after some time how many lists were requested in all.
func wantLists(t *testing.T, p *upstreamtest.Peer, after time.Duration, least, most int) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if n := lists(p); n < least || n > most {
		t.Errorf("%d lists, want %d to %d", n, least, most)
	}
}

func TestRefresh_CollectsChangesInOneMore(t *testing.T) {
	inEachBubble(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		wantLists(t, p, 0, 1, 1)
		time.Sleep(time.Second)
		p.Prompts("one")
		p.Changed()
		wantLists(t, p, 0, 2, 2) // at once
		for i := range 5 {
			p.Prompts(fmt.Sprint("later-", i))
			p.Changed()
		}
		wantLists(t, p, 249*time.Millisecond, 2, 2)
		wantLists(t, p, time.Millisecond, 3, 3)
		wantLists(t, p, time.Minute, 3, 3)
		wantNames(t, c, "later-4")
	})
}

func TestRefresh_KeepsChangeDuringRefresh(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Second)
		p.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(time.Second)
			r.Result(w, `{"prompts":[{"name":"old"}]}`)
		})
		p.Changed()
		time.Sleep(500 * time.Millisecond)
		p.Prompts("new")
		p.Changed()
		wantLists(t, p, 0, 2, 2)
		wantLists(t, p, 750*time.Millisecond, 3, 3)
		wantNames(t, c, "new")
	})
}

func TestRefresh_FollowsEndlessChangesFourTimesASecond(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
			p.Changed()
			r.Result(w, fmt.Sprintf(`{"prompts":[{"name":"same","description":"%d"}]}`, len(p.Seen(wire.PromptsList))))
		})
		p.Changed()
		time.Sleep(time.Minute + 100*time.Millisecond) // between two lists
		before := lists(p)
		if before > 4*60+2 {
			t.Errorf("%d lists in a minute", before)
		}
		p.Prompts("really", "new")
		wantLists(t, p, 250*time.Millisecond+1, before+1, before+2) // a real change is known as soon as another one
		wantNames(t, c, "really new")
	})
}

// A server without notifications is polled by the TTL of its list, and one with a stream as a backstop.
func TestRefresh_PollsServers(t *testing.T) {
	legacy, modern := upstreamtest.NewPeer, upstreamtest.NewModernPeer
	none := func(method string) func(*upstreamtest.Peer) {
		return func(p *upstreamtest.Peer) { p.Handle(method, nil) }
	}
	silent, noStream := none(wire.Listen), none(http.MethodGet)
	for name, test := range map[string]struct {
		peer        func(t testing.TB) *upstreamtest.Peer
		silence     func(*upstreamtest.Peer)
		first, last string // members of the two pages
		every       time.Duration
	}{
		"not declared": {legacy, func(p *upstreamtest.Peer) {
			p.Result(wire.Initialize, `{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}}}`)
		}, `"x":1`, `"x":1`, config.DefaultRefresh},
		"GET 405": {legacy, noStream, `"x":1`, `"x":1`, config.DefaultRefresh},
		"GET 500": {legacy, func(p *upstreamtest.Peer) {
			p.Status(http.MethodGet, http.StatusInternalServerError)
		}, `"x":1`, `"x":1`, config.DefaultRefresh},
		"GET brings a page": {legacy, func(p *upstreamtest.Peer) {
			p.Handle(http.MethodGet, text(http.StatusOK, "text/html", "<html>"))
		}, `"x":1`, `"x":1`, config.DefaultRefresh},
		"listen refused": {modern, func(p *upstreamtest.Peer) {
			p.Error(wire.Listen, http.StatusBadRequest, `{"code":-32602,"message":"no"}`)
		}, `"x":1`, `"x":1`, config.DefaultRefresh},
		"given":                 {modern, silent, `"ttlMs":60000`, `"ttlMs":60000`, time.Minute},
		"the smallest of pages": {modern, silent, `"ttlMs":90000`, `"ttlMs":3e4`, 30 * time.Second},
		"on one page":           {modern, silent, `"ttlMs":120000`, `"x":1`, 2 * time.Minute},
		"too short":             {modern, silent, `"ttlMs":1`, `"ttlMs":1`, 10 * time.Second},
		"longer than refresh":   {modern, silent, `"ttlMs":900000`, `"ttlMs":900000`, 15 * time.Minute},
		"zero says nothing":     {modern, silent, `"ttlMs":0`, `"ttlMs":0`, config.DefaultRefresh},
		"no number":             {modern, silent, `"ttlMs":"9"`, `"ttlMs":null`, config.DefaultRefresh},
		"legacy knows of none":  {legacy, noStream, `"ttlMs":1000`, `"ttlMs":1000`, config.DefaultRefresh},
		"beyond all":            {modern, silent, `"ttlMs":1e300`, `"ttlMs":1e300`, 24 * time.Hour},
		"a stream needs none":   {modern, func(*upstreamtest.Peer) {}, `"ttlMs":20000`, `"ttlMs":20000`, config.DefaultRefresh},
	} {
		t.Run(name, func(t *testing.T) {
			peer := func(t testing.TB) *upstreamtest.Peer {
				p := test.peer(t)
				test.silence(p)
				p.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
					if r.Params.Get("cursor") == nil {
						r.Result(w, `{"prompts":[{"name":"p"}],"nextCursor":"2",`+test.first+`}`)
						return
					}
					r.Result(w, `{"prompts":[{"name":"q"}],`+test.last+`}`)
				})
				return p
			}
			inBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, _ *upstream.Connector) {
				wantLists(t, p, test.every-time.Second, 2, 2)
				wantLists(t, p, test.every/5+2*time.Second, 4, 4)
				wantLists(t, p, test.every*5/4, 6, 6)
			})
		})
	}
}

// A server may report a change on any stream, also if it has none of its own for that.
func TestRefresh_FollowsChangeReportedDuringCall(t *testing.T) {
	inEachBubble(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(http.MethodGet, nil)
		p.Handle(wire.Listen, nil)
		p.Break()
		time.Sleep(time.Minute)
		p.Prompts("new")
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
			upstreamtest.Event(w, string(wire.AppendResult(nil, r.Message.ID, []byte(`{"messages":[]}`))))
		})
		mustGet(t, c, "p")
		time.Sleep(time.Second)
		wantNames(t, c, "new")
	})
}

func TestRefresh_ReopensBrokenStreamAndCatchesUp(t *testing.T) {
	inEachBubble(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Minute)
		p.Prompts("meanwhile")
		p.Break()
		time.Sleep(time.Second)
		if got := names(c); got != "meanwhile" || p.Streams() != 1 {
			t.Errorf("names = %s, streams = %d", got, p.Streams())
		}
		p.Prompts("after")
		p.Changed()
		time.Sleep(time.Second)
		if got := names(c); got != "after" || c.State().Problem != nil {
			t.Errorf("names = %s, problem %v", got, c.State().Problem)
		}
	})
}

func TestRefresh_CatchesUpAfterSlowStream(t *testing.T) {
	slow := func(t testing.TB) *upstreamtest.Peer {
		p := upstreamtest.NewPeer(t)
		p.Handle(http.MethodGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(5 * time.Second)
			p.Stream(w, r)
		})
		return p
	}
	inBubble(t, slow, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		wantLists(t, p, 2*time.Second, 1, 1) // the first list does not wait for the stream for long
		p.Prompts("untold")
		p.Changed() // nobody is notified
		wantLists(t, p, 3*time.Second, 2, 2)
		wantNames(t, c, "untold")
		wantLists(t, p, time.Minute, 2, 2)
	})
}

func TestRefresh_BacksOffIfStreamAlwaysEnds(t *testing.T) {
	peer := func(t testing.TB) *upstreamtest.Peer {
		p := upstreamtest.NewPeer(t)
		p.Handle(http.MethodGet, text(http.StatusOK, "text/event-stream", ""))
		return p
	}
	inBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, _ *upstream.Connector) {
		time.Sleep(10 * time.Minute)
		if n := len(p.Seen(http.MethodGet)); n < 50 || n > 200 {
			t.Errorf("%d streams opened in ten minutes", n)
		}
	})
}

func TestRefresh_KeepsLastListAndRetriesRefusedOne(t *testing.T) {
	u := anywhere()
	u.MaxPrompts, u.MaxMessage = 3, 64<<10
	var n atomic.Int64
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, r *upstreamtest.Request)
		want   upstream.Reason
		says   string
	}{
		"repeated cursor": {results(`{"prompts":[{"name":"a"}],"nextCursor":"again"}`), upstream.ListRefused, "repeats a cursor"},
		"too many pages": {func(w http.ResponseWriter, r *upstreamtest.Request) {
			r.Result(w, fmt.Sprintf(`{"prompts":[],"nextCursor":"%d"}`, n.Add(1)))
		}, upstream.ListRefused, "more than 1000 pages"},
		"too many prompts": {results(`{"prompts":[{},{},{},{}]}`), upstream.ListRefused, "more than max_prompts = 3"},
		"too slow": {func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(9 * time.Second)
			r.Result(w, fmt.Sprintf(`{"prompts":[],"nextCursor":"%d"}`, n.Add(1)))
		}, upstream.ListRefused, "longer than 2m0s"},
		"too large":                {results(`{"x":"` + strings.Repeat("x", 64<<10) + `"}`), upstream.BadResponse, "max_message"},
		"no array":                 {results(`{"prompts":{}}`), upstream.BadResponse, "prompts is not an array"},
		"cursor that is no string": {results(`{"prompts":[],"nextCursor":5}`), upstream.BadResponse, "nextCursor is not a string"},
		"error":                    {refuses(`{"code":-32603,"message":"no"}`), upstream.ListRefused, "no"},
		"denied":                   {status(http.StatusForbidden), upstream.Denied, "403"},
		"fails":                    {status(http.StatusBadGateway), upstream.Unreachable, "502"},
		"silence":                  {hang, upstream.Timeout, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				time.Sleep(time.Second)
				p.Handle(wire.PromptsList, test.answer)
				p.Changed()
				time.Sleep(3 * time.Minute)
				state := c.State()
				if !state.Connected || !state.Listed || names(c) != "p" || state.Problem == nil || state.Problem.Reason != test.want {
					t.Fatalf("State() = %+v, problem %+v, want %s", state, state.Problem, test.want)
				}
				if !strings.Contains(state.Problem.Err.Error(), test.says) {
					t.Errorf("the problem is %v, want %q in it", state.Problem.Err, test.says)
				}
				if time.Since(state.Problem.Since) < 40*time.Second {
					t.Errorf("Since = %s, want when it began", time.Since(state.Problem.Since))
				}
				p.Prompts("good")
				time.Sleep(4 * time.Minute)
				if state := c.State(); names(c) != "good" || state.Problem != nil {
					t.Errorf("after: names %s, problem %+v", names(c), state.Problem)
				}
				all := p.Seen(wire.PromptsList)
				upstreamtest.Equal(t, "s1", all[len(all)-1].Header.Get(wire.HeaderSessionID), "session of the last list")
			})
		})
	}
}

func TestProbe_SilenceOverHTTPDecidesNothing(t *testing.T) {
	silent := func(t testing.TB) *upstreamtest.Peer {
		p := upstreamtest.NewPeer(t)
		p.Handle(wire.Discover, hang)
		return p
	}
	inBubble(t, silent, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Minute)
		if n := len(p.Seen(wire.Initialize)); n != 0 || c.State().Problem.Reason != upstream.Timeout {
			t.Errorf("%d handshakes, problem %+v", n, c.State().Problem)
		}
		p.Handle(wire.Discover, nil)
		time.Sleep(30 * time.Second)
		if !c.State().Connected {
			t.Errorf("State() = %+v", c.State())
		}
	})
}

// handshakes are how servers of both eras begin, with the capabilities left out.
var handshakes = map[string]struct { //nolint:gochecknoglobals // a constant table
	peer           func(testing.TB) *upstreamtest.Peer
	method, result string
}{
	"legacy": {
		upstreamtest.NewPeer, wire.Initialize,
		`{"protocolVersion":"2025-11-25","capabilities":{%s},"serverInfo":{"name":"peer","version":"1"}}`,
	},
	"modern": {
		upstreamtest.NewModernPeer, wire.Discover,
		`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{%s}}`,
	},
}

// A server that suddenly does not know prompts/list is broken, or another one answers in its place,
// until it says itself that it has no prompts.
func TestRefresh_KeepsListOfServerThatForgetsTheMethod(t *testing.T) {
	for name, test := range handshakes {
		denies := fmt.Sprintf(test.result, `"tools":{}`)
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				forget := func() {
					t.Helper()
					time.Sleep(time.Second)
					p.Handle(wire.PromptsList, nil)
					p.Changed()
					time.Sleep(10 * time.Minute)
					if state := c.State(); names(c) != "p" || state.Problem == nil || state.Problem.Reason != upstream.ListRefused {
						t.Errorf("names %q, problem %+v, want p and list_refused", names(c), state.Problem)
					}
				}
				forget()
				p.Prompts("p") // it was a fault
				time.Sleep(time.Minute)
				if state := c.State(); names(c) != "p" || state.Problem != nil {
					t.Errorf("once the server is whole again: names %q, problem %+v", names(c), state.Problem)
				}
				forget()
				p.Result(test.method, denies)
				time.Sleep(time.Minute)
				if state := c.State(); names(c) != "" || state.Problem != nil || !state.Connected {
					t.Errorf("once the server says that it has no prompts: names %q, problem %+v", names(c), state.Problem)
				}
			})
		})
	}
}

// A server without prompts may get some with its next release.
func TestRefresh_AsksServerWithoutPromptsAgain(t *testing.T) {
	u := anywhere()
	u.Refresh = time.Minute
	for name, test := range handshakes {
		t.Run(name, func(t *testing.T) {
			without := func(t testing.TB) *upstreamtest.Peer {
				p := test.peer(t)
				p.Result(test.method, fmt.Sprintf(test.result, `"tools":{}`))
				return p
			}
			inBubble(t, without, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				time.Sleep(5 * time.Minute)
				if state := c.State(); !state.Connected || state.Problem != nil || !state.Listed {
					t.Fatalf("State() = %+v, problem %+v, want a healthy one without prompts", state, state.Problem)
				}
				p.Result(test.method, fmt.Sprintf(test.result, `"prompts":{}`))
				time.Sleep(90 * time.Second)
				upstreamtest.Equal(t, "p", names(c), "names once the server has prompts")
			})
		})
	}
}

// Whoever admits definitions can leave one out and say so. Without a list there would be nothing to
// admit.
func TestRefresh_HandsOnListWithInvalidDefinition(t *testing.T) {
	const list = `"result":{"prompts":[{"name":"before"},{"name":"x","name":"y"},{"name":"after"}]}}`
	for _, u := range []config.Upstream{anywhere(), anywhereSSE()} {
		peer := func(t testing.TB) *upstreamtest.Peer {
			p := upstreamtest.NewPeer(t)
			p.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
				text(http.StatusOK, wire.ContentJSON, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s`, r.Message.ID, list))(w, r)
			})
			return p
		}
		inBubble(t, peer, u, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector) {
			state := c.State()
			if state.Problem != nil || len(state.Definitions) != 3 || string(state.Definitions[1]) != `{"name":"x","name":"y"}` {
				t.Errorf("%s: definitions %s, problem %+v", u.Transport, state.Definitions, state.Problem)
			}
		})
	}
}
