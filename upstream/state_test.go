package upstream

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

// Definitions that stay are the same memory, and none keeps in memory the page that it came in.
func TestShareDefinitions_KeepsWhatTheListBeforeHas(t *testing.T) {
	t.Parallel()
	page := func(text ...string) (list []jsontext.Value) {
		whole := []byte(strings.Join(text, ""))
		for _, part := range text {
			list, whole = append(list, whole[:len(part)]), whole[len(part):]
		}
		return list
	}
	before := shareDefinitions(nil, page(`{"name":"a"}`, `{"name":"b"}`, `{"name":"c"}`, ``))
	later := page(`{"name":"c"}`, `{"name":"b"}`, `{"name":"d"}`, `{"name":"a"}`, ``)
	shared := shareDefinitions(before, later)
	if !equalLists(shared, later) {
		t.Fatalf("the list is %s, want %s", shared, later)
	}
	for i, want := range []*byte{&before[2][0], &before[1][0], nil, &before[0][0]} {
		if got := &shared[i][0]; want != nil && got != want || got == &later[i][0] {
			t.Errorf("definition %d is other memory than before, or that of its page", i)
		}
	}
}

// A clock that is set back must not make clients wait for as long: what is compared with the time
// has a monotonic reading.
func TestServer_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	s := New(config.Upstream{URL: "http://127.0.0.1:1"}, Options{}, func() {}).server
	s.markDown(t.Context(), &client.StatusError{Status: 429, RetryAfter: time.Minute}, time.Minute)
	at := s.connection.Load().retryAt
	if !strings.Contains(at.String(), " m=+") {
		t.Errorf("the next attempt is at %s, without a monotonic reading", at)
	}
	if left := time.Until(at); left <= 0 || left > time.Minute {
		t.Errorf("the next attempt is in %s", left)
	}
}
