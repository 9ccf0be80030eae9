package main

import (
	"context"
	"errors"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// firstPause and lastPause bound the backoff between two connections of a watcher.
	firstPause = time.Second
	lastPause  = time.Minute
	// leastRest is how long there is no run after another one. A long run is followed by a rest of nine
	// times as long: each gets all prompts.
	leastRest = 2 * time.Second
	// runAgain is when a run that failed is repeated without a change.
	runAgain = time.Minute
)

// watcher repeats what a command does whenever the server's prompts change.
type watcher struct {
	query *query
	run   func(context.Context, *client.Session) error
}

// follow runs after each change that the server announces, and connects again when it is lost.
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
		err := w.query.withSession(ctx, client.SessionOptions{OnListChanged: signal}, func(s *client.Session) error {
			wasConnected, connected = true, time.Now()
			return w.followSession(ctx, s, changed, signal)
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, client.ErrNoStream):
			return errors.New("the server does not say when its prompts change; run the command without --watch from time to time")
		// A first connection that fails is most likely a wrong address or token.
		case !wasConnected:
			return err
		}
		if time.Since(connected) > lastPause { // and not each time of a server that comes and goes
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

// followSession runs at each change until the stream of changes ends, and returns why it did.
func (w *watcher) followSession(
	ctx context.Context, s *client.Session, changed <-chan struct{}, signal func(),
) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.Watch(ctx, signal)
	}()
	// Whatever ends this, the session is closed after it, which the watch must not outlive.
	defer func() {
		cancel()
		<-ended
	}()
	var again, rested <-chan time.Time
	waiting := changed
	for {
		select {
		case <-rested:
			waiting, rested = changed, nil
			continue
		case <-ended:
			if errors.Is(err, client.ErrNoStream) {
				return errors.Join(err, w.run(ctx, s))
			}
			return err
		case <-waiting:
		case <-again:
		}
		again = nil
		begun := time.Now()
		if err := w.run(ctx, s); err != nil && ctx.Err() == nil {
			w.query.app.warn("%v", err)
			again = time.After(runAgain)
		}
		waiting, rested = nil, time.After(min(max(leastRest, 9*time.Since(begun)), lastPause))
	}
}
