package upstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A load balancer may pin a session to one of several replicas by a cookie, which it sets on the first
// response.
func TestCookies_KeepASessionAtItsReplica(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			if kind.transport == config.SSE {
				u = anywhereSSE()
			}
			bubble.Test(t, func(t *testing.T) {
				replica, begun := handlerFor(u, kind.peer(t)), false
				c := start(t, u, upstream.Options{Transport: upstreamtest.Memory{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if pinned, err := r.Cookie("AWSALB"); begun && (err != nil || pinned.Value != "replica-1") {
						w.WriteHeader(http.StatusBadRequest)
						return
					}
					if !begun {
						http.SetCookie(w, &http.Cookie{Name: "AWSALB", Value: "replica-1", Path: "/"})
					}
					begun = true
					replica.ServeHTTP(w, r)
				})}})
				healthyWithin(t, c, time.Second, "p")
				mustGet(t, c, "p")
			})
		})
	}
}

func TestCookies_AreBoundedAndGiveWayToConfiguredOnes(t *testing.T) {
	u := anywhere()
	u.Headers = map[string]config.Secret{"Cookie": config.NewSecret("c1=ours; own=x")}
	sets := func(n, size int) func(testing.TB) *upstreamtest.Peer {
		return func(t testing.TB) *upstreamtest.Peer {
			p := upstreamtest.NewPeer(t)
			p.Intercept(func(w http.ResponseWriter, r *upstreamtest.Request) bool {
				for i := range n {
					http.SetCookie(w, &http.Cookie{Name: fmt.Sprint("c", i), Value: strings.Repeat("x", size)})
				}
				return false
			})
			return p
		}
	}
	for name, test := range map[string]struct{ n, size, want int }{
		"few": {3, 10, 4}, "many": {50, 10, 33}, "long ones": {20, 1 << 10, 8},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sets(test.n, test.size), u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				mustGet(t, c, "p")
				sent := p.Seen(wire.PromptsGet)[0].Cookies()
				if c1, err := p.Seen(wire.PromptsGet)[0].Cookie("c1"); len(sent) != test.want || err != nil || c1.Value != "ours" {
					t.Errorf("%d cookies, want %d with the configured c1: %v", len(sent), test.want, sent)
				}
				for _, first := range p.Seen(wire.Discover) {
					if n := len(first.Cookies()); n != 2 {
						t.Errorf("a session began with %d cookies, want the 2 configured ones", n)
					}
				}
			})
		})
	}
}

// Cookies of a session that was lost are not sent in the next one.
func TestCookies_EndWithTheirSession(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Intercept(func(w http.ResponseWriter, _ *upstreamtest.Request) bool {
			http.SetCookie(w, &http.Cookie{Name: "pin", Value: "x"})
			return false
		})
		mustGet(t, c, "p")
		time.Sleep(11 * time.Second)
		p.Forget()
		p.ForgetSeen()
		mustGet(t, c, "p")
		for _, first := range p.Seen(wire.Discover) {
			if n := len(first.Cookies()); n != 0 {
				t.Errorf("a session began with %d cookies", n)
			}
		}
		if n := len(p.Seen(wire.PromptsGet)); n != 2 {
			t.Errorf("%d gets, want 2", n)
		}
	})
}
