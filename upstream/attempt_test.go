package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// askingSDK returns a server of the official Go SDK with a prompt that asks the client as in the legacy era.
func askingSDK() *mcp.Server {
	server := upstreamtest.SDK(mcp.ServerOptions{}, "plain")
	server.AddPrompt(&mcp.Prompt{Name: "elicit"}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		result, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?"})
		if err != nil {
			return nil, fmt.Errorf("while asking: %w", err)
		}
		text := &mcp.TextContent{Text: fmt.Sprintf("%s %s", result.Action, result.Content["who"])}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: text}}}, nil
	})
	return server
}

// playAsking is a child process with such a server, which speaks both eras.
func playAsking([]string) { _ = askingSDK().Run(context.Background(), &mcp.StdioTransport{}) }

// bothEras serves requests of the modern era without sessions, and others with sessions. The SDK
// leaves that to its users.
func bothEras(server *mcp.Server) http.Handler {
	modern, legacy := sdkHandler(server, mcp.StreamableHTTPOptions{Stateless: true}), sdkHandler(server, mcp.StreamableHTTPOptions{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wire.Modern(r.Header.Get(wire.HeaderProtocolVersion)) {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	})
}

// askable is the relay of a client that replies to every server request, and counts them.
func askable(asked *atomic.Int32) *upstream.Relay {
	return &upstream.Relay{
		Capabilities: jsontext.Value(`{"elicitation":{"form":{}},"roots":{}}`),
		Reply: func(_ context.Context, method string, _ jsontext.Value) (jsontext.Value, error) {
			asked.Add(1)
			if method == wire.RootsList {
				return jsontext.Value(`{"roots":[]}`), nil
			}
			return jsontext.Value(`{"action":"accept","content":{"who":"Ada"}}`), nil
		},
	}
}

// getNamed gets a prompt for a client.
func getNamed(ctx context.Context, c *upstream.Connector, name string, client *upstream.Relay) (string, error) {
	params := wire.Object{}.With("name", wire.Quote(name))
	result, err := c.Call(ctx, &upstream.Request{Method: wire.PromptsGet, Name: name, Params: params}, client)
	return string(result.JSON), err
}

func TestLegacyGets_SDKServerOfBothEras(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]config.Upstream{
		"HTTP":  upstreamtest.HTTP("http", upstreamtest.Serve(t, bothEras(askingSDK())).URL),
		"stdio": upstreamtest.Child(t, "stdio", "asking"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, log := startLogged(t, u)
			waitForNames(t, c, "elicit plain")
			if got := c.State().Revision; got != wire.Rev20260728 {
				t.Fatalf("the session speaks %s", got)
			}
			var asked atomic.Int32
			for _, test := range []struct{ prompt, want string }{{"elicit", "accept Ada"}, {"plain", "plain: "}, {"elicit", "accept Ada"}} {
				got, err := getNamed(t.Context(), c, test.prompt, askable(&asked))
				if err != nil || !strings.Contains(got, test.want) {
					t.Errorf("get %s = %s, %v, want %s", test.prompt, got, err, test.want)
				}
			}
			if n := strings.Count(log.String(), "need a legacy session"); n != 1 || asked.Load() != 2 || !strings.Contains(log.String(), "go-sdk") {
				t.Errorf("the client was asked %d times, want twice; it is logged %d times, want once:\n%s", asked.Load(), n, log.String())
			}
			_, err := getNamed(t.Context(), c, "elicit", nil)
			if answer, ok := errors.AsType[*wire.Error](err); !ok || !strings.Contains(answer.Message, "cannot be sent") {
				t.Errorf("get for no client = %v, want the server's refusal", err)
			}
		})
	}
}

// refusal is an error object with the Go SDK's answer.
const refusal = `{"code":0,"message":"x: \"elicitation/create\" cannot be sent while serving a request on protocol version 2026-07-28: y"}`

// The handshakes of a peer of both eras.
const (
	legacyHandshake = `{"protocolVersion":"2025-11-25","capabilities":{"prompts":{}},"serverInfo":{"name":"dual","version":"1"}}`
	modernHandshake = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"prompts":{"listChanged":true}}}`
)

// dualPeer is a peer of both eras. In the modern one it refuses gets, in the legacy one it answers
// them.
func dualPeer(t testing.TB) *upstreamtest.Peer {
	t.Helper()
	p := upstreamtest.NewModernPeer(t)
	p.Result(wire.Initialize, legacyHandshake)
	onGet(p, refuses(refusal), results(`{"messages":[]}`))
	return p
}

// onGet sets a peer's answers to gets in both eras.
func onGet(p *upstreamtest.Peer, modern, legacy func(http.ResponseWriter, *upstreamtest.Request)) {
	p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		if wire.Modern(r.Header.Get(wire.HeaderProtocolVersion)) {
			modern(w, r)
			return
		}
		legacy(w, r)
	})
}

// getsByEra returns how many gets a peer had in the modern and in the legacy era.
func getsByEra(p *upstreamtest.Peer) (counts [2]int) {
	for _, r := range p.Seen(wire.PromptsGet) {
		if wire.Modern(r.Header.Get(wire.HeaderProtocolVersion)) {
			counts[0]++
		} else {
			counts[1]++
		}
	}
	return counts
}

func TestLegacyGets_BeginThereOnceLearned(t *testing.T) {
	inBubble(t, dualPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		var asked atomic.Int32
		want := func(name string, client *upstream.Relay, ok bool, counts [2]int) {
			t.Helper()
			if _, err := getNamed(t.Context(), c, name, client); (err == nil) != ok || getsByEra(p) != counts {
				t.Errorf("get %s = %v after %v gets in the two eras, want %v and %v", name, err, getsByEra(p), ok, counts)
			}
		}
		client := askable(&asked)
		want("p", client, true, [2]int{1, 1})
		want("p", client, true, [2]int{1, 2})
		want("p", nil, false, [2]int{2, 2})   // nobody can be asked
		want("q", client, true, [2]int{3, 3}) // another prompt, which has to be learned itself
		want("p", client, true, [2]int{3, 4})
		p.Status(wire.Discover, http.StatusBadGateway)
		p.Status(wire.Initialize, http.StatusBadGateway)
		p.Break()
		time.Sleep(time.Minute)
		p.Result(wire.Discover, modernHandshake) // the next connection begins anew
		p.Result(wire.Initialize, legacyHandshake)
		time.Sleep(time.Minute)
		synctest.Wait()
		want("p", client, true, [2]int{4, 5})
		time.Sleep(time.Hour) // the legacy session is closed when nobody uses it
		p.Handle(wire.Initialize, nil)
		onGet(p, results(`{"messages":[]}`), nil)
		want("p", client, true, [2]int{5, 5})
	})
}

func TestLegacyGets_OnlyWhereTheServerCannotAsk(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`
	for name, test := range map[string]struct {
		client *upstream.Relay
		change func(*config.Upstream)
		modern func(http.ResponseWriter, *upstreamtest.Request)
	}{
		"nobody can be asked":      {client: &upstream.Relay{}},
		"only for what is none":    {client: &upstream.Relay{Capabilities: jsontext.Value(`{"x":{}}`), Reply: askable(new(atomic.Int32)).Reply}},
		"a revision is configured": {change: func(u *config.Upstream) { u.Protocol = wire.Rev20260728 }},
		"another error":            {modern: refuses(`{"code":0,"message":"cannot be sent"}`)},
		"another code":             {modern: refuses(strings.Replace(refusal, `"code":0`, `"code":-32602`, 1))},
		"the client was told something": {modern: func(w http.ResponseWriter, r *upstreamtest.Request) {
			upstreamtest.Event(w, fmt.Sprintf(progress, r.Params.Object("_meta").Get(wire.MetaProgressToken)))
			upstreamtest.Event(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, r.Message.ID, refusal))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			if test.change != nil {
				test.change(&u)
			}
			inBubble(t, dualPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				if test.modern != nil {
					onGet(p, test.modern, results(`{"messages":[]}`))
				}
				told := 0
				client := test.client
				if client == nil {
					client = askable(new(atomic.Int32))
					client.Progress, client.Notify = true, func(string, jsontext.Value) { told++ }
				}
				_, err := getNamed(t.Context(), c, "p", client)
				if _, ok := errors.AsType[*wire.Error](err); !ok || getsByEra(p) != [2]int{1, 0} {
					t.Errorf("get = %v, and %v gets in the two eras", err, getsByEra(p))
				}
				upstreamtest.Equal(t, told > 0, strings.Contains(name, "told"), "the client was told %d times, which is expected", told)
			})
		})
	}
}

// If the legacy era is of no use either, the refusal stands.
func TestLegacyGets_RefusalStandsWhereTheyFail(t *testing.T) {
	for name, test := range map[string]struct {
		sabotage func(*upstreamtest.Peer)
		want     [2]int // gets in the two eras
	}{
		"no legacy session": {func(p *upstreamtest.Peer) { p.Handle(wire.Initialize, nil) }, [2]int{1, 0}},
		"an error": {func(p *upstreamtest.Peer) {
			onGet(p, refuses(refusal), refuses(`{"code":1,"message":"nor here"}`))
		}, [2]int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, dualPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				test.sabotage(p)
				_, err := getNamed(t.Context(), c, "p", askable(new(atomic.Int32)))
				if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != 0 || getsByEra(p) != test.want {
					t.Errorf("get = %v, and %v gets in the two eras, want the refusal and %v", err, getsByEra(p), test.want)
				}
			})
		})
	}
}
