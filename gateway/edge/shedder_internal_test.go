package edge

import (
	"context"
	"fmt"
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

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// load is requests that arrive, in a bubble in which time moves.
type load struct {
	shedder *Shedder
	log     strings.Builder
	// late is how long each probe takes.
	late atomic.Int64
	// probes counts them.
	probes atomic.Int64

	mu sync.Mutex // guards entered and refused
	// entered and refused are the numbers of the requests in the order of their answers.
	entered, refused []int
}

// start runs a shedder until the test ends. To be called in a bubble.
func start(t *testing.T) *load {
	t.Helper()
	c := &load{}
	c.shedder = NewShedder(New(Options{}), slog.New(slog.NewTextHandler(&c.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer c.shedder.admitAll()
		ended <- c.shedder.run(ctx, func() (time.Duration, error) {
			c.probes.Add(1)
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

// hang makes it shed: from now on, probes take an hour.
func (c *load) hang() {
	c.late.Store(int64(time.Hour))
	c.shedder.Enter("192.0.2.200") // or it would not probe
	time.Sleep(admittingInterval + 2*targetDelay)
	synctest.Wait()
}

// answered returns the numbers of the requests that have entered and that were refused, in the order of their answers.
func (c *load) answered() (entered, refused []int) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.entered), slices.Clone(c.refused)
}

// arrive lets requests come, in the order of their numbers.
func (c *load) arrive(from, to int) { c.arriveFrom("192.0.2.1", from, to) }

// arriveFrom is arrive for the requests of one client.
func (c *load) arriveFrom(client string, from, to int) {
	for i := from; i <= to; i++ {
		go func() {
			entered := c.shedder.Enter(client)
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

func TestShedder_AdmitsAllWhileTheProcessIsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.late.Store(int64(targetDelay / 2))
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

// It sheds before it is known how late the process is, and admits when that has been in time for a while.
func TestShedder_ShedsWhileTheProcessIsLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.late.Store(int64(50 * time.Millisecond))
		c.shedder.Enter("192.0.2.200") // or it would not probe
		time.Sleep(2 * targetDelay)
		batched := batch * runtime.GOMAXPROCS(0)
		c.arrive(1, batched+1)
		if entered, _ := c.answered(); len(entered) > 0 {
			t.Errorf("%d requests entered while shedding", len(entered))
		}
		time.Sleep(50 * time.Millisecond)
		if entered, _ := c.answered(); len(entered) != batched {
			t.Errorf("%d requests entered, want a batch of %d after the first probe", len(entered), batched)
		}
		if got := c.log.String(); strings.Count(got, "overloaded") != 1 {
			t.Errorf("log = %q, want that the gateway is overloaded, once", got)
		}
		c.late.Store(0)
		time.Sleep(50*time.Millisecond + 2*stableProbes*sheddingInterval)
		c.arrive(batched+2, batched+2)
		if entered, _ := c.answered(); len(entered) != batched+2 {
			t.Errorf("%d of %d requests entered, want all: it admits again", len(entered), batched+2)
		}
	})
}

// All the time, probing would take 2 % of a processor.
func TestShedder_RestsWhileNothingArrives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		for arrival := int64(1); arrival <= 3; arrival++ {
			time.Sleep(time.Hour)
			if got := c.probes.Load(); got > 2*arrival {
				t.Errorf("%d probes, want 2 for each of %d arrivals", got, arrival-1)
			}
			before := c.probes.Load()
			if arrival == 2 {
				c.shedder.awaitConnection()
			} else {
				c.shedder.Enter("192.0.2.1")
			}
			if synctest.Wait(); c.probes.Load() != before+1 {
				t.Errorf("%d probes for arrival %d, want one at once", c.probes.Load()-before, arrival)
			}
		}
		for range 10 {
			c.shedder.Enter("192.0.2.1")
			time.Sleep(admittingInterval)
		}
		if got := c.probes.Load(); got < 6+8 {
			t.Errorf("%d probes in all, want one each %v while requests arrive", got, admittingInterval)
		}
	})
}

// What arrives at the moment when the shedder comes to rest wakes it. Few of the rounds meet that moment, but enough.
func TestShedder_NoticesWhatArrivesWhileItComesToRest(t *testing.T) {
	const rounds = 20_000
	g := NewShedder(New(Options{}), slog.New(slog.DiscardHandler))
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
				t.Fatalf("round %d: the shedder rests, and nothing wakes it", round)
			}
		}
	}
}

func TestShedder_AdmitsTheNewestAndOneInFourTheOldest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 8)
		for range 8 {
			c.shedder.admit(1)
			synctest.Wait()
		}
		entered, _ := c.answered()
		if want := []int{8, 7, 6, 1, 5, 4, 3, 2}; !slices.Equal(entered, want) {
			t.Errorf("requests entered in the order %v, want %v", entered, want)
		}
	})
}

// A client that floods the gateway delays itself.
func TestShedder_AdmitsClientsInTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arriveFrom("192.0.2.1", 1, 100)
		c.arriveFrom("192.0.2.2", 101, 103)
		c.arriveFrom("192.0.2.3", 104, 104)
		for range 9 {
			c.shedder.admit(1)
			synctest.Wait()
		}
		entered, _ := c.answered()
		if want := []int{100, 103, 104, 99, 102, 98, 101, 1, 97}; !slices.Equal(entered, want) {
			t.Errorf("requests entered in the order %v, want %v", entered, want)
		}
		c.shedder.admitAll()
		if entered, _ := c.answered(); len(entered) != 104 || c.shedder.queue.accounts.Len() > 0 || len(c.shedder.ledger.accounts) > 0 {
			t.Errorf("%d of 104 entered at last, %d accounts are left", len(entered), len(c.shedder.ledger.accounts))
		}
	})
}

func TestPrecede_LetsClientsWaitWhileAnOperatorIsAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 100)
		answer := make(chan struct{})
		handler := c.shedder.Precede(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
		go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		synctest.Wait()
		probe := func(want int, when string) {
			t.Helper()
			for range clientEvery {
				c.shedder.admit(1)
			}
			if entered, _ := c.answered(); len(entered) != want {
				t.Errorf("%d requests entered %s, want %d", len(entered), when, want)
			}
		}
		probe(1, "beside one of an operator")
		time.Sleep(operatorBound)
		probe(1+clientEvery, "beside one that takes long")
		close(answer)
		synctest.Wait()
		probe(1+2*clientEvery, "after it was answered")
	})
}

func TestShedder_RefusesThoseThatHaveWaitedForLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 3)
		time.Sleep(queueTimeout - time.Millisecond)
		c.arrive(4, 4)
		time.Sleep(time.Millisecond)
		for range 5 {
			c.shedder.admit(0)
			synctest.Wait()
		}
		entered, refused := c.answered()
		if want := []int{1, 2, 3}; !slices.Equal(refused, want) || len(entered) > 0 {
			t.Errorf("%v were refused and %v entered, want %v to be refused", refused, entered, want)
		}
	})
}

// With room for everybody, nobody is refused, however late it is.
func TestShedder_DoesNotRefuseWhereThereIsRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		c.arrive(1, 20)
		time.Sleep(2 * queueTimeout)
		c.shedder.admit(20)
		if entered, refused := c.answered(); len(entered) != 20 {
			t.Errorf("%d of 20 requests entered, %d were refused", len(entered), len(refused))
		}
	})
}

// Requests on connections that are there go first; but those who come are not kept out for ever.
func TestShedder_AcceptsConnectionsWhereThereIsRoomAndNowAndThen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		c.hang()
		var accepted atomic.Int64
		go func() {
			for {
				c.shedder.awaitConnection()
				if accepted.Add(1) == 1000 {
					return
				}
			}
		}()
		c.shedder.admit(5)
		synctest.Wait()
		upstreamtest.Equal(t, 5, accepted.Load(), "accepted connections")
		c.arrive(1, 10*connectionEvery)
		for range 3 * connectionEvery {
			c.shedder.admit(1)
			synctest.Wait()
		}
		upstreamtest.Equal(t, 8, accepted.Load(), "accepted connections")
		c.shedder.admitAll()
		synctest.Wait()
		upstreamtest.Equal(t, 1000, accepted.Load(), "accepted connections while admitting")
	})
}

func TestShedder_AdmitsAllAtTheEnd(t *testing.T) {
	c := &load{}
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
	g := NewShedder(New(Options{}), slog.New(slog.DiscardHandler))
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

// A timer that has fired may not have run yet when the shedder ends. What came after would wait for ever.
func TestShedder_AdmitsAllOnceItHasEnded(t *testing.T) {
	g := NewShedder(New(Options{}), slog.New(slog.DiscardHandler))
	g.shed()
	if g.state.Load() != shedding {
		t.Fatal("it does not shed")
	}
	g.end()
	g.shed()
	if g.state.Load() == shedding {
		t.Error("it sheds again")
	}
}

// An eviction may free the slot of a connection whose first bytes have just been read.
func TestShedder_ARequestWithoutASlotLeavesNoAccount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t)
		l := c.shedder.ledger
		var releases []func()
		for i := range maxNetworks { // so that their network pays
			release, _ := l.CountStream(AddressKey(fmt.Sprintf("2001:db8:1:%x::1", i)), 0)
			releases = append(releases, release)
		}
		c.hang()
		go c.shedder.Enter(AddressKey("2001:db8:1:ff::1"))
		synctest.Wait()
		c.shedder.admitAll()
		for _, release := range releases {
			release()
		}
		if len(l.accounts) > 0 {
			t.Errorf("%d accounts are left of clients that hold nothing", len(l.accounts))
		}
	})
}
