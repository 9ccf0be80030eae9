package gate

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// crowd is requests at a gate, in a bubble in which time moves.
type crowd struct {
	gate *Gate
	log  strings.Builder
	// late is how long each look takes.
	late atomic.Int64
	// looks counts them.
	looks atomic.Int64

	mu sync.Mutex // guards entered and refused
	// entered and refused are the numbers of the requests in the order of their answers.
	entered, refused []int
}

// start runs a gate until the test ends. To be called in a bubble.
func start(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{}
	c.gate = New(slog.New(slog.NewTextHandler(&c.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer c.gate.open()
		ended <- c.gate.run(ctx, func() (time.Duration, error) {
			c.looks.Add(1)
			late := time.Duration(c.late.Load())
			time.Sleep(late)
			return late, nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return c
}

// hang closes the gate: from now on, looks take an hour.
func (c *crowd) hang() {
	c.late.Store(int64(time.Hour))
	c.gate.Enter("192.0.2.200") // or it would not look
	time.Sleep(openInterval + 2*tolerable)
	synctest.Wait()
}

// answered returns the numbers of the requests that have entered and that were refused, in the order of their answers.
func (c *crowd) answered() (entered, refused []int) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.entered), slices.Clone(c.refused)
}

// arrive lets requests come, in the order of their numbers.
func (c *crowd) arrive(from, to int) { c.arriveFrom("192.0.2.1", from, to) }

// arriveFrom is arrive for the requests of one holder.
func (c *crowd) arriveFrom(holder string, from, to int) {
	for i := from; i <= to; i++ {
		go func() {
			entered := c.gate.Enter(holder)
			c.mu.Lock()
			defer c.mu.Unlock()
			if entered {
				c.entered = append(c.entered, i)
			} else {
				c.refused = append(c.refused, i)
			}
		}()
		synctest.Wait()
		time.Sleep(time.Microsecond) // so that no two came at the same time
	}
}

func TestGate_LetsAllInWhileTheProcessIsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.late.Store(int64(tolerable / 2))
		time.Sleep(time.Second)
		c.arrive(1, 100)
		if entered, _ := c.answered(); len(entered) != 100 {
			t.Errorf("%d of 100 requests entered at once", len(entered))
		}
		if c.log.Len() > 0 {
			t.Errorf("log = %s, want nothing", c.log.String())
		}
	})
}

// The gate closes before it is known how late the process is, and opens when it has been in time for a while.
func TestGate_ClosesWhileTheProcessIsLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.late.Store(int64(50 * time.Millisecond))
		c.gate.Enter("192.0.2.200") // or it would not look
		time.Sleep(2 * tolerable)
		batched := batch * runtime.GOMAXPROCS(0)
		c.arrive(1, batched+1)
		if entered, _ := c.answered(); len(entered) > 0 {
			t.Errorf("%d requests entered a closed gate", len(entered))
		}
		time.Sleep(50 * time.Millisecond)
		if entered, _ := c.answered(); len(entered) != batched {
			t.Errorf("%d requests entered, want a batch of %d after the first look", len(entered), batched)
		}
		if got := c.log.String(); strings.Count(got, "more requests than the processors can serve") != 1 {
			t.Errorf("log = %q, want that there are more requests than the processors can serve, once", got)
		}
		c.late.Store(0)
		time.Sleep(50*time.Millisecond + 2*calmLooks*closedInterval)
		c.arrive(batched+2, batched+2)
		if entered, _ := c.answered(); len(entered) != batched+2 {
			t.Errorf("%d of %d requests entered, want all: the gate is open again", len(entered), batched+2)
		}
	})
}

// All the time, looking would take 2 % of a processor.
func TestGate_RestsWhileNothingArrives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		for arrival := int64(1); arrival <= 3; arrival++ {
			time.Sleep(time.Hour)
			if got := c.looks.Load(); got > 2*arrival {
				t.Errorf("%d looks, want 2 for each of %d arrivals", got, arrival-1)
			}
			before := c.looks.Load()
			if arrival == 2 {
				c.gate.enterConnection()
			} else {
				c.gate.Enter("192.0.2.1")
			}
			if synctest.Wait(); c.looks.Load() != before+1 {
				t.Errorf("%d looks for arrival %d, want one at once", c.looks.Load()-before, arrival)
			}
		}
		for range 10 {
			c.gate.Enter("192.0.2.1")
			time.Sleep(openInterval)
		}
		if got := c.looks.Load(); got < 6+8 {
			t.Errorf("%d looks in all, want one each %v while requests arrive", got, openInterval)
		}
	})
}

// What arrives at the moment when the gate comes to rest wakes it. Few of the rounds meet that moment, but enough.
func TestGate_NoticesWhatArrivesWhileItComesToRest(t *testing.T) {
	const rounds = 20_000
	g := New(slog.New(slog.DiscardHandler))
	var begun, ended atomic.Int64
	await := func(n *atomic.Int64, round int64) {
		for n.Load() < round {
			runtime.Gosched()
		}
	}
	go func() {
		for round := int64(1); round <= rounds; round++ {
			await(&begun, round)
			g.state.CompareAndSwap(quiet, resting) // as rest does
			ended.Store(round)
		}
	}()
	for round := int64(1); round <= rounds; round++ {
		g.state.Store(quiet)
		begun.Store(round)
		for range round % 64 { // so that each is first in some
			_ = begun.Load()
		}
		g.arrive()
		await(&ended, round)
		select {
		case <-g.woken:
		default:
			if g.state.Load() == resting {
				t.Fatalf("round %d: the gate rests, and nothing wakes it", round)
			}
		}
	}
}

func TestGate_LetsTheNewestInAndOneInFourTheOldest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 8)
		for range 8 {
			c.gate.admit(1)
			synctest.Wait()
		}
		entered, _ := c.answered()
		if want := []int{8, 7, 6, 1, 5, 4, 3, 2}; !slices.Equal(entered, want) {
			t.Errorf("requests entered in the order %v, want %v", entered, want)
		}
	})
}

// Somebody who floods the gate delays themselves.
func TestGate_LetsHoldersInByTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arriveFrom("192.0.2.1", 1, 100)
		c.arriveFrom("192.0.2.2", 101, 103)
		c.arriveFrom("192.0.2.3", 104, 104)
		for range 9 {
			c.gate.admit(1)
			synctest.Wait()
		}
		entered, _ := c.answered()
		if want := []int{100, 103, 104, 99, 102, 98, 101, 1, 97}; !slices.Equal(entered, want) {
			t.Errorf("requests entered in the order %v, want %v", entered, want)
		}
		c.gate.open()
		if entered, _ := c.answered(); len(entered) != 104 || len(c.gate.lines) > 0 || c.gate.turns.Len() > 0 {
			t.Errorf("%d of 104 entered at last, %d lines are left", len(entered), len(c.gate.lines))
		}
	})
}

func TestPrecede_KeepsClientsOutWhileAnOperatorIsAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 100)
		answer := make(chan struct{})
		handler := c.gate.Precede(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
		go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		synctest.Wait()
		look := func(want int, when string) {
			t.Helper()
			for range operatorTurn {
				c.gate.admit(1)
			}
			if entered, _ := c.answered(); len(entered) != want {
				t.Errorf("%d requests entered %s, want %d", len(entered), when, want)
			}
		}
		look(1, "beside one of an operator")
		time.Sleep(operatorBound)
		look(1+operatorTurn, "beside one that takes long")
		close(answer)
		synctest.Wait()
		look(1+2*operatorTurn, "after it was answered")
	})
}

func TestGate_RefusesThoseThatHaveWaitedForLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 3)
		time.Sleep(patience - time.Millisecond)
		c.arrive(4, 4)
		time.Sleep(time.Millisecond)
		for range 5 {
			c.gate.admit(0)
			synctest.Wait()
		}
		entered, refused := c.answered()
		if want := []int{1, 2, 3}; !slices.Equal(refused, want) || len(entered) > 0 {
			t.Errorf("%v were refused and %v entered, want %v to be refused", refused, entered, want)
		}
	})
}

// With room for everybody, nobody is refused, however late it is.
func TestGate_DoesNotRefuseWhereThereIsRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 20)
		time.Sleep(2 * patience)
		c.gate.admit(20)
		if entered, refused := c.answered(); len(entered) != 20 {
			t.Errorf("%d of 20 requests entered, %d were refused", len(entered), len(refused))
		}
	})
}

// Requests on connections that are there go first; but those who come are not kept out for ever.
func TestGate_AcceptsConnectionsWhereThereIsRoomAndNowAndThen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		var accepted atomic.Int64
		go func() {
			for {
				c.gate.enterConnection()
				if accepted.Add(1) == 1000 {
					return
				}
			}
		}()
		c.gate.admit(5)
		synctest.Wait()
		if got := accepted.Load(); got != 5 {
			t.Errorf("%d connections were accepted, want 5, as many as there is room", got)
		}
		c.arrive(1, 10*newcomerTurn)
		for range 3 * newcomerTurn {
			c.gate.admit(1)
			synctest.Wait()
		}
		if got := accepted.Load(); got != 8 {
			t.Errorf("%d connections were accepted, want 3 more", got)
		}
		c.gate.open()
		synctest.Wait()
		if got := accepted.Load(); got != 1000 {
			t.Errorf("%d connections were accepted through an open gate, want 1000", got)
		}
	})
}

func TestGate_LetsAllInAtTheEnd(t *testing.T) {
	c := &crowd{}
	bubble.Test(t, func(t *testing.T) {
		c = start(t)
		c.hang()
		c.arrive(1, 3)
	})
	if len(c.entered) != 3 {
		t.Errorf("requests %v entered at the end of run, want all three", c.entered)
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	g := New(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	if !g.Enter("192.0.2.1") {
		t.Error("a request was refused")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A probe takes longer while everybody is busy: that is what it is for.
func TestProbe_WaitsForWhatIsBeingDone(t *testing.T) {
	p, err := newProbe()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for range 3 {
		if _, err := p.wait(); err != nil {
			t.Fatal(err)
		}
	}
	const work = 20 * time.Millisecond
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	for range 10 {
		go func() {
			for begun := time.Now(); time.Since(begun) < work; {
			}
		}()
	}
	took, err := p.wait()
	// A goroutine that is busy is not interrupted for the first 10 ms. When it is the reader's turn among the others, is the runtime's choice.
	if least := work / 4; err != nil || took < least {
		t.Errorf("the probe took %v, %v, want at least %v: other goroutines are busy for ten times %v", took, err, least, work)
	}
}

// A timer that has fired may not have run yet when the gate ends. What came after would wait for ever.
func TestGate_StaysOpenOnceItHasEnded(t *testing.T) {
	g := New(slog.New(slog.DiscardHandler))
	g.close()
	if g.state.Load() != closed {
		t.Fatal("it does not close")
	}
	g.end()
	g.close()
	if g.state.Load() == closed {
		t.Error("it has closed again")
	}
}
