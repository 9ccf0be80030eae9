package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

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

func TestAWaitingCallThatPanicsEndsAlone(t *testing.T) {
	var ws waits
	_, err := ws.begin(t.Context(), &request{principal: policy.Principal{Subject: "user:ann"}}, &upstream.Client{},
		func(context.Context, *upstream.Client) (outcome, error) { panic("out of range") })
	if _, answered := errors.AsType[*wire.Error](err); err == nil || answered {
		t.Errorf("begin = %v, want an error to be logged", err)
	}
	ws.end()
}
