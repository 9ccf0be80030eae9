package upstream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// What serializers and SDKs do to responses, over both kinds of transports.
func TestTolerance_OfResponses(t *testing.T) {
	for name, test := range map[string]struct{ method, body, want string }{
		"an id as text":              {wire.PromptsGet, `{"jsonrpc":"2.0","id":"ID","result":{"a":1}}`, `{"a":1}`},
		"an id with a fraction":      {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID.0,"result":{"a":1}}`, `{"a":1}`},
		"an error that is null":      {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"error":null,"result":{"a":1}}`, `{"a":1}`},
		"a result that is null":      {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":null,"error":{"code":-32602,"message":"no"}}`, "no (-32602)"},
		"an error as text":           {wire.PromptsGet, `{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"no"}}`, "no (-32602)"},
		"a byte order mark":          {wire.PromptsGet, "\ufeff" + `{"jsonrpc":"2.0","id":ID,"result":{"a":1}}`, `{"a":1}`},
		"a result that is no object": {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":"x"}`, "the result is not an object"},
		"an error without a code":    {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"error":{"message":"no"}}`, "an error object must have a whole number as its code and a string as its message"},
		"nulls of a message":         {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":{"description":null,"messages":[{"role":"user","content":{"type":"text","text":"null","annotations":null,"x":null}}]}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"null","x":null}}]}`},
		"nulls of annotations":       {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":{"messages":[{"content":[{"annotations":{"priority":null,"audience":["user"]}}]}]}}`, `{"messages":[{"content":[{"annotations":{"audience":["user"]}}]}]}`},
		"bytes of what has no null":  {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":{ "messages" : [ ], "x": null }}`, `{ "messages" : [ ], "x": null }`},
		"nulls of a completion":      {wire.Complete, `{"jsonrpc":"2.0","id":ID,"result":{"completion":{"values":["a"],"total":null,"hasMore":null}}}`, `{"completion":{"values":["a"]}}`},
		"a completion of null":       {wire.Complete, `{"jsonrpc":"2.0","id":ID,"result":{"completion":{"values":null}}}`, `{"completion":{"values":[]}}`},
	} {
		for transport, u := range map[string]config.Upstream{"HTTP": anywhere(), "HTTP+SSE": anywhereSSE()} {
			t.Run(transport+", "+name, func(t *testing.T) {
				inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
					p.Handle(test.method, func(w http.ResponseWriter, r *upstreamtest.Request) {
						text(http.StatusOK, wire.ContentJSON, strings.Replace(test.body, "ID", string(r.Message.ID), 1))(w, r)
					})
					result, err := c.Call(t.Context(), &upstream.Request{Method: test.method, Name: "p"}, nil)
					got := string(result.JSON)
					if err != nil {
						got = strings.TrimPrefix(err.Error(), "upstream "+u.Name+": bad_response: ")
					}
					upstreamtest.Equal(t, test.want, got, "result %s and error %v of the call", result.JSON, err)
				})
			})
		}
	}
}

func TestTolerance_OfLists(t *testing.T) {
	page := func(pages ...string) func(string) string {
		return func(cursor string) string {
			for i := range pages {
				if cursor == "" && i == 0 || cursor == fmt.Sprintf(`"%d"`, i) {
					return pages[i]
				}
			}
			return pages[len(pages)-1]
		}
	}
	const first = `"prompts":[{"name":"p"}],"nextCursor":"1"`
	for name, test := range map[string]struct {
		page func(cursor string) string
		want string // "" for a list that is refused
	}{
		"null":                              {page(`"prompts":null`), "none"},
		"absent":                            {page(`"x":1`), "none"},
		"a last page with its own cursor":   {page(first, `"prompts":[{"name":"q"}],"nextCursor":"1"`), "p q"},
		"an empty one with its own cursor":  {page(first, `"prompts":[],"nextCursor":"1"`), "p"},
		"a server that ignores cursors":     {page(first, first), ""},
		"a server whose pages go round":     {page(first, `"prompts":[{"name":"q"}],"nextCursor":"0"`, first), ""},
		"null in the place of the next one": {page(`"prompts":[{"name":"p"}],"nextCursor":null`), "p"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := func(t testing.TB) *upstreamtest.Peer {
				p := upstreamtest.NewPeer(t)
				p.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
					r.Result(w, "{"+test.page(string(r.Params.Get("cursor")))+"}")
				})
				return p
			}
			inLoggedBubble(t, peer, anywhere(), func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector, log *upstreamtest.Log) {
				time.Sleep(time.Second)
				if test.want == "" {
					if c.State().Problem == nil || c.State().Problem.Reason != upstream.ListRefused {
						t.Errorf("State() = %+v, want a refused list", c.State())
					}
					return
				}
				wantWell(t, c, "after the list")
				wantNames(t, c, strings.TrimPrefix(test.want, "none"))
				if strings.Contains(name, "own cursor") {
					wantLogged(t, log, "repeats its own cursor")
				}
			})
		})
	}
}

func TestUserAgent_NamesTheGateway(t *testing.T) {
	p := upstreamtest.NewPeer(t)
	c := start(t, anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: p}, Name: "ours", Version: "1.2"})
	waitForNames(t, c, "p")
	mustGet(t, c, "p")
	for _, method := range []string{http.MethodGet, wire.Initialize, wire.PromptsGet} {
		for _, r := range p.Seen(method) {
			upstreamtest.Equal(t, "promptweir/1.2", r.Header.Get("User-Agent"), "%s: User-Agent", method)
		}
	}
}

func TestCause_EmptyCredentialIsCalledEmpty(t *testing.T) {
	for value, want := range map[string]client.Kind{
		"": client.CredentialEmpty, "Bearer ": client.CredentialEmpty, "Bearer x": client.CredentialRefused, "raw": client.CredentialRefused,
	} {
		server := upstreamtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
		u := upstreamtest.HTTP("strict", server.URL)
		u.Headers = map[string]config.Secret{"Authorization": config.NewSecret(value)}
		_, err := client.Connect(t.Context(), u, upstream.Options{})
		upstreamtest.Equal(t, want, client.CauseOf(err).Kind, "%q: cause of %v", value, err)
	}
}

// Remedies name the settings that help, and those do help.
func TestCause_RemedyNamesTheSetting(t *testing.T) {
	for name, test := range map[string]struct {
		change, remedy func(*config.Upstream)
		want           string
	}{
		"another revision": {
			func(u *config.Upstream) { u.Protocol = wire.Rev20260728 },
			func(u *config.Upstream) { u.Protocol = "" }, "set protocol",
		},
		"another transport": {
			func(u *config.Upstream) { u.Transport, u.TransportExplicit = config.SSE, true },
			func(u *config.Upstream) { u.Transport, u.TransportExplicit = config.StreamableHTTP, false }, "remove transport",
		},
		"silent about server/discover": {
			func(u *config.Upstream) { u.Timeout = 100 * time.Millisecond },
			func(u *config.Upstream) { u.Protocol, u.Timeout = wire.Rev20251125, time.Minute }, `set protocol = "2025-11-25"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := upstreamtest.NewPeer(t)
			p.Status(http.MethodGet, http.StatusNotFound)
			p.Handle(wire.Discover, func(w http.ResponseWriter, r *upstreamtest.Request) {
				if name == "silent about server/discover" {
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusBadRequest)
			})
			u := upstreamtest.HTTP("wiki", upstreamtest.Serve(t, p).URL)
			test.change(&u)
			_, err := client.Connect(t.Context(), u, upstream.Options{})
			if cause := client.CauseOf(err); !strings.Contains(cause.Remedy, test.want) {
				t.Errorf("Connect() = %v: %s, want %s", err, cause, test.want)
			}
			test.remedy(&u)
			session, err := client.Connect(t.Context(), u, upstream.Options{})
			if err != nil {
				t.Fatalf("with the remedy, Connect() = %v", err)
			}
			session.Close()
		})
	}
}

// A server that reports a change whenever it is listed is listed once a minute while nothing changes.
func TestRefresh_BacksOffWhereEachListIsReportedAsAChange(t *testing.T) {
	inLoggedBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, log *upstreamtest.Log) {
		var name atomic.Pointer[string]
		rename := func(to string) { name.Store(&to) }
		rename("same")
		p.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
			p.Changed()
			r.Result(w, `{"prompts":[{"name":"`+*name.Load()+`"}]}`)
		})
		p.Changed()
		time.Sleep(10 * time.Second)
		before := lists(p)
		time.Sleep(10 * time.Minute)
		if n := lists(p) - before; n < 9 || n > 11 {
			t.Errorf("%d lists in ten minutes, want one a minute", n)
		}
		upstreamtest.Equal(t, 1, strings.Count(log.String(), "reports a change whenever it is listed"), "records of that")
		rename("another")
		healthyWithin(t, c, time.Minute+time.Second, "another")
		p.List(`{"name":"calm"}`)
		healthyWithin(t, c, time.Minute+time.Second, "calm")
		p.List(`{"name":"last"}`)
		p.Changed()
		healthyWithin(t, c, time.Second, "last")
	})
}

// Token endpoints of some servers.
func TestOAuth_ReadsSloppyTokens(t *testing.T) {
	for name, test := range map[string]struct {
		kind, body string
		want       error // nil for a token
	}{
		"a fraction of a second": {"application/json", `{"access_token":"hunter2-x","token_type":"bearer","expires_in":3599.9}`, nil},
		"a text with a fraction": {"application/json", `{"access_token":"hunter2-x","token_type":"bearer","expires_in":"3600.0"}`, nil},
		"text/plain":             {"text/plain", `{"access_token":"hunter2-x","token_type":"bearer","expires_in":3600}`, nil},
		"a byte order mark":      {"application/json", "\ufeff" + `{"access_token":"hunter2-x","token_type":"bearer"}`, nil},
		"null":                   {"application/json", `{"access_token":"hunter2-x","token_type":"bearer","expires_in":null}`, nil},
		"an empty token":         {"application/json", `{"access_token":"","token_type":"bearer"}`, errors.New("the access token is empty")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAuthorization(upstreamtest.NewPeer(t))
			server.valid["hunter2-x"] = true
			server.answer = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				fmt.Fprint(w, test.body)
			}
			address := upstreamtest.Serve(t, server).URL
			s, err := client.Connect(t.Context(), withOAuth(upstreamtest.HTTP("sloppy", address), address), upstream.Options{})
			if err == nil {
				s.Close()
			}
			if (err == nil) != (test.want == nil) || err != nil && !strings.Contains(client.CauseOf(err).Problem, test.want.Error()) {
				t.Errorf("Connect() = %v, want %v", err, test.want)
			}
		})
	}
}

func compressed(text string) string {
	var b bytes.Buffer
	to := gzip.NewWriter(&b)
	_, _ = to.Write([]byte(text))
	_ = to.Close()
	return b.String()
}

func TestEncoding_OfResponses(t *testing.T) {
	const (
		result  = `{"jsonrpc":"2.0","id":ID,"result":{"messages":[]}}`
		refusal = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"unknown prompt"}}`
	)
	for name, test := range map[string]struct {
		status             int
		kind, coding, body string
		want               string // the result, or part of the error
	}{
		"a result":       {200, wire.ContentJSON, "gzip", result, `{"messages":[]}`},
		"an event":       {200, wire.ContentSSE, "gzip", "data: " + result + "\n\n", `{"messages":[]}`},
		"an error":       {400, wire.ContentJSON, "gzip", refusal, "unknown prompt"},
		"another coding": {200, wire.ContentJSON, "br", "\x8b\x02", `the content coding "br"`},
		"a bomb":         {200, wire.ContentJSON, "gzip", strings.Repeat(" ", 4<<20), "larger than max_message"},
		"not gzip":       {200, wire.ContentJSON, "", `{"jsonrpc":"2.0"}`, "gzip: invalid header"},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.MaxMessage = 1 << 20
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
					body, coding := strings.Replace(test.body, "ID", string(r.Message.ID), 1), test.coding
					if coding == "gzip" {
						body = compressed(body)
					}
					if coding == "" {
						coding = "gzip"
					}
					w.Header().Set("Content-Encoding", coding)
					text(test.status, test.kind, body)(w, r)
				})
				got, err := get(t.Context(), c, "p")
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, test.want) {
					t.Errorf("get = %s, want %s", got, test.want)
				}
				for _, r := range append(p.Seen(wire.PromptsGet), p.Seen(http.MethodGet)...) {
					upstreamtest.Equal(t, "identity", r.Header.Get("Accept-Encoding"), "Accept-Encoding")
				}
			})
		})
	}
}

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

// Cookies of a session that was lost are not sent in the next one.
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
				time.Sleep(11 * time.Second)
				p.Forget()
				mustGet(t, c, "p")
				wantSeen(t, p, wire.Initialize, 2)
				sent := p.Seen(wire.PromptsGet)[0].Cookies()
				if c1, err := p.Seen(wire.PromptsGet)[0].Cookie("c1"); len(sent) != test.want || err != nil || c1.Value != "ours" {
					t.Errorf("%d cookies, want %d with the configured c1: %v", len(sent), test.want, sent)
				}
				for _, first := range p.Seen(wire.Discover) {
					upstreamtest.Equal(t, 2, len(first.Cookies()), "cookies with which a session begins")
				}
			})
		})
	}
}

// The endpoint of tokens, on another host of the same domain, gets no cookie of the server.
func TestCookies_AreSentToTheServerOnly(t *testing.T) {
	inGuardedBubble(t, func(t *testing.T, a *authorization, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Intercept(func(w http.ResponseWriter, _ *upstreamtest.Request) bool {
			http.SetCookie(w, &http.Cookie{Name: "pin", Value: "1", Domain: "example", Path: "/"})
			return false
		})
		mustGet(t, c, "p")
		var requested []string
		a.change(func() {
			clear(a.valid)
			a.answer = func(w http.ResponseWriter, r *http.Request) {
				requested = append(requested, r.Header.Get("Cookie"))
				a.give(w)
			}
		})
		mustGet(t, c, "p")
		gets := p.Seen(wire.PromptsGet)
		upstreamtest.Equal(t, "pin=1", gets[len(gets)-1].Header.Get("Cookie"), "the server's cookie")
		upstreamtest.Equal(t, []string{""}, requested, "cookies of requests for tokens")
	})
}
