package upstream

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstRetry and lastRetry bound the time before an endpoint is asked again in the same call.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
	// fairShare is the part of the timeout, one in so many, that an attempt must have had for its end without an answer
	// to count in the breaker.
	fairShare = 5
)

// Call sends one request to the upstream and waits for its result, at most as long as the upstream's timeout. Errors
// are [*wire.Error] where the upstream answered no, [*Unavailable] where it did not answer, and the context's own
// where the caller gave up. A retired connector refuses with [ErrRetired], before anything was sent.
//
// Of several endpoints, those are asked that have the prompt, in turn. Where no byte of an answer comes back, the next
// is asked, and when none is left, as often as the retry attribute allows, the first again. An attempt that is not the
// last has half of the time that is left. The name is the prompt's for prompts/get and empty otherwise: a completion's
// is in its params.
func (c *Connector) Call(ctx context.Context, method, name string, params wire.Object) (Result, error) {
	return c.CallFor(ctx, &Client{}, &Question{method, name, params})
}

// Question is what is asked of a server.
type Question struct {
	Method string
	// Name is the prompt's for prompts/get, and empty otherwise.
	Name string
	// Params may be nil.
	Params wire.Object
}

// CallFor is [Connector.Call] on behalf of a client, which the server may talk to until the call has ended. The
// upstream's timeout stands still while the client is being asked. Once something was asked, no other endpoint is.
func (c *Connector) CallFor(ctx context.Context, client *Client, q *Question) (Result, error) {
	if c.retired.Load() {
		return Result{}, ErrRetired
	}
	ctx, finish := c.metrics.start(ctx, q.Method, q.Name)
	k := &call{Connector: c, caller: ctx, client: client, question: q}
	err := k.make()
	finish(k.result.Revision, err)
	return k.result, c.explain(err)
}

// call is one call while it is made: what is asked, for whom, and what came of it. Its attempts come one after the other.
// What stands here does not stand on the stacks of calls that wait, of which there may be thousands.
type call struct {
	*Connector

	caller   context.Context //nolint:containedctx // ends when whoever makes the call goes
	client   *Client
	question *Question
	slot     slot
	// late says that much of the time went by before the peer could be asked.
	late   bool
	result Result
}

// make makes the call.
func (k *call) make() error {
	ctx := newBudget(k.caller, k.upstream.Timeout)
	defer ctx.end()
	begun := time.Now()
	if err := k.admit(ctx); err != nil {
		if gone := k.caller.Err(); gone != nil {
			return &gaveUpError{gone}
		}
		return err
	}
	k.slot.slots, k.slot.held = k.slots, true
	defer k.slot.release()
	if k.client.Ask != nil {
		k.lendWhileAsking()
	}
	k.late = time.Since(begun) > k.upstream.Timeout/2
	err := k.askInTurn(ctx)
	if gone := k.caller.Err(); gone != nil && !answered(err) {
		err = &gaveUpError{gone}
	}
	return err
}

// lendWhileAsking lets others have the call's slot while its client is asked.
func (k *call) lendWhileAsking() {
	client, ask := *k.client, k.client.Ask
	client.Ask = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		defer k.slot.lend()()
		return ask(ctx, method, params)
	}
	k.client = &client
}

// on makes one attempt on a session.
func (k *call) on(ctx context.Context, s *Session) (err error) {
	share := left(ctx)
	if k.result, err = s.callFor(ctx, k.client, k.question); err == nil {
		return nil
	}
	return k.blame(err, share)
}

// blame says whose fault it is that an attempt with its share of the time brought no result.
func (k *call) blame(err error, share time.Duration) error {
	switch gone := k.caller.Err(); {
	case answered(err):
	case gone != nil:
		return &gaveUpError{gone}
	case !errors.Is(err, context.DeadlineExceeded):
	case k.late: // it had its time, but not from the peer
		return unavailable(k.upstream.Name, Overloaded, 0, errOverloaded)
	case share < k.upstream.Timeout/fairShare:
		return &hurriedError{err}
	}
	return err
}

// admit waits, as long as ctx lasts, for the time and then for the slot to call in. The slot is to be released.
func (c *Connector) admit(ctx context.Context) error {
	if err := c.waitForRate(ctx); err != nil {
		return err
	}
	if c.slots.Acquire(ctx, 1) != nil {
		return unavailable(c.upstream.Name, Overloaded, 0, errOverloaded)
	}
	if c.retired.Load() { // while it waited
		c.slots.Release(1)
		return ErrRetired
	}
	return nil
}

// slot is a call's place among those in flight, which others may have while the call's client is asked.
type slot struct {
	slots *semaphore.Weighted

	mu     sync.Mutex // guards what follows
	held   bool
	asking int
}

// lend gives the place up until the function that it returns is called. A call that comes back does not wait for another
// place: a person has waited for it already.
func (s *slot) lend() (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking++
	s.giveUp()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asking--; s.asking == 0 {
			s.held = s.slots.TryAcquire(1)
		}
	}
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp()
}

// giveUp gives the place up, if it is held. Called with the lock.
func (s *slot) giveUp() {
	if s.held {
		s.held = false
		s.slots.Release(1)
	}
}

// waitForRate waits until the rate allows one more request. Where that is after ctx ends, it refuses at once.
func (c *Connector) waitForRate(ctx context.Context) error {
	if c.limiter == nil {
		return nil
	}
	turn := c.limiter.Reserve()
	wait := turn.Delay()
	if wait == 0 || (wait < left(ctx) && sleep(ctx, wait) == nil) {
		return nil
	}
	turn.Cancel() // the next call may have it
	return unavailable(c.upstream.Name, Overloaded, wait, errRate)
}

// candidates returns the endpoints to ask for a prompt, best first, and how many of them are fit to answer. Of those
// that are, the one comes first that was first longest ago.
func (c *Connector) candidates(q *Question) (ordered []*endpoint, fit int) {
	if len(c.endpoints) == 1 {
		return c.endpoints, 1
	}
	name := q.Name
	if q.Method == wire.Complete {
		name, _ = q.Params.Object("ref").Text("name")
	}
	having := slices.DeleteFunc(slices.Clone(c.endpoints), func(e *endpoint) bool { return !e.standing.Load().offer.has(name) })
	if len(having) == 0 { // let them say so themselves
		having = c.endpoints
	}
	var unfit []*endpoint
	for _, e := range having {
		if e.fit(q.Method) {
			ordered = append(ordered, e)
		} else {
			unfit = append(unfit, e)
		}
	}
	fit = len(ordered)
	c.turns.Lock()
	defer c.turns.Unlock()
	slices.SortStableFunc(ordered, func(a, b *endpoint) int { return cmp.Compare(a.turn, b.turn) })
	ordered = append(ordered, unfit...)
	c.turn++
	ordered[0].turn = c.turn
	return ordered, fit
}

// askInTurn asks one candidate after another until one answers and, where none does and retries are wanted, again from
// the first, each time after a pause. The first attempts are promising, as many as candidates are fit or attempts are
// configured: each leaves time to the next. The error is the first one's, who was the most likely to answer.
func (k *call) askInTurn(ctx context.Context) error {
	var (
		first error
		asked bool // one of them; else there is nothing that a pause could mend
	)
	candidates, fit := k.candidates(k.question)
	promising := max(fit, k.upstream.Attempts)
	for i := range max(len(candidates), k.upstream.Attempts) {
		if retry := i - len(candidates); retry >= 0 && (!asked || !k.rest(ctx, retry)) {
			break
		}
		err := k.attempt(ctx, candidates[i%len(candidates)], i < promising-1)
		if !unanswered(err) {
			return err
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
		asked = asked || reason(err) != BreakerOpen
	}
	return first
}

// attempt asks one endpoint, in half of the time that is left where there is more to try. It asks on the present session,
// and where that is lost on the next: nothing was processed, and the caller need not notice.
func (k *call) attempt(ctx context.Context, e *endpoint, more bool) error {
	if more {
		half := newBudget(ctx, left(ctx)/2)
		defer half.end()
		ctx = half
	}
	l, err := e.call(ctx, nil, k)
	if errors.Is(err, errSessionLost) && !answerBegun(err) {
		_, err = e.call(ctx, l, k)
	}
	return err
}

// rest waits before a retry, for a jittered time and then for the rate. It reports false where ctx does not last that
// long.
func (c *Connector) rest(ctx context.Context, retry int) bool {
	wait := min(firstRetry<<min(retry, 10), lastRetry)
	wait = time.Duration(float64(wait) * (1 - backoffJitter*rand.Float64())) //nolint:gosec // jitter
	return wait < left(ctx) && sleep(ctx, wait) == nil && c.waitForRate(ctx) == nil
}

func unavailable(upstream string, reason Reason, retryAfter time.Duration, err error) error {
	return &Unavailable{Upstream: upstream, Reason: reason, RetryAfter: max(retryAfter, 0), Err: err}
}

// explain turns the lack of an answer into [*Unavailable]; an answer stays what it is, and so does a caller's end.
func (c *Connector) explain(err error) error {
	if err == nil || errors.Is(err, ErrRetired) {
		return err
	}
	if gone, ok := errors.AsType[*gaveUpError](err); ok {
		return gone.cause
	}
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		return answer
	}
	if _, ok := errors.AsType[*Unavailable](err); ok {
		return err
	}
	var retryAfter time.Duration
	if status, ok := errors.AsType[*statusError](err); ok {
		retryAfter = status.retryAfter
	}
	return unavailable(c.upstream.Name, reason(err), retryAfter, err)
}
