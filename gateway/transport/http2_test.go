package transport_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Over HTTP/2 a client may have 250 requests on each of its connections. What they take counts for its address.
func TestHTTP2_BoundsRequestsInFlightOfAnAddress(t *testing.T) {
	const most = 32 // of 32 KiB each, in a quarter of max_buffered
	peer := gatewaytest.NewPeer(t, "p", "a")
	inFlight, proceed := peer.PauseGets()
	defer proceed()
	s := gatewaytest.Serve(t, `gateway { max_buffered = "4194304" }`+"\n"+ofAnn("", peer))
	c := s.Modern("ann")
	request := func(method, params string) *httptest.ResponseRecorder {
		body, headers := c.Encode("1", method, params)
		r, w := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, s.URL, body, headers), httptest.NewRecorder()
		r.ProtoMajor, r.RemoteAddr = 2, "192.0.2.1:1"
		s.Handler().ServeHTTP(w, r)
		return w
	}
	var gets sync.WaitGroup
	for range most {
		gets.Go(func() {
			if w := request("prompts/get", gatewaytest.GetParams("p.a")); !strings.Contains(w.Body.String(), "from p") {
				t.Errorf("a get: %d %s", w.Code, w.Body)
			}
		})
	}
	upstreamtest.Eventually(t, "all gets are in flight", func() bool { return len(inFlight) == most })
	if w := request("prompts/list", "{}"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
		!strings.Contains(w.Body.String(), `"reason":"overloaded"`) {
		t.Errorf("beyond the bound: %d %v %s", w.Code, w.Header(), w.Body)
	}
	c.Call("prompts/list", "{}").Want(t, http.StatusOK) // over HTTP/1.1
	proceed()
	gets.Wait()
	upstreamtest.Equal(t, http.StatusOK, request("prompts/list", "{}").Code, "status after all gets were answered")
}
