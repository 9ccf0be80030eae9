package rig_test

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

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

func TestClosed_CountsResponses(t *testing.T) {
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
			request := rig.Closed{Address: address, Want: "ok", Raw: [][]byte{
				rig.Post(address, "/", "ok", "X-A: b"), rig.Post(address, "/", "ok"),
			}}
			before := int64(0)
			result, err := request.Run(t.Context(), 3, 50*time.Millisecond, func() { before = received.Load() }, func() { counted.Store(received.Load()) })
			if err != nil {
				t.Fatal(err)
			}
			if got := int64(result.Requests); got != counted.Load()-before || got == 0 {
				t.Errorf("counted %d requests, the server %d", got, counted.Load()-before)
			}
			if result.P50 <= 0 || result.P99 < result.P50 {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestClosed_FailsOnWrongResponses(t *testing.T) {
	status, text := http.StatusOK, "ok"
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer h.Close()
	run := func(duration time.Duration) error {
		address := strings.TrimPrefix(h.URL, "http://")
		request := rig.Closed{Address: address, Want: "ok", Raw: [][]byte{rig.Post(address, "/", "")}}
		_, err := request.Run(context.Background(), 1, duration, func() {}, func() {})
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

// A third of the requests each is answered with a result, refused, and not answered at all.
func TestOpen_TellsResultsFromRefusalsAndLosses(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // an error recurs below
		switch requests.Add(1) % 3 {
		case 0:
			_, _ = io.WriteString(w, `{"result":{"messages":[]}}`)
		case 1:
			http.Error(w, `{"error":{}}`, http.StatusServiceUnavailable)
		default:
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	open := rig.Open{Address: address, Raw: rig.Post(address, "/", "{}"), Rate: 300, Timeout: time.Second}
	o := open.Run(t.Context(), 400*time.Millisecond)
	if o.Sent == 0 || o.Good+o.Refused+o.Lost != o.Sent {
		t.Errorf("%d good, %d refused, %d lost, want %d in all, and some", o.Good, o.Refused, o.Lost, o.Sent)
	}
	for name, n := range map[string]int{"good": o.Good, "refused": o.Refused, "lost": o.Lost} {
		if n < o.Sent/6 {
			t.Errorf("%d of %d requests are %s, want about a third", n, o.Sent, name)
		}
	}
	if o.P50 <= 0 || o.P50 > o.P99 {
		t.Errorf("p50 %v, p99 %v", o.P50, o.P99)
	}
}

// A server that answers nothing at all still gets all requests: they do not wait for each other.
func TestOpen_DoesNotWaitForResponses(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is noticed
		requests.Add(1)
		<-r.Context().Done()
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	open := rig.Open{Address: address, Raw: rig.Post(address, "/", "{}"), Rate: 200, Timeout: time.Second}
	o := open.Run(t.Context(), 400*time.Millisecond)
	if o.Lost != o.Sent || o.Sent < 20 {
		t.Errorf("%d of %d requests are lost, want all of at least 20", o.Lost, o.Sent)
	}
	if got := int(requests.Load()); got < o.Sent {
		t.Errorf("the server got %d requests, want at least %d", got, o.Sent)
	}
}
