package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// maxFrames bounds the functions of this module between the entry of a get's HTTP handler and the RoundTrip to its
// upstream, so that the road of a get stays short enough to be read.
const maxFrames = 14

func TestGet_PassesFewFunctions(t *testing.T) {
	for name, newPeer := range map[string]func(testing.TB, string, ...string) *gatewaytest.Peer{
		"legacy upstream": gatewaytest.NewPeer, "modern upstream": gatewaytest.NewModernPeer,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, "p", "a")
			var road []string
			p.OnGet(func(http.ResponseWriter, *http.Request, gatewaytest.Call) bool {
				road = roadOfGet(t) // the gateway waits for this response
				return false
			})
			s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
			for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
				road = nil
				c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, "from p")
				t.Logf("%s: %d functions", c.Revision, len(road))
				if n := len(road); n == 0 || n > maxFrames {
					t.Errorf("a get of %s passes %d functions, want at most %d and more than none:\n%s", c.Revision, n, maxFrames, strings.Join(road, "\n"))
				}
			}
		})
	}
}

// roadOfGet returns the functions of this module on the stack of the only get in flight, from its HTTP handler to its
// upstream. They must all be on one goroutine, for a road that goes on elsewhere would seem shorter than it is.
func roadOfGet(t *testing.T) (functions []string) {
	const module = "github.com/promptweir/promptweir/"
	for _, stack := range stacks() {
		if !strings.Contains(stack, "net/http.(*Transport).RoundTrip(") || !strings.Contains(stack, module+"gateway/requests.") {
			continue
		}
		if functions != nil {
			t.Error("more than one get is in flight")
		}
		if !strings.Contains(stack, "net/http.(*conn).serve(") {
			t.Errorf("the get has left the goroutine of its handler:\n%s", stack)
		}
		for line := range strings.Lines(stack) {
			if name, ours := strings.CutPrefix(line, module); ours {
				name, _, _ = strings.Cut(strings.TrimSpace(name), "{")
				functions = append([]string{name[:strings.LastIndexByte(name, '(')]}, functions...)
			}
		}
	}
	return functions
}
