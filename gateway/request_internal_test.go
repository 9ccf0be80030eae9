package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestARequestThatPanicsEndsAlone(t *testing.T) {
	var log bytes.Buffer
	g, err := New(&config.Config{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r, refusal := readRequest([]byte(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	r.revision, r.setLevel = wire.LatestLegacy, func(string) { panic("out of range") }
	response, code := g.respond(t.Context(), []byte("before"), r)
	if want := `before{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}`; string(response) != want || code != wire.InternalError {
		t.Errorf("got %s, %d, want %s", response, code, want)
	}
	if !strings.Contains(log.String(), "out of range") {
		t.Errorf("the log does not tell of the panic: %s", log.String())
	}
}

// A place among the requests in flight that is never given back would be everybody's loss.
func TestAGetThatPanicsLeavesItsPlaceToTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	err := os.WriteFile(path, []byte(`
		gateway {
		  limit { concurrency = 1 }
		}
		team "eng" {
		  members = []
		  upstream "up" { url = "http://127.0.0.1:1/mcp" }
		}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	definition := jsontext.Value(`{"name":"p","arguments":[{"name":"a","schema":{}}]}`)
	g, err := New(cfg, Options{Lists: Lists{"up": {Definitions: []jsontext.Value{definition}}}})
	if err != nil {
		t.Fatal(err)
	}
	g.started = time.Time{} // so that a get does not wait for the first list
	g.schemas = nil         // to look one up breaks
	for range 2 {
		r, refusal := readRequest([]byte(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"up.p","arguments":{"a":"x"}}}`))
		if refusal != nil {
			t.Fatal(refusal)
		}
		r.revision, r.principal = wire.LatestLegacy, policy.Principal{Subject: "user:ann", EveryTeam: true}
		if response, _ := g.respond(t.Context(), nil, r); !strings.Contains(string(response), "Internal error") {
			t.Errorf("got %s, want what there is for whoever panics", response)
		}
	}
}

func TestAWaitingCallThatPanicsEndsAlone(t *testing.T) {
	var ws waits
	_, err := ws.begin(t.Context(), &request{principal: policy.Principal{Subject: "user:ann"}}, &upstream.Relay{},
		func(context.Context, *upstream.Relay) (outcome, error) { panic("out of range") })
	if _, answered := errors.AsType[*wire.Error](err); err == nil || answered {
		t.Errorf("begin = %v, want an error to be logged", err)
	}
	ws.end()
}
