//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// follower is a client that holds a stream. It lists when it is told of a change, and when its stream ends it goes on at the next replica:
// a modern one lists then, and one of 2025-11-25 says which event it has seen last, and lists only if it is told.
type follower struct {
	w      *world
	modern bool
	// again says that a stream may fail to open, because replicas are killed: it is tried again.
	again bool

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

// follow begins a number of followers of each era.
func (w *world) follow(ctx context.Context, n int, again bool) *followers {
	all := &followers{}
	ctx, all.cancel = context.WithCancel(ctx)
	for i := range 2 * n {
		f := &follower{w: w, modern: i%2 == 0, again: again}
		all.all = append(all.all, f)
		all.pending.Go(func() { f.run(ctx) })
	}
	return all
}

// stop ends all followers, and returns an error if one of them met something that must not happen.
func (all *followers) stop() error {
	all.cancel()
	all.pending.Wait()
	var failed []error
	for _, f := range all.all {
		failed = append(failed, f.err)
	}
	return errors.Join(failed...)
}

// sum adds up a count of all followers.
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
	began, behind := time.Now(), 0
	for time.Since(began) < patience {
		behind = all.sum(func(f *follower) int {
			if f.mark < mark {
				return 1
			}
			return 0
		})
		if behind == 0 {
			return time.Since(began), nil
		}
		time.Sleep(time.Millisecond)
	}
	return patience, fmt.Errorf("%d of %d clients have not listed change %d within %v", behind, len(all.all), mark, patience)
}

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	if f.modern {
		for ctx.Err() == nil {
			f.note(f.listen(ctx))
		}
		return
	}
	var s *session
	for ctx.Err() == nil && s == nil {
		opened, err := f.w.open(ctx)
		if err == nil {
			s = opened
			continue
		}
		f.note(opening, err)
	}
	for last := ""; ctx.Err() == nil; {
		var outcome outcome
		var err error
		outcome, last, err = f.stream(ctx, s, last)
		f.note(outcome, err)
	}
}

// outcome is what became of a stream.
type outcome int

const (
	opening outcome = iota // it was not opened
	cut                    // its connection broke
	ended                  // it ended in the way of its revision
)

// pauseRefused is how long a follower waits that could not open its stream.
const pauseRefused = 10 * time.Millisecond

// note counts what became of a stream.
func (f *follower) note(o outcome, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // it is over
	case o == ended:
		f.ended++
	case o == cut:
		f.cut++
	case f.again:
		f.cut++
		time.Sleep(pauseRefused)
	default:
		f.err = errors.Join(f.err, err)
		time.Sleep(pauseRefused)
	}
}

// listen follows one subscription of the modern era.
func (f *follower) listen(ctx context.Context) (outcome, error) {
	response, err := f.w.request(ctx, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`)
	if err != nil {
		return opening, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return opening, fmt.Errorf("listen: HTTP %s", response.Status)
	}
	events := readStream(response)
	for {
		m, err := events.next()
		switch {
		case err != nil:
			return cut, err
		case m.Method == "": // the closing result
			return ended, nil
		}
		f.heard(m)
		if err := f.list(ctx); err != nil {
			return cut, err
		}
	}
}

// stream follows one GET stream of 2025-11-25 from an event on, and returns the last event.
func (f *follower) stream(ctx context.Context, s *session, last string) (_ outcome, id string, _ error) {
	response, err := s.stream(ctx, last)
	if err != nil {
		return opening, last, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return opening, last, fmt.Errorf("a GET stream: HTTP %s", response.Status)
	}
	events := readStream(response)
	if last == "" {
		if _, err := events.data(); err != nil { // the first event, which only has an id
			return cut, "", err
		}
		if err := f.list(ctx); err != nil {
			return cut, "", err
		}
		last = events.id
	}
	for {
		m, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return ended, last, nil
		case err != nil:
			return cut, last, err
		}
		f.heard(m)
		if err := f.list(ctx); err != nil {
			return cut, last, err // it has heard of the event, and not seen the change
		}
		last = events.id
	}
}

// stream opens a GET stream that goes on after an event; "" begins a new one.
func (s *session) stream(ctx context.Context, last string) (*http.Response, error) {
	headers := s.headers
	if last != "" {
		headers = append([]string{"Last-Event-ID", last}, headers...)
	}
	return s.send(ctx, http.MethodGet, s.url+"/mcp", "", headers...)
}

func (f *follower) heard(m *message) {
	if m.Method != "notifications/prompts/list_changed" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told++
}

// list lists all pages, and notes the newest mark.
func (f *follower) list(ctx context.Context) error {
	names, err := f.w.walk(ctx, true)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range names {
		if mark, _, ok := markOf(name); ok {
			f.mark = max(f.mark, mark)
		}
	}
	return complete(names)
}

// change has the server's list change, and returns the mark by which clients know that they have listed it.
func (w *world) change() (mark int) {
	mark = int(w.changes.Add(1))
	w.offer(mark)
	return mark
}

// awaitEverywhere waits until each replica lists a change.
func (w *world) awaitEverywhere(ctx context.Context, mark int) error {
	for i := range w.gateways {
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			f := &follower{w: w.at(i)}
			if err := f.list(ctx); err != nil {
				return err
			}
			if f.mark >= mark {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("replica %d does not list change %d after %v", i+1, mark, patience)
			}
		}
	}
	return nil
}

// checkStreams changes the list while clients of both eras follow it.
func checkStreams(ctx context.Context, w *world, s *settings) (string, error) {
	const each, changes = 12, 16
	all, n := w.follow(ctx, each, false), changes
	if s.short {
		n /= 4
	}
	if _, err := all.await(w.change()); err != nil { // all of them have begun
		return "", errors.Join(err, all.stop())
	}
	before := all.sum(func(f *follower) int { return f.told })
	var longest slowest
	for range n {
		time.Sleep(600 * time.Millisecond) // changes sooner after another one are announced together
		took, err := all.await(w.change())
		if err != nil {
			return "", errors.Join(err, all.stop())
		}
		longest = max(longest, slowest(took))
	}
	told := all.sum(func(f *follower) int { return f.told }) - before
	seen := fmt.Sprintf("%d changes, listed by %d clients after %v at most; they were told %.1f times of each",
		n, len(all.all), &longest, float64(told)/float64(n*len(all.all)))
	return seen, all.stop()
}

// settled is when all replicas have told the clients of their streams of a change that they have.
const settled = 500 * time.Millisecond

// checkResume has a client of 2025-11-25 go on with an event id at another replica: it is told of a change that it has missed, and only then.
func checkResume(ctx context.Context, w *world, _ *settings) (string, error) {
	s, err := w.open(ctx)
	if err != nil {
		return "", err
	}
	last, replica := "", ""
	var longest slowest
	for i := range attempts {
		missed := i%2 == 1
		if missed {
			if err := w.awaitEverywhere(ctx, w.change()); err != nil {
				return "", err
			}
			time.Sleep(settled)
		}
		began := time.Now()
		response, err := s.stream(ctx, last)
		if err != nil {
			return "", err
		}
		now := response.Header.Get("X-Replica")
		events := readStream(response)
		told, err := toldWithin(events, response)
		if missed {
			longest.since(began)
		}
		if err != nil || told != missed || now == replica {
			return "", fmt.Errorf("a stream at %s after one at %s, with a change between them: %t; told: %t, %w", now, replica, missed, told, err)
		}
		last, replica = events.id, now
	}
	return fmt.Sprintf("%d streams, each at another replica than before; of %d missed changes told after %v at most", attempts, attempts/2, &longest), nil
}

// toldWithin reports whether a stream tells of a change soon, and closes it. An error means that it did not even say where it begins.
func toldWithin(events *stream, response *http.Response) (told bool, err error) {
	defer response.Body.Close()
	data, err := events.data()
	if err != nil || data != "" {
		return true, err
	}
	defer time.AfterFunc(soon, func() { response.Body.Close() }).Stop()
	_, err = events.next()
	return err == nil, nil
}
