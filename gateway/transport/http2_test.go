package transport_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Over HTTP/2 a client may have 250 requests on each of its connections. What they take counts for its address, while a stream has a
// bound of its own.
func TestHTTP2_BoundsRequestsInFlightOfAnAddress(t *testing.T) {
	const most = 32 // of 32 KiB each, in a quarter of max_buffered
	peer := gatewaytest.NewPeer(t, "p", "a")
	peer.Settings = `timeout = "60s"`
	inFlight, proceed := peer.PauseGets()
	defer proceed()
	s := gatewaytest.Serve(t, `gateway { max_buffered = "4194304" }`+"\n"+ofAnn("", peer))
	server := httptest.NewUnstartedServer(s.Handler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer s.Drain()
	client, c := server.Client(), s.Modern("ann")
	begin := func(id, method, params string) (status int, text func() string) {
		t.Helper()
		body, headers := c.Encode(id, method, params)
		response, err := client.Do(gatewaytest.NewRequest(t.Context(), t, http.MethodPost, server.URL+"/mcp", body, headers))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.ProtoMajor != 2 {
			t.Fatalf("the request was sent over %s", response.Proto)
		}
		return response.StatusCode, func() string {
			var b strings.Builder
			if err := response.Write(&b); err != nil {
				t.Error(err)
			}
			return b.String()
		}
	}
	for range 2 * most {
		if status, _ := begin(`"s"`, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`); status != http.StatusOK {
			t.Fatalf("a stream: status %d", status)
		}
	}
	var gets sync.WaitGroup
	for range most {
		gets.Go(func() {
			if status, _ := begin("1", "prompts/get", gatewaytest.GetParams("p.a")); status != http.StatusOK {
				t.Errorf("a get: status %d", status)
			}
		})
	}
	upstreamtest.Eventually(t, "all gets are in flight", func() bool { return len(inFlight) == most })
	status, text := begin("1", "prompts/list", "{}")
	if refused := text(); status != http.StatusServiceUnavailable || !strings.Contains(refused, "Retry-After: 1") ||
		!strings.Contains(refused, `"reason":"overloaded"`) {
		t.Errorf("beyond the bound: %s", refused)
	}
	c.Call("prompts/list", "{}").Want(t, http.StatusOK) // over HTTP/1.1
	proceed()
	gets.Wait()
	if status, _ := begin("1", "prompts/list", "{}"); status != http.StatusOK {
		t.Errorf("after all gets were answered: status %d", status)
	}
}

// blanks is an endless text of blanks.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A stream is open for long, and what its client sent to open it counts for nobody meanwhile.
func TestHTTP2_StreamsKeepNoMessages(t *testing.T) {
	const streams, size = 24, 1 << 20
	peer := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, ofAnn("", peer))
	server := httptest.NewUnstartedServer(s.Handler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer s.Drain()
	held := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	client, c, before := server.Client(), s.Modern("ann"), held()
	for range streams {
		body, headers := c.Encode("1", "subscriptions/listen", `{"notifications":{}}`)
		request := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, server.URL+"/mcp", "", headers)
		// Blanks before the message, so that the client keeps nothing large either.
		request.Body = io.NopCloser(io.MultiReader(io.LimitReader(blanks{}, size), strings.NewReader(body)))
		request.ContentLength = -1
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
			t.Fatalf("a stream over %s: status %d", response.Proto, response.StatusCode)
		}
	}
	upstreamtest.Eventually(t, "the messages of open streams are not in memory", func() bool {
		return held() < before+streams*size/4
	})
}
