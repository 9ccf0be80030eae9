package upstream_test

import (
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
	"github.com/promptweir/promptweir/upstream/wire"
)

// What serializers and SDKs do to responses, over both kinds of transports.
func TestTolerance_OfResponses(t *testing.T) {
	for name, test := range map[string]struct{ method, body, want string }{
		"an id as text":             {wire.PromptsGet, `{"jsonrpc":"2.0","id":"ID","result":{"a":1}}`, `{"a":1}`},
		"an id with a fraction":     {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID.0,"result":{"a":1}}`, `{"a":1}`},
		"an error that is null":     {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"error":null,"result":{"a":1}}`, `{"a":1}`},
		"a result that is null":     {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":null,"error":{"code":-32602,"message":"no"}}`, "no (-32602)"},
		"an error as text":          {wire.PromptsGet, `{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"no"}}`, "no (-32602)"},
		"a byte order mark":         {wire.PromptsGet, "\ufeff" + `{"jsonrpc":"2.0","id":ID,"result":{"a":1}}`, `{"a":1}`},
		"nulls of a message":        {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":{"description":null,"messages":[{"role":"user","content":{"type":"text","text":"null","annotations":null,"x":null}}]}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"null","x":null}}]}`},
		"nulls of annotations":      {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":{"messages":[{"content":[{"annotations":{"priority":null,"audience":["user"]}}]}]}}`, `{"messages":[{"content":[{"annotations":{"audience":["user"]}}]}]}`},
		"bytes of what has no null": {wire.PromptsGet, `{"jsonrpc":"2.0","id":ID,"result":{ "messages" : [ ], "x": null }}`, `{ "messages" : [ ], "x": null }`},
		"nulls of a completion":     {wire.Complete, `{"jsonrpc":"2.0","id":ID,"result":{"completion":{"values":["a"],"total":null,"hasMore":null}}}`, `{"completion":{"values":["a"]}}`},
		"a completion of null":      {wire.Complete, `{"jsonrpc":"2.0","id":ID,"result":{"completion":{"values":null}}}`, `{"completion":{"values":[]}}`},
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
						got = err.Error()
					}
					if got != test.want {
						t.Errorf("the call returns %s, %v, want %s", result.JSON, err, test.want)
					}
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
			if got := r.Header.Get("User-Agent"); got != "promptweir/1.2" {
				t.Errorf("%s: User-Agent is %q", method, got)
			}
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
		if cause := client.CauseOf(err); cause.Kind != want {
			t.Errorf("%q: Connect() = %v: %s, want %s", value, err, cause, want)
		}
	}
}

// Remedies name the settings that help.
func TestCause_RemedyNamesTheSetting(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*config.Upstream)
		answer http.HandlerFunc // nil for a legacy peer
		want   string
	}{
		"another revision": {func(u *config.Upstream) { u.Protocol = wire.Rev20260728 }, nil, "set protocol"},
		"another transport": {
			func(u *config.Upstream) { u.Transport, u.TransportExplicit = config.SSE, true }, http.NotFound, "remove transport",
		},
		"never an answer": {
			func(u *config.Upstream) { u.Timeout = 100 * time.Millisecond },
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, `set protocol = "2025-11-25"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handler http.Handler = upstreamtest.NewPeer(t)
			if test.answer != nil {
				handler = test.answer
			}
			u := upstreamtest.HTTP("wiki", upstreamtest.Serve(t, handler).URL)
			test.change(&u)
			_, err := client.Connect(t.Context(), u, upstream.Options{})
			if cause := client.CauseOf(err); !strings.Contains(cause.Remedy, test.want) {
				t.Errorf("Connect() = %v: %s, want %s", err, cause, test.want)
			}
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
		if n := strings.Count(log.String(), "reports a change whenever it is listed"); n != 1 {
			t.Errorf("%d records of that, want 1", n)
		}
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
