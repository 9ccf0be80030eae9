package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// refusals are the ways in which servers refuse a request of a session that they have lost.
func refusals() map[string]func(http.ResponseWriter, *upstreamtest.Request) {
	ways := map[string]func(http.ResponseWriter, *upstreamtest.Request){}
	for _, code := range []int{400, 401, 403, 404, 405, 409, 410, 422, 500, 503} {
		ways[strconv.Itoa(code)] = status(code)
		ways[fmt.Sprint(code, " without an id")] = text(code, wire.ContentJSON,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID provided"}}`)
		ways[fmt.Sprint(code, " with the id")] = func(w http.ResponseWriter, r *upstreamtest.Request) {
			refuseWith(w, r, code, `{"code":-32001,"message":"Session not found"}`)
		}
	}
	for _, code := range []int{-32000, -32001, -32002, -32005, -32600, -32601, -32602, -32603} {
		ways[fmt.Sprint("200 and ", code)] = func(w http.ResponseWriter, r *upstreamtest.Request) {
			refuseWith(w, r, http.StatusOK, fmt.Sprintf(`{"code":%d,"message":"no session"}`, code))
		}
	}
	return ways
}

// refuseWith refuses a request, or a notification, which has no id.
func refuseWith(w http.ResponseWriter, r *upstreamtest.Request, status int, err string) {
	if r.Message.ID == nil {
		w.WriteHeader(max(status, http.StatusBadRequest))
		return
	}
	r.Error(w, status, err)
}

// forgetful makes a peer of either era lose its sessions. A modern one has none, and refuses
// everything until the next server/discover.
func forgetful(p *upstreamtest.Peer, modern bool, refuse func(http.ResponseWriter, *upstreamtest.Request)) (forget func()) {
	if !modern {
		p.Handle(upstreamtest.Forgotten, refuse)
		return p.Forget
	}
	var lost atomic.Bool
	p.Intercept(func(w http.ResponseWriter, r *upstreamtest.Request) bool {
		if r.Message.Method == wire.Discover {
			lost.Store(false)
		}
		if lost.Load() {
			refuse(w, r)
			return true
		}
		return false
	})
	return func() { lost.Store(true) }
}

func TestLostSession_IsRenewedHoweverTheServerSaysIt(t *testing.T) {
	for name, era := range handshakes {
		modern := name == "modern"
		for way, refuse := range refusals() {
			t.Run(name+", "+way, func(t *testing.T) {
				inBubble(t, era.peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
					forget := forgetful(p, modern, refuse)
					for round := range 2 {
						time.Sleep(11 * time.Second)
						forget()
						p.ForgetSeen()
						calls := make(chan error, 8)
						for range cap(calls) {
							go func() {
								_, err := get(t.Context(), c, "p")
								calls <- err
							}()
						}
						for range cap(calls) {
							if err := <-calls; err != nil {
								t.Fatalf("round %d: get = %v", round, err)
							}
						}
						if gets := len(p.Seen(wire.PromptsGet)); gets > 2*cap(calls) {
							t.Errorf("%d gets were sent, want each at most twice", gets)
						}
						wantSeen(t, p, era.method, 1)
						synctest.Wait()
						wantWell(t, c, "after the get")
					}
				})
			})
		}
	}
}

// An error of the caller's own stays the caller's, whatever it looks like, and costs the server one list
// in ten seconds.
func TestLostSession_ErrorsOfCallersCostOneListInTenSeconds(t *testing.T) {
	inEachEra(t, func(t *testing.T, peer func(testing.TB) *upstreamtest.Peer) {
		for way, refuse := range refusals() {
			t.Run(way, func(t *testing.T) {
				inBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
					time.Sleep(time.Minute)
					p.Handle(wire.PromptsGet, refuse)
					p.ForgetSeen()
					for range 25 {
						if _, err := get(t.Context(), c, "p"); err == nil || errors.Is(err, client.ErrSessionLost) {
							t.Fatalf("get = %v, want the server's error", err)
						}
						time.Sleep(time.Second)
					}
					wantSeen(t, p, wire.PromptsList, 3)
					wantSeen(t, p, wire.Initialize, 0)
				})
			})
		}
	})
}

// Where a new session is of no use either, the old one stays, and so do the errors.
func TestLostSession_NothingChangesIfANewOneFailsAlike(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Minute)
		const broken = `{"code":-32603,"message":"the database is away"}`
		p.Error(wire.PromptsGet, http.StatusOK, broken)
		p.Error(wire.PromptsList, http.StatusOK, broken)
		p.ForgetSeen()
		for range 25 {
			if _, err := get(t.Context(), c, "p"); err == nil || !strings.Contains(err.Error(), "the database is away") {
				t.Fatalf("get = %v", err)
			}
			time.Sleep(time.Second)
		}
		wantSeen(t, p, wire.Initialize, 3)
		wantSeen(t, p, wire.PromptsGet, 25)
		if !c.State().Connected {
			t.Error("the session has ended")
		}
		for _, ended := range p.Seen(http.MethodDelete) {
			if ended.Header.Get(wire.HeaderSessionID) == "s1" {
				t.Error("the session was deleted")
			}
		}
	})
}

// A replaced session ends once its other calls have ended: a replica may still be at work on them.
func TestLostSession_EndsAfterItsCalls(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if name, _ := r.Params.Text("name"); name == "slow" {
				time.Sleep(5 * time.Second)
			}
			r.Result(w, `{"messages":[]}`)
		})
		p.Handle(upstreamtest.Forgotten, refuses(`{"code":-32001,"message":"Session not found"}`))
		slow := getting(t.Context(), c, "slow")
		synctest.Wait()
		p.Forget()
		mustGet(t, c, "p")
		time.Sleep(4 * time.Second)
		wantSeen(t, p, http.MethodDelete, 0)
		if err := <-slow; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		time.Sleep(time.Second)
		wantSeen(t, p, http.MethodDelete, 1)
	})
}

// A session that is lost while nobody gets anything is noticed by the answer to a ping.
func TestLostSession_IsNoticedWhileIdle(t *testing.T) {
	for _, way := range []string{"400", "401", "422 with the id", "200 and -32001"} {
		t.Run(way, func(t *testing.T) {
			inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				p.Handle(upstreamtest.Forgotten, refusals()[way])
				time.Sleep(time.Minute)
				p.Forget()
				p.Prompts("changed")
				healthyWithin(t, c, 35*time.Second, "changed")
			})
		})
	}
}

// A credential is called refused only if a new session is refused, too.
func TestLostSession_CredentialIsRefusedOnlyByTheHandshake(t *testing.T) {
	for name, test := range map[string]struct {
		methods []string // that are answered with 401
		want    client.Kind
	}{
		"gets only":  {[]string{wire.PromptsGet}, client.RequestDenied},
		"everything": {[]string{wire.PromptsGet, wire.PromptsList, wire.Initialize, wire.Discover}, client.CredentialRefused},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer x")}
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				for _, method := range test.methods {
					p.Status(method, http.StatusUnauthorized)
				}
				for range 3 {
					_, err := get(t.Context(), c, "p")
					failed, ok := errors.AsType[*upstream.Unavailable](err)
					if !ok || failed.Reason != upstream.Denied || failed.Cause().Kind != test.want {
						t.Errorf("get = %v, want %s with the cause %s", err, upstream.Denied, test.want)
					}
				}
			})
		})
	}
}

// A child may be a bridge to a remote server, whose session is lost while the child runs.
func TestLostSession_OfAChildRestartsIt(t *testing.T) {
	t.Parallel()
	c, log := startLogged(t, upstreamtest.Child(t, "bridge", "script"))
	waitForNames(t, c, "scripted")
	pid := number(t, log, `"pid`)
	mustGet(t, c, "lose")
	for range 5 {
		mustGet(t, c, "scripted")
	}
	upstreamtest.Eventually(t, "the end of the first process", func() bool { return !exists(pid) })
	waitForNames(t, c, "scripted")
}
