package call

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/session"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstRetry and lastRetry are the first and the longest backoff before a server gets the same
	// call again. Jitter then subtracts up to half.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
	// leastShare is a divisor: a timeout counts in the circuit breaker only if the request had at
	// least 1/leastShare of the upstream's timeout.
	leastShare = 5
)

// Request is a request for an upstream.
type Request struct {
	Method string
	// Name is the prompt's name for prompts/get, the uri for resources/read, and empty otherwise.
	Name string
	// Params may be nil. For Meta see [client.Request].
	Params, Meta wire.Object
	// Assertion tells the server who the caller is; the zero value is not sent.
	Assertion client.Assertion
	// Files is [session.State.Files] of the state in which the prompt was found. It is nil for an upstream with a
	// server.
	Files *files.List
	// Caller identifies the caller. Each caller has a line of its own in the queue. All calls with
	// a nil Caller share one line.
	Caller Caller
	// Memory is memory for the result, see [client.Request].
	Memory *[]byte
	// Check validates a result. If Check is nil, every result is valid. An error fails the call
	// with [client.BadResponse], but does not count in the circuit breaker, because the server did
	// answer.
	Check func(client.Result) error
}

// Calls makes the calls to one server. Its methods are safe for concurrent use.
type Calls struct {
	upstream *config.Upstream
	server   *session.Server
	queue    *queue
	breaker  *breaker
}

// New returns the calls to a server. Call it before [session.Server.Run].
func New(u *config.Upstream, server *session.Server) *Calls {
	return &Calls{u, server, newQueue(u.Concurrency, u.Timeout, u.Rate), newBreaker(u, server)}
}

// Close makes waiting and later calls fail with [ErrRetired]. The channel is closed when the calls
// in flight have ended.
func (c *Calls) Close() (idle <-chan struct{}) { return c.queue.close() }

// call is a call in flight.
type call struct {
	*Calls

	caller   context.Context //nolint:containedctx // ends when the caller gives up
	request  *Request
	relay    *client.Relay
	sent     client.Request
	deadline deadline // part of the call, so that both are one allocation
	slot     slot
}

// Do sends a request to the server and returns its result. The relay may be nil. For retries and errors see [upstream.Connector.Call].
func (c *Calls) Do(ctx context.Context, request *Request, relay *client.Relay) (result client.Result, err error) {
	caller, measured := c.server.Metrics().Start(ctx, request.Method, request.Name)
	// finish needs the caller's context, without the deadline, to tell a caller that gave up from
	// an upstream that took too long.
	defer func() { err = c.finish(caller, measured, result, err) }()
	if relay == nil {
		relay = &client.Relay{}
	}
	k := &call{Calls: c, caller: caller, request: request, relay: relay}
	k.sent = client.Request{Method: request.Method, Name: request.Name, Params: request.Params, Meta: request.Meta, Assertion: request.Assertion, Memory: request.Memory}
	if err := k.refusePaused(); err != nil { // before the call uses a slot and the rate
		return client.Result{}, err
	}
	k.deadline.Start(caller, measured.Begun, c.upstream.Timeout, nil)
	defer k.deadline.Stop()
	if err := k.slot.acquire(&k.deadline, c.queue, request.Caller); errors.Is(err, ErrRetired) {
		return client.Result{}, err
	} else if err != nil {
		return client.Result{}, k.unavailable(session.Overloaded, 0, err)
	}
	defer func() { k.slot.release(outcomeOf(err)) }()
	return k.attempts()
}

// finish ends the measurement of a call, and returns the error in the form for callers.
func (c *Calls) finish(caller context.Context, measured session.Measurement, result client.Result, err error) error {
	end := outcomeOf(err)
	// Once the caller has left, attempts fail for that reason alone.
	if gone := caller.Err(); gone != nil && !end.Answered {
		end = outcomeOf(&callerGoneError{gone})
	}
	measured.End(result.Revision, end.Outcome, end.err)
	if gone, ok := errors.AsType[*callerGoneError](end.err); ok {
		return gone.error
	}
	_, isKnown := errors.AsType[*Unavailable](err)
	switch {
	case err == nil, errors.Is(err, ErrRetired):
		return err
	case end.Answer != nil:
		return end.Answer
	case isKnown:
		return err
	}
	// Wrap the error, because it does not name the upstream.
	return unavailable(c.upstream.Name, end.Reason, end.RetryAfter, err)
}

// attempt is the state of one of the attempts that the retry block allows: its deadline, and the
// sessions and eras in which the request was sent.
type attempt struct {
	number   int
	deadline *deadline
	// conn is the connection for the next request, or nil after the session was lost. lost is the
	// connection whose session was lost. renewed is true after the first loss of a session.
	conn, lost *session.Connection
	renewed    bool
	// inLegacy is true if the next request is sent in the legacy era. isOtherEra is true if the
	// request was already sent in the other era. refusal is the error that the server returned in
	// that era because it could not ask the client.
	inLegacy, isOtherEra bool
	refusal              error
}

// attempts makes the call until it is answered or must not be sent again. Each turn of the loop
// sends the request at most once, on the session that fits the last outcome. If no attempt is
// answered and all could be repeated, it returns the error of the first one.
func (k *call) attempts() (result client.Result, err error) {
	var first error
	a := k.begin(1)
	defer func() { a.deadline.Stop() }()
	for {
		again := false
		if err = k.pick(&a); err == nil {
			result, err = k.send(&a)
			k.server.ApplyRetryAfter(err)
			again, err = k.changesEra(&a, err)
		}
		end := outcomeOf(err)
		isLost := end.Lost && !end.Started // if true, the server has processed nothing
		switch {
		case again: // send in the other era
			continue
		case isLost && !a.renewed: // send on a new session of the same server
			a.renew(err)
			continue
		case isLost: // the new session was lost, too
			err = k.unsent(err)
		case !end.mayRepeat:
			return result, err
		}
		first = cmp.Or(first, err)
		// Do not retry at an open breaker: the cool-down is usually longer than the backoff.
		if a.number == k.upstream.Attempts || k.deadline.Err() != nil || end.Reason == session.BreakerOpen ||
			k.server.Paused() != nil || !k.backOff(a.number) {
			return client.Result{}, first
		}
		a.deadline.Stop()
		a = k.begin(a.number + 1)
	}
}

// begin begins an attempt. If another attempt may follow, it gives the attempt half of the
// remaining time.
func (k *call) begin(number int) attempt {
	a := attempt{number: number, deadline: &k.deadline}
	if number < k.upstream.Attempts {
		a.deadline = new(deadline)
		a.deadline.Start(&k.deadline, time.Now(), k.deadline.Left()/2, &k.deadline)
	}
	return a
}

// pick picks the connection and the era for an attempt. If the session is lost or being replaced,
// it waits for the next connection.
func (k *call) pick(a *attempt) error {
	if err := k.refusePaused(); err != nil {
		return err
	}
	conn := k.server.Await(a.deadline, a.lost)
	switch {
	case conn.Session == nil || conn == a.lost:
		err := k.unavailable(k.server.NoSession(conn))
		if k.caller.Err() == nil { // if the caller left, the server is not to blame
			err = k.unsent(err)
		}
		return err
	case conn != a.conn:
		a.conn, a.inLegacy, a.isOtherEra, a.refusal = conn, conn.Legacy.Begins(&k.sent, k.relay), false, nil
	}
	return nil
}

// refusePaused returns the error for a call during a pause that the server asked for, or nil if
// there is no pause.
func (k *call) refusePaused() error {
	p := k.server.Paused()
	if p == nil {
		return nil
	}
	return k.unsent(k.unavailable(p.Reason, p.Rest(), &session.Unsent{Why: errPaused, Cause: p.Err}))
}

// unsent records that the call was not sent, and returns its error.
func (k *call) unsent(err error) error {
	k.breaker.unsent(outcomeOf(err), k.request.Method == wire.PromptsGet)
	return err
}

func (k *call) unavailable(reason session.Reason, retryAfter time.Duration, err error) error {
	return unavailable(k.upstream.Name, reason, retryAfter, err)
}

// send sends the call on a session of the attempt's connection, if the circuit breaker allows the
// request. It reports to the breaker how the request ended.
func (k *call) send(a *attempt) (result client.Result, err error) {
	permit, err := k.breaker.begin(k.request.Caller)
	if err != nil {
		return client.Result{}, err
	}
	defer func() { permit.end(outcomeOf(err), k.request.Method == wire.PromptsGet) }()
	lease, err := a.conn.Acquire(a.deadline, k.relay, a.inLegacy)
	if err != nil {
		return client.Result{}, err
	}
	isLost := true // true after a panic, because the server may still send messages for the call
	defer func() { lease.Release(isLost) }()
	share := a.deadline.Left() // measured here, because the server is not to blame for the wait for a session
	err = errPanicked          // for the breaker, if the call panics
	result, err = lease.Session.Call(a.deadline, &k.sent, k.relayDuring(a.deadline, permit))
	if result.HasOwnMeta {
		result.JSON = wire.WithoutOwnMeta(result.JSON)
	}
	end := client.OutcomeOf(err)
	if end.MayBeLost && !end.Started {
		err = k.server.Prove(a.deadline, a.conn, lease.Session, true, err)
	}
	if isLost = errors.Is(err, client.ErrSessionLost); isLost && !end.Started && lease.IsPooled() {
		if a.renewed {
			return client.Result{}, errLostAgain
		}
		return client.Result{}, session.ErrPooledLost
	}
	if err == nil && k.request.Check != nil {
		if problem := k.request.Check(result); problem != nil {
			return result, &unusableError{problem}
		}
	}
	return result, k.attribute(err, share)
}

// relayDuring returns the call's relay for one request. It removes the gateway's own _meta keys
// from messages. While a client is asked, other calls may use the slot and the deadlines are
// paused, because a reply may take minutes.
func (k *call) relayDuring(d *deadline, permit permit) *client.Relay {
	if k.relay.Reply == nil && k.relay.Notify == nil {
		return k.relay
	}
	// Copy the relay, because each attempt has its own deadline.
	relay := *k.relay
	if relay.Notify != nil {
		relay.Notify = func(method string, params jsontext.Value) {
			k.relay.Notify(method, wire.WithoutOwnMeta(params))
		}
	}
	if relay.Reply == nil {
		return &relay
	}
	relay.Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		permit.asks()
		defer k.slot.lend()()
		defer d.Pause()()
		return k.relay.Reply(ctx, method, wire.WithoutOwnMeta(params))
	}
	return &relay
}

// attribute wraps the error of a request for which the server is not to blame, so that the circuit
// breaker does not count it. share is the time that the request had.
func (k *call) attribute(err error, share time.Duration) error {
	switch gone := k.caller.Err(); {
	// This case comes first: an answer shows that the server works, even if the caller has left since.
	case client.OutcomeOf(err).Answered:
	case gone != nil:
		return &callerGoneError{gone}
	case errors.Is(err, context.DeadlineExceeded) && share < k.upstream.Timeout/leastShare:
		return &hurriedError{err}
	}
	return err
}

// changesEra reports whether to send a call again in the other era. There are two reasons: the
// server cannot ask its client in the modern era (see [session.LegacyGets]), or there is no session
// of the legacy era. Otherwise it returns the error of the call. If the legacy era did not help,
// that error is the refusal in the modern era.
func (k *call) changesEra(a *attempt, err error) (bool, error) {
	noSession, end := errors.Is(err, session.ErrNoLegacySession), client.OutcomeOf(err)
	switch {
	case !a.isOtherEra && a.inLegacy && noSession:
		a.inLegacy, a.isOtherEra = false, true
		return true, nil
	case !a.isOtherEra && !a.inLegacy && a.conn.Legacy.Answers(&k.sent, k.relay, err):
		a.inLegacy, a.isOtherEra, a.refusal = true, true, err
		return true, nil
	case a.refusal == nil:
	case noSession, end.Answer != nil && !end.Started: // the server did not ask the client
		return false, a.refusal
	case end.Answer != nil, err == nil:
		a.conn.Legacy.Learn(a.deadline, k.request.Name, a.refusal)
	}
	return false, err
}

// renew prepares an attempt to be sent again. If the primary session was lost, the attempt waits
// for a new one.
func (a *attempt) renew(err error) {
	if !errors.Is(err, session.ErrPooledLost) { // the pool replaces its own sessions
		a.lost = a.conn
	}
	a.renewed, a.conn = true, nil
}

// backOff waits before another attempt, with jitter, and then for the rate limit. It returns false
// if the deadline would pass during the wait.
func (k *call) backOff(number int) bool {
	wait := session.Jitter(min(firstRetry<<min(number-1, 10), lastRetry))
	return wait < k.deadline.Left() && session.Sleep(&k.deadline, wait) == nil && k.queue.awaitRate(&k.deadline)
}
