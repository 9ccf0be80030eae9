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
// The client's sealed requestState has the id of the parked get. It can be used once, and only by
// the principal that was asked. A client that comes back to another replica is forwarded to this
// one, where [Handler.ParkedCaller] returns its caller.

const (
	// maxParked bounds the gets that ask their clients for input, maxParkedEach the gets of one
	// principal.
	maxParked     = 1000
	maxParkedEach = 100
	// ReplyBound is the time that a client has to reply to one server request.
	ReplyBound = 10 * time.Minute
)

// parked holds the gets of modern clients during which legacy upstreams may ask for input. The zero
// value is ready.
type parked struct {
	ledger    *edge.Ledger
	forwarder *cluster.Forwarder // makes ids; nil if requests are not forwarded
	running   sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	all    map[*parkedGet]struct{}
	byName map[string]*parkedGet // the gets that wait for their client
	closed bool
}

// parkedGet is a get that may be parked.
type parkedGet struct {
	principal string
	first     *run // the first request, with the client's capabilities and caller
	cancel    context.CancelCauseFunc
	// asked receives a value if there may be server requests for the client.
	asked chan struct{}
	// done is closed at the end of the call, after the outcome or err was set.
	done    chan struct{}
	outcome outcome
	err     error

	reserved bool        // guarded by parked.mu
	expiry   *time.Timer // runs while the get waits for its client
	// held counts the memory of the first request's message after that request has ended. Only the
	// current holder of the get uses it: the request that waits for it, or the function that
	// unparked it.
	held edge.Reservation

	mu       sync.Mutex // guards the fields below
	attached *run       // the run that waits for the outcome; nil if no run waits
	pending  map[string]pendingRequest
	sent     int
}

// pendingRequest is a server request without a reply.
type pendingRequest struct {
	request wire.Object
	reply   chan<- jsontext.Value
}

// begin makes a call during which the client may be asked for input. It returns the result, or the
// server requests as an input_required result.
func (p *parked) begin(
	ctx context.Context, x *run, call func(context.Context, *upstream.Relay) (outcome, error),
) (outcome, error) {
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // outlasts this request
	g := &parkedGet{
		principal: x.caller.Principal.Key(), first: x, cancel: cancel, attached: x,
		asked: make(chan struct{}, 1), done: make(chan struct{}), pending: map[string]pendingRequest{},
	}
	relay := x.upstreamRelay(ctx)
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
		// Deferred calls run in reverse: the outcome or panic is set before done is closed.
		defer recovered(&g.err)
		g.outcome, g.err = call(detached, &relay)
	}()
	return p.await(ctx, g)
}

// add registers a get. It returns false if the gateway is stopping.
func (p *parked) add(g *parkedGet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.all == nil {
		p.all, p.byName = map[*parkedGet]struct{}{}, map[string]*parkedGet{}
	}
	p.all[g] = struct{}{}
	p.running.Add(1)
	return true
}

// remove cancels a get and drops it. cause may be nil.
func (p *parked) remove(g *parkedGet, cause error) {
	g.cancel(cause)
	g.held.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, g)
}

// reserve counts a get that asks its client. It returns false if there are too many such gets, or if
// the get was removed.
func (p *parked) reserve(g *parkedGet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.all[g]; !known || g.reserved {
		return known
	}
	all, own := 0, 0
	for other := range p.all {
		if other.reserved {
			all++
			if other.principal == g.principal {
				own++
			}
		}
	}
	g.reserved = all < maxParked && own < maxParkedEach
	return g.reserved
}

// await waits until the call is over or its client must be asked. If ctx ends first, the call is
// cancelled.
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
		case <-g.done: // the outcome wins over a simultaneous server request
			p.remove(g, nil)
			return g.outcome, g.err
		default:
		}
		if requests := g.detach(); len(requests) > 0 {
			return p.park(g, requests)
		}
	}
}

// detach returns the server requests for the client. If there are any, it detaches the waiting
// request.
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

// park stores a get until its client returns or stateLifetime has passed. It fails if the memory of
// the get's message exceeds the caller's share.
func (p *parked) park(g *parkedGet, requests wire.Object) (outcome, error) {
	if x := g.first; x.r.Size >= edge.Least && g.held == (edge.Reservation{}) {
		var ok bool
		if g.held, ok = p.ledger.Acquire(x.snapshot.Config.Gateway.MaxBuffered, x.Key(), "", x.r.Size); !ok {
			p.remove(g, nil)
			return outcome{}, Overloaded("Too many large requests wait for their client: send it again later")
		}
	}
	name := p.forwarder.NewID()
	p.mu.Lock()
	p.byName[name] = g
	// Set the timer under the lock, because unpark stops it.
	g.expiry = time.AfterFunc(stateLifetime, func() { p.abandon(name, g.principal) })
	p.mu.Unlock()
	result := wire.Object{}.
		With("resultType", wire.Quote(wire.ResultInputRequired)).
		With(memberRequests, requests.JSON())
	return outcome{result: upstream.Result{JSON: result.JSON(), Revision: wire.Rev20260728}, parked: name}, nil
}

// unpark removes and returns a parked get if it belongs to the principal. Otherwise it returns nil.
func (p *parked) unpark(name, principal string) *parkedGet {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.byName[name]
	if g == nil || g.principal != principal {
		return nil
	}
	delete(p.byName, name)
	// If the timer has already fired, abandon finds no get with the name.
	g.expiry.Stop()
	return g
}

// ParkedCaller returns the caller of a get that is parked here for a principal, given by its key.
func (h *Handler) ParkedCaller(id, principal string) (caller snapshot.Caller, ok bool) {
	p := &h.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.byName[id]
	if g == nil || g.principal != principal {
		return snapshot.Caller{}, false
	}
	return g.first.caller, true
}

// abandon ends a parked get to which its client will not return. It ignores unknown names.
func (p *parked) abandon(name, principal string) {
	if g := p.unpark(name, principal); g != nil {
		p.remove(g, nil)
	}
}

// len returns the number of gets that wait for their clients.
func (p *parked) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byName)
}

// checkReplies refuses replies that are not objects.
func checkReplies(replies wire.Object) error {
	for _, reply := range replies {
		if reply.Value.Kind() != '{' {
			return invalidParams("each of inputResponses must be an object")
		}
	}
	return nil
}

// resume passes the client's replies to the get that is parked under a name, and waits for that get
// again. From then on, the server's notifications go to the client of x.
func (p *parked) resume(ctx context.Context, x *run, name string) (outcome, error) {
	replies := x.r.Params.Object(memberResponses)
	if err := checkReplies(replies); err != nil {
		return outcome{}, err
	}
	g := p.unpark(name, x.caller.Principal.Key())
	if g == nil {
		return outcome{}, errState()
	}
	g.reply(x, replies)
	return p.await(ctx, g)
}

// reply passes on the replies of a returned client. Server requests without a reply are sent again.
func (g *parkedGet) reply(x *run, replies wire.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attached = x
	for _, reply := range replies {
		if p, ok := g.pending[reply.Name]; ok {
			delete(g.pending, reply.Name)
			// Clone: otherwise the get would keep the whole message of the reply in memory. The send
			// never blocks, because there is room for the one reply.
			p.reply <- reply.Value.Clone()
		}
	}
	g.signal()
}

// signal makes await look for server requests. It never blocks.
func (g *parkedGet) signal() {
	select {
	case g.asked <- struct{}{}:
	default:
	}
}

// relayNotification passes a notification to the waiting request, if there is one.
func (g *parkedGet) relayNotification(ctx context.Context, method string, params jsontext.Value) {
	g.mu.Lock()
	x := g.attached
	g.mu.Unlock()
	if x != nil && x.r.Relay != nil {
		x.relayNotification(ctx, method, params)
	}
}

// sendServerRequest adds a server request to the client's next result, and waits for the client's
// reply. Its memory counts for the caller of the get even if it is small, because no connection's
// buffers hold it.
func (p *parked) sendServerRequest(
	ctx context.Context, g *parkedGet, method string, params jsontext.Value,
) (jsontext.Value, error) {
	params, err := g.first.serverRequestParams(ctx, method, params)
	if err != nil {
		return nil, err
	}
	held, ok := p.ledger.Acquire(g.first.snapshot.Config.Gateway.MaxBuffered, g.first.Key(), "", len(params))
	if !ok {
		return nil, wire.NewError(wire.InternalError, "Too many large requests wait for the "+
			"client's reply: send smaller ones")
	}
	defer held.Release()
	request := wire.Object{}.With("method", wire.Quote(method)).With("params", params)
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

// close cancels all gets and waits for them. Later gets cannot be parked.
func (p *parked) close() {
	p.mu.Lock()
	p.closed = true
	for g := range p.all {
		g.cancel(nil)
	}
	p.mu.Unlock()
	p.running.Wait()
}
