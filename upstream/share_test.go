package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/sharedwatch"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// fakeWatch is a watch whose lease another replica holds, unless turn says that this one does.
type fakeWatch struct {
	woken chan struct{}

	mu            sync.Mutex // guards what follows
	turn          sharedwatch.Turn
	list          []jsontext.Value
	attends, asks int
	// putErr is what becomes of the lists that are put, alone of those that are not. These are counted.
	putErr      error
	puts, alone int
	// unchanged is what was said of the last one.
	unchanged bool
	// isLate has the holder put a list again before the last one is received.
	isLate bool
}

var errReceived = errors.New("not received")

// follow runs a connector, in a bubble, to a peer that another replica watches.
func follow(t *testing.T, test func(*testing.T, *upstreamtest.Peer, *upstream.Connector, *fakeWatch)) {
	t.Helper()
	share(t, &fakeWatch{}, test)
}

// share runs a connector that shares a watch, in a bubble.
func share(t *testing.T, w *fakeWatch, test func(*testing.T, *upstreamtest.Peer, *upstream.Connector, *fakeWatch)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p := upstreamtest.NewPeer(t)
		p.Prompts("own")
		w.woken = make(chan struct{}, 1)
		w.turn = sharedwatch.Turn{Lease: "lease", Number: 1, Held: w.turn.Held, Left: 4 * time.Second, Next: 2 * time.Second}
		c := upstream.New(anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: p}}, func() {})
		c.ShareWatch(w)
		run(t, c)
		synctest.Wait()
		test(t, p, c, w)
	})
}

// put has the holder put a list.
func (w *fakeWatch) put(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = nil
	for _, name := range names {
		w.list = append(w.list, jsontext.Value(`{"name":"`+name+`"}`))
	}
	w.turn.ListNumber, w.turn.Answers = w.turn.Number, w.turn.Asked
	w.turn.Version++
	w.wake()
}

func (w *fakeWatch) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *fakeWatch) counts() (attends, asks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attends, w.asks
}

func (w *fakeWatch) Join([]byte) upstream.SharedWatch { return w }
func (w *fakeWatch) Woken() <-chan struct{}           { return w.woken }
func (w *fakeWatch) Release()                         {}
func (w *fakeWatch) Leave()                           {}

func (w *fakeWatch) Attend(context.Context, bool) (sharedwatch.Turn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attends++
	return w.turn, nil
}

func (w *fakeWatch) Ask(context.Context) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks++
	w.turn.Asked++
	return w.turn.Asked, nil
}

func (w *fakeWatch) Put(_ context.Context, _ uint64, _ []jsontext.Value, unchanged bool, _ uint64, _ time.Duration) (uint64, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts++
	w.unchanged = unchanged
	if w.putErr == nil {
		w.turn.ListNumber, w.turn.Version = w.turn.Number, w.turn.Version+1
	}
	return w.turn.Version, w.turn.Held, w.putErr
}

func (w *fakeWatch) PutAlone(context.Context, uint64, uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alone++
	return w.turn.Held, nil
}

func (w *fakeWatch) Take(ctx context.Context, _ sharedwatch.Turn) ([]jsontext.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isLate {
		return w.list, nil
	}
	w.turn.Version++
	w.mu.Unlock()
	time.Sleep(time.Second)
	w.mu.Lock()
	return nil, errReceived
}

// watchingOf returns the part of the only endpoint.
func watchingOf(c *upstream.Connector) upstream.Watching { return c.State().Endpoints[0].Watching }

// wantFollowed checks what is shown, and by whom it was listed.
func wantFollowed(t *testing.T, c *upstream.Connector, part upstream.Watching, want string) {
	t.Helper()
	synctest.Wait()
	if got := names(c); got != want || watchingOf(c) != part {
		t.Errorf("shows %q and watches %q, want %q and %q", got, watchingOf(c), want, part)
	}
}

// A follower whose server reports changes without end asks the holder for a list now and then, and tells it of the last one too.
func TestShare_ServerThatReportsChangesWithoutEndCostsTheStoreLittle(t *testing.T) {
	follow(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, w *fakeWatch) {
		w.put("a")
		p.Handle(wire.PromptsGet, func(rw http.ResponseWriter, r *upstreamtest.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			for range 5000 {
				_, _ = fmt.Fprint(rw, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n") // as long as it reads
				time.Sleep(time.Millisecond)
			}
			_, _ = fmt.Fprintf(rw, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"messages\":[]}}\n\n", r.Message.ID)
		})
		time.Sleep(time.Minute)
		attended, asked := w.counts()
		mustGet(t, c, "a")
		attends, asks := w.counts()
		attends, asks = attends-attended, asks-asked
		if attends > 30 || asks < 5 || asks > 30 {
			t.Errorf("it attends %d times, and asks %d times, in 5 seconds", attends, asks)
		}
		time.Sleep(time.Second)
		w.put("b")
		time.Sleep(time.Second)
		wantFollowed(t, c, upstream.WatchingOther, "b")
	})
}

// Whoever follows waits for ten seconds for what the holder should have, then lists for itself, and follows again when it comes.
func TestShare_ReplicaThatWaitsForAListInVainListsItself(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		follow(t, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector, w *fakeWatch) {
			time.Sleep(9 * time.Second)
			wantFollowed(t, c, upstream.WatchingOther, "")
			time.Sleep(2 * time.Second)
			wantFollowed(t, c, upstream.WatchingAlone, "own")
			w.put("a")
			time.Sleep(35 * time.Second) // it asks for one later than its own
			wantFollowed(t, c, upstream.WatchingOther, "own")
			w.put("b")
			wantFollowed(t, c, upstream.WatchingOther, "b")
			time.Sleep(time.Minute)
			wantFollowed(t, c, upstream.WatchingOther, "b")
		})
	})
	t.Run("lists that are replaced before they are received", func(t *testing.T) {
		follow(t, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector, w *fakeWatch) {
			w.put("a")
			time.Sleep(time.Minute)
			w.mu.Lock()
			w.isLate = true
			w.mu.Unlock()
			w.put("b")
			time.Sleep(9 * time.Second)
			wantFollowed(t, c, upstream.WatchingOther, "a")
			time.Sleep(4 * time.Second)
			wantFollowed(t, c, upstream.WatchingAlone, "own")
		})
	})
}

// A list that could not be put for a passing cause is put again, less and less often.
func TestShare_HolderPutsAgainWhatCouldNotBePut(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		puts []int // after 1 s, 10 s, 1 min and, once it succeeds, 10 min
	}{
		"passing": {errors.New("the store is full"), []int{1, 2, 4, 5}},
		"lasting": {fmt.Errorf("%w: it is too large", sharedwatch.ErrNotShareable), []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			share(t, &fakeWatch{turn: sharedwatch.Turn{Held: true}, putErr: c.err}, func(t *testing.T, _ *upstreamtest.Peer, _ *upstream.Connector, w *fakeWatch) {
				var got []int
				for _, d := range []time.Duration{time.Second, 9 * time.Second, 50 * time.Second, 9 * time.Minute} {
					if d > time.Minute {
						w.mu.Lock()
						w.putErr = nil
						w.mu.Unlock()
					}
					time.Sleep(d)
					w.mu.Lock()
					got = append(got, w.puts)
					w.mu.Unlock()
				}
				if !slices.Equal(got, c.puts) {
					t.Errorf("it was put %v times, want %v", got, c.puts)
				}
			})
		})
	}
}

// A store that has lost something may count questions from a smaller number. The holder lists for each all the same.
func TestShare_HolderAnswersQuestionsWhoseCountWentBack(t *testing.T) {
	share(t, &fakeWatch{turn: sharedwatch.Turn{Held: true}}, func(t *testing.T, p *upstreamtest.Peer, _ *upstream.Connector, w *fakeWatch) {
		for _, asked := range []uint64{1000, 3} {
			time.Sleep(time.Minute)
			before := lists(p)
			w.mu.Lock()
			w.turn.Asked = asked
			w.wake()
			w.mu.Unlock()
			wantLists(t, p, time.Minute, before+1, before+1)
		}
	})
}

// What the store has forgotten is put again although the server lists the same.
func TestShare_HolderPutsAgainWhatTheStoreForgot(t *testing.T) {
	share(t, &fakeWatch{turn: sharedwatch.Turn{Held: true}}, func(t *testing.T, _ *upstreamtest.Peer, _ *upstream.Connector, w *fakeWatch) {
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.turn.ListNumber, w.turn.Version, w.unchanged = 0, 0, true
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.puts != 2 || w.unchanged {
			t.Errorf("put %d times, the last time as what is there: %t", w.puts, w.unchanged)
		}
	})
}
