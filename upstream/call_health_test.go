package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
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

func TestCallHealth_GetsThatAllFailAreAProblem(t *testing.T) {
	unnamed := `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who are you"}}`
	for name, test := range map[string]struct {
		status int
		body   string
		reason upstream.Reason
		cause  string
	}{
		"401":                      {401, "no", upstream.Denied, "401"},
		"401 and a JSON-RPC error": {401, unnamed, upstream.Denied, "401"},
		"403":                      {403, "no", upstream.Denied, "403"},
		"429":                      {429, "no", upstream.RateLimited, "429"},
		"405":                      {405, "no", upstream.BadResponse, "405"},
		"truncated":                {200, `{"jsonrpc":"2.0",`, upstream.BadResponse, ""},
		"wrong id":                 {200, `{"jsonrpc":"2.0","id":77,"result":{}}`, upstream.BadResponse, "id"},
		"500: the breaker opens":   {500, "no", upstream.BreakerOpen, "500"},
		"502: the breaker opens":   {502, "no", upstream.BreakerOpen, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			inLoggedBubble(t, upstreamtest.NewPeer, anywhere(), func(
				t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, log *upstreamtest.Log,
			) {
				time.Sleep(time.Minute)
				p.Handle(wire.PromptsGet, text(test.status, wire.ContentJSON, test.body))
				begun := time.Now()
				for i := range 5 {
					if problem := c.State().Problem; problem != nil {
						t.Fatalf("after %d failures: %+v", i, problem)
					}
					if _, err := get(t.Context(), c, "p"); err == nil {
						t.Fatal("a get succeeded")
					}
					time.Sleep(time.Second)
				}
				state := c.State()
				problem := state.Problem
				if problem == nil || problem.Reason != test.reason ||
					!strings.Contains(problem.Err.Error(), test.cause) || !problem.Failing || !problem.Since.Equal(begun) {
					t.Fatalf("after five failures: %+v, want %s since the first", problem, test.reason)
				}
				if !state.Listed || names(c) != "p" {
					t.Errorf("State() = %+v, want its list", state)
				}
				if opened := test.reason == upstream.BreakerOpen; (state.Breaker == upstream.BreakerIsOpen) != opened {
					t.Errorf("breaker %s", state.Breaker)
				}
				if text := log.String(); !strings.Contains(text, "reason="+string(test.reason)) && !strings.Contains(text, "msg=breaker") {
					t.Errorf("not logged:\n%s", text)
				}
				p.Result(wire.PromptsGet, `{"messages":[]}`)
				time.Sleep(config.DefaultBreakerCooldown)
				mustGet(t, c, "p")
				if state = c.State(); state.Problem != nil || state.Breaker != upstream.BreakerClosed {
					t.Errorf("after a get that succeeded: %+v", state.Problem)
				}
				if strings.Count(log.String(), "upstream healthy") != 1 {
					t.Errorf("that is not logged once:\n%s", log)
				}
			})
		})
	}
}

// text answers with a status and a body.
func text(status int, contentType, body string) func(http.ResponseWriter, *upstreamtest.Request) {
	return func(w http.ResponseWriter, _ *upstreamtest.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// A JSON-RPC error is an answer: a caller's wrong arguments do not make a server ill.
func TestCallHealth_AnswersAreNoFailures(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		well := func(after string) {
			t.Helper()
			if problem := c.State().Problem; problem != nil {
				t.Fatalf("after %s: %+v", after, problem)
			}
		}
		for i := range 20 {
			p.Status(wire.PromptsGet, http.StatusForbidden)
			if i%5 == 4 {
				p.Error(wire.PromptsGet, http.StatusOK, `{"code":-32602,"message":"no such argument"}`)
			}
			_, _ = get(t.Context(), c, "p")
			well(fmt.Sprint(i+1, " gets"))
		}
		p.Error(wire.PromptsGet, http.StatusOK, `{"code":-32602,"message":"no such argument"}`)
		for range 10 {
			_, _ = get(t.Context(), c, "p")
		}
		well("ten answers")
		p.Handle(wire.PromptsGet, hang)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = get(ctx, c, "p")
			cancel()
		}
		well("ten callers have left, which says nothing either")
	})
}

// Completions matter to the breaker only: a server may well have none that work.
func TestCallHealth_OnlyGetsCount(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Status(wire.Complete, http.StatusForbidden)
		for range 10 {
			if err := complete(t.Context(), c, "p"); err == nil {
				t.Fatal("a completion succeeded")
			}
		}
		wantWell(t, c, "after ten completions")
	})
}

// A server that has been down and is up again may well be another one.
func TestCallHealth_BeginsAnewAfterAnOutage(t *testing.T) {
	withKillable(t, anywhere(), func(t *testing.T, server *killable, c *upstream.Connector) {
		server.Status(wire.PromptsGet, http.StatusForbidden)
		for range 5 {
			_, _ = get(t.Context(), c, "p")
		}
		since := c.State().Problem.Since
		time.Sleep(time.Minute)
		server.kill()
		time.Sleep(time.Minute)
		if problem := c.State().Problem; problem == nil || problem.Failing || problem.Reason != upstream.Unreachable || !problem.Since.After(since) {
			t.Errorf("while it is down: %+v", problem)
		}
		server.down.Store(false)
		healthyWithin(t, c, time.Minute, "p")
	})
}

// A server that loses its session with each get lists its prompts in the next one, which does not
// make it well.
func TestCallHealth_LastsWhileSessionsAreLost(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, _ *upstreamtest.Request) {
			p.Forget()
			w.WriteHeader(http.StatusNotFound)
		})
		for range 10 {
			_, _ = get(t.Context(), c, "p")
		}
		time.Sleep(time.Minute)
		if state := c.State(); !state.Connected || state.Problem == nil || !state.Problem.Failing {
			t.Errorf("with a fresh list in a new session: %+v", state.Problem)
		}
		p.Result(wire.PromptsGet, `{"messages":[]}`)
		mustGet(t, c, "p")
		wantWell(t, c, "after a get that succeeded")
	})
}

// A server that fails everything has one reason: for gets and for its state, with a session and
// without.
func TestReason_IsTheSameForGetsAndLists(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		kind, body string
		want       upstream.Reason
	}{
		"500": {500, wire.ContentJSON, "no", upstream.BadResponse},
		"401": {401, wire.ContentJSON, "no", upstream.Denied},
		"401 and a JSON-RPC error": {
			401, wire.ContentJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who are you"}}`, upstream.Denied,
		},
		"429":        {429, wire.ContentJSON, "no", upstream.RateLimited},
		"a web page": {200, "text/html", "<html>", upstream.BadResponse},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.Breaker.Failures = 1000
			withKillable(t, u, func(t *testing.T, server *killable, c *upstream.Connector) {
				mustGet(t, c, "p")
				for _, method := range []string{
					wire.PromptsGet, wire.PromptsList, wire.Ping, wire.Initialize, wire.Discover, http.MethodGet,
				} {
					server.Handle(method, text(test.status, test.kind, test.body))
				}
				failing := func(when string) {
					t.Helper()
					wantFailure(t, c, "p", test.want)
					if problem := c.State().Problem; problem == nil || problem.Reason != test.want {
						t.Errorf("%s the state has the problem %+v, want %s", when, problem, test.want)
					}
				}
				server.Changed()
				time.Sleep(time.Second)
				failing("with a session")
				server.kill()
				time.Sleep(time.Minute)
				if c.State().Connected {
					t.Fatal("the session has not ended")
				}
				server.down.Store(false)
				time.Sleep(time.Minute)
				failing("without one")
			})
		})
	}
}

// While a server cannot be reached, the log names the cause, and again when that is another one.
func TestLog_NamesACauseAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	ours := upstreamtest.NewAuthority(t, "test")
	address := upstreamtest.Address(t)
	u := upstreamtest.HTTP("changing", "https://"+address)
	u.TLS = &config.TLS{CAs: config.NewSecret(ours.PEM), ServerName: "mcp.example"}
	c, records := startLogged(t, u)
	upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })

	expired := ours.Issue(&x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"mcp.example"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: upstreamtest.NewPeer(t), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{expired}, MinVersion: tls.VersionTLS12},
	}
	var refused upstreamtest.Log
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
