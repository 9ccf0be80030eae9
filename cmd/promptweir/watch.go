package main

import (
	"context"
	"errors"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// firstPause and lastPause bound the backoff between a watcher's connections.
	firstPause = time.Second
	lastPause  = time.Minute
	// leastRest is the minimum rest between runs. A run may get all prompts, so watcher rests nine times as
	// long as the run took, up to lastPause.
	leastRest = 2 * time.Second
	// runAgain is the delay before a failed run is repeated without a change.
	runAgain = time.Minute
)

// watcher calls run for each change of the server's prompts.
type watcher struct {
	query *query
	run   func(context.Context, *client.Session) error
	// connect is query.withSession, except in tests.
	connect func(context.Context, client.SessionOptions, func(*client.Session) error) error
}

func newWatcher(q *query, run func(context.Context, *client.Session) error) *watcher {
	return &watcher{q, run, q.withSession}
}

// follow calls run once, then after each notification of the server, until ctx ends. It reconnects if the
// connection is lost.
func (w *watcher) follow(ctx context.Context) error {
	wasConnected := false
	var connected time.Time
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		changed := make(chan struct{}, 1)
		signal := func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		err := w.connect(ctx, client.SessionOptions{OnListChanged: signal}, func(s *client.Session) error {
			wasConnected, connected = true, time.Now()
			return w.followSession(ctx, s, changed, signal)
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, client.ErrNoStream):
			return errors.New("the server does not say when its prompts change; run the command without --watch from time to time")
		// Do not retry a failed first connection: the address or the token is probably wrong.
		case !wasConnected:
			return err
		}
		if time.Since(connected) > lastPause { // after a short connection, the server may be unstable: keep the longer pause
			pause = firstPause
		}
		w.query.app.warn("%v; connecting again in %s", err, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followSession calls run at each change until the stream of notifications ends, and returns the reason.
func (w *watcher) followSession(
	ctx context.Context, s *client.Session, changed <-chan struct{}, signal func(),
) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.Watch(ctx, signal)
	}()
	// Wait until Watch has ended, because the caller closes the session.
	defer func() {
		cancel()
		<-ended
	}()
	end := func() error {
		if errors.Is(err, client.ErrNoStream) {
			return errors.Join(err, w.run(ctx, s))
		}
		return err
	}
	var again <-chan time.Time
	for {
		select {
		case <-ended:
			return end()
		case <-changed:
		case <-again:
		}
		again = nil
		begun := time.Now()
		if err := w.run(ctx, s); err != nil && ctx.Err() == nil {
			w.query.app.warn("%v", err)
			again = time.After(runAgain)
		}
		select { // a change during the rest stays in changed
		case <-ended:
			return end()
		case <-time.After(min(max(leastRest, 9*time.Since(begun)), lastPause)):
		}
	}
}
