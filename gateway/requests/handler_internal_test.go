package requests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// read reads a message as a request.
func read(t *testing.T, message string) *Request {
	t.Helper()
	r, refusal := Read([]byte(message))
	if refusal != nil {
		t.Fatal(refusal)
	}
	r.Revision = wire.LatestLegacy
	return r
}

func TestHandle_PanicEndsOneRequest(t *testing.T) {
	for problem, broken := range map[string]func(*Handler, *Request){
		"out of range": func(_ *Handler, r *Request) { r.SetLogLevel = func(string) { panic("out of range") } },
		"nil pointer":  func(h *Handler, _ *Request) { h.metrics = nil }, // before there is a method
	} {
		var log bytes.Buffer
		h := New(nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := read(t, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`)
		r.Snapshot = &snapshot.Snapshot{Generation: new(snapshot.Generation)}
		broken(h, r)
		ctx, leave := context.WithCancel(t.Context())
		leave() // a panic is logged even then
		response := h.Handle(ctx, r, &Scope{}, nil)
		want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}`
		if string(response.JSON) != want || response.Code != wire.InternalError {
			t.Errorf("%s: got %s, %d, want %s", problem, response.JSON, response.Code, want)
		}
		if response.Ready.Before(r.Received) { // the time to write it would be over
			t.Errorf("%s: ready at %v, want %v or later", problem, response.Ready, r.Received)
		}
		if !strings.Contains(log.String(), "panic: ") || !strings.Contains(log.String(), problem) {
			t.Errorf("the panic %q is not in the log: %s", problem, log.String())
		}
	}
}

// A refused file of a megabyte takes four of them while it is read, and its error almost nothing.
func TestHandle_ReleasesWhatItHeldForItsWork(t *testing.T) {
	ledger := edge.New(edge.Options{})
	h := New(nil, Options{Logger: slog.New(slog.DiscardHandler), Ledger: ledger})
	var scope Scope
	defer scope.Close()
	r := read(t, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`)
	r.Snapshot = &snapshot.Snapshot{Generation: new(snapshot.Generation)}
	r.SetLogLevel = func(string) { scope.result, _ = ledger.Acquire("", "ann", "up", 4<<20) }
	h.Handle(t.Context(), r, &scope, nil)
	upstreamtest.Equal(t, 0, ledger.Held(), "bytes that are held for a small response")
}

// If a panic kept what its request takes of the limit, that would be lost for good.
func TestGet_PanicReleasesItsLimit(t *testing.T) {
	p := snapshottest.New(t, `
		gateway {
		  limit { concurrency = 1 }
		}
		team "eng" {
		  members = []
		  upstream "up" { url = "http://127.0.0.1:1/mcp" }
		}`, snapshottest.Upstreams{"up": {Definitions: []string{`{"name":"p","arguments":[{"name":"a","schema":{}}]}`}}})
	s := p.Current()
	caller, err := s.Authenticate(t.Context(), identity.Vouched(policy.Principal{Subject: "user:ann"}))
	if err != nil {
		t.Fatal(err)
	}
	h := New(&p.Source, Options{Logger: slog.New(slog.DiscardHandler)})
	h.schemas = nil // the lookup of a schema panics
	for range 2 {
		r := read(t, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"up.p","arguments":{"a":"x"}}}`)
		r.Caller, r.Snapshot = caller, s
		var scope Scope
		response := h.Handle(t.Context(), r, &scope, nil)
		if !strings.Contains(string(response.JSON), "Internal error") {
			t.Errorf("got %s, want the response after a panic", response.JSON)
		}
		scope.Close()
	}
}

// Operators would look for slow patterns where clients have left.
func TestScreening_BlamesNoScreenForAClientThatLeft(t *testing.T) {
	cfg := snapshottest.Load(t, `
		team "eng" {
		  members = []
		  screen "odd" { patterns = ["(a|b|c){100}x"] }
		}`)
	s, err := publish.Evaluate(t.Context(), cfg, nil, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	sent := screening{slog.New(slog.NewTextHandler(&log, nil)), "p", s.Screen("eng")}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, ok := sent.relayed(ctx, wire.Object{}.With("message", wire.Quote(strings.Repeat("abc", 1<<18))).JSON())
	if ok || log.Len() > 0 {
		t.Errorf("passed: %t, logged: %s, want neither", ok, log.String())
	}
}

func TestRenew_DistinguishesARefusalFromAnIssuerThatCannotBeAsked(t *testing.T) {
	before, err := publish.Evaluate(t.Context(), &config.Config{}, nil, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := publish.New(&config.Config{}, publish.Options{}) // its generation has replaced the one of before
	if err != nil {
		t.Fatal(err)
	}
	h := New(&publisher.Source, Options{Logger: slog.New(slog.DiscardHandler)})
	for after, want := range map[error]string{
		identity.ErrBadCredential: `"code":-32600,"message":"Unauthorized`,
		identity.ErrUnavailable:   `"code":-32603,"message":"Service unavailable`,
	} {
		var outcome error
		caller, err := before.Authenticate(t.Context(), func(context.Context, *identity.Authenticator) (policy.Principal, error) {
			return policy.Principal{Subject: "user:ann"}, outcome
		})
		if err != nil {
			t.Fatal(err)
		}
		outcome = fmt.Errorf("reading the token: %w", after)
		err = h.renew(t.Context(), newRun(&Request{Snapshot: before, Caller: caller}, &Scope{}))
		if got := string(wireError(t.Context(), h.logger, err).JSON()); !strings.Contains(got, want) {
			t.Errorf("%v: got %s, want %s in it", after, got, want)
		}
	}
}

// A message for users says the problem, and whether trying again helps; the reason is
// for programs.
func TestWireError_SaysWhatAnUnavailableUpstreamDoes(t *testing.T) {
	for _, test := range []struct {
		failed upstream.Unavailable
		want   string
	}{
		{
			upstream.Unavailable{Upstream: "handbook", Reason: upstream.Unreachable, RetryAfter: 1500 * time.Millisecond},
			`"message":"\"handbook\" does not answer; try again in 2 s","data":{"upstream":"handbook","reason":"unreachable","retryAfterMs":1500}`,
		},
		{upstream.Unavailable{Upstream: "a", Reason: upstream.Timeout}, `"\"a\" did not answer in time; try again in `},
		{upstream.Unavailable{Upstream: "a", Reason: upstream.RateLimited, RetryAfter: time.Minute}, `"\"a\" asks for a pause; try again in 60 s"`},
		{upstream.Unavailable{Upstream: "a", Reason: upstream.Denied}, `"\"a\" refuses the gateway: its operator has to renew the credential"`},
		{upstream.Unavailable{Upstream: "a", Reason: "odd"}, `"\"a\" is unavailable: odd"`},
		{upstream.Unavailable{Reason: snapshot.Starting}, `"No upstream is available yet; try again in `},
	} {
		got := string(wireError(t.Context(), slog.New(slog.DiscardHandler), &test.failed).JSON())
		if !strings.Contains(got, test.want) {
			t.Errorf("%+v: %s, want %s in it", test.failed, got, test.want)
		}
	}
}

func TestParked_PanicEndsOneGet(t *testing.T) {
	var p parked
	_, err := p.begin(t.Context(), newRun(&Request{Caller: snapshot.Caller{Principal: policy.Principal{Subject: "user:ann"}}}, &Scope{}),
		func(context.Context, *upstream.Relay) (outcome, error) { panic("out of range") })
	if _, answered := errors.AsType[*wire.Error](err); err == nil || answered {
		t.Errorf("begin = %v, want an error for the log", err)
	}
	p.close()
}

func TestPromptGets_CountEachOnceAndFewApart(t *testing.T) {
	h := &Handler{}
	var group sync.WaitGroup
	const prompts = maxCounted + 500
	for range 4 {
		group.Go(func() {
			for i := range prompts {
				h.gets.count(fmt.Sprint("p", i), audit.OK)
			}
		})
	}
	group.Wait()
	h.gets.count("one more", audit.Failed)
	h.gets.count("p0", audit.Hidden)
	got := map[string]int64{}
	sum := int64(0)
	h.PromptGets(func(prompt, outcome string, n int64) {
		got[prompt+" "+outcome] = n
		sum += n
	})
	if len(got) > maxCounted+4 || sum != 4*prompts+2 {
		t.Errorf("%d gets in %d series, want %d in few more than %d", sum, len(got), 4*prompts+2, maxCounted)
	}
	if got["p0 ok"] != 4 || got["p0 unknown"] != 1 || got["p0 denied"] != 0 || got["_OTHER ok"] < 4*500 || got["_OTHER failed"] != 1 {
		t.Errorf("p0: %d ok, %d unknown; others: %d ok, %d failed", got["p0 ok"], got["p0 unknown"], got["_OTHER ok"], got["_OTHER failed"])
	}
	if allocs := testing.AllocsPerRun(100, func() { h.gets.count("p1", audit.OK); h.gets.count("another", audit.OK) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
