package requests

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A client of the modern era is asked for input by the result of its get, and replies by repeating
// the get. A server of the legacy era asks in the middle of the get and waits. Between the two, the
// get is parked here until its client comes back:
//
//	client ── get ────────────▶ begin ── call ───────────▶ upstream
//	       ◀─ input_required ── park ◀── server request ── (waits)
//	       ── get, replies ───▶ resume ── reply ─────────▶
//	       ◀─ result ────────── await ◀── result ─────────
//
// The client's sealed requestState has the id of the parked get. It can be used once, and only by the
// principal that was asked. A client that comes back to another replica is forwarded to this one,
// where [Handler.ParkedCaller] is the caller.

const (
	// maxParked bounds the gets that wait for their clients, and maxParkedEach those of one
	// principal.
	maxParked     = 1000
	maxParkedEach = 100
	// ReplyBound is how long a client may take to reply to one server request.
	ReplyBound = 10 * time.Minute
)

// outcome is what an upstream answered to a get.
type outcome struct {
	// owner is the label of the upstream that answered.
	owner  string
	result upstream.Result
	// parked names the parked get that continues with the client's replies; empty for a get that is
	// over.
	parked string
}

// parked are the gets during which clients of the modern era may be asked for input. The zero value
// is ready.
type parked struct {
	ledger    *edge.Ledger
	forwarder *cluster.Forwarder // makes ids; nil where gets are not forwarded
	running   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	all    map[*parkedGet]struct{}
	byName map[string]*parkedGet // those that wait for their client
	asking map[string]int        // by principal: those that have sent a server request
	count  int                   // of asking
	closed bool
}

// parkedGet is one of them.
type parkedGet struct {
	principal string
	first     *Request // whose capabilities count, and whose caller pays
	cancel    context.CancelCauseFunc
	// asked holds at most one mark: there may be server requests for the client.
	asked chan struct{}
	// done is closed when the call is over, with the outcome or err.
	done    chan struct{}
	outcome outcome
	err     error

	reserved bool        // guarded by parked.mu
	expiry   *time.Timer // of a get that waits for its client
	// held is what the first request's message takes, from when that is over. It is for whoever has
	// the get: the request that waits, or who unparks it.
	held edge.Hold

	mu       sync.Mutex // guards what follows
	attached *Request   // the one that waits for the outcome; nil while none does
	pending  map[string]pendingRequest
	sent     int
}

// pendingRequest is a server request without a reply.
type pendingRequest struct {
	request wire.Object
	reply   chan<- jsontext.Value
}

// begin makes a call during which the client of r may be asked for input. It returns the result, or
// the server requests as an input_required result.
func (p *parked) begin(
	ctx context.Context, r *Request, call func(context.Context, *upstream.Relay) (outcome, error),
) (outcome, error) {
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // it outlasts this request
	g := &parkedGet{
		principal: r.Caller.Principal.Key(), first: r, cancel: cancel, attached: r,
		asked: make(chan struct{}, 1), done: make(chan struct{}), pending: map[string]pendingRequest{},
	}
	relay := r.upstreamRelay(ctx)
	if !p.add(g) {
		cancel(nil)
		return call(ctx, &relay)
	}
	relay.Notify = func(method string, params jsontext.Value) { g.relayNotification(detached, method, params) }
	relay.Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		if !p.reserve(g) {
			return nil, wire.NewError(wire.InternalError, "Too many requests to clients are waiting for a reply")
		}
		return p.sendServerRequest(ctx, g, method, params)
	}
	go func() {
		defer p.running.Done()
		defer cancel(nil)
		defer close(g.done)
		// Deferred calls run in reverse: the outcome, or the panic, is there before done is closed.
		defer recovered(&g.err)
		g.outcome, g.err = call(detached, &relay)
	}()
	return p.await(ctx, g)
}

// add registers a get, unless the gateway is stopping.
func (p *parked) add(g *parkedGet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.all == nil {
		p.all, p.byName, p.asking = map[*parkedGet]struct{}{}, map[string]*parkedGet{}, map[string]int{}
	}
	p.all[g] = struct{}{}
	p.running.Add(1)
	return true
}

// remove cancels a get, for a cause that may be nil, and forgets it.
func (p *parked) remove(g *parkedGet, cause error) {
	g.cancel(cause)
	g.held.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, g)
	if g.reserved {
		g.reserved = false
		p.count--
		if p.asking[g.principal]--; p.asking[g.principal] == 0 {
			delete(p.asking, g.principal)
		}
	}
}

// reserve counts a get among those that ask their client, unless there are too many.
func (p *parked) reserve(g *parkedGet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.all[g]; !known || g.reserved {
		return known
	}
	if p.count >= maxParked || p.asking[g.principal] >= maxParkedEach {
		return false
	}
	p.count++
	p.asking[g.principal]++
	g.reserved = true
	return true
}

// await waits until the call is over or its client has to be asked. If ctx ends first, so does the
// call.
func (p *parked) await(ctx context.Context, g *parkedGet) (outcome, error) {
	for {
		select {
		case <-g.asked:
		case <-g.done:
		case <-ctx.Done():
			p.remove(g, context.Cause(ctx))
			<-g.done
			return outcome{}, ctx.Err()
		}
		select {
		case <-g.done: // the outcome counts, even if a server request came at the same moment
			p.remove(g, nil)
			return g.outcome, g.err
		default:
		}
		if requests := g.detach(); len(requests) > 0 {
			return p.park(g, requests)
		}
	}
}

// detach returns the server requests for the client, and detaches the request that waited if there
// are any.
func (g *parkedGet) detach() wire.Object {
	g.mu.Lock()
	defer g.mu.Unlock()
	var requests wire.Object
	for key, p := range g.pending {
		requests = requests.With(key, p.request.JSON())
	}
	if len(requests) > 0 {
		g.attached = nil
	}
	return requests
}

// park keeps a get for its client to come back to, for a time, unless its message does not fit
// beside what its caller holds.
func (p *parked) park(g *parkedGet, requests wire.Object) (outcome, error) {
	if r := g.first; r.Size >= edge.Least && g.held == (edge.Hold{}) {
		var ok bool
		if g.held, ok = p.ledger.Acquire(r.Snapshot.Config.Gateway.MaxBuffered, g.first.Key(), "", r.Size); !ok {
			p.remove(g, nil)
			return outcome{}, Overloaded("Too many large requests wait for their client: send it again later")
		}
	}
	name := p.forwarder.NewID()
	p.mu.Lock()
	p.byName[name] = g
	// Under the lock, since whoever unparks it stops the timer.
	g.expiry = time.AfterFunc(stateLifetime, func() { p.abandon(name, g.principal) })
	p.mu.Unlock()
	result := wire.Object{}.
		With("resultType", wire.Quote(wire.ResultInputRequired)).
		With(memberRequests, requests.JSON())
	return outcome{result: upstream.Result{JSON: result.JSON(), Revision: wire.Rev20260728}, parked: name}, nil
}

// unpark returns a parked get to the principal that it belongs to, once.
func (p *parked) unpark(name, principal string) *parkedGet {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.byName[name]
	if g == nil || g.principal != principal {
		return nil
	}
	delete(p.byName, name)
	// One that has fired meanwhile finds that the name is gone.
	g.expiry.Stop()
	return g
}

// ParkedCaller returns the caller of a get that is parked here for a principal, which is given by its
// key.
func (h *Handler) ParkedCaller(id, principal string) (caller snapshot.Caller, ok bool) {
	p := &h.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.byName[id]
	if g == nil || g.principal != principal {
		return snapshot.Caller{}, false
	}
	return g.first.Caller, true
}

// abandon ends a parked get that its client will not come back to. No get has the empty name.
func (p *parked) abandon(name, principal string) {
	if g := p.unpark(name, principal); g != nil {
		p.remove(g, nil)
	}
}

// len returns how many gets wait for their clients.
func (p *parked) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byName)
}

// checkReplies refuses replies that are no objects.
func checkReplies(replies wire.Object) error {
	for _, reply := range replies {
		if reply.Value.Kind() != '{' {
			return invalidParams("each of inputResponses must be an object")
		}
	}
	return nil
}

// resume hands the client's replies to the get that is parked under a name, and waits for it again.
// What the server relays goes to r.
func (p *parked) resume(ctx context.Context, r *Request, name string) (outcome, error) {
	replies := r.Params.Object(memberResponses)
	if err := checkReplies(replies); err != nil {
		return outcome{}, err
	}
	g := p.unpark(name, r.Caller.Principal.Key())
	if g == nil {
		return outcome{}, errState()
	}
	g.reply(r, replies)
	return p.await(ctx, g)
}

// reply delivers the replies of a client that has come back. Server requests that it did not reply
// to are sent again.
func (g *parkedGet) reply(r *Request, replies wire.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attached = r
	for _, reply := range replies {
		if p, ok := g.pending[reply.Name]; ok {
			delete(g.pending, reply.Name)
			// A copy, or the get would keep all of the message that the reply came in. It never
			// blocks, since there is room for the one reply.
			p.reply <- reply.Value.Clone()
		}
	}
	g.signal()
}

// signal marks that there may be server requests. It never blocks.
func (g *parkedGet) signal() {
	select {
	case g.asked <- struct{}{}:
	default:
	}
}

// relayNotification passes a notification on to the request that waits, if there is one.
func (g *parkedGet) relayNotification(ctx context.Context, method string, params jsontext.Value) {
	g.mu.Lock()
	r := g.attached
	g.mu.Unlock()
	if r != nil && r.Relay != nil {
		r.relayNotification(ctx, method, params)
	}
}

// sendServerRequest includes a server request in the client's next result and waits for the client
// to come back. The owner of the get pays for the server request, however small it is: there is no
// connection whose buffers it would fit into.
func (p *parked) sendServerRequest(
	ctx context.Context, g *parkedGet, method string, params jsontext.Value,
) (jsontext.Value, error) {
	params, err := g.first.serverRequestParams(ctx, method, params)
	if err != nil {
		return nil, err
	}
	held, ok := p.ledger.Acquire(g.first.Snapshot.Config.Gateway.MaxBuffered, g.first.Key(), "", len(params))
	if !ok {
		return nil, wire.NewError(wire.InternalError, "Too many large requests wait for the "+
			"client's reply: send smaller ones")
	}
	defer held.Release()
	request := wire.Object{}.With("method", wire.Quote(method))
	if params != nil {
		request = request.With("params", params)
	}
	ctx, cancel := context.WithTimeout(ctx, ReplyBound)
	defer cancel()
	reply := make(chan jsontext.Value, 1)
	g.mu.Lock()
	g.sent++
	key := strconv.Itoa(g.sent)
	g.pending[key] = pendingRequest{request, reply}
	g.signal()
	g.mu.Unlock()
	select {
	case value := <-reply:
		return value, nil
	case <-ctx.Done():
		g.mu.Lock()
		delete(g.pending, key)
		g.mu.Unlock()
		return nil, ctx.Err()
	}
}

// close cancels all gets, waits for them, and lets none begin.
func (p *parked) close() {
	p.mu.Lock()
	p.closed = true
	for g := range p.all {
		g.cancel(nil)
	}
	p.mu.Unlock()
	p.running.Wait()
}
