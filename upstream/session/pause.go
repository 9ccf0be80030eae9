package session

import (
	"log/slog"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

// Pause is a period in which the gateway sends no requests to a server, because the server sent a Retry-After (RFC 9110,
// section 10.2.3). Reason and Err describe the request that the server refused.
type Pause struct {
	Reason Reason
	Err    error
	until  time.Time // monotonic
}

// Rest returns the remaining time, or 0 for a nil pause.
func (p *Pause) Rest() time.Duration {
	if p == nil {
		return 0
	}
	return max(time.Until(p.until), 0)
}

// ApplyRetryAfter begins a pause if err is a 429 or 503 with a Retry-After, for any request. During the pause, calls are
// refused, lists, regular checks, connects and the stream of changes wait, and no proof begins. The last Retry-After applies, even if it is shorter.
func (s *Server) ApplyRetryAfter(err error) {
	end := client.OutcomeOf(err)
	if end.Pauses && s.pause.Swap(&Pause{end.Reason, err, time.Now().Add(end.RetryAfter)}).Rest() == 0 {
		s.callLogger.Warn("server asks for a pause", slog.String("reason", string(end.Reason)),
			slog.Duration("retry_after", end.RetryAfter), slog.Any("error", err))
	}
}

// Paused returns the current pause, or nil if there is no pause.
func (s *Server) Paused() *Pause {
	if p := s.pause.Load(); p.Rest() > 0 {
		return p
	}
	return nil
}
