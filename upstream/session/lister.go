package session

import (
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
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// quietTime is the time after a refresh in which further changes are collected for the next
	// refresh.
	quietTime = 250 * time.Millisecond
	// maxListRate bounds the average rate of lists in a session, in bytes per second. After a large list, the quiet time
	// is longer.
	maxListRate = 16 << 20
	// maxConflicts is the number of times in a row that a server may refuse a stream because it still considers the
	// last stream open. The attempts take about 3 seconds in all.
	maxConflicts = 5
	// Some servers report a change after each list although nothing changes. After maxFutile such lists in a row, a
	// server is listed only once per futileInterval.
	maxFutile      = 5
	futileInterval = time.Minute
	// maxListRetry bounds the time before a refused list is requested again. Jitter and pauses come on top.
	maxListRetry = 30 * time.Second
)

// lister keeps the list of one session up to date: watch receives the changes, and run requests the list.
type lister struct {
	server  *Server
	session *client.Session
	// changed holds a mark if the list may have changed since the last list began.
	changed Mark
	// setReady closes ready when the first list may be requested: from then on no reported change is missed, or the
	// server reports no changes.
	ready    chan struct{}
	setReady func()
	// silent is true while the server does not report changes.
	silent atomic.Bool
	// listed is true after the first good list. ttl is the TTL of the last list, or 0 if that list
	// has no TTL. Only run uses them until it has returned.
	listed bool
	ttl    time.Duration
}

func newLister(s *Server) *lister {
	ready := make(chan struct{})
	return &lister{server: s, changed: make(Mark, 1), ready: ready, setReady: sync.OnceFunc(func() { close(ready) })}
}

// watch keeps the stream of changes open. It returns nil if the server has no such stream.
func (l *lister) watch(ctx context.Context) error {
	s := l.session
	defer l.setReady()
	// A server without the capability may still report changes during a call, through SessionOptions.OnListChanged.
	if !s.Declared.Notifies {
		l.silent.Store(true)
		return nil
	}
	pause := newBackoff()
	for conflicts, wasOpen := 0, false; ; {
		var opened atomic.Pointer[time.Time]
		err := s.Watch(ctx, func() {
			opened.Store(new(time.Now()))
			l.silent.Store(false)
			// The list may have changed before the stream was open. Set the mark first: when ready is closed, run clears
			// the mark, because its first list includes the change.
			l.changed.Set()
			l.setReady()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.silent.Store(true)
		if errors.Is(err, client.ErrNoStream) {
			// A server that had a stream before may have been replaced. A list shows whether it
			// still knows the session.
			if wasOpen {
				l.changed.Set()
			}
			return nil
		}
		// The server may not yet have noticed the end of the last stream. If the connection broke silently, that may take
		// hours, and only the end of the session helps.
		if conflicts++; !errors.Is(err, client.ErrStreamTaken) {
			conflicts = 0
		}
		if conflicts >= maxConflicts {
			return fmt.Errorf("%w: %w", client.ErrSessionLost, err)
		}
		l.server.ApplyRetryAfter(err)
		// Streams end for many reasons, such as timeouts of proxies. A ping shows whether the
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
		if at != nil && time.Since(*at) > steadyTime {
			pause.Reset()
		}
		if err := Sleep(ctx, max(pause.NextBackOff(), l.server.Paused().Rest())); err != nil {
			return err
		}
	}
}

// run requests the list at the beginning, after changes, and from time to time, because a server may lose a notification
// and a stream may break silently. It requests the list at once after the first change. Changes during a list, or within
// the quiet time after it, share the next list. So a server that reports changes constantly is listed at most four times a
// second, and with at most 16 MiB a second.
func (l *lister) run(ctx context.Context) error {
	// A change between the list and the opening of the stream is not reported, so wait for the stream. If that takes
	// long, request a list now. watch requests a second list when the stream is open.
	select {
	case <-l.ready:
	case <-time.After(readyTimeout):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.changed.clear() // the first list will include every change reported so far
	for futile := 0; ; {
		for p := l.server.Paused(); p != nil; p = l.server.Paused() {
			if err := Sleep(ctx, p.Rest()); err != nil {
				return err
			}
		}
		before := l.server.State().Lists
		bytes, err := l.list(ctx)
		if err != nil {
			return err
		}
		if err := Sleep(ctx, max(quietTime, time.Duration(bytes)*time.Second/maxListRate)); err != nil {
			return err
		}
		state := l.server.State()
		if futile++; len(l.changed) == 0 || state.Lists != before || state.ofList != nil {
			futile = 0
		}
		if futile == maxFutile {
			l.server.logger.WarnContext(ctx, "the server reports a change whenever it is listed, and nothing changes: it is "+
				"listed once a minute")
		}
		if futile >= maxFutile {
			if err := Sleep(ctx, futileInterval); err != nil {
				return err
			}
		}
		select {
		case <-l.changed:
		case <-l.server.Relist:
		case <-time.After(l.pollInterval()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pollInterval returns the TTL of the list if its changes would not be reported, otherwise the
// refresh attribute. After a refused list it returns the attribute, but at most maxListRetry. The
// result is at least [config.MinRefresh], and randomised upwards by up to 20 % to avoid a
// thundering herd.
func (l *lister) pollInterval() time.Duration {
	interval := l.server.upstream.Refresh
	switch {
	case l.server.State().ofList != nil:
		interval = min(interval, maxListRetry)
	case l.usedTTL() > 0:
		interval = l.usedTTL()
	}
	return time.Duration(float64(max(interval, config.MinRefresh)) * (1 + 0.2*rand.Float64())) //nolint:gosec // jitter
}

// usedTTL returns the TTL of the list, or 0 if the server reports all changes. Servers do not report
// changes of skills.
func (l *lister) usedTTL() time.Duration {
	if l.silent.Load() || l.session.ServesSkills() {
		return l.ttl
	}
	return 0
}

// list requests the list once, publishes it, and returns its size in bytes. It returns an error only if ctx has ended or
// the session can no longer be used.
func (l *lister) list(ctx context.Context) (bytes int, _ error) {
	up, s := l.server, l.session
	traced, measured := up.Metrics().Start(ctx, wire.PromptsList, "")
	list, err := s.List(traced, up.upstream.MaxPrompts)
	had := up.State().Definitions
	at := slices.IndexFunc(list.Unknown, func(method string) bool { return hasListed(had, method) })
	switch {
	case err != nil:
	case at >= 0: // the server had such a list before
		if err = s.Recheck(traced); err == nil {
			err = wire.NewError(wire.MethodNotFound, list.Unknown[at]+": the server no longer knows the method")
		}
	case s.Promptless != nil && l.listed:
		// List requested nothing, and a server without prompts gets no calls. It may be down, or have prompts now.
		err = s.Recheck(traced)
	}
	measured.End(s.Revision, client.OutcomeOf(err), err)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, client.ErrSessionLost):
		return 0, err
	case err != nil:
		return list.Bytes, l.refused(ctx, err)
	}
	if !l.listed { // one record per session, after its first list
		up.logger.InfoContext(ctx, "upstream connected",
			slog.Int("prompts", len(list.Definitions)), slog.String("revision", s.Revision))
	}
	l.listed, l.ttl = true, list.TTL
	for i, definition := range list.Definitions {
		list.Definitions[i] = wire.WithoutOwnMeta(definition)
	}
	l.publish(ctx, list.Definitions)
	return list.Bytes, nil
}

// hasListed reports whether definitions contains an element of the list that method returns: a prompt or a skill.
func hasListed(definitions []jsontext.Value, method string) bool {
	return slices.ContainsFunc(definitions, func(definition jsontext.Value) bool {
		object, _ := wire.ParseObject(definition) // an invalid definition counts as a prompt
		isSkill := object.Get("name") == nil && object.Get("uri") != nil
		return isSkill == (method == wire.SkillsList)
	})
}

// refused records why there is no new list. It returns an error if the session can no longer be used.
func (l *lister) refused(ctx context.Context, err error) error {
	up, s := l.server, l.session
	up.ApplyRetryAfter(err)
	// After a failed list the session stays in use, unless it is lost or a ping fails as well.
	if client.OutcomeOf(err).MayBeLost {
		if err = up.Prove(ctx, up.connection.Load(), s, false, err); ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, client.ErrSessionLost) {
			return err
		}
	}
	if client.OutcomeOf(err).Suspicious && !errors.Is(err, context.Canceled) {
		if broken := s.Ping(ctx); broken != nil {
			// Publish before the session ends, which may take a while if the server hangs.
			if ctx.Err() == nil && !errors.Is(broken, client.ErrSessionLost) {
				up.markLate(ctx, true, broken)
			}
			return broken
		}
	}
	outcome := client.OutcomeOf(err)
	reason := outcome.Reason
	if _, exceeds := errors.AsType[*client.ListError](err); exceeds || outcome.Answer != nil {
		reason = ListRefused // for every error code of a server
	}
	if !up.State().ofList.HasCause(reason, err) {
		up.logger.WarnContext(ctx, "list of prompts not refreshed, the last good one stays",
			up.explained(reason, err)...)
	}
	up.update(func(next *State) { next.setProblem(reason, err) })
	return nil
}

// publish makes a list the current one.
func (l *lister) publish(ctx context.Context, definitions []jsontext.Value) {
	if before := l.server.State(); before.ofList != nil && before.ofCalls == nil {
		l.server.logger.InfoContext(ctx, "upstream healthy")
	}
	l.server.update(func(next *State) {
		next.Tried, next.Listed, next.TTL, next.ofList = true, true, l.usedTTL(), nil
		next.SetPrompts(shareDefinitions(next.Definitions, definitions))
	})
}
