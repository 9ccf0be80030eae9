package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// startLogged runs a connector to a peer behind a real HTTP server until the test ends, and returns its log.
func startLogged(t *testing.T, u config.Upstream) (*upstream.Connector, *lockedBuffer) {
	t.Helper()
	var records lockedBuffer
	c := start(t, u, upstream.Options{Logger: slog.New(slog.NewTextHandler(&records, nil))})
	waitForNames(t, c, "p")
	return c, &records
}

func TestCallHealth_GetsThatAllFailAreAProblem(t *testing.T) {
	t.Parallel()
	text := func(status int, body string) func(http.ResponseWriter, *upstreamtest.Request) {
		return func(w http.ResponseWriter, _ *upstreamtest.Request) {
			w.Header().Set("Content-Type", wire.ContentJSON)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	unnamed := `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who are you"}}`
	for name, test := range map[string]struct {
		failure func(http.ResponseWriter, *upstreamtest.Request)
		reason  upstream.Reason
		cause   string
	}{
		"401":                      {text(401, "no"), upstream.Denied, "401"},
		"401 and a JSON-RPC error": {text(401, unnamed), upstream.Denied, "401"},
		"403":                      {text(403, "no"), upstream.Denied, "403"},
		"429":                      {text(429, "no"), upstream.RateLimited, "429"},
		"405":                      {text(405, "no"), upstream.BadResponse, "405"},
		"truncated":                {text(200, `{"jsonrpc":"2.0",`), upstream.BadResponse, ""},
		"wrong id":                 {text(200, `{"jsonrpc":"2.0","id":77,"result":{}}`), upstream.BadResponse, "id"},
		"500: the breaker opens":   {text(500, "no"), upstream.BreakerOpen, "500"},
		"502: the breaker opens":   {text(502, "no"), upstream.BreakerOpen, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			u := upstreamtest.HTTP("ill", upstreamtest.Serve(t, peer).URL)
			u.Breaker.Cooldown = 100 * time.Millisecond
			c, records := startLogged(t, u)
			peer.Handle(wire.PromptsGet, test.failure)
			begun := time.Now()
			for i := range 5 {
				if p := c.State().Problem; p != nil {
					t.Fatalf("after %d failures: %+v", i, p)
				}
				if _, err := get(t.Context(), c, "p"); err == nil {
					t.Fatal("a get succeeded")
				}
			}
			state := c.State()
			p := state.Problem
			if p == nil || p != state.Endpoints[0].Problem || p.Reason != test.reason || !strings.Contains(p.Err.Error(), test.cause) || !p.Failing {
				t.Fatalf("after five failures: %+v with the cause %v, want %s", p, p, test.reason)
			}
			if p.Since.Before(begun) || time.Since(p.Since) > time.Since(begun) {
				t.Errorf("since %s, want since the first failure", p.Since)
			}
			if !state.Listed || names(c) != "p" {
				t.Errorf("State() = %+v, want its list", state)
			}
			if opened := test.reason == upstream.BreakerOpen; (state.Endpoints[0].Breaker == upstream.BreakerIsOpen) != opened {
				t.Errorf("breaker %d", state.Endpoints[0].Breaker)
			}
			if log := records.String(); !strings.Contains(log, "reason="+string(test.reason)) && !strings.Contains(log, "msg=breaker") {
				t.Errorf("not logged:\n%s", log)
			}
			peer.Result(wire.PromptsGet, `{"messages":[]}`)
			upstreamtest.Eventually(t, "a get succeeds", func() bool {
				_, err := get(t.Context(), c, "p")
				return err == nil
			})
			state = c.State()
			if state.Problem != nil || state.Endpoints[0].Breaker != upstream.BreakerClosed {
				t.Errorf("after a get that succeeded: %+v", state.Problem)
			}
			if log := records.String(); strings.Count(log, "upstream healthy") != 1 {
				t.Errorf("that is not logged once:\n%s", log)
			}
		})
	}
}

// A JSON-RPC error is an answer: a caller's wrong arguments do not make a server ill.
func TestCallHealth_AnswersAreNoFailures(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	c, _ := startLogged(t, upstreamtest.HTTP("answering", upstreamtest.Serve(t, peer).URL))
	refuse := func(w http.ResponseWriter, _ *upstreamtest.Request) { w.WriteHeader(http.StatusForbidden) }
	answer := func(w http.ResponseWriter, r *upstreamtest.Request) {
		r.Error(w, http.StatusOK, `{"code":-32602,"message":"no such argument"}`)
	}
	for i := range 20 {
		peer.Handle(wire.PromptsGet, refuse)
		if i%5 == 4 {
			peer.Handle(wire.PromptsGet, answer)
		}
		_, _ = get(t.Context(), c, "p")
		if p := c.State().Problem; p != nil {
			t.Fatalf("after %d gets: %+v", i+1, p)
		}
	}
	peer.Handle(wire.PromptsGet, answer)
	for range 10 {
		_, _ = get(t.Context(), c, "p")
	}
	if p := c.State().Problem; p != nil {
		t.Errorf("after ten answers: %+v", p)
	}
	// Calls that their caller gave up say nothing, either.
	peer.Handle(wire.PromptsGet, hang)
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, _ = get(ctx, c, "p")
		cancel()
	}
	if p := c.State().Problem; p != nil {
		t.Errorf("after ten callers have left: %+v", p)
	}
}

// Completions matter to the breaker only: a server may well have none that work.
func TestCallHealth_OnlyGetsCount(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	peer.Status(wire.Complete, http.StatusForbidden)
	c, _ := startLogged(t, upstreamtest.HTTP("incomplete", upstreamtest.Serve(t, peer).URL))
	for range 10 {
		if err := complete(t.Context(), c, "p"); err == nil {
			t.Fatal("a completion succeeded")
		}
	}
	if p := c.State().Problem; p != nil {
		t.Errorf("after ten completions: %+v", p)
	}
}

// What fails at one of two replicas is the upstream's problem unless calls go to the other one.
func TestCallHealth_OfReplicas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		want   upstream.Reason // of the upstream
	}{
		"refused":   {http.StatusUnauthorized, upstream.Denied},
		"fails":     {http.StatusBadGateway, ""},
		"no answer": {http.StatusMethodNotAllowed, upstream.BadResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ill, well := upstreamtest.NewPeer(t), upstreamtest.NewPeer(t)
			u := upstreamtest.HTTP("replicated", upstreamtest.Serve(t, ill).URL, upstreamtest.Serve(t, well).URL)
			c := start(t, u, upstream.Options{})
			upstreamtest.Eventually(t, "both are listed", func() bool {
				state := c.State()
				return state.Endpoints[0].Listed && state.Endpoints[1].Listed
			})
			ill.Status(wire.PromptsGet, test.status)
			for range 10 {
				_, _ = get(t.Context(), c, "p")
			}
			state := c.State()
			if p := state.Endpoints[0].Problem; p == nil || state.Endpoints[1].Problem != nil {
				t.Fatalf("endpoints %+v", state.Endpoints)
			}
			if p := state.Problem; (p == nil) != (test.want == "") || (p != nil && p.Reason != test.want) {
				t.Errorf("problem %+v, want %q", p, test.want)
			}
		})
	}
}

// A server that has been down and is up again may well be another one.
func TestCallHealth_BeginsAnewAfterAnOutage(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	server := upstreamtest.Serve(t, peer)
	c, _ := startLogged(t, upstreamtest.HTTP("restarting", server.URL))
	peer.Status(wire.PromptsGet, http.StatusForbidden)
	for range 5 {
		_, _ = get(t.Context(), c, "p")
	}
	since := c.State().Problem.Since
	server.Down()
	upstreamtest.Eventually(t, "it is down", func() bool { return !c.State().Connected })
	if p := c.State().Problem; p == nil || p.Failing || p.Reason != upstream.Unreachable || !p.Since.After(since) {
		t.Errorf("while it is down: %+v", p)
	}
	server.Up(peer)
	waitForNames(t, c, "p")
}

// A server that loses its session with each get lists its prompts in the next one, which does not make it well.
func TestCallHealth_LastsWhileSessionsAreLost(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	u := upstreamtest.HTTP("forgetful", upstreamtest.Serve(t, peer).URL)
	c, _ := startLogged(t, u)
	peer.Status(wire.PromptsGet, http.StatusNotFound)
	for range 10 {
		_, _ = get(t.Context(), c, "p")
	}
	upstreamtest.Eventually(t, "a fresh list in a new session", func() bool {
		state := c.State()
		if state.Problem == nil {
			t.Fatalf("it is well: %+v", state)
		}
		return state.Connected && state.Problem.Failing
	})
	peer.Result(wire.PromptsGet, `{"messages":[]}`)
	mustGet(t, c, "p")
	if p := c.State().Problem; p != nil {
		t.Errorf("after a get that succeeded: %+v", p)
	}
}

// One that fails and works in turns is not published, nor logged, as fast as it does so.
func TestCallHealth_ChangesHaveAPace(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	u := upstreamtest.HTTP("flapping", upstreamtest.Serve(t, peer).URL)
	changes := make(chan struct{}, 10_000)
	var records lockedBuffer
	c := upstream.New(u, upstream.Options{Logger: slog.New(slog.NewTextHandler(&records, nil))}, func() { changes <- struct{}{} })
	run(t, c)
	waitForNames(t, c, "p")
	before, begun := len(changes), time.Now()
	for time.Since(begun) < 5*time.Second {
		peer.Status(wire.PromptsGet, http.StatusForbidden)
		for range 5 {
			_, _ = get(t.Context(), c, "p")
		}
		peer.Result(wire.PromptsGet, `{"messages":[]}`)
		mustGet(t, c, "p")
	}
	most := 2 * (int(time.Since(begun)/time.Second) + 1)
	if n := len(changes) - before; n < 2 || n > most {
		t.Errorf("%d changes in %s, want 2 to %d", n, time.Since(begun), most)
	}
	bound := 3 * (1 + int(time.Since(begun)/(10*time.Second))) // of each kind
	if n := strings.Count(records.String(), "gets fail") + strings.Count(records.String(), "upstream healthy"); n > 2*bound {
		t.Errorf("%d records, want %d of each kind at most:\n%s", n, bound, records.String())
	}
}

// A server that fails everything has one reason: for gets and for its state, with a session and without.
func TestReason_IsTheSameForGetsAndLists(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   upstream.Reason
	}{
		"500":                      {500, "no", upstream.BadResponse},
		"401":                      {401, "no", upstream.Denied},
		"401 and a JSON-RPC error": {401, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who are you"}}`, upstream.Denied},
		"429":                      {429, "no", upstream.RateLimited},
		"a web page":               {200, "<html>", upstream.BadResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			server := upstreamtest.Serve(t, peer)
			u := upstreamtest.HTTP("failing", server.URL)
			u.Breaker.Failures = 1000
			c, _ := startLogged(t, u)
			fail := func(w http.ResponseWriter, _ *upstreamtest.Request) {
				w.Header().Set("Content-Type", wire.ContentJSON)
				if test.body == "<html>" {
					w.Header().Set("Content-Type", "text/html")
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}
			_, err := get(t.Context(), c, "p")
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{wire.PromptsGet, wire.PromptsList, wire.Ping, wire.Initialize, wire.Discover, http.MethodGet} {
				peer.Handle(method, fail)
			}
			_, err = get(t.Context(), c, "p")
			wantUnavailable(t, err, test.want)
			peer.Changed()
			upstreamtest.Eventually(t, "the list fails", func() bool { return c.State().Problem != nil })
			if p := c.State().Problem; p.Reason != test.want {
				t.Errorf("the state has the reason %s: %v", p.Reason, p.Err)
			}
			server.Down() // so that there is no session, either
			upstreamtest.Eventually(t, "the session ends", func() bool { return !c.State().Connected })
			server.Up(peer)
			upstreamtest.Eventually(t, "it answers again", func() bool { return c.State().Problem.Reason == test.want })
			_, err = get(t.Context(), c, "p")
			wantUnavailable(t, err, test.want)
		})
	}
}

// While a server cannot be reached, the log names the cause, and again when that is another one.
func TestLog_NamesACauseAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	address := upstreamtest.Address(t)
	var records lockedBuffer
	u := upstreamtest.HTTP("changing", "https://"+address)
	u.TLS = &config.TLS{CAs: config.NewSecret(ours.pem), ServerName: "mcp.example"}
	c := start(t, u, upstream.Options{Logger: slog.New(slog.NewTextHandler(&records, nil))})
	upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })

	pair, err := tls.X509KeyPair(pemPair(ours.expired("mcp.example")))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: upstreamtest.NewPeer(t), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	var refused lockedBuffer
	server.ErrorLog = log.New(&refused, "", 0)
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, "", "") }()
	upstreamtest.Eventually(t, "the new cause is logged", func() bool { return strings.Contains(records.String(), "expired") })
	upstreamtest.Eventually(t, "further attempts", func() bool { return strings.Count(refused.String(), "bad certificate") > 4 })
	text := records.String()
	if strings.Count(text, `msg="upstream down"`) != 2 || !strings.Contains(text, "connection refused") {
		t.Errorf("each cause should be logged once, whatever the time in it:\n%s", text)
	}
}

// expired issues a certificate for a name that was valid an hour ago.
func (a *authority) expired(name string) (certificate, key string) {
	a.t.Helper()
	return a.pairOf(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	})
}
