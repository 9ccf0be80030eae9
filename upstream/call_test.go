package upstream_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// stackRecorder records the functions of this module on the stack of the last request that a
// Connector.Call made.
type stackRecorder struct {
	http.RoundTripper

	functions []string
}

func (s *stackRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var functions []string
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if name, ours := strings.CutPrefix(frame.Function, "github.com/promptweir/promptweir/upstream"); ours && !strings.HasPrefix(name, "_test") {
			functions = append(functions, name)
		}
	}
	if len(functions) > 0 && strings.Contains(functions[len(functions)-1], "Connector") { // not a list or a ping
		s.functions = functions
	}
	return s.RoundTripper.RoundTrip(r)
}

// The way of a call is short enough to be read: Call, attempt, try, Session.Call, the transport's
// roundTrip, send.
func TestCall_PassesFewFunctions(t *testing.T) {
	for name, peer := range map[string]*upstreamtest.Peer{"legacy": upstreamtest.NewPeer(t), "modern": upstreamtest.NewModernPeer(t)} {
		stack := &stackRecorder{RoundTripper: upstreamtest.Memory{Handler: peer}}
		c := start(t, anywhere(), upstream.Options{Transport: stack})
		waitForNames(t, c, "p")
		mustGet(t, c, "p")
		t.Log(strings.Join(stack.functions, " <- "))
		const most = 6
		if n := len(stack.functions); n == 0 || n > most {
			t.Errorf("%s: a call passes %d functions, want at most %d:\n%s", name, n, most, strings.Join(stack.functions, "\n"))
		}
	}
}
