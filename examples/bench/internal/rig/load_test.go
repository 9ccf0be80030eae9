package rig_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// serve returns the address of a server that answers like a handler, which may read the whole request.
func serve(t *testing.T, handler func(w http.ResponseWriter, r *http.Request, body []byte)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		handler(w, r, body)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestClosed_CountsResponses(t *testing.T) {
	var received, before, after atomic.Int64
	address := serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		received.Add(1)
		_, _ = w.Write(body)
	})
	load := rig.Closed{Address: address, Want: "ping", Raw: raw(address)}
	result, err := load.Run(t.Context(), 3, 50*time.Millisecond,
		func() { before.Store(received.Load()) }, func() { after.Store(received.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int64(result.Requests), after.Load()-before.Load(); got != want || got == 0 {
		t.Errorf("counted %d requests, the server %d", got, want)
	}
	if result.P50 <= 0 || result.P99 < result.P50 {
		t.Errorf("%+v", result)
	}
}

func raw(address string) [][]byte {
	return [][]byte{(&upstreamtest.Client{Endpoint: "http://" + address, Legacy: true}).Raw(1, "ping", "")}
}

func TestClosed_FailsOnWrongResponses(t *testing.T) {
	status, text := http.StatusOK, "ok"
	address := serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	duration := time.Millisecond
	run := func() error {
		load := rig.Closed{Address: address, Want: "ok", Raw: raw(address)}
		_, err := load.Run(context.Background(), 1, duration, func() {}, func() {})
		return err
	}
	for err := run(); err != nil; err = run() { // a busy machine may have answered nothing in it
		if duration *= 4; duration > time.Minute {
			t.Fatal(err)
		}
	}
	if text = "no"; run() == nil {
		t.Error("a wrong body is accepted")
	}
	if status, text = http.StatusInternalServerError, "ok"; run() == nil {
		t.Error("a wrong status is accepted")
	}
}

// A third of the requests each is answered, refused, and not answered at all, for which the others do not
// wait.
func TestPace_WaitsForNoAnswer(t *testing.T) {
	var requests atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		switch requests.Add(1) % 3 {
		case 1:
			http.Error(w, "no", http.StatusServiceUnavailable)
		case 2:
			<-r.Context().Done()
		}
	})
	load := rig.Pace(t.Context(), 300, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := rig.Fetch(ctx, http.MethodGet, "http://"+address)
		return err
	})
	for requests.Load() < 90 {
		time.Sleep(time.Millisecond)
	}
	all := load.Stop()
	lost := all.Where(func(g rig.Got) bool { return errors.Is(g.Err, context.DeadlineExceeded) })
	good := len(all) - len(all.Failed())
	if n := int(requests.Load()); len(all) != n || len(lost) < n/4 || good < n/4 || len(all.Failed())-len(lost) < n/4 {
		t.Errorf("of %d requests, %d were paced, %d answered and %d lost", n, len(all), good, len(lost))
	}
}

func TestProxy_TreatsConnectionsAsBadNetworksDo(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = io.WriteString(w, "ok") })
	if err := rig.Run(t.Context(), func(st *rig.Stage) {
		p := st.Proxy(address)
		get := func() (took time.Duration, err error) {
			begun := time.Now()
			_, err = rig.Fetch(t.Context(), http.MethodGet, "http://"+p.Address)
			return time.Since(begun), err
		}
		late := rig.Network{Delay: 60 * time.Millisecond}
		p.Treat(late, late)
		if took, err := get(); err != nil || took < 120*time.Millisecond {
			t.Errorf("late: %v, %v", took, err)
		}
		p.Treat(rig.Network{}, rig.Network{Lost: true})
		mend := time.AfterFunc(100*time.Millisecond, func() { p.Treat(rig.Network{}, rig.Network{}) })
		defer mend.Stop()
		if took, err := get(); err != nil || took < 90*time.Millisecond {
			t.Errorf("lost for a while: %v, %v", took, err)
		}
		p.Reset(true)
		if _, err := get(); err == nil {
			t.Error("a reset connection has an answer")
		}
		p.Reset(false)
		p.Refuse()
		if _, err := get(); err == nil {
			t.Error("a refused connection has an answer")
		}
		p.Accept(t.Context())
		if _, err := get(); err != nil {
			t.Errorf("mended: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
