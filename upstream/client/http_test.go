package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestConnect_FailsWithoutPinnedRevision(t *testing.T) {
	t.Parallel()
	for protocol, peer := range map[string]*upstreamtest.Peer{
		wire.Rev20260728: upstreamtest.NewPeer(t), wire.Rev20250326: upstreamtest.NewPeer(t), wire.Rev20251125: upstreamtest.NewModernPeer(t),
	} {
		u := upstreamtest.HTTP("pinned", upstreamtest.Serve(t, peer).URL)
		u.Protocol = protocol
		session, err := client.Connect(t.Context(), u, client.Options{})
		if err == nil {
			t.Errorf("Connect(%s) speaks %s", protocol, session.Revision)
			session.Close()
		}
	}
}

func connect(t *testing.T, peer http.Handler, change func(*config.Upstream)) *client.Session {
	t.Helper()
	u := upstreamtest.HTTP("peer", upstreamtest.Serve(t, peer).URL)
	if change != nil {
		change(&u)
	}
	session, err := client.Connect(t.Context(), u, client.Options{Name: "gateway", Version: "9"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func TestList_BoundsBytes(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	padding := strings.Repeat("x", 33<<20)
	peer.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
		r.Result(w, fmt.Sprintf(`{"prompts":[],"padding":"%s","nextCursor":"%d"}`, padding, len(peer.Seen(wire.PromptsList))))
	})
	session := connect(t, peer, func(u *config.Upstream) { u.MaxMessage, u.Timeout = 64<<20, time.Minute }) // a page takes a while
	_, err := session.List(t.Context(), 10)
	if err == nil || !strings.Contains(err.Error(), "larger than") || len(peer.Seen(wire.PromptsList)) != 2 {
		t.Errorf("List() = %v after %d pages", err, len(peer.Seen(wire.PromptsList)))
	}
}

func TestList_ReturnsCursorsAsTheyCame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		peer    *upstreamtest.Peer
		cursors []string
	}{
		"legacy, an empty one is the end": {upstreamtest.NewPeer(t), []string{`"\u00e9\/"`, `"\u00e9/"`, `""`}},
		"null is the end":                 {upstreamtest.NewModernPeer(t), []string{`""`, `"x"`, `null`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages := 0
			test.peer.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
				if got := string(r.Params.Get("cursor")); pages > 0 && got != test.cursors[pages-1] {
					t.Errorf("page %d: cursor %s, want %s", pages, got, test.cursors[pages-1])
				}
				r.Result(w, `{"prompts":[{}],"nextCursor":`+test.cursors[pages]+`}`)
				pages++
			})
			list, err := connect(t, test.peer, nil).List(t.Context(), 10)
			if err != nil || len(list.Definitions) != 3 {
				t.Errorf("List() = %s, %v, want three", list.Definitions, err)
			}
		})
	}
}

func TestCall_ReturnsResponseBytes(t *testing.T) {
	t.Parallel()
	const (
		result  = `{ "messages":[{"x":12345678901234567890,"y":2.50,"z":1e3}],"\u0061b":"\/","_meta":{"k":null}}`
		refusal = `{"code": -32042.0e0,"message":"\u006eo","data":{"n":1.50},"more":[1e400]}`
	)
	for name, peer := range map[string]*upstreamtest.Peer{"legacy": upstreamtest.NewPeer(t), "modern": upstreamtest.NewModernPeer(t)} {
		for _, framing := range []string{"JSON", "SSE", "SSE that stays open"} {
			t.Run(name+", "+framing, func(t *testing.T) {
				session := connect(t, peer, nil)
				answer := func(member, value string) {
					peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
						text := fmt.Sprintf(`{"jsonrpc":"2.0",%q:%s,"id":%s}`, member, value, r.Message.ID)
						if framing == "JSON" {
							w.Header().Set("Content-Type", "application/json; charset=utf-8")
							fmt.Fprint(w, text)
							return
						}
						w.Header().Set("Content-Type", "text/event-stream")
						fmt.Fprint(w, ": comment\r\n\r\nevent: ping\ndata: x\n\nid: 1\ndata:\n\n")
						upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
						upstreamtest.Event(w, text)
						if framing != "SSE" {
							<-r.Context().Done()
						}
					})
				}
				answer("result", result)
				begun := time.Now()
				got, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, nil)
				if err != nil || string(got.JSON) != result {
					t.Errorf("result = %s, %v, want %s", got.JSON, err, result)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("the answer took %s", took)
				}
				answer("error", refusal)
				_, err = session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, nil)
				if no, ok := errors.AsType[*wire.Error](err); !ok || string(no.JSON()) != refusal || string(no.Data) != `{"n":1.50}` {
					t.Errorf("error = %v, want %s", err, refusal)
				}
			})
		}
	}
}

func TestCall_ReplacesOwnMeta(t *testing.T) {
	t.Parallel()
	remote := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	const traceParent = "00-01000000000000000000000000000000-0200000000000000-01"
	hop := `"_meta":{"a\/b":1.0,"io.modelcontextprotocol/clientInfo":{"name":"client"},"io.modelcontextprotocol/protocolVersion":"x",` +
		`"progressToken":7,"traceparent":"theirs","tracestate":"t","baggage":"b","io.modelcontextprotocol/logLevel":"debug",` +
		`"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"com.example/x":[1e2]}`
	own := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"gateway","version":"9"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}`
	for _, test := range []struct{ given, legacy, modern string }{
		{`{"name":"p"}`, `{"name":"p"}`, `{"name":"p","_meta":{` + own + `}}`},
		{`{"name":"p","arguments":{}}`, `{"name":"p","arguments":{}}`, `{"name":"p","arguments":{},"_meta":{` + own + `}}`},
		{
			`{"\u006e":1.50,"arguments":{"a":12345678901234567890}}`, `{"\u006e":1.50,"arguments":{"a":12345678901234567890}}`,
			`{"\u006e":1.50,"arguments":{"a":12345678901234567890},"_meta":{` + own + `}}`,
		},
		{
			`{` + hop + `,"name":"p"}`, `{"_meta":{"a\/b":1.0,"com.example/x":[1e2]},"name":"p"}`,
			`{"_meta":{"a\/b":1.0,"com.example/x":[1e2],` + strings.Replace(own, `{}`, `{"roots":{}}`, 1) + `},"name":"p"}`,
		},
		{`{"_meta":{"progressToken":1},"name":"p"}`, `{"name":"p"}`, `{"_meta":{` + own + `},"name":"p"}`},
		{`{"_meta":{}}`, `{"_meta":{}}`, `{"_meta":{` + own + `}}`},
	} {
		for want, peer := range map[string]*upstreamtest.Peer{test.legacy: upstreamtest.NewPeer(t), test.modern: upstreamtest.NewModernPeer(t)} {
			session := connect(t, peer, nil)
			for _, traced := range []bool{false, true} {
				ctx := t.Context()
				if traced {
					ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
				}
				if _, err := session.Call(ctx, &client.Request{Method: wire.PromptsGet, Name: "p", Params: upstreamtest.Object(t, test.given)}, nil); err != nil {
					t.Fatal(err)
				}
				seen := peer.Seen(wire.PromptsGet)
				last := seen[len(seen)-1]
				got := string(last.Message.Params)
				if !traced {
					upstreamtest.Equal(t, want, got, "params %s, as they went out", test.given)
					continue
				}
				meta := last.Params.Object("_meta")
				if parent, _ := meta.Text("traceparent"); parent != traceParent || last.Header.Get("Traceparent") != traceParent {
					t.Errorf("params %s, traced, went out as %s with header %q", test.given, got, last.Header.Get("Traceparent"))
				}
			}
		}
	}
}

func TestCall_SetsHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "greet (with Icons)", " padded ", "grüße", "=?base64?eA==?=", "a\nb"} {
		peer := upstreamtest.NewModernPeer(t)
		session := connect(t, peer, func(u *config.Upstream) {
			u.Headers = map[string]config.Secret{"authorization": config.NewSecret("Bearer s3cret")}
		})
		if _, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: name}, nil); err != nil {
			t.Fatal(err)
		}
		header := peer.Seen(wire.PromptsGet)[0].Header
		if got, err := wire.DecodeHeader(header.Get("Mcp-Name")); err != nil || got != name {
			t.Errorf("Mcp-Name of %q = %q, %v", name, header.Get("Mcp-Name"), err)
		}
		for key, want := range map[string]string{
			"Mcp-Method": "prompts/get", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Session-Id": "",
			"Authorization": "Bearer s3cret", "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		} {
			upstreamtest.Equal(t, want, header.Get(key), "%s", key)
		}
	}
	peer := upstreamtest.NewPeer(t)
	session := connect(t, peer, nil)
	if _, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, nil); err != nil {
		t.Fatal(err)
	}
	if first := peer.Seen(wire.Initialize)[0].Header; first.Get("Mcp-Session-Id") != "" || first.Get("Mcp-Protocol-Version") != "" {
		t.Errorf("headers of initialize: %v", first)
	}
	header := peer.Seen(wire.PromptsGet)[0].Header
	if header.Get("Mcp-Session-Id") != "s1" || header.Get("Mcp-Protocol-Version") != wire.Rev20251125 || header.Get("Mcp-Name") != "" {
		t.Errorf("headers in the legacy era: %v", header)
	}
	upstreamtest.Equal(t, 1, len(peer.Seen(wire.Initialized)), "initialized notifications")
}

func TestConnect_GuardsDial(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	server := upstreamtest.Serve(t, peer)
	for _, transport := range []config.Transport{config.StreamableHTTP, config.SSE} {
		var mu sync.Mutex
		var asked []string
		u := upstreamtest.HTTP("own", strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
		u.Transport = transport
		_, err := client.Connect(t.Context(), u, client.Options{DialGuard: func(address string) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, address)
			return errors.New("that is me")
		}})
		requests := len(peer.Seen(http.MethodPost)) + len(peer.Seen(http.MethodGet))
		if err == nil || !strings.Contains(err.Error(), "that is me") || requests > 0 {
			t.Errorf("%s: Connect() = %v after %d requests", transport, err, requests)
		}
		if want := strings.TrimPrefix(server.URL, "http://"); !slices.Contains(asked, want) {
			t.Errorf("%s: asked about %v, want the resolved %s", transport, asked, want)
		}
	}
}

func TestCall_BoundsMessage(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *upstreamtest.Request, string){
		"JSON": func(w http.ResponseWriter, r *upstreamtest.Request, result string) { r.Result(w, result) },
		"SSE": func(w http.ResponseWriter, r *upstreamtest.Request, result string) {
			w.Header().Set("Content-Type", "text/event-stream")
			upstreamtest.Event(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.Message.ID, result))
		},
	} {
		peer := upstreamtest.NewPeer(t)
		session := connect(t, peer, func(u *config.Upstream) { u.MaxMessage = 1 << 20 })
		for size, fits := range map[int]bool{1<<20 - 1000: true, 1 << 20: false} {
			peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
				answer(w, r, `{"x":"`+strings.Repeat("x", size)+`"}`)
			})
			_, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, nil)
			if (err == nil) != fits || (err != nil && !strings.Contains(err.Error(), "max_message")) {
				t.Errorf("%s of %d bytes: %v", name, size, err)
			}
		}
	}
}

func TestCall_TellsServerOfCancellation(t *testing.T) {
	t.Parallel()
	for name, peer := range map[string]*upstreamtest.Peer{"legacy": upstreamtest.NewPeer(t), "modern": upstreamtest.NewModernPeer(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := connect(t, peer, nil)
			begun, left := make(chan string, 1), make(chan struct{})
			peer.Handle(wire.PromptsGet, func(_ http.ResponseWriter, r *upstreamtest.Request) {
				begun <- string(r.Message.ID)
				<-r.Context().Done()
				close(left)
			})
			ctx, cancel := context.WithCancel(t.Context())
			var id string
			go func() {
				id = <-begun
				cancel()
			}()
			if _, err := session.Call(ctx, &client.Request{Method: wire.PromptsGet, Name: "p"}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("Call() = %v", err)
			}
			<-left
			if name == "modern" {
				return
			}
			upstreamtest.Eventually(t, "the notification", func() bool { return len(peer.Seen(wire.Cancelled)) == 1 })
			upstreamtest.Equal(t, id, string(peer.Seen(wire.Cancelled)[0].Params.Get("requestId")), "requestId")
		})
	}
}

// hangUp closes the connection of a request after some bytes.
func hangUp(t *testing.T, w http.ResponseWriter, after string) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, after)
	_ = conn.Close()
}

// connectWithIdle opens a session and then several idle connections to its server.
func connectWithIdle(t *testing.T, peer *upstreamtest.Peer) *client.Session {
	t.Helper()
	const connections = 8
	session := connect(t, peer, nil)
	var arrived sync.WaitGroup
	arrived.Add(connections)
	peer.Handle(wire.Ping, func(w http.ResponseWriter, r *upstreamtest.Request) {
		arrived.Done()
		arrived.Wait() // until each has a connection of its own
		r.Result(w, `{}`)
	})
	var pings sync.WaitGroup
	for range connections {
		pings.Go(func() {
			if err := session.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	pings.Wait()
	return session
}

func TestCall_IsRepeatedOnceIfAKeptConnectionBreaks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hangUps int
		after   time.Duration
		relay   *client.Relay
		head    string // of which a part arrives
		seen    int
		ok      bool
	}{
		"one hang-up":                   {hangUps: 1, seen: 2, ok: true},
		"hang-ups without end":          {hangUps: 100, seen: 2},
		"a hang-up after some time":     {hangUps: 1, after: 1100 * time.Millisecond, seen: 1},
		"a part of a head":              {hangUps: 1, head: "HTTP/1.1 200 OK\r\n", seen: 1},
		"a relay, which may have asked": {hangUps: 1, relay: &client.Relay{Progress: true, Notify: func(string, jsontext.Value) {}}, seen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			session := connectWithIdle(t, peer)
			var seen atomic.Int32
			peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
				if int(seen.Add(1)) > test.hangUps {
					r.Result(w, `{"messages":[]}`)
					return
				}
				time.Sleep(test.after)
				hangUp(t, w, test.head)
			})
			_, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, test.relay)
			if (err == nil) != test.ok || client.OutcomeOf(err).Answered != test.ok {
				t.Errorf("Call() = %v, want success: %v", err, test.ok)
			}
			upstreamtest.Equal(t, test.seen, int(seen.Load()), "requests that the server saw")
		})
	}
}

func TestConnect_IsNotRepeated(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	peer.Handle(wire.Initialize, func(w http.ResponseWriter, _ *upstreamtest.Request) { hangUp(t, w, "") })
	_, err := client.Connect(t.Context(), upstreamtest.HTTP("closing", upstreamtest.Serve(t, peer).URL), client.Options{})
	if n := len(peer.Seen(wire.Initialize)); err == nil || errors.Is(err, client.ErrSessionLost) || n != 1 {
		t.Errorf("Connect() = %v after %d handshakes, want an error after one", err, n)
	}
}
