package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
)

// TestStreamsAndSlowAnswersOutliveTheServersTimeouts serves with timeouts that are shorter than what goes on, and with
// clients that use one connection for everything.
func TestStreamsAndSlowAnswersOutliveTheServersTimeouts(t *testing.T) {
	const short = 500 * time.Millisecond
	p := newPeer(t, "p", "a")
	g, err := gateway.New(load(t, team("eng", "", "", p)), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, g)
	listener := unstarted(g)
	listener.Config.ReadTimeout, listener.Config.WriteTimeout = short, short
	listener.Start()
	t.Cleanup(listener.Close)
	s := &server{Gateway: g, t: t, url: listener.URL + "/mcp"}
	c := s.modern("")
	modern, legacy, old := c.open("1"), s.legacy("2025-11-25", "").open(""), s.initialized("2024-11-05", "")
	legacy.next()
	begun := time.Now()
	eventually(t, "time passes", func() bool { return time.Since(begun) > 3*short })
	p.watched().offer("b")
	modern.changed()
	legacy.changed()
	old.changed()
	p.intercept(func(_ http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			begun := time.Now()
			eventually(t, "time passes", func() bool { return time.Since(begun) > 2*short })
		}
		return false
	})
	for range 3 {
		c.call("prompts/get", get("p.b")).is(t, http.StatusOK, "from p")
	}
	g.Drain()
	if last := modern.next(); !strings.Contains(last.Data, `"result"`) {
		t.Errorf("got %s at the end", last.Data)
	}
	modern.ended()
	legacy.ended()
	old.ended()
}
