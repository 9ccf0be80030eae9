package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// quietTime is how long after a refresh further changes are collected for the next one.
	quietTime = 250 * time.Millisecond
	// maxListRate bounds what the lists of a session may take in the long run, in bytes per second: after a large one, the quiet
	// time is longer.
	maxListRate = 16 << 20
	// maxTaken is how often in a row a server may refuse a stream because it takes the last one for open, about 3 seconds in all.
	maxTaken = 5
	// maxListRetry bounds the time until a list that was refused is requested again.
	maxListRetry = 30 * time.Second
)

// watch connects the stream of changes of one session with the refreshes of its list.
type watch struct {
	// changed holds at most one mark: the list changed since the last refresh began.
	changed chan struct{}
	// ready is closed when the first list need wait no longer: either no change can be missed, or none will be reported.
	ready     chan struct{}
	readyOnce sync.Once
	// silent is set while the server would not report a change.
	silent atomic.Bool
	// listed is set after the first good list, and ttl is that of the last one, 0 if the server gives none. Only refresh
	// uses them until it has returned.
	listed bool
	ttl    time.Duration
}

func newWatch() *watch {
	return &watch{changed: make(chan struct{}, 1), ready: make(chan struct{})}
}

// hear notes that the server says that its list changed.
func (w *watch) hear() { signal(w.changed) }

// lifetime returns for how long the last list is good although nobody would report a change; 0 if the server does not say, or
// would report it.
func (w *watch) lifetime() time.Duration {
	if !w.silent.Load() {
		return 0
	}
	return w.ttl
}

func (w *watch) setReady() { w.readyOnce.Do(func() { close(w.ready) }) }

// watch keeps the stream of changes open. It returns nil if the server has none.
func (e *endpoint) watch(ctx context.Context, s *client.Session, w *watch) error {
	defer w.setReady()
	// Such a server may notify all the same during a call, so that SessionOptions.OnListChanged still counts.
	if !s.Notifies() {
		w.silent.Store(true)
		return nil
	}
	pause := newBackoff()
	for taken, wasOpen := 0, false; ; {
		var opened atomic.Pointer[time.Time]
		err := s.Watch(ctx, func() {
			now := time.Now()
			opened.Store(&now)
			w.silent.Store(false)
			signal(w.changed) // something may have changed before
			w.setReady()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.silent.Store(true)
		if errors.Is(err, client.ErrNoStream) {
			// A server that had a stream before may have been replaced. The list shows whether it still knows the session.
			if wasOpen {
				signal(w.changed)
			}
			return nil
		}
		// The server's side of a connection that broke without a word may last for hours, and goes with the session. Otherwise
		// the server may need a moment.
		switch {
		case errors.Is(err, client.ErrStreamDead):
			taken = maxTaken / 2
		case !errors.Is(err, client.ErrStreamTaken):
			taken = 0
		default:
			if taken++; taken >= maxTaken {
				return fmt.Errorf("%w: %w", client.ErrSessionLost, err)
			}
		}
		e.heed(err)
		// Streams end for many reasons, timeouts of proxies among them. A ping tells whether the session is still there.
		switch {
		case errors.Is(err, client.ErrStreamDead):
			err = nil // it is
		case !errors.Is(err, client.ErrSessionLost) && !errors.Is(err, client.ErrExited):
			err = s.Ping(ctx)
		}
		if err != nil {
			return err
		}
		w.setReady()
		wasOpen = wasOpen || opened.Load() != nil
		if at := opened.Load(); at != nil && time.Since(*at) > steadyTime {
			pause.Reset()
		}
		if err := sleep(ctx, max(pause.NextBackOff(), e.paused().rest())); err != nil {
			return err
		}
	}
}

// refresh requests the list: at first, when it changed, and from time to time if the server would not report a change. It
// follows the first change at once; those that come during a refresh or within the quiet time after it share the next one, so
// that a server that reports changes without end is asked four times a second at most, or for sixteen megabytes.
func (e *endpoint) refresh(ctx context.Context, s *client.Session, w *watch) error {
	// A list that is requested before the stream is open may miss a change that nobody reports. If opening takes long,
	// a first list now and a second one later serve clients better.
	select {
	case <-w.ready:
	case <-time.After(readyTimeout):
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-w.changed: // the first list includes it
	default:
	}
	for {
		if err := e.awaitPause(ctx); err != nil {
			return err
		}
		bytes, err := e.list(ctx, s, w)
		if err != nil {
			return err
		}
		if err := sleep(ctx, quietAfter(bytes)); err != nil {
			return err
		}
		if err := e.waitForRefresh(ctx, w); err != nil {
			return err
		}
	}
}

// quietAfter returns the quiet time after a list of a size.
func quietAfter(bytes int) time.Duration {
	return max(quietTime, time.Duration(bytes)*time.Second/maxListRate)
}

// waitForRefresh waits until there is a reason to request the list again.
func (e *endpoint) waitForRefresh(ctx context.Context, w *watch) error {
	for {
		refused := e.status.Load().Problem != nil
		select {
		case <-w.changed:
			return nil
		case <-time.After(e.pollInterval(refused, w.ttl)):
			if refused || w.silent.Load() {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pollInterval is the TTL of the list, else the refresh attribute; after a list that was refused it is the attribute, but at
// most maxListRetry. It is never less than [config.MinRefresh], and randomised upwards to avoid a thundering herd.
func (e *endpoint) pollInterval(refused bool, ttl time.Duration) time.Duration {
	interval := e.upstream.Refresh
	switch {
	case refused:
		interval = min(interval, maxListRetry)
	case ttl > 0:
		interval = ttl
	}
	return time.Duration(float64(max(interval, config.MinRefresh)) * (1 + 0.2*rand.Float64())) //nolint:gosec // jitter
}

// list requests the list once, and returns its size. It returns an error only if the session is of no more use.
func (e *endpoint) list(ctx context.Context, s *client.Session, w *watch) (bytes int, _ error) {
	traced, measured := e.metrics().start(ctx, wire.PromptsList, "")
	list, err := s.List(traced, e.upstream.MaxPrompts)
	switch hadPrompts := len(e.status.Load().Definitions) > 0; {
	case err != nil:
	case list.Unknown && hadPrompts:
		err = cmp.Or(s.Recheck(traced), errListUnknown)
	case !s.OffersPrompts() && w.listed:
		// Nothing was sent for this list, and no calls go to such a server. It may be down, or have prompts by now.
		err = s.Recheck(traced)
	}
	measured.end(s.Revision, err)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err == nil {
		if !w.listed { // one line for each session, once all of it is known
			e.logger.InfoContext(ctx, "upstream connected", slog.Int("prompts", len(list.Definitions)), slog.String("revision", s.Revision))
		}
		w.listed, w.ttl = true, list.TTL
		e.publish(ctx, list.Definitions, w.lifetime())
		return list.Bytes, nil
	}
	if errors.Is(err, client.ErrSessionLost) {
		return 0, err
	}
	e.heed(err)
	// A list that failed leaves the session in use, unless a ping fails too.
	if isSuspicious(err) || client.MayRefuseEra(err) {
		signal(e.connection.Load().suspect) // which marks the endpoint before this ping has failed
		if broken := s.Ping(ctx); broken != nil {
			return 0, broken
		}
	}
	reason := reasonOfList(err)
	if !e.status.Load().Problem.hasCause(reason, err) {
		e.logger.WarnContext(ctx, "list of prompts not refreshed, the last good one stays",
			e.explained(reason, causeOf(reason, err), err)...)
	}
	e.update(func(s *status) { s.setProblem(reason, err) })
	return list.Bytes, nil
}

// publish makes a list, which is good for a time, the present one.
func (e *endpoint) publish(ctx context.Context, definitions []jsontext.Value, ttl time.Duration) {
	before := e.status.Load()
	if before.Problem != nil && before.calls == nil {
		e.logger.InfoContext(ctx, "upstream healthy")
	}
	// Many servers send the same list again after each notification: without this, each would become a new catalog.
	same := before.Listed && equalLists(before.Definitions, definitions)
	var prompts promptIndex
	if !same {
		definitions = shareDefinitions(before.Definitions, definitions)
	}
	if e.isReplica && !same {
		prompts = newPromptIndex(definitions)
	}
	e.update(func(s *status) {
		s.tried, s.Listed, s.ttl, s.Problem = true, true, ttl, nil
		if !same {
			s.Definitions, s.prompts = definitions, prompts
			s.lists++
		}
	})
}
