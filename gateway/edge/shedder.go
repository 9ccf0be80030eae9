package edge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

const (
	// targetDelay is how late the process may be with what has arrived. Later than that, the
	// shedder sheds.
	targetDelay = 20 * time.Millisecond
	// batch is how many requests for each processor are admitted at a time while shedding. They
	// take a processor a few milliseconds.
	batch = 32
	// admittingInterval is the pause between two probes while admitting, sheddingInterval that
	// while shedding. A probe wakes two goroutines: all the time, it would take 2 % of a processor
	// while there is nothing to do.
	admittingInterval = 20 * time.Millisecond
	sheddingInterval  = time.Millisecond
	// queueTimeout is how long a request waits at least before it is refused.
	queueTimeout = 2 * time.Second
	// stableProbes is after how many probes in a row that find the process in time, and nobody
	// waiting, shedding ends.
	stableProbes = 100
	// connectionEvery is after how many probes while shedding another connection is accepted
	// although requests wait.
	connectionEvery = 16
	// operatorBound is for how long an operator's request keeps those of clients waiting, if it
	// takes as long as that. One in clientEvery probes admits some nevertheless: operators may ask
	// again and again.
	operatorBound = 100 * time.Millisecond
	clientEvery   = 4
	// shedLogInterval bounds how often shedding is logged.
	shedLogInterval = 10 * time.Second
)

// The states of a shedder. All but the last admit.
const (
	resting int32 = iota // it does not probe until something arrives
	quiet                // nothing has arrived since the last probe
	busy
	shedding
)

// Shedder admits requests as long as the processors keep up with them. Otherwise it lets them wait
// before anything but their first bytes is read, and refuses those that have waited too long:
// carried out all at once, under twice the load that the processors can carry, each would take
// seconds, and those that are refused in the end would have cost as much as those that are
// answered.
//
// What waits for upstreams does not count: it takes no processor's time until responses arrive.
// Make it with [NewShedder]. Its methods are safe for concurrent use.
type Shedder struct {
	ledger *Ledger
	logger *slog.Logger
	state  atomic.Int32
	// woken receives a value when a shedder that rests has something to probe.
	woken chan struct{}

	// What follows is guarded by the ledger's mutex, as is the transition to shedding.
	ended  bool // it does not shed any more
	queue  queue
	probes int // counts those while shedding
	// refused counts requests since the start, and logged those of them that the log knows of.
	refused, logged int
	// operators is how many requests of operators are in progress, the last of which came at
	// operatorCame.
	operators    int
	operatorCame time.Time
	// connections is how many connections may still be accepted before the next probe. More
	// receives a value after a probe that allowed some.
	connections int
	more        chan struct{}
}

// NewShedder returns a shedder that admits all until [Shedder.Run] finds that the process is late.
func NewShedder(ledger *Ledger, logger *slog.Logger) *Shedder {
	return &Shedder{
		ledger: ledger, logger: logger, woken: make(chan struct{}, 1), more: make(chan struct{}, 1),
	}
}

// Enter returns true when a client's request may be served. While the shedder sheds, it waits, and
// it returns false for a request that has waited too long.
func (s *Shedder) Enter(client string) bool {
	if s.arrive() {
		return true
	}
	s.ledger.mu.Lock()
	// Shedding may have ended since: nobody would answer what is queued now.
	if s.state.Load() != shedding {
		s.ledger.mu.Unlock()
		return true
	}
	account := s.ledger.accountLocked(key{client: client})
	w := s.queue.push(account.payer())
	s.ledger.settleLocked(account) // its network may pay, and it hold nothing: an eviction came first
	s.ledger.mu.Unlock()
	return <-w.enter
}

// arrive notes that something has arrived, and reports whether it is admitted.
func (s *Shedder) arrive() (admitted bool) {
	for {
		switch state := s.state.Load(); state {
		case busy:
			return true
		case shedding:
			return false
		default: // the shedder may come to rest at this moment, or shed
			if s.state.CompareAndSwap(state, busy) {
				if state == resting {
					signal(s.woken)
				}
				return true
			}
		}
	}
}

// awaitConnection returns when another connection may be accepted. While shedding, accept slowly: a
// connection is work, and so will be its requests. The rest wait in the listen backlog, which costs
// nothing. Only one goroutine may call it.
func (s *Shedder) awaitConnection() {
	for !s.arrive() {
		s.ledger.mu.Lock()
		s.connections--
		enter := s.connections >= 0
		s.ledger.mu.Unlock()
		if enter {
			return
		}
		<-s.more
	}
}

// Precede returns a handler for operators: while it serves a request, a shedder that sheds admits
// few requests of clients. Otherwise each step of the answer would wait until all that clients have
// asked for took a step.
func (s *Shedder) Precede(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ledger.mu.Lock()
		s.operators++
		s.operatorCame = time.Now()
		s.ledger.mu.Unlock()
		defer func() {
			s.ledger.mu.Lock()
			defer s.ledger.mu.Unlock()
			s.operators--
		}()
		next.ServeHTTP(w, r)
	})
}

// Run probes how late the process is, and sheds while it is too late, until ctx ends. Then all are
// admitted.
func (s *Shedder) Run(ctx context.Context) error {
	p, err := newProbe()
	if err != nil {
		return err
	}
	defer p.close()
	defer s.observe()()
	defer s.end()
	defer context.AfterFunc(ctx, p.end)()
	err = s.run(ctx, p.wait)
	if ctx.Err() != nil {
		err = nil // the probe has ended
	}
	return err
}

// run is Run with a function that waits until what has arrived has been looked at, and says how
// long that took.
func (s *Shedder) run(ctx context.Context, wait func() (time.Duration, error)) error {
	var logged time.Time
	for stable := 0; s.rest(ctx); {
		// By a timer: until the probe is back, which may take long, all would still be admitted.
		late := time.AfterFunc(targetDelay, s.shed)
		took, err := wait()
		late.Stop()
		if err != nil {
			return err
		}
		interval := admittingInterval
		if s.state.Load() == shedding {
			interval = sheddingInterval
			if left := s.admit(batch * runtime.GOMAXPROCS(0)); left > 0 || took > targetDelay {
				stable = 0
			} else if stable++; stable == stableProbes {
				stable = 0
				s.admitAll()
			}
			if time.Since(logged) > shedLogInterval {
				logged = time.Now()
				s.log(ctx)
			}
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
	return nil
}

// rest returns true when there is something to probe: at once unless nothing has arrived since the
// last two probes. It returns false once ctx has ended.
func (s *Shedder) rest(ctx context.Context) bool {
	if !s.state.CompareAndSwap(busy, quiet) {
		s.state.CompareAndSwap(quiet, resting)
	}
	for s.state.Load() == resting && ctx.Err() == nil {
		select {
		case <-s.woken:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// admit admits up to n of those that wait, and refuses some of those that have waited too long. It
// returns how many still wait.
func (s *Shedder) admit(n int) (left int) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.probes++
	if s.operators > 0 && time.Since(s.operatorCame) < operatorBound && s.probes%clientEvery != 0 {
		return s.queue.len()
	}
	if s.connections = n - s.queue.len(); s.connections <= 0 && s.probes%connectionEvery == 0 {
		s.connections = 1
	}
	if s.connections > 0 {
		signal(s.more)
	}
	for range min(n, s.queue.len()) {
		s.answerLocked(s.queue.next(), true)
	}
	// A refusal takes up to a third of the time that a get takes: they must not take what is left
	// to those.
	for range n/16 + 1 {
		oldest := s.queue.oldest()
		if oldest == nil || time.Since(oldest.since) < queueTimeout {
			break
		}
		s.refused++
		s.answerLocked(oldest, false)
	}
	return s.queue.len()
}

func (s *Shedder) answerLocked(w *waiter, enter bool) {
	s.queue.remove(w)
	s.ledger.settleLocked(w.account)
	// It has room, so that nothing is waited for with the lock held.
	w.enter <- enter
}

func (s *Shedder) shed() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if !s.ended && s.state.Swap(shedding) == resting { // a timer may have fired too late to be stopped
		signal(s.woken)
	}
}

// end admits all for good.
func (s *Shedder) end() {
	s.ledger.mu.Lock()
	// First, or a timer that fires late could make it shed again.
	s.ended = true
	s.ledger.mu.Unlock()
	s.admitAll()
}

// admitAll ends shedding, and admits all that wait.
func (s *Shedder) admitAll() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.state.Store(busy)
	signal(s.more)
	for oldest := s.queue.oldest(); oldest != nil; oldest = s.queue.oldest() {
		s.answerLocked(oldest, true)
	}
}

// signal wakes whoever receives from the channel, now or next, and never blocks. The channel must
// have a buffer of one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Shedder) log(ctx context.Context) {
	s.ledger.mu.Lock()
	waiting, refused := s.queue.len(), s.refused-s.logged
	s.logged = s.refused
	s.ledger.mu.Unlock()
	s.logger.WarnContext(ctx, "overloaded: the newest waiting requests are served first",
		slog.Int("waiting", waiting), slog.Int("refused", refused))
}

// observe declares the shedder's metrics, until stop is called. Errors are about invalid names
// only.
func (s *Shedder) observe() (stop func()) {
	meter := otel.Meter("github.com/promptweir/promptweir/gateway/edge")
	waiting, err := meter.Int64ObservableGauge("promptweir.shedder.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait for busy processors."))
	refused, err2 := meter.Int64ObservableCounter("promptweir.shedder.refused", metric.WithUnit("{request}"),
		metric.WithDescription("Requests refused unread after waiting too long."))
	registration, err3 := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		o.ObserveInt64(waiting, int64(s.queue.len()))
		o.ObserveInt64(refused, int64(s.refused))
		return nil
	}, waiting, refused)
	if err := errors.Join(err, err2, err3); err != nil {
		otel.Handle(err)
		return func() {}
	}
	return func() { _ = registration.Unregister() } // never fails
}
