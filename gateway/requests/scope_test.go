package requests_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

const oneAtATime = "gateway {\n max_buffered = \"4194304\"\n limit { concurrency = 1 }\n}\n"

// holding returns a memory whose handler counts in a ledger.
func holding(t testing.TB, text string, p *peer) (*memory, *edge.Ledger) {
	t.Helper()
	m, ledger := serve(t, text, p), edge.New(edge.Options{})
	m.handler = requests.New(&m.Source, requests.Options{Logger: slog.New(slog.DiscardHandler), Ledger: ledger})
	t.Cleanup(m.handler.Close)
	return m, ledger
}

// A get that begins again at another connector does not count beside itself.
func TestScope_CountsARepeatedAttemptOnce(t *testing.T) {
	p := newPeer("p", "a")
	attempts := 0
	p.Upstream.Answer = func(context.Context, *upstream.Request, *upstream.Relay) (upstream.Result, error) {
		if attempts++; attempts < 3 {
			return upstream.Result{}, upstream.ErrRetired
		}
		return snapshottest.Result(`{"messages":[]}`), nil
	}
	m, _ := holding(t, oneAtATime+teamOf("eng", "", "", p), p)
	m.modern("").call("prompts/get", gatewaytest.GetParams("p.a")).want(t, `"messages":[]`)
	upstreamtest.Equal(t, 3, attempts, "attempts")
}

// A request holds memory and limits until its scope is closed, and no longer.
func TestScope_HoldsUntilItIsClosed(t *testing.T) {
	p := newPeer("p", "a")
	p.answer("prompts/get", `{"messages":[],"x":"`+strings.Repeat("x", 100_000)+`"}`)
	m, ledger := holding(t, oneAtATime+teamOf("eng", "", "", p), p)
	c := m.modern("")
	var scope requests.Scope
	c.handle(&scope, "1", "prompts/get", gatewaytest.GetParams("p.a")).want(t, `"messages":[]`)
	if held := ledger.Held(); held < 100_000 || !scope.Limited() {
		t.Errorf("%d bytes are held, and a limit counts the get: %t; want its result, and true", held, scope.Limited())
	}
	c.call("prompts/get", gatewaytest.GetParams("p.a")).want(t, `"rate_limited"`)
	scope.Close()
	upstreamtest.Equal(t, 0, ledger.Held(), "bytes held after the end")
	c.call("prompts/get", gatewaytest.GetParams("p.a")).want(t, `"messages":[]`)
	scope.Close()
	upstreamtest.Equal(t, 0, ledger.Held(), "bytes held after the second end")
}

// A parked get outlasts its request only if its client has the state to come back with.
func TestScope_EndsAParkedGetThatNobodyCanComeBackTo(t *testing.T) {
	for message, parked := range map[string]int{"Who?": 1, strings.Repeat("x", 600_000): 0} { // its result would be too large for the client
		p := newPeer("p", "a")
		ended := make(chan error, 1)
		p.Upstream.Answer = func(ctx context.Context, _ *upstream.Request, relay *upstream.Relay) (upstream.Result, error) {
			params := wire.Object{}.With("message", wire.Quote(message)).With("requestedSchema", wire.Object{}.With("type", wire.Quote("object")).JSON())
			_, err := relay.Reply(ctx, wire.Elicit, params.JSON())
			ended <- err
			return upstream.Result{}, err
		}
		m, _ := holding(t, oneAtATime+teamOf("eng", "", "", p), p)
		got := m.modern("").with(`{"elicitation":{}}`).callUnchecked("prompts/get", gatewaytest.GetParams("p.a"))
		if n := m.handler.Parked(); n != parked {
			t.Fatalf("%d gets are parked, want %d, after %.200s", n, parked, got.Body)
		}
		if parked == 0 && <-ended == nil {
			t.Error("the get has a reply")
		}
	}
}
