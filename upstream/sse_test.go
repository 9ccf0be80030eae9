package upstream_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sseUpstream is the configuration of a server with HTTP+SSE. Unless the transport is given, it is
// to be found out.
func sseUpstream(url string, said bool) config.Upstream {
	u := upstreamtest.HTTP("sse", url+"/sse")
	if said {
		u.Transport, u.TransportExplicit = config.SSE, true
	}
	return u
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
			c := startTried(t, u)
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
}

// The cause is the one of the attempt that got furthest.
func TestConnect_CauseIsThatOfTheFurthestAttempt(t *testing.T) {
	t.Parallel()
	event := func(data string) http.HandlerFunc {
		return text200(wire.ContentSSE, "event: endpoint\ndata: "+data+"\n\n")
	}
	for name, test := range map[string]struct {
		post   int
		stream http.HandlerFunc
		want   client.Kind
	}{
		"a wrong endpoint event":   {http.StatusMethodNotAllowed, event("https://elsewhere.example/"), client.NotMCP},
		"a stream that ends":       {http.StatusNotFound, text200(wire.ContentSSE, ": bye\n\n"), client.ConnectionBroke},
		"a redirect":               {http.StatusMethodNotAllowed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTemporaryRedirect) }, client.Redirected},
		"a credential is wanted":   {http.StatusMethodNotAllowed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, client.CredentialMissing},
		"the first got further":    {http.StatusBadRequest, http.NotFound, client.RequestRefused},
		"a page in place of it":    {http.StatusMethodNotAllowed, text200("text/html", "<html>"), client.NothingThere},
		"nothing in either manner": {http.StatusNotFound, http.NotFound, client.NothingThere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := upstreamtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.WriteHeader(test.post)
					return
				}
				test.stream(w, r)
			}))
			_, err := client.Connect(t.Context(), sseUpstream(server.URL, false), upstream.Options{})
			upstreamtest.Equal(t, test.want, client.CauseOf(err).Kind, "cause of %v", err)
		})
	}
}

// text200 answers with a text.
func text200(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, text)
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
				upstreamtest.Equal(t, "Bearer s3cret", r.Header.Get("Authorization"), "%s %s: Authorization", r.Method, r.URL)
			}
			upstreamtest.Equal(t, wire.Rev20251125, peer.Seen(wire.Initialized)[0].Header.Get("Mcp-Protocol-Version"), "Mcp-Protocol-Version")
		})
	}
	t.Cleanup(func() {
		upstreamtest.Equal(t, 0, len(elsewhere.Seen(http.MethodPost))+len(elsewhere.Seen(http.MethodGet)), "requests that went elsewhere")
	})
}

// The first event may be another than the endpoint, and messages may be none.
func TestSSE_IgnoresStrayEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := upstreamtest.NewPeer(t)
		over := upstreamtest.SSE(p)
		c := start(t, anywhereSSE(), upstream.Options{Transport: upstreamtest.Memory{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Type", wire.ContentSSE)
				fmt.Fprint(w, "event: welcome\ndata: hello\n\n", `data: {"type":"heartbeat"}`, "\n\n")
			}
			over.ServeHTTP(w, r)
		})}})
		healthyWithin(t, c, time.Second, "p")
		p.Say(`{"type":"heartbeat"}`)
		mustGet(t, c, "p")
		wantSeen(t, p, wire.Initialize, 1)
	})
}

// So may those of the stream of changes.
func TestWatch_IgnoresStrayEvents(t *testing.T) {
	inEachEra(t, func(t *testing.T, peer func(testing.TB) *upstreamtest.Peer) {
		inLoggedBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, log *upstreamtest.Log) {
			for range 3 {
				p.Say(`{"type":"heartbeat"}`)
				p.Say("still here")
			}
			p.Prompts("changed")
			p.Changed()
			healthyWithin(t, c, time.Second, "changed")
			upstreamtest.Equal(t, 1, strings.Count(log.String(), "event ignored"), "records of ignored events:\n%s", log)
		})
	})
}

func TestSSE_ReplacesSessionWithBrokenStream(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhereSSE(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		entered := make(chan struct{}, 1)
		p.Handle(wire.PromptsGet, func(http.ResponseWriter, *upstreamtest.Request) { entered <- struct{}{} })
		ended := getting(t.Context(), c, "p")
		<-entered
		p.Result(wire.PromptsGet, `{}`)
		p.Prompts("p", "q")
		p.Break()
		wantUnavailable(t, <-ended, upstream.Unreachable) // it may have been processed
		mustGet(t, c, "p")                                // while the stream is opened again
		healthyWithin(t, c, time.Minute, "p q")
		wantSeen(t, p, wire.Initialize, 2)
	})
}

func TestSSE_RenewsForgottenSession(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhereSSE(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Forget()
		mustGet(t, c, "p")
		wantSeen(t, p, wire.Initialize, 2)
		p.Status(wire.PromptsGet, http.StatusInternalServerError)
		wantFailure(t, c, "p", upstream.BadResponse)
	})
}
