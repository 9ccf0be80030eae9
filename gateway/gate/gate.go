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
	// openInterval is the pause between two looks of an open gate, closedInterval that of a closed one. A look wakes two goroutines:
	// all the time, it would take 2 % of a processor while there is nothing to do.
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
	// operatorBound is for how long an operator's request keeps those of clients out, if it takes as long as that. One in
	// operatorTurn looks lets them in nevertheless: operators may ask again and again.
	operatorBound = 100 * time.Millisecond
	operatorTurn  = 4
	// logInterval bounds how often it is logged that the gate is closed.
	logInterval = 10 * time.Second
)

// The states of a gate. All but the last are open.
const (
	resting int32 = iota // it does not look until something arrives
	quiet                // nothing has arrived since the last look
	busy
	closed
)

// Gate lets requests in as long as the processors keep up with them. Make it with [New]. Its methods are safe for concurrent use.
type Gate struct {
	logger *slog.Logger
	state  atomic.Int32
	// woken receives a value when a gate that rests has something to look at.
	woken chan struct{}

	mu    sync.Mutex // guards what follows, and closing
	ended bool       // it closes no more
	// waiting has all *waiter, the oldest first. Lines has the same ones by holder, and turns the lines in the order in which they
	// have their next turn.
	waiting list.List
	lines   map[string]*line
	turns   list.List
	looks   int // counts the looks of a closed gate
	// refused counts requests since the start, and logged those of them that the log knows of.
	refused, logged int
	// operators is how many requests of operators are in progress, the last of which came at operatorCame.
	operators    int
	operatorCame time.Time
	// connections is how many connections may still be accepted before the next look. More receives a value after a look that
	// allowed some.
	connections int
	more        chan struct{}
}

// line is the requests of one holder that wait. There is none without a request.
type line struct {
	holder  string
	waiting list.List // of *waiter, the oldest first
	turn    int       // counts those that were let in
	inTurns *list.Element
}

// waiter is a request that waits.
type waiter struct {
	since time.Time
	line  *line
	// inAll and inLine are its places in Gate.waiting and in the line.
	inAll, inLine *list.Element
	// enter receives whether the request may be served.
	enter chan bool
}

// New returns a gate that is open until [Gate.Run] closes it.
func New(logger *slog.Logger) *Gate {
	return &Gate{logger: logger, woken: make(chan struct{}, 1), more: make(chan struct{}, 1), lines: map[string]*line{}}
}

// Enter returns true when a request of a holder, which is a client's address, may be served. While the gate is closed it waits, and
// it returns false for a request that has waited for too long.
func (g *Gate) Enter(holder string) bool {
	if g.arrive() {
		return true
	}
	g.mu.Lock()
	if g.state.Load() != closed {
		g.mu.Unlock()
		return true
	}
	w := g.waitLocked(holder)
	g.mu.Unlock()
	return <-w.enter
}

// arrive notes that something has arrived, and reports whether the gate is open.
func (g *Gate) arrive() (open bool) {
	for {
		switch state := g.state.Load(); state {
		case busy:
			return true
		case closed:
			return false
		default: // the gate may come to rest at this moment, or close
			if g.state.CompareAndSwap(state, busy) {
				if state == resting {
					signal(g.woken)
				}
				return true
			}
		}
	}
}

// waitLocked puts a request at the end of its holder's line.
func (g *Gate) waitLocked(holder string) *waiter {
	l := g.lines[holder]
	if l == nil {
		l = &line{holder: holder}
		g.lines[holder] = l
		l.inTurns = g.turns.PushBack(l)
	}
	w := &waiter{since: time.Now(), line: l, enter: make(chan bool, 1)}
	w.inAll, w.inLine = g.waiting.PushBack(w), l.waiting.PushBack(w)
	return w
}

// enterConnection returns when another connection may be accepted. While the gate is closed, few are at a time: each is work, and so
// will be its requests. Those that nobody accepts wait in the kernel, which costs nothing. Only one goroutine may call it.
func (g *Gate) enterConnection() {
	for !g.arrive() {
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
	defer g.observe()()
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
	for calm := 0; g.rest(ctx); {
		late := time.AfterFunc(tolerable, g.close)
		took, err := wait()
		late.Stop()
		if err != nil {
			return err
		}
		interval := openInterval
		if g.state.Load() == closed {
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

// rest returns true when there is something to look at: at once unless nothing has arrived since the last two looks. It returns false
// once ctx has ended.
func (g *Gate) rest(ctx context.Context) bool {
	if !g.state.CompareAndSwap(busy, quiet) {
		g.state.CompareAndSwap(quiet, resting)
	}
	for g.state.Load() == resting && ctx.Err() == nil {
		select {
		case <-g.woken:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// admit lets up to n of those that wait in, and refuses some of those that have waited for too long. It returns how many still wait.
func (g *Gate) admit(n int) (left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	if g.operators > 0 && time.Since(g.operatorCame) < operatorBound && g.looks%operatorTurn != 0 {
		return g.waiting.Len()
	}
	if g.connections = n - g.waiting.Len(); g.connections <= 0 && g.looks%newcomerTurn == 0 {
		g.connections = 1
	}
	if g.connections > 0 {
		signal(g.more)
	}
	for range min(n, g.waiting.Len()) {
		g.answerLocked(g.nextLocked(), true)
	}
	// A refusal takes up to a third of the time that a get takes: they must not take what is left to those.
	for range n/16 + 1 {
		oldest := g.waiting.Front()
		if oldest == nil || time.Since(waiterOf(oldest).since) < patience {
			break
		}
		g.refused++
		g.answerLocked(waiterOf(oldest), false)
	}
	return g.waiting.Len()
}

// nextLocked returns who is let in next: the lines take turns. It must not be called while nobody waits.
func (g *Gate) nextLocked() *waiter {
	front := g.turns.Front()
	l, _ := front.Value.(*line)
	g.turns.MoveToBack(front)
	if l.turn++; l.turn%oldestTurn == 0 {
		return waiterOf(l.waiting.Front())
	}
	return waiterOf(l.waiting.Back())
}

// signal wakes whoever receives from the channel, now or next, and never blocks. The channel must have a buffer of one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func waiterOf(e *list.Element) *waiter {
	w, _ := e.Value.(*waiter)
	return w
}

func (g *Gate) answerLocked(w *waiter, enter bool) {
	g.waiting.Remove(w.inAll)
	if w.line.waiting.Remove(w.inLine); w.line.waiting.Len() == 0 {
		delete(g.lines, w.line.holder)
		g.turns.Remove(w.line.inTurns)
	}
	w.enter <- enter
}

func (g *Gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended && g.state.Swap(closed) == resting { // a timer may have fired too late to be stopped
		signal(g.woken)
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
	g.state.Store(busy)
	signal(g.more)
	for g.waiting.Len() > 0 {
		g.answerLocked(waiterOf(g.waiting.Front()), true)
	}
}

func (g *Gate) log(ctx context.Context) {
	g.mu.Lock()
	waiting, refused := g.waiting.Len(), g.refused-g.logged
	g.logged = g.refused
	g.mu.Unlock()
	g.logger.WarnContext(ctx, "more requests than the processors can serve, the newest go first",
		slog.Int("waiting", waiting), slog.Int("refused", refused))
}
