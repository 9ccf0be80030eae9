package session_test

import (
	"errors"
	"testing"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/session"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A problem with another cause is another problem, even where a kind of cause is nothing but its text.
func TestProblem_KnowsItsCause(t *testing.T) {
	guard := func(string) error { return errors.New("not that address") }
	_, guarded := client.Connect(t.Context(), upstreamtest.HTTP("a", "http://127.0.0.1:1/mcp"), client.Options{DialGuard: guard})
	p := &session.Problem{Reason: client.Unreachable, Err: guarded}
	if other := (&client.ListError{}); !p.HasCause(client.Unreachable, guarded) || p.HasCause(client.Unreachable, other) || p.HasCause(client.Timeout, guarded) {
		t.Errorf("%v has the cause %v, or not its own", p.Cause(), client.CauseOf(other))
	}
}
