package gate

import (
	"container/list"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tolerable is how late the process may be with what has arrived. Later than that, the gate closes.
	tolerable = 20 * time.Millisecond
	// batch is how many requests for each processor a closed gate lets in at a time. They take a processor a few milliseconds.
	batch = 32
	// openInterval is the pause between two looks of an open gate, closedInterval that of a closed one. A look takes a few
	// microseconds.
	openInterval   = 20 * time.Millisecond
	closedInterval = time.Millisecond
	// patience is how long a request waits at least before it is refused.
	patience = 2 * time.Second
	// calmLooks is after how many looks in a row that find the process in time, and nobody who waits, the gate opens.
	calmLooks = 100
	// oldestTurn is of how many that are let in one is the oldest.
	oldestTurn = 4
	// newcomerTurn is after how many looks of a closed gate another connection is accepted, though there is no room for one.
	newcomerTurn = 16
	// logInterval bounds how often it is logged that the gate is closed.
	logInterval = 10 * time.Second
)

// Gate lets requests in as long as the processors keep up with them. Make it with [New]. Its methods are safe for concurrent use.
type Gate struct {
	logger *slog.Logger
	closed atomic.Bool

	mu      sync.Mutex // guards what follows, and closing
	ended   bool       // it closes no more
	waiting list.List  // of *waiter, the oldest first
	turn    int        // counts those that were let in while the gate was closed
	looks   int        // counts the looks of a closed gate
	refused int        // since it was logged last
	// connections is how many connections may still be accepted before the next look. More receives a value after a look that
	// allowed some.
	connections int
	more        chan struct{}
}

// waiter is a request that waits.
type waiter struct {
	since time.Time
	// enter receives whether the request may be served.
	enter chan bool
}

// New returns a gate that is open until [Gate.Run] closes it.
func New(logger *slog.Logger) *Gate {
	return &Gate{logger: logger, more: make(chan struct{}, 1)}
}

// Enter returns true when a request may be served. While the gate is closed it waits, and it returns false for a request that has
// waited for too long.
func (g *Gate) Enter() bool {
	if !g.closed.Load() {
		return true
	}
	g.mu.Lock()
	if !g.closed.Load() {
		g.mu.Unlock()
		return true
	}
	w := &waiter{time.Now(), make(chan bool, 1)}
	g.waiting.PushBack(w)
	g.mu.Unlock()
	return <-w.enter
}

// enterConnection returns when another connection may be accepted. While the gate is closed, few are at a time: each is work, and so
// will be its requests. Those that nobody accepts wait in the kernel, which costs nothing. Only one goroutine may call it.
func (g *Gate) enterConnection() {
	for g.closed.Load() {
		g.mu.Lock()
		g.connections--
		enter := g.connections >= 0
		g.mu.Unlock()
		if enter {
			return
		}
		<-g.more
	}
}

// Run opens and closes the gate until ctx ends. Then it stays open.
func (g *Gate) Run(ctx context.Context) error {
	p, err := newProbe()
	if err != nil {
		return err
	}
	defer p.close()
	defer g.end()
	defer context.AfterFunc(ctx, p.end)()
	err = g.run(ctx, p.wait)
	if ctx.Err() != nil {
		err = nil // the probe has ended
	}
	return err
}

// run is Run with a function that waits until what has arrived has been looked at, and says how long that took.
func (g *Gate) run(ctx context.Context, wait func() (time.Duration, error)) error {
	var logged time.Time
	for calm := 0; ctx.Err() == nil; {
		late := time.AfterFunc(tolerable, g.close)
		took, err := wait()
		late.Stop()
		if err != nil {
			return err
		}
		interval := openInterval
		if g.closed.Load() {
			interval = closedInterval
			if left := g.admit(batch * runtime.GOMAXPROCS(0)); left > 0 || took > tolerable {
				calm = 0
			} else if calm++; calm == calmLooks {
				calm = 0
				g.open()
			}
			if time.Since(logged) > logInterval {
				logged = time.Now()
				g.log(ctx)
			}
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
	return nil
}

// admit lets up to n of those that wait in, and refuses some of those that have waited for too long. It returns how many still wait.
func (g *Gate) admit(n int) (left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	if g.connections = n - g.waiting.Len(); g.connections <= 0 && g.looks%newcomerTurn == 0 {
		g.connections = 1
	}
	if g.connections > 0 {
		g.moreLocked()
	}
	for range min(n, g.waiting.Len()) {
		next := g.waiting.Back()
		if g.turn++; g.turn%oldestTurn == 0 {
			next = g.waiting.Front()
		}
		g.answerLocked(next, true)
	}
	// A refusal takes up to a third of the time that a get takes: they must not take what is left to those.
	for range n/16 + 1 {
		oldest := g.waiting.Front()
		if oldest == nil || time.Since(waiterOf(oldest).since) < patience {
			break
		}
		g.refused++
		g.answerLocked(oldest, false)
	}
	return g.waiting.Len()
}

func (g *Gate) moreLocked() {
	select {
	case g.more <- struct{}{}:
	default:
	}
}

func waiterOf(e *list.Element) *waiter {
	w, _ := e.Value.(*waiter)
	return w
}

func (g *Gate) answerLocked(e *list.Element, enter bool) {
	g.waiting.Remove(e)
	waiterOf(e).enter <- enter
}

func (g *Gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended { // a timer may have fired too late to be stopped
		g.closed.Store(true)
	}
}

// end opens the gate for good.
func (g *Gate) end() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.open()
}

// open opens the gate and lets all in that wait.
func (g *Gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed.Store(false)
	g.moreLocked()
	for g.waiting.Len() > 0 {
		g.answerLocked(g.waiting.Front(), true)
	}
}

func (g *Gate) log(ctx context.Context) {
	g.mu.Lock()
	waiting, refused := g.waiting.Len(), g.refused
	g.refused = 0
	g.mu.Unlock()
	g.logger.WarnContext(ctx, "more requests than the processors can serve, the newest go first",
		slog.Int("waiting", waiting), slog.Int("refused", refused))
}
