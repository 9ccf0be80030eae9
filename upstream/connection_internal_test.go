package upstream

import (
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

// A clock that is set back must not make clients wait for as long: what is compared with the time
// has a monotonic reading.
func TestEndpoint_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	e := New(config.Upstream{URLs: []string{"http://127.0.0.1:1"}}, Options{}, func() {}).endpoints[0]
	e.markDown(t.Context(), &client.StatusError{Status: 429, RetryAfter: time.Minute}, time.Minute)
	at := e.connection.Load().retryAt
	if !strings.Contains(at.String(), " m=+") {
		t.Errorf("the next attempt is at %s, without a monotonic reading", at)
	}
	if left := time.Until(at); left <= 0 || left > time.Minute {
		t.Errorf("the next attempt is in %s", left)
	}
}
