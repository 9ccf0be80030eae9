package session

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

// maxCallsLogged bounds similar log records about one server's calls in ten seconds.
const maxCallsLogged = 3

// Server keeps the server of an upstream connected and its list of prompts up to date. All exported
// methods are safe for concurrent use.
type Server struct {
	// Metrics returns the metrics. They are made at the first use.
	Metrics func() *Metrics
	// Suspect holds a mark when the server should be checked at once. Relist holds a mark when the
	// list should be requested again.
	Suspect, Relist Mark
	// OnLink is called by Run's goroutine when a session begins or ends, and after each failed attempt
	// to connect. It is called with Up before calls can find the session. It is not called when Run
	// ends. Do not set it after Run has begun.
	OnLink func(Link)

	upstream *config.Upstream
	dialer   *client.Dialer
	onChange func()
	logger   *slog.Logger
	// callLogger limits the number of its records, because a server can make its calls fail at any rate.
	callLogger *slog.Logger
	// connects bounds the attempts to connect of one team's upstreams; it may be nil.
	connects *rate.Limiter

	publishing sync.Mutex // serialises update
	state      atomic.Pointer[State]
	// connectNow ends the wait for the next attempt to connect.
	connectNow Mark
	connection atomic.Pointer[Connection] // written by New, and then by Run only
	// next is the lister of the session that decide has opened to replace a lost one. It is nil if there is no such
	// session. ending waits for replaced sessions. Only Run and its callees use them.
	next   *lister
	ending sync.WaitGroup

	// pause is the last requested pause, which may be over. It is nil before the first pause.
	pause atomic.Pointer[Pause]

	// relist limits how often RelistIfDenied requests a list.
	relist rate.Sometimes

	mu    sync.Mutex // guards proof
	proof *proof     // the last proof, or nil before the first proof
}

// Link is the state of the session with a server.
type Link int

// The states of a link.
const (
	Up       Link = iota // there is a session
	Renewing             // the session was lost, and the server is up
	Down                 // no session; the next one may be with another server
)

// Mark is a channel with room for one mark. A receive takes the mark.
type Mark chan struct{}

// Set puts a mark into the channel. It never blocks.
func (m Mark) Set() {
	select {
	case m <- struct{}{}:
	default:
	}
}

// clear removes the mark, if there is one.
func (m Mark) clear() {
	select {
	case <-m:
	default:
	}
}

// State returns the current state. It never blocks.
func (s *Server) State() *State { return s.state.Load() }

// ConnectNow ends the wait for the next attempt to connect to a server that is down. It does not
// wait for the attempt.
func (s *Server) ConnectNow() {
	if s.connection.Load().Session == nil {
		// Set the mark during an attempt as well: if the attempt fails, the next attempt follows at once.
		s.connectNow.Set()
	}
}

// Completes reports whether the server declared completions. Without a session it returns true, so that a call waits for
// the session or fails with the reason.
func (s *Server) Completes() bool {
	session := s.connection.Load().Session
	return session == nil || session.Declared.Completions
}

// update publishes a changed copy of the state.
func (s *Server) update(change func(*State)) {
	s.publishing.Lock()
	next := *s.state.Load()
	change(&next)
	next.Problem = cmp.Or(next.ofList, next.ofCalls)
	s.state.Store(&next)
	// Unlock first, because onChange may cause another update. Two calls of onChange may come out of order, which is
	// harmless: the owner reads the newest state.
	s.publishing.Unlock()
	s.onChange()
}

// relistPause is the minimum time between two requests for a denied list by RelistIfDenied.
const relistPause = 5 * time.Second

// RelistIfDenied requests the list again if the server denied it. Call it after the server has
// answered a call.
func (s *Server) RelistIfDenied() {
	if p := s.State().ofList; p != nil && p.Reason == client.Denied {
		s.relist.Do(s.Relist.Set)
	}
}

// PublishCalls publishes the state of the circuit breaker and the problem of calls, which is nil if
// calls have no problem. It leaves the problem of the list unchanged. It does not block.
func (s *Server) PublishCalls(problem *Problem, breaker gobreaker.State) {
	before := s.State()
	if from := before.Breaker; from != breaker {
		m := s.Metrics()
		m.transitions.Add(context.Background(), 1, metric.WithAttributes(m.common[0], attrState.String(breaker.String())))
		record := []any{slog.String("from", from.String()), slog.String("to", breaker.String())}
		if breaker == gobreaker.StateOpen {
			record = append(record, slog.Any("error", problem.Err))
		}
		s.logger.Warn("breaker", record...)
	}
	switch {
	case problem != nil && problem.Reason != BreakerOpen: // the breaker is logged separately
		if !before.ofCalls.HasCause(problem.Reason, problem.Err) {
			s.callLogger.Warn("gets fail", s.explained(problem.Reason, problem.Err)...)
		}
	case problem == nil && before.ofCalls != nil && before.ofList == nil:
		s.callLogger.Info("upstream healthy")
	}
	s.update(func(next *State) { next.ofCalls, next.Breaker = problem, breaker })
}

// explained returns the log attributes of a problem.
func (s *Server) explained(reason Reason, err error) []any {
	cause := CauseOf(reason, err)
	return []any{
		slog.String("place", s.upstream.Place.String()), slog.String("reason", string(reason)), slog.String("cause", cause.Problem),
		slog.String("remedy", cause.Remedy), slog.Any("error", err),
	}
}

// Sleep waits for a time. If the context ends first, it returns the context's error.
func Sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
