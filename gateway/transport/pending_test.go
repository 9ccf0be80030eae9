package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/gateway/transport"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// A response that takes longer than 10 seconds begins as an event stream, with a comment at least every 16 seconds, so that no proxy
// in between gives up.
func TestHTTP_SlowGetsAreEventStreams(t *testing.T) {
	const takes = 42 * time.Second
	bubble.Test(t, func(t *testing.T) {
		slow := &snapshottest.Upstream{Definitions: []string{`{"name":"slow"}`, `{"name":"no"}`}}
		slow.Answer = func(ctx context.Context, r *upstream.Request, _ *upstream.Relay) (upstream.Result, error) {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			if r.Name == "no" {
				return upstream.Result{}, &upstream.Unavailable{Upstream: "up", Reason: upstream.BadResponse, Err: errors.New("no")}
			}
			return snapshottest.Result(`{"messages":[{"role":"user","content":{"type":"text","text":"at last"}}]}`), nil
		}
		p := snapshottest.New(t, `team "eng" {
  upstream "up" { url = "http://127.0.0.1:1/up" } # never contacted
}`, snapshottest.Upstreams{"up": slow})
		log, ledger, listener := slog.New(slog.DiscardHandler), edge.New(edge.Options{}), bubble.NewListener()
		handler := requests.New(&p.Source, requests.Options{Logger: log, Ledger: ledger})
		served := transport.New(p.Publisher, handler, transport.Options{Logger: log, Ledger: ledger})
		server := &http.Server{Handler: served.Handler(), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		dial := func(context.Context, string, string) (net.Conn, error) { return listener.Connect() }
		client := &http.Client{Transport: &http.Transport{DialContext: dial}}
		post := func(body string, h gatewaytest.Headers) (status int, header http.Header, read *bufio.Reader) {
			response, err := client.Do(gatewaytest.NewRequest(t.Context(), t, http.MethodPost, "http://localhost/mcp", body, h))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = response.Body.Close() })
			return response.StatusCode, response.Header, bufio.NewReader(response.Body)
		}
		for _, revision := range []string{gatewaytest.Latest, "2025-11-25", "2025-03-26", "2024-11-05"} {
			c := &gatewaytest.Client{TB: t, Revision: revision}
			if revision != gatewaytest.Latest {
				initialize, h := c.Encode("1", "initialize", gatewaytest.InitializeParams(revision))
				_, initialized, _ := post(initialize, h)
				c.Headers = gatewaytest.Headers{"Mcp-Session-Id", initialized.Get("Mcp-Session-Id")}
			}
			get, h := c.Encode("1", "prompts/get", gatewaytest.GetParams("up.slow"))
			refused, headersOfRefused := c.Encode("2", "prompts/get", gatewaytest.GetParams("up.no"))
			bodies := map[string]string{get: "at last", refused: `"bad_response"`}
			if revision == "2025-03-26" {
				bodies["["+get+","+refused+"]"] = "at last"
			}
			for body, want := range bodies {
				begun := time.Now()
				headers := h
				if body == refused {
					headers = headersOfRefused
				}
				status, header, lines := post(body, headers)
				upstreamtest.Equal(t, "200 text/event-stream", fmt.Sprint(status, " ", header.Get("Content-Type")), "%s of %s", body, revision)
				comments, last, latest := 0, begun.Add(-5*time.Second), ""
				for {
					line, err := lines.ReadString('\n')
					if pause := time.Since(last); pause > 16*time.Second {
						t.Errorf("%s of %s: nothing arrives for %v", body, revision, pause)
					}
					if last = time.Now(); strings.HasPrefix(line, ":") {
						comments++
					}
					if strings.HasPrefix(line, "data: ") {
						latest = line
					}
					if errors.Is(err, io.EOF) {
						break
					}
				}
				if comments != 3 || !strings.Contains(latest, want) || last.Sub(begun) != takes {
					t.Errorf("%s of %s: %d comments and %s after %v, want 3 and %s after %v", body, revision, comments, latest, last.Sub(begun), want, takes)
				}
			}
		}
	})
}
