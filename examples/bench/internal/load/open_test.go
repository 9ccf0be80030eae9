package load_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/load"
)

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
	open := load.Open{Address: address, Raw: load.Post(address, "/", "{}"), Rate: 300, Patience: time.Second}
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
	open := load.Open{Address: address, Raw: load.Post(address, "/", "{}"), Rate: 200, Patience: time.Second}
	o := open.Run(t.Context(), 400*time.Millisecond)
	if o.Lost != o.Sent || o.Sent < 20 {
		t.Errorf("%d of %d requests are lost, want all of at least 20", o.Lost, o.Sent)
	}
	if got := int(requests.Load()); got < o.Sent {
		t.Errorf("the server got %d requests, want at least %d", got, o.Sent)
	}
}
