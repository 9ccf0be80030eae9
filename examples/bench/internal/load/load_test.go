package load_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/load"
)

func TestRun_CountsResponses(t *testing.T) {
	for name, length := range map[string]string{"length": "2", "chunks": ""} {
		t.Run(name, func(t *testing.T) {
			var received, counted atomic.Int64
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				received.Add(1)
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				body, _ := io.ReadAll(r.Body)
				_, _ = w.Write(body[:1])
				_ = http.NewResponseController(w).Flush()
				_, _ = w.Write(body[1:])
			}))
			defer h.Close()
			address := strings.TrimPrefix(h.URL, "http://")
			request := load.Request{Address: address, Want: "ok", Turns: true, Raw: [][]byte{
				load.Post(address, "/", "ok", "X-A: b"), load.Post(address, "/", "ok"),
			}}
			before := int64(0)
			result, err := load.Run(t.Context(), request, 3, 50*time.Millisecond, func() { before = received.Load() }, func() { counted.Store(received.Load()) })
			if err != nil {
				t.Fatal(err)
			}
			if got := int64(result.Requests); got != counted.Load()-before || got == 0 {
				t.Errorf("counted %d requests, the server %d", got, counted.Load()-before)
			}
			if result.P50 <= 0 || result.P99 < result.P50 || result.Rate() <= 0 {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestRun_FailsOnWrongResponses(t *testing.T) {
	status, text := http.StatusOK, "ok"
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer h.Close()
	run := func(duration time.Duration) error {
		address := strings.TrimPrefix(h.URL, "http://")
		request := load.Request{Address: address, Want: "ok", Raw: [][]byte{load.Post(address, "/", "")}}
		_, err := load.Run(context.Background(), request, 1, duration, func() {}, func() {})
		return err
	}
	duration := time.Millisecond
	for err := run(duration); err != nil; err = run(duration) { // a busy machine may have answered nothing in it
		if duration *= 4; duration > time.Minute {
			t.Fatal(err)
		}
	}
	text = "no"
	if err := run(duration); err == nil {
		t.Error("a wrong body is accepted")
	}
	status, text = http.StatusInternalServerError, "ok"
	if err := run(duration); err == nil {
		t.Error("a wrong status is accepted")
	}
}
