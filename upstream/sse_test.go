package upstream_test

import (
	"context"
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
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sseUpstream is the configuration of a server with HTTP+SSE. Unless the transport is given, it is to be found out.
func sseUpstream(url string, said bool) config.Upstream {
	u := upstreamtest.HTTP("sse", url+"/sse")
	if said {
		u.Transport, u.TransportExplicit = config.SSE, true
	}
	return u
}

// startSSE runs a connector to a legacy peer over HTTP+SSE, and waits for its list.
func startSSE(t *testing.T, peer *upstreamtest.Peer, change func(*config.Upstream)) *upstream.Connector {
	t.Helper()
	u := sseUpstream(upstreamtest.Serve(t, upstreamtest.SSE(peer)).URL, true)
	if change != nil {
		change(&u)
	}
	c := start(t, u, upstream.Options{})
	waitForNames(t, c, "p")
	return c
}

func TestSSE_WorksWithSDKServers(t *testing.T) {
	t.Parallel()
	for _, said := range []bool{true, false} {
		for _, protocol := range []string{wire.Rev20241105, wire.Rev20250326, wire.Rev20250618, wire.Rev20251125, "auto"} {
			t.Run(fmt.Sprintf("%s, said %v", protocol, said), func(t *testing.T) {
				t.Parallel()
				server := upstreamtest.SDK(mcp.ServerOptions{}, "a", "b", "c", "d", "e")
				handler := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
				u := sseUpstream(upstreamtest.Serve(t, handler).URL, said)
				u.Protocol = protocol
				want := protocol
				if protocol == "auto" {
					want = wire.Rev20251125
				}
				c := start(t, u, upstream.Options{})
				waitForNames(t, c, "a b c d e")
				speaks(t, c, want)
				upstreamtest.AddPrompt(server, "f")
				waitForNames(t, c, "a b c d e f")
			})
		}
	}
}

// HTTP+SSE is tried only if the answer to a handshake rules out everything else.
func TestSSE_IsTriedLast(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   int
		err      string // "" for a text
		protocol string
		want     upstream.Reason // "" if HTTP+SSE is found
	}{
		"400":                {400, "", "auto", ""},
		"404":                {404, "", "auto", ""},
		"405":                {405, "", "auto", ""},
		"500":                {500, "", "auto", ""},
		"405, pinned":        {405, "", wire.Rev20251125, ""},
		"405, pinned modern": {405, "", wire.Rev20260728, upstream.BadResponse},
		"503":                {503, "", "auto", upstream.Unreachable},
		"401":                {401, "", "auto", upstream.Denied},
		"403":                {403, "", "auto", upstream.Denied},
		"429":                {429, "", "auto", upstream.RateLimited},
		"400, -32600":        {400, `{"code":-32600,"message":"no"}`, "auto", upstream.BadResponse},
		"200, -32600":        {200, `{"code":-32600,"message":"no"}`, "auto", upstream.BadResponse},
		"200 and a text":     {200, "", "auto", upstream.BadResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusing, old := upstreamtest.NewPeer(t), upstreamtest.NewPeer(t)
			for _, method := range []string{wire.Discover, wire.Initialize} {
				if test.err == "" {
					refusing.Status(method, test.status)
				} else {
					refusing.Error(method, test.status, test.err)
				}
			}
			sse := upstreamtest.SSE(old)
			u := sseUpstream(upstreamtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/sse" && r.Method == http.MethodPost {
					refusing.ServeHTTP(w, r)
					return
				}
				sse.ServeHTTP(w, r)
			})).URL, false)
			u.Protocol = test.protocol
			c := start(t, u, upstream.Options{})
			upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
			asked := len(old.Seen(http.MethodGet)) > 0
			if test.want == "" {
				waitForNames(t, c, "p")
				return
			}
			if state := c.State(); asked || state.Problem == nil || state.Problem.Reason != test.want {
				t.Errorf("asked for a stream: %v, problem %+v, want %s", asked, state.Problem, test.want)
			}
		})
	}
	// It is not tried if another transport is configured.
	old := upstreamtest.NewPeer(t)
	given := sseUpstream(upstreamtest.Serve(t, upstreamtest.SSE(old)).URL, false)
	given.TransportExplicit = true
	if s, err := client.Connect(t.Context(), given, upstream.Options{}); err == nil || len(old.Seen(http.MethodGet)) > 0 {
		t.Errorf("Connect() = %v, %v, and a stream was asked for %d times", s, err, len(old.Seen(http.MethodGet)))
	}
	// If both transports fail, the error names both failures.
	u := sseUpstream(upstreamtest.Serve(t, http.NotFoundHandler()).URL, false)
	_, err := client.Connect(t.Context(), u, upstream.Options{})
	if err == nil || strings.Count(err.Error(), "404 Not Found") != 2 || !strings.Contains(err.Error(), "over HTTP+SSE: ") {
		t.Errorf("Connect() = %v", err)
	}
}

func TestSSE_AcceptsEndpointOfSameOriginOnly(t *testing.T) {
	t.Parallel()
	elsewhere := upstreamtest.NewPeer(t)
	foreign := strings.TrimPrefix(upstreamtest.Serve(t, elsewhere).URL, "http://")
	for endpoint, ok := range map[string]bool{
		"/messages?session=":                  true,
		"messages?session=":                   true,
		"../messages?session=":                true,
		"//SELF/messages?session=":            true,
		"http://SELF/messages?session=":       true,
		"HTTP://SELF/messages?session=":       true,
		"http://u:p@SELF/messages?session=":   true, // its credentials are not used
		"https://SELF/messages?session=":      false,
		"http://" + foreign + "/?session=":    false,
		"//" + foreign + "/?session=":         false,
		"http://SELF@" + foreign + "/?n=":     false,
		"http://SELF.example.com/messages?n=": false,
		"http://[/messages?session=":          false,
		"javascript:alert":                    false,
		"/elsewhere?session=":                 false, // answers 404
	} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			var handler http.Handler
			server := upstreamtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
			handler = upstreamtest.SSEAt(peer, strings.ReplaceAll(endpoint, "SELF", strings.TrimPrefix(server.URL, "http://")))
			u := sseUpstream(server.URL, true)
			u.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer s3cret")}
			session, err := client.Connect(t.Context(), u, upstream.Options{})
			if (err == nil) != ok {
				t.Fatalf("Connect() = %v, want %v", err, ok)
			}
			if !ok {
				if strings.Contains(err.Error(), "session lost") {
					t.Errorf("Connect() = %v", err)
				}
				return
			}
			defer session.Close()
			for _, r := range slices.Concat(peer.Seen(http.MethodGet), peer.Seen(wire.Initialize), peer.Seen(wire.Initialized)) {
				if got := r.Header.Get("Authorization"); got != "Bearer s3cret" {
					t.Errorf("%s %s: Authorization %q", r.Method, r.URL, got)
				}
			}
			if got := peer.Seen(wire.Initialized)[0].Header.Get("Mcp-Protocol-Version"); got != wire.Rev20251125 {
				t.Errorf("Mcp-Protocol-Version %q", got)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(elsewhere.Seen(http.MethodPost)) + len(elsewhere.Seen(http.MethodGet)); n != 0 {
			t.Errorf("%d requests went elsewhere", n)
		}
	})
}

func TestSSE_RejectsOtherStreams(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string // an event, or "" for none
		status int
		want   upstream.Reason
	}{
		"a message first": {"data: {}\n\n", 200, upstream.BadResponse},
		"an id first":     {"id: 1\ndata:\n\n", 200, upstream.BadResponse},
		"its end":         {": bye\n\n", 200, upstream.Unreachable},
		"401":             {"", 401, upstream.Denied},
		"307":             {"", 307, upstream.BadResponse},
		"silence":         {"", 200, upstream.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts []string
			u := sseUpstream(upstreamtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					posts = append(posts, r.Method)
				}
				w.Header().Set("Location", "/messages")
				w.Header().Set("Content-Type", wire.ContentSSE)
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.answer)
				w.(http.Flusher).Flush()
				if name == "silence" {
					<-r.Context().Done()
				}
			})).URL, true)
			if name == "silence" { // only here: a busy machine may need longer for the others
				u.Timeout = 200 * time.Millisecond
			}
			c := upstream.New(u, upstream.Options{}, func() {})
			stop := run(t, c)
			upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
			if problem := c.State().Problem; problem.Reason != test.want {
				t.Errorf("problem %v: %v, want %s", problem.Reason, problem.Err, test.want)
			}
			stop()
			if len(posts) > 0 {
				t.Errorf("sent: %q", posts)
			}
		})
	}
}

func TestSSE_ReplacesSessionWithBrokenStream(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := startSSE(t, peer, nil)
	entered := make(chan struct{}, 1)
	peer.Handle(wire.PromptsGet, func(http.ResponseWriter, *upstreamtest.Request) { entered <- struct{}{} })
	ended := make(chan error, 1)
	go func() {
		_, err := get(t.Context(), c, "p")
		ended <- err
	}()
	<-entered
	peer.Result(wire.PromptsGet, `{}`)
	peer.Prompts("p", "q")
	peer.Break()
	wantUnavailable(t, <-ended, upstream.Unreachable) // it may have been processed
	if _, err := get(t.Context(), c, "p"); err != nil {
		t.Errorf("a get while the stream is opened again: %v", err)
	}
	waitForNames(t, c, "p q")
	if n := len(peer.Seen(wire.Initialize)); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

func TestSSE_RenewsForgottenSession(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := startSSE(t, peer, nil)
	peer.Forget()
	if _, err := get(t.Context(), c, "p"); err != nil {
		t.Error(err)
	}
	if n := len(peer.Seen(wire.Initialize)); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
	peer.Status(wire.PromptsGet, http.StatusInternalServerError)
	_, err := get(t.Context(), c, "p")
	wantUnavailable(t, err, upstream.BadResponse)
}

func TestSSE_ReconnectsAfterKill(t *testing.T) {
	t.Parallel()
	server := upstreamtest.Serve(t, upstreamtest.SSE(upstreamtest.NewPeer(t)))
	c := start(t, sseUpstream(server.URL, true), upstream.Options{})
	waitForNames(t, c, "p")
	server.Down()
	_, err := get(t.Context(), c, "p")
	wantUnavailable(t, err, upstream.Unreachable)
	upstreamtest.Eventually(t, "the loss is noticed", func() bool { return !c.State().Connected })
	again := upstreamtest.NewPeer(t)
	again.Prompts("p", "q")
	server.Up(upstreamtest.SSE(again))
	waitForNames(t, c, "p q")
}

func TestSSE_ReceivesMessagesOutsideOfCalls(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := startSSE(t, peer, nil)
	peer.Say(`{"jsonrpc":"2.0","id":"π","method":"ping"}`)
	peer.Say(`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`)
	peer.Say(`{"jsonrpc":"2.0","id":999,"result":{}}`) // to no request
	for _, want := range []string{`{"jsonrpc":"2.0","id":"π","result":{}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,`} {
		upstreamtest.Eventually(t, want, func() bool {
			return slices.ContainsFunc(peer.Seen(""), func(r *upstreamtest.Request) bool { return strings.HasPrefix(string(r.Body), want) })
		})
	}
	peer.Prompts("p", "q")
	peer.Changed()
	waitForNames(t, c, "p q")
}

func TestSSE_CallEndsWithContext(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := startSSE(t, peer, func(u *config.Upstream) { u.Timeout = 5 * time.Second })
	begun := make(chan string, 2)
	peer.Handle(wire.PromptsGet, func(_ http.ResponseWriter, r *upstreamtest.Request) { begun <- string(r.Message.ID) })
	ctx, cancel := context.WithCancel(t.Context())
	var id string
	go func() {
		id = <-begun
		cancel()
	}()
	if _, err := get(ctx, c, "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("get = %v", err)
	}
	upstreamtest.Eventually(t, "the notification", func() bool { return len(peer.Seen(wire.Cancelled)) == 1 })
	if got := string(peer.Seen(wire.Cancelled)[0].Params.Get("requestId")); got != id {
		t.Errorf("requestId = %s, want %s", got, id)
	}
	_, err := get(t.Context(), c, "p")
	wantUnavailable(t, err, upstream.Timeout)
}

func TestSSE_RejectsMessageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := startSSE(t, peer, func(u *config.Upstream) { u.MaxMessage = 64 << 10 })
	for size, fits := range map[int]bool{60 << 10: true, 64 << 10: false} {
		peer.Result(wire.PromptsGet, `{"x":"`+strings.Repeat("x", size)+`"}`)
		_, err := get(t.Context(), c, "p")
		if fits != (err == nil) || (err != nil && !strings.Contains(err.Error(), "max_message")) {
			t.Errorf("get of %d bytes = %v", size, err)
		}
	}
	peer.Result(wire.PromptsGet, `{}`)
	if _, err := get(t.Context(), c, "p"); err != nil { // on another session
		t.Error(err)
	}
}

func TestSSE_GuardsDial(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	u := sseUpstream(upstreamtest.Serve(t, upstreamtest.SSE(peer)).URL, true)
	_, err := client.Connect(t.Context(), u, upstream.Options{DialGuard: func(string) error { return errors.New("that is me") }})
	if err == nil || !strings.Contains(err.Error(), "that is me") || len(peer.Seen(http.MethodGet)) != 0 {
		t.Errorf("Connect() = %v", err)
	}
}

// One stream carries all responses. An invalid one ends its own call, and neither the stream nor other calls.
func TestSSE_InvalidResultEndsItsCallOnly(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c := startSSE(t, peer, func(u *config.Upstream) { u.Breaker.Failures = 2 })
	for _, result := range []string{`{"description":"\ud800"}`, `{"messages":[],"messages":[]}`, `{"a":"\udc00"}`} {
		peer.Result(wire.PromptsGet, result)
		begun := time.Now()
		_, err := get(t.Context(), c, "p")
		wantUnavailable(t, err, upstream.BadResponse)
		if took := time.Since(begun); took > config.DefaultTimeout/2 {
			t.Errorf("%s: it took %s", result, took)
		}
	}
	peer.Result(wire.PromptsGet, `{"messages":[]}`)
	if _, err := get(t.Context(), c, "p"); err != nil {
		t.Error(err)
	}
	if n := len(peer.Seen(wire.Initialize)); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}
