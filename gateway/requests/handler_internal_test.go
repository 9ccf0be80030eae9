package requests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
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
	for id, broken := range map[string]func(*Request){
		`1`: func(r *Request) { r.SetLogLevel = func(string) { panic("out of range") } },
		// A response that is large enough to be counted needs a snapshot.
		`"` + strings.Repeat("x", edge.Least) + `"`: func(*Request) {},
	} {
		var log bytes.Buffer
		h := New(nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := read(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"logging/setLevel","params":{"level":"info"}}`)
		broken(r)
		response := h.Handle(t.Context(), r, nil)
		want := `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"Internal error"}}`
		if string(response.JSON) != want || response.Code != wire.InternalError {
			t.Errorf("got %s, %d, want %s", response.JSON, response.Code, want)
		}
		if !strings.Contains(log.String(), "panic: ") {
			t.Errorf("the panic is not in the log: %s", log.String())
		}
	}
}

// configured returns the configuration that a text is.
func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// If a panic kept what its request takes of the limit, that would be lost for good.
func TestGet_PanicReleasesItsLimit(t *testing.T) {
	cfg := configured(t, `
		gateway {
		  limit { concurrency = 1 }
		}
		team "eng" {
		  members = []
		  upstream "up" { url = "http://127.0.0.1:1/mcp" }
		}`)
	definition := jsontext.Value(`{"name":"p","arguments":[{"name":"a","schema":{}}]}`)
	s, err := snapshot.Evaluate(t.Context(), cfg, snapshot.Lists{"up": {Definitions: []jsontext.Value{definition}}}, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.Authenticate(t.Context(), identity.Vouched(policy.Principal{Subject: "user:ann"}))
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := snapshot.NewPublisher(&config.Config{}, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := New(publisher, Options{Logger: slog.New(slog.DiscardHandler)})
	h.schemas = nil // the lookup of a schema panics
	for range 2 {
		r := read(t, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"up.p","arguments":{"a":"x"}}}`)
		r.Caller, r.Snapshot = caller, s
		response := h.Handle(t.Context(), r, nil)
		if !strings.Contains(string(response.JSON), "Internal error") {
			t.Errorf("got %s, want the response after a panic", response.JSON)
		}
		response.Release()
	}
}

// Operators would look for slow patterns where clients have left.
func TestScreening_BlamesNoScreenForAClientThatLeft(t *testing.T) {
	cfg := configured(t, `
		team "eng" {
		  members = []
		  screen "odd" { patterns = ["(a|b|c){100}x"] }
		}`)
	s, err := snapshot.Evaluate(t.Context(), cfg, nil, snapshot.Options{})
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
	before, err := snapshot.Evaluate(t.Context(), &config.Config{}, nil, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := snapshot.NewPublisher(&config.Config{}, snapshot.Options{}) // its generation has replaced that of before
	if err != nil {
		t.Fatal(err)
	}
	h := New(publisher, Options{Logger: slog.New(slog.DiscardHandler)})
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
		err = h.renew(t.Context(), &Request{Snapshot: before, Caller: caller})
		if got := string(wireError(t.Context(), h.logger, err).JSON()); !strings.Contains(got, want) {
			t.Errorf("%v: got %s, want %s in it", after, got, want)
		}
	}
}

// What clients show their users says what is wrong, and whether trying again helps; the reason is
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
	_, err := p.begin(t.Context(), &Request{Caller: snapshot.Caller{Principal: policy.Principal{Subject: "user:ann"}}},
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
