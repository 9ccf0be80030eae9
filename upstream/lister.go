package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// quietTime is how long after a refresh further changes are collected for the next one.
	quietTime = 250 * time.Millisecond
	// maxListRate bounds what the lists of a session may take in the long run, in bytes per second:
	// after a large one, the quiet time is longer.
	maxListRate = 16 << 20
	// maxConflicts is how often in a row a server may refuse a stream because it considers the last
	// one open, about 3 seconds in all.
	maxConflicts = 5
	// maxFutile is after how many lists in a row a server is listed once in futileInterval, because it
	// reports a change each time, and nothing has changed.
	maxFutile      = 5
	futileInterval = time.Minute
	// maxListRetry bounds the time until a list that was refused is requested again.
	maxListRetry = 30 * time.Second
)

// lister keeps the list of one session up to date: it connects the stream of changes with the
// refreshes.
type lister struct {
	server *server
	// changed has a mark if the list changed since the last refresh began.
	changed health.Mark
	// ready is closed when the first list need wait no longer: either no change can be missed, or
	// none will be reported.
	ready     chan struct{}
	readyOnce sync.Once
	// silent is set while the server would not report a change.
	silent atomic.Bool
	// listed is set after the first good list, and ttl is that of the last one, 0 if the server
	// gives none. Only run uses them until it has returned.
	listed bool
	ttl    time.Duration
	// skills is set if the list has skills.
	skills bool
}

func newLister(s *server) *lister {
	return &lister{server: s, changed: make(health.Mark, 1), ready: make(chan struct{})}
}

// change makes run request the list. It never blocks.
func (l *lister) change() { l.changed.Set() }

func (l *lister) setReady() { l.readyOnce.Do(func() { close(l.ready) }) }

// watch keeps the stream of changes open. It returns nil if the server has none.
func (l *lister) watch(ctx context.Context, s *client.Session) error {
	defer l.setReady()
	// Such a server may notify all the same during a call, so that SessionOptions.OnListChanged
	// still counts.
	if !s.Declared.Notifies() {
		l.silent.Store(true)
		return nil
	}
	pause := health.NewBackoff()
	for conflicts, wasOpen := 0, false; ; {
		var opened atomic.Pointer[time.Time]
		err := s.Watch(ctx, func() {
			now := time.Now()
			opened.Store(&now)
			l.silent.Store(false)
			// In this order: once ready, run discards the mark, since its first list is requested
			// after this.
			l.change() // something may have changed before
			l.setReady()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.silent.Store(true)
		if errors.Is(err, client.ErrNoStream) {
			// A server that had a stream before may have been replaced. The list shows whether it
			// still knows the session.
			if wasOpen {
				l.change()
			}
			return nil
		}
		if conflicts = countConflicts(conflicts, err); conflicts >= maxConflicts {
			return fmt.Errorf("%w: %w", client.ErrSessionLost, err)
		}
		l.server.applyRetryAfter(err)
		// Streams end for many reasons, timeouts of proxies among them. A ping tells whether the
		// session is still there.
		if !errors.Is(err, client.ErrSessionLost) && !errors.Is(err, client.ErrExited) {
			err = s.Ping(ctx)
		}
		if err != nil {
			return err
		}
		l.setReady()
		at := opened.Load()
		wasOpen = wasOpen || at != nil
		if at != nil && time.Since(*at) > health.SteadyTime {
			pause.Reset()
		}
		if err := sleep(ctx, max(pause.NextBackOff(), l.server.health.Paused().Rest())); err != nil {
			return err
		}
	}
}

// countConflicts counts how often in a row a server refused a stream because it considers the last
// one open.
func countConflicts(conflicts int, err error) int {
	// The server may need a moment. Its side of a connection that broke without a word may last for
	// hours, and goes with the session.
	if errors.Is(err, client.ErrStreamTaken) {
		return conflicts + 1
	}
	return 0
}

// run requests the list: at first, when it changed, and from time to time: a server may lose a
// notification, or a stream may break without a word. It follows the first change at once; those that come during a refresh or within
// the quiet time after it share the next one, so that a server that reports changes without end is
// asked four times a second at most, or for sixteen megabytes.
func (l *lister) run(ctx context.Context, s *client.Session) error {
	// A list that is requested before the stream is open may miss a change that nobody reports. If
	// opening takes long, a first list now and a second one later serve clients better.
	select {
	case <-l.ready:
	case <-time.After(readyTimeout):
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-l.changed: // the first list includes it
	default:
	}
	for futile := 0; ; {
		for p := l.server.health.Paused(); p != nil; p = l.server.health.Paused() {
			if err := sleep(ctx, p.Rest()); err != nil {
				return err
			}
		}
		before := l.server.state().Lists
		bytes, err := l.list(ctx, s)
		if err != nil {
			return err
		}
		quiet := max(quietTime, time.Duration(bytes)*time.Second/maxListRate)
		if err := sleep(ctx, quiet); err != nil {
			return err
		}
		state := l.server.state()
		if futile++; len(l.changed) == 0 || state.Lists != before || state.ofList != nil {
			futile = 0
		}
		if futile == maxFutile {
			l.server.logger.WarnContext(ctx, "the server reports a change whenever it is listed, and nothing changes: it is "+
				"listed once a minute")
		}
		if futile >= maxFutile {
			if err := sleep(ctx, futileInterval); err != nil {
				return err
			}
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
}

// wait waits until there is a reason to request the list again.
func (l *lister) wait(ctx context.Context) error {
	for {
		refused := l.server.state().ofList != nil
		select {
		case <-l.changed:
			return nil
		case <-l.server.health.Relist:
			return nil
		case <-time.After(l.pollInterval(refused)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pollInterval is the TTL of the list if no change of it would be reported, else the refresh attribute; after a list that was refused it
// is the attribute, but at most maxListRetry. It is never less than [config.MinRefresh], and
// randomised upwards to avoid a thundering herd.
func (l *lister) pollInterval(refused bool) time.Duration {
	interval := l.server.upstream.Refresh
	switch {
	case refused:
		interval = min(interval, maxListRetry)
	case l.ttl > 0 && (l.silent.Load() || l.skills): // no server reports a change of its skills
		interval = l.ttl
	}
	return time.Duration(float64(max(interval, config.MinRefresh)) * (1 + 0.2*rand.Float64())) //nolint:gosec // jitter
}

// list requests the list once, and returns its size. It returns an error only if the session is of
// no more use.
func (l *lister) list(ctx context.Context, s *client.Session) (bytes int, _ error) {
	up := l.server
	traced, measured := up.metrics().start(ctx, wire.PromptsList, "")
	list, err := s.List(traced, up.upstream.MaxPrompts)
	had := up.state().Definitions
	at := slices.IndexFunc(list.Unknown, func(method string) bool { return hasListed(had, method) })
	switch {
	case err != nil:
	case at >= 0:
		err = cmp.Or(s.Recheck(traced), errListUnknown(list.Unknown[at]))
	case !s.Declared.Prompts() && !s.ServesSkills() && l.listed:
		// Nothing was sent for this list, and no calls go to such a server. It may be down, or have
		// prompts by now.
		err = s.Recheck(traced)
	}
	measured.end(s.Revision, outcomeOf(err))
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, client.ErrSessionLost):
		return 0, err
	case err != nil:
		return list.Bytes, l.refused(ctx, s, err)
	}
	if !l.listed { // one line for each session, once all of it is known
		up.logger.InfoContext(ctx, "upstream connected",
			slog.Int("prompts", len(list.Definitions)), slog.String("revision", s.Revision))
	}
	l.listed, l.ttl, l.skills = true, list.TTL, s.ServesSkills()
	for i, definition := range list.Definitions {
		list.Definitions[i] = wire.WithoutOwnMeta(definition)
	}
	l.publish(ctx, list.Definitions)
	return list.Bytes, nil
}

// hasListed reports whether there are definitions of what a method lists, prompts or skills.
func hasListed(definitions []jsontext.Value, method string) bool {
	return slices.ContainsFunc(definitions, func(definition jsontext.Value) bool {
		object, _ := wire.ParseObject(definition) // an invalid one counts as a prompt
		isSkill := object.Get("name") == nil && object.Get("uri") != nil
		return isSkill == (method == wire.SkillsList)
	})
}

// refused records why there is no new list, and returns an error if the session is of no more use.
func (l *lister) refused(ctx context.Context, s *client.Session, err error) error {
	up := l.server
	up.applyRetryAfter(err)
	// A list that failed leaves the session in use, unless it is lost or a ping fails too.
	if client.OutcomeOf(err).MayBeLost {
		if err = up.prove(ctx, up.connection.Load(), s, false, err); ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, client.ErrSessionLost) {
			return err
		}
	}
	end := outcomeOf(err)
	if end.Suspicious && !end.excused {
		if broken := s.Ping(ctx); broken != nil {
			// Before the session ends, which may take a while where the server hangs.
			if ctx.Err() == nil && !errors.Is(broken, client.ErrSessionLost) {
				up.markLate(ctx, true, broken)
			}
			return broken
		}
	}
	reason := end.ofList()
	if !up.state().ofList.hasCause(reason, err) {
		up.logger.WarnContext(ctx, "list of prompts not refreshed, the last good one stays",
			up.explained(reason, causeOf(reason, err), err)...)
	}
	up.health.SetDenied(reason == Denied)
	up.update(func(next *State) { next.setProblem(reason, err) })
	return nil
}

// publish makes a list the present one.
func (l *lister) publish(ctx context.Context, definitions []jsontext.Value) {
	up := l.server
	up.health.SetDenied(false)
	before := up.state()
	if before.ofList != nil && before.ofCalls == nil {
		up.logger.InfoContext(ctx, "upstream healthy")
	}
	ttl := l.ttl
	if !l.silent.Load() && !l.skills { // a change would be reported
		ttl = 0
	}
	up.update(func(next *State) {
		next.Tried, next.Listed, next.TTL, next.ofList = true, true, ttl, nil
		next.setPrompts(shareDefinitions(next.Definitions, definitions))
	})
}
