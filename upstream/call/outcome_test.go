package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/session"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The rows are those of the table at outcome.
func TestOutcomeOf_HasOneRowForEachKindOfError(t *testing.T) {
	t.Parallel()
	const none = session.Reason("")
	for _, row := range []struct {
		name          string
		err           error
		reason        session.Reason
		breaker, gets effect
		answered      bool // what the queue is told
		again         bool
	}{
		{"a result", nil, none, works, works, true, false},
		{"a JSON-RPC error", wire.NewError(wire.InvalidParams, "no"), client.BadResponse, works, works, true, false},
		{"HTTP 400", &client.StatusError{Status: 400}, client.BadResponse, works, fails, true, false},
		{"HTTP 401", &client.StatusError{Status: 401}, client.Denied, works, fails, true, false},
		{"a result that Check refuses", &unusableError{wire.NewError(wire.InvalidParams, "no")}, client.BadResponse, works, fails, true, false},
		{"the session is lost", client.ErrSessionLost, client.Unreachable, works, nothing, true, true},
		{"no answer in time", context.DeadlineExceeded, client.Timeout, fails, fails, false, true},
		{"no connection", errors.New("refused"), client.Unreachable, fails, fails, false, true},
		{"HTTP 500", &client.StatusError{Status: 500}, client.BadResponse, fails, fails, false, false},
		{"hardly any time", &hurriedError{context.DeadlineExceeded}, client.Timeout, nothing, nothing, false, true},
		{"the caller left", fmt.Errorf("wait: %w", context.Canceled), client.Unreachable, nothing, nothing, false, false},
		{"the caller's deadline", &callerGoneError{context.DeadlineExceeded}, client.Unreachable, nothing, nothing, false, false},
		{"no slot", unavailable("u", session.Overloaded, 0, errQueueFull), session.Overloaded, nothing, nothing, false, true},
		{"no session of the pool", session.ErrPoolExhausted, session.Overloaded, nothing, nothing, false, true},
		{"no legacy session", session.ErrNoLegacySession, client.Unreachable, nothing, nothing, false, true},
		{
			"no session", unavailable("u", client.Denied, 0, &session.Unsent{Why: session.ErrNoSession, Cause: client.ErrExited}),
			client.Denied, nothing, fails, false, true,
		},
		{
			"no session of a slow start", unavailable("u", client.Timeout, 0, &session.Unsent{Why: session.ErrNoSession}),
			client.Timeout, nothing, fails, false, true,
		},
		{
			"a pause", unavailable("u", client.RateLimited, 0, &session.Unsent{Why: errPaused}),
			client.RateLimited, nothing, fails, false, false,
		},
		{
			"the breaker is open", unavailable("u", session.BreakerOpen, 0, &session.Unsent{Why: errSuspended}),
			session.BreakerOpen, nothing, nothing, false, true,
		},
	} {
		o := outcomeOf(row.err)
		if o.Reason != row.reason || o.breaker != row.breaker || o.gets != row.gets || o.Answered != row.answered || o.mayRepeat != row.again {
			t.Errorf("%s: %s, breaker %d, gets %d, answered %t, again %t; want %s, %d, %d, %t, %t", row.name,
				o.Reason, o.breaker, o.gets, o.Answered, o.mayRepeat, row.reason, row.breaker, row.gets, row.answered, row.again)
		}
		if isSent := !strings.HasPrefix(row.name, "no session of a slow"); o.timedOut != (o.Reason == client.Timeout && isSent) {
			t.Errorf("%s: timedOut is %t", row.name, o.timedOut)
		}
	}
}
