package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// heldElsewhere is a watch whose lease another replica holds.
type heldElsewhere struct {
	woken chan struct{}

	mu            sync.Mutex // guards what follows
	turn          upstream.Turn
	list          []jsontext.Value
	attends, asks int
	// isLate has the holder put a list again before the last one is received.
	isLate bool
}

var errReceived = errors.New("not received")

// follow runs a connector, in a bubble, to a peer that another replica watches.
func follow(t *testing.T, test func(*testing.T, *upstreamtest.Peer, *upstream.Connector, *heldElsewhere)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := upstreamtest.NewPeer(t)
		p.Prompts("own")
		w := &heldElsewhere{woken: make(chan struct{}, 1), turn: upstream.Turn{Lease: "lease", Number: 1, Left: 4 * time.Second, Next: 2 * time.Second}}
		c := upstream.New(anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: p}}, func() {})
		c.ShareWatch(w)
		run(t, c)
		synctest.Wait()
		test(t, p, c, w)
	})
}

// put has the holder put a list.
func (w *heldElsewhere) put(names ...string) {
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

func (w *heldElsewhere) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *heldElsewhere) counts() (attends, asks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attends, w.asks
}

func (w *heldElsewhere) Join([]byte) upstream.SharedWatch { return w }
func (w *heldElsewhere) Woken() <-chan struct{}           { return w.woken }
func (w *heldElsewhere) Release()                         {}
func (w *heldElsewhere) Leave()                           {}

func (w *heldElsewhere) Attend(context.Context, bool) (upstream.Turn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attends++
	return w.turn, nil
}

func (w *heldElsewhere) Ask(context.Context) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks++
	w.turn.Asked++
	return w.turn.Asked, nil
}

func (w *heldElsewhere) Put(context.Context, uint64, []jsontext.Value, bool, uint64, time.Duration) (uint64, bool, error) {
	return 0, false, nil
}
func (w *heldElsewhere) PutAlone(context.Context, uint64, uint64) (bool, error) { return false, nil }

func (w *heldElsewhere) Take(ctx context.Context, _ upstream.Turn) ([]jsontext.Value, error) {
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
	t.Parallel()
	follow(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, w *heldElsewhere) {
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
	t.Parallel()
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		follow(t, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector, w *heldElsewhere) {
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
		t.Parallel()
		follow(t, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector, w *heldElsewhere) {
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
