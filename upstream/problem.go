package upstream

import (
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

// hasCause reports whether a problem, which may be nil, has a reason and a cause already. Causes are the same if they are of one
// kind: what a child says last, for one, may differ each time. Of unknown kinds they are if their texts differ in digits only, such
// as in a time or a port.
func (p *Problem) hasCause(reason Reason, err error) bool {
	if p == nil || p.Reason != reason {
		return false
	}
	kind := causeOf(reason, err).Kind
	return p.Cause().Kind == kind && (kind != client.UnexplainedFailure || causeText(p.Err) == causeText(err))
}

func causeText(err error) string {
	if err == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// Drained returns the problem of an upstream that an operator took out of service at a time. Own is its problem besides; nil if it
// has none, so that its list is fresh, and only its gets fail.
func Drained(since time.Time, own *Problem) *Problem {
	if own == nil {
		return &Problem{Reason: Draining, Since: since, Failing: true}
	}
	return &Problem{Reason: Draining, Since: since, Failing: own.Failing, Err: &Unavailable{Reason: own.Reason, Err: own.Err}}
}

// IsRefusal reports whether the server is up and refuses the gateway, or the rate of its requests: it is not down.
func (p *Problem) IsRefusal() bool { return p.Reason == Denied || p.Reason == RateLimited }

// failsCalls reports whether calls go to the endpoint, although another one has the same prompts, and fail. An open breaker sends
// them elsewhere, and of what fails some is tried elsewhere.
func (p *Problem) failsCalls() bool {
	return p.Failing && !isRetried(p.Reason)
}
