package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func unavailable(err error) upstream.Reason {
	if u, ok := errors.AsType[*upstream.Unavailable](err); ok {
		return u.Reason
	}
	return ""
}

// sdkHandler serves an SDK server over HTTP: with sessions in the legacy era only, or without
// sessions in both.
func sdkHandler(server *mcp.Server, options mcp.StreamableHTTPOptions) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &options)
}

func TestConnector_WorksWithSDKServers(t *testing.T) {
	t.Parallel()
	all := []string{wire.Rev20241105, wire.Rev20250326, wire.Rev20250618, wire.Rev20251125, wire.Rev20260728}
	legacy, newest := all[:4], wire.Rev20251125
	over := func(stateless, json bool) func(*testing.T, *mcp.Server) config.Upstream {
		return func(t *testing.T, s *mcp.Server) config.Upstream {
			options := mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: json}
			return upstreamtest.HTTP("sdk", upstreamtest.Serve(t, sdkHandler(s, options)).URL)
		}
	}
	overSSE := func(said bool) func(*testing.T, *mcp.Server) config.Upstream {
		return func(t *testing.T, s *mcp.Server) config.Upstream {
			handler := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)
			return sseUpstream(upstreamtest.Serve(t, handler).URL, said)
		}
	}
	for name, peer := range map[string]struct {
		serve     func(*testing.T, *mcp.Server) config.Upstream
		revisions []string
		auto      string
		notifies  bool // in the legacy era too
	}{
		"stateful, SSE":       {over(false, false), legacy, newest, true},
		"stateful, JSON":      {over(false, true), legacy, newest, true},
		"stateless, SSE":      {over(true, false), all, wire.Rev20260728, false},
		"stateless, JSON":     {over(true, true), all, wire.Rev20260728, false},
		"HTTP+SSE":            {overSSE(true), legacy, newest, true},
		"HTTP+SSE, found out": {overSSE(false), legacy, newest, true},
	} {
		for _, protocol := range slices.Concat(peer.revisions, []string{"auto"}) {
			t.Run(name+", "+protocol, func(t *testing.T) {
				t.Parallel()
				server := upstreamtest.SDK(mcp.ServerOptions{}, "a", "b", "c", "d", "e")
				u := peer.serve(t, server)
				u.Protocol = protocol
				want := protocol
				if protocol == "auto" {
					want = peer.auto
				}
				c := start(t, u, upstream.Options{})
				waitForNames(t, c, "a b c d e")
				speaks(t, c, want)
				if peer.notifies || wire.Modern(want) {
					upstreamtest.AddPrompt(server, "f")
					waitForNames(t, c, "a b c d e f")
				}
			})
		}
	}
	for _, protocol := range slices.Concat(all, []string{"auto"}) {
		t.Run("stdio, "+protocol, func(t *testing.T) {
			t.Parallel()
			u := upstreamtest.Child(t, "sdk", "sdk")
			u.Protocol = protocol
			want := protocol
			if protocol == "auto" {
				want = wire.Rev20260728
			}
			c := start(t, u, upstream.Options{})
			waitForNames(t, c, "a b c d grow")
			speaks(t, c, want)
			mustGet(t, c, "grow")
			waitForNames(t, c, "a b c d grow grown")
		})
	}
}

// speaks checks the revision, a successful get, a refused one, and a completion.
func speaks(t *testing.T, c *upstream.Connector, revision string) {
	t.Helper()
	upstreamtest.Equal(t, revision, c.State().Revision, "Revision")
	if got, err := get(t.Context(), c, "b"); err != nil || !strings.Contains(got, `"text":"b: wéirs"`) {
		t.Errorf("get(b) = %s, %v", got, err)
	}
	_, err := get(t.Context(), c, "nope")
	if refusal, ok := errors.AsType[*wire.Error](err); !ok || refusal.Code != wire.InvalidParams {
		t.Errorf("get(nope) = %v, want %d", err, wire.InvalidParams)
	}
	completion := upstreamtest.Object(t, `{"ref":{"type":"ref/prompt","name":"b"},"argument":{"name":"topic","value":"ab"}}`)
	result, err := c.Call(t.Context(), &upstream.Request{Method: wire.Complete, Params: completion}, nil)
	if err != nil || !strings.Contains(string(result.JSON), `"abab"`) || result.Revision != revision || !c.Completes() {
		t.Errorf("complete = %s, %v, Completes() = %v", result.JSON, err, c.Completes())
	}
}

func TestConnector_ReconnectsAfterKill(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := config.Upstream{Transport: kind.transport}
			server := upstreamtest.Serve(t, handlerFor(u, kind.peer(t)))
			if u = upstreamtest.HTTP("killed", server.URL); kind.transport == config.SSE {
				u = sseUpstream(server.URL, true)
			}
			c := start(t, u, upstream.Options{})
			waitForNames(t, c, "p")
			server.Down()
			wantFailure(t, c, "p", upstream.Unreachable)
			upstreamtest.Eventually(t, "the loss is noticed", func() bool { return !c.State().Connected })
			if names(c) != "p" || !c.State().Listed || c.State().Problem == nil {
				t.Errorf("after the kill: names %q, state %+v", names(c), c.State())
			}
			again := kind.peer(t)
			again.Prompts("p", "q")
			server.Up(handlerFor(u, again))
			waitForNames(t, c, "p q")
			mustGet(t, c, "p")
		})
	}
}

func TestConnector_BacksOffIfEverySessionIsLost(t *testing.T) {
	peer := func(t testing.TB) *upstreamtest.Peer {
		p := upstreamtest.NewPeer(t)
		p.Status(wire.PromptsList, http.StatusNotFound)
		return p
	}
	inBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Minute)
		if n := len(p.Seen(wire.Initialize)); c.State().Problem == nil || n < 3 || n > 20 {
			t.Errorf("%d sessions in a minute, problem %+v", n, c.State().Problem)
		}
	})
}

func TestSession_ReceivesMessagesOutsideOfCalls(t *testing.T) {
	for _, u := range []config.Upstream{anywhere(), anywhereSSE()} {
		inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
			time.Sleep(time.Second)
			p.Say(`{"jsonrpc":"2.0","id":"π","method":"ping"}`)
			p.Say(`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`)
			p.Say(`{"jsonrpc":"2.0","id":999,"result":{}}`) // to no request
			p.Prompts("p", "q")
			p.Changed()
			time.Sleep(time.Second)
			for _, want := range []string{`{"jsonrpc":"2.0","id":"π","result":{}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,`} {
				isReply := func(r *upstreamtest.Request) bool { return strings.HasPrefix(string(r.Body), want) }
				if !slices.ContainsFunc(p.Seen(""), isReply) {
					t.Errorf("%s: no reply %s", u.Transport, want)
				}
			}
			healthyWithin(t, c, 0, "p q")
		})
	}
}

func TestRun_EndsSessionAndLaterCallsFail(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := upstream.New(upstreamtest.HTTP("ended", upstreamtest.Serve(t, peer).URL), upstream.Options{}, func() {})
	stop := run(t, c)
	waitForNames(t, c, "p")
	stop()
	wantSeen(t, peer, http.MethodDelete, 1)
	wantFailure(t, c, "p", upstream.Unreachable)
}

func TestConnector_MasksSecretsThatAServerRepeats(t *testing.T) {
	for kind, format := range map[string]string{
		"the name of a member":        `{"jsonrpc":"2.0","id":%s,"result":{"%s":1,"%[2]s":2}}`,
		"a long name":                 `{"jsonrpc":"2.0","id":%s,"result":{"%s` + strings.Repeat("x", 500) + `":1,"%[2]s` + strings.Repeat("x", 500) + `":2}}`,
		"the message of an error":     `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s is not valid"}}`,
		"a bad request without an id": `{"jsonrpc":"2.0","error":{"code":-32000,"message":"%[2]s is not valid, %[1]s"}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			peer := func(t testing.TB) *upstreamtest.Peer {
				p := upstreamtest.NewPeer(t)
				p.Intercept(func(w http.ResponseWriter, r *upstreamtest.Request) bool {
					status := http.StatusOK
					if strings.Contains(kind, "bad request") {
						status = http.StatusBadRequest
					}
					text(status, wire.ContentJSON, fmt.Sprintf(format, r.Message.ID, r.Header.Get("X-Key")))(w, r)
					return true
				})
				return p
			}
			u := anywhere()
			u.Headers = map[string]config.Secret{"X-Key": config.NewSecret("hunter2-" + strings.Repeat("k", 100))}
			inLoggedBubble(t, peer, u, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector, log *upstreamtest.Log) {
				wantLogged(t, log, "upstream down")
				for _, shown := range []string{log.String(), c.State().Problem.Err.Error()} {
					if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "(sensitive)") {
						t.Errorf("a secret shows, or the error does not: %s", shown)
					}
				}
			})
		})
	}
}
