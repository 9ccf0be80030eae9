package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// follower is a client that holds a stream. It lists when it is told of a change, and when its stream ends it goes on at the next replica:
// a modern one lists then, and one of 2025-11-25 says which event it has seen last, and lists only if it is told.
type follower struct {
	w      *world
	legacy bool
	// retries says how often what fails is tried again, because replicas are killed.
	retries int

	mu sync.Mutex // guards what follows
	// mark is the newest that it has listed.
	mark int
	// told counts the changes that it was told of, ended the streams that ended in the way of their revision, and cut the others.
	told, ended, cut int
	err              error
}

// followers are clients of both eras. Stop ends them.
type followers struct {
	all     []*follower
	cancel  context.CancelFunc
	pending sync.WaitGroup
}

func (w *world) follow(ctx context.Context, n, retries int) *followers {
	all := &followers{}
	ctx, all.cancel = context.WithCancel(ctx)
	for i := range 2 * n {
		f := &follower{w: w, legacy: i%2 == 1, retries: retries}
		all.all = append(all.all, f)
		all.pending.Go(func() { f.run(ctx) })
	}
	return all
}

// stop ends all followers, and returns an error if one of them met something that must not happen.
func (all *followers) stop() (err error) {
	all.cancel()
	all.pending.Wait()
	for _, f := range all.all {
		err = errors.Join(err, f.err)
	}
	return err
}

func (all *followers) sum(count func(*follower) int) (sum int) {
	for _, f := range all.all {
		f.mu.Lock()
		sum += count(f)
		f.mu.Unlock()
	}
	return sum
}

// await waits until all followers have listed a mark, or a later one, and returns how long that took.
func (all *followers) await(mark int) (time.Duration, error) {
	began := time.Now()
	err := rig.Eventually(timeout, func() error {
		behind := all.sum(func(f *follower) int { return min(max(mark-f.mark, 0), 1) })
		if behind > 0 {
			return fmt.Errorf("%d of %d clients have not listed change %d", behind, len(all.all), mark)
		}
		return nil
	})
	return time.Since(began), err
}

func (f *follower) run(ctx context.Context) {
	c := &f.w.client
	for opened := !f.legacy; !opened && ctx.Err() == nil; {
		session, err := f.w.open(ctx)
		if c, opened = session, err == nil; !opened {
			f.note(ctx, false, err)
		}
	}
	for last := ""; ctx.Err() == nil; {
		begun, err := f.stream(ctx, c, &last)
		f.note(ctx, begun, err)
	}
}

// note counts what became of a stream, which ended in the way of its revision without an error.
func (f *follower) note(ctx context.Context, begun bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil: // it is over
	case err == nil:
		f.ended++
	case begun || f.retries > 0:
		f.cut++
		time.Sleep(10 * time.Millisecond)
	default:
		f.err = errors.Join(f.err, err)
		time.Sleep(10 * time.Millisecond)
	}
}

// stream follows one stream, which goes on after an event if it is one of 2025-11-25. Last becomes the last event.
func (f *follower) stream(ctx context.Context, c *rig.Client, last *string) (begun bool, err error) {
	response, err := c.Listen(ctx, *last)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	events := rig.Events(response.Body)
	if f.legacy && *last == "" {
		if _, err := events.Data(); err != nil { // the first event, which only has an id
			return true, err
		}
		if err := f.list(ctx); err != nil {
			return true, err
		}
		*last = events.ID
	}
	for {
		m, err := events.Next()
		switch {
		case f.legacy && errors.Is(err, io.EOF), err == nil && m.Method == "": // the closing result
			return true, nil
		case err != nil:
			return true, err
		}
		if m.Method == wire.PromptsListChanged {
			f.mu.Lock()
			f.told++
			f.mu.Unlock()
		}
		if err := f.list(ctx); err != nil {
			return true, err // it has heard of the event, and not seen the change
		}
		*last = events.ID
	}
}

func (f *follower) list(ctx context.Context) error {
	names, err := f.w.client.Walk(ctx, 3)
	if err != nil {
		return err
	}
	mark, _, err := marks(names)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mark = max(f.mark, mark)
	return err
}

func (w *world) awaitEverywhere(ctx context.Context, mark int) error {
	for i := range w.gateways {
		if err := rig.Eventually(timeout, func() error {
			names, err := w.at(i).Walk(ctx, 0)
			if err != nil {
				return err
			}
			newest, _, err := marks(names)
			if err == nil && newest < mark {
				err = fmt.Errorf("replica %d does not list change %d", i+1, mark)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func checkStreams(ctx context.Context, w *world, s *settings) (string, error) {
	const each = 12
	all, changes := w.follow(ctx, each, 0), 16
	if s.short {
		changes /= 4
	}
	if _, err := all.await(w.change()); err != nil { // all of them have begun
		return "", errors.Join(err, all.stop())
	}
	told := func(f *follower) int { return f.told }
	before := all.sum(told)
	seen, err := slowest(changes, fmt.Sprintf("changes, listed by %d clients", len(all.all)), func(int) (time.Duration, error) {
		time.Sleep(600 * time.Millisecond) // changes sooner after another one are announced together
		return all.await(w.change())
	})
	each1 := float64(all.sum(told)-before) / float64(changes*len(all.all))
	return fmt.Sprintf("%s; they were told %.1f times of each", seen, each1), errors.Join(err, all.stop())
}

// settled is when all replicas have told the clients of their streams of a change that they have.
const settled = 500 * time.Millisecond

// checkResume has a client of 2025-11-25 go on with an event id at another replica: it is told of a change that it has missed, and only then.
func checkResume(ctx context.Context, w *world, _ *settings) (string, error) {
	c, err := w.open(ctx)
	if err != nil {
		return "", err
	}
	last, replica := "", ""
	return slowest(attempts, "streams, each at another replica than before, of which every other one was told of a missed change", func(i int) (time.Duration, error) {
		missed := i%2 == 1
		if missed {
			if err := w.awaitEverywhere(ctx, w.change()); err != nil {
				return 0, err
			}
			time.Sleep(settled)
		}
		began := time.Now()
		response, err := c.Listen(ctx, last)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		now, events := response.Header.Get("X-Replica"), rig.Events(response.Body)
		data, err := events.Data()
		told := data != ""
		if err == nil && !told { // the first event only says where the stream begins
			quiet := time.AfterFunc(soon, func() { _ = response.Body.Close() })
			_, ended := events.Next()
			told = ended == nil
			quiet.Stop()
		}
		took := time.Since(began)
		if err != nil || told != missed || now == replica {
			return 0, fmt.Errorf("a stream at %s after one at %s, with a change between them: %t; told: %t, %w", now, replica, missed, told, err)
		}
		if last, replica = events.ID, now; !missed {
			took = 0 // it waited for nothing
		}
		return took, nil
	})
}
