package gateway

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A client of the modern era is asked by the result of its get, and answers by asking again. A server of the legacy era
// asks in the middle of the get, and waits. Between the two, the get waits here for its client to come back:
//
//	client ── get ───────────▶ begin ── call ─────────▶ upstream
//	       ◀─ input_required ─ park ◀── question ─────── (waits)
//	       ── get, answers ──▶ resume ── answer ───────▶
//	       ◀─ result ───────── attend ◀── result ───────
//
// What the client brings back names the waiting call in its sealed state, which is good once and only for whoever was
// asked. Another replica does not know the call.

const (
	// maxWaiting bounds the calls that wait for their clients, and maxWaitingEach those of one principal.
	maxWaiting     = 1000
	maxWaitingEach = 100
)

// outcome is what an upstream answered to a get.
type outcome struct {
	result upstream.Result
	owner  string
	// waiting names the call that goes on when the client has answered; empty for one that has ended.
	waiting string
}

// waits are the calls during which clients of the modern era may be asked. The zero value is ready.
type waits struct {
	work sync.WaitGroup

	mu     sync.Mutex // guards what follows
	all    map[*waiting]struct{}
	parked map[string]*waiting
	asking map[string]int // by principal, those that asked something
	count  int            // of asking
	closed bool
}

// waiting is one of them.
type waiting struct {
	principal string
	declared  *request // for what the client declared when it began
	hangUp    context.CancelFunc
	// news holds at most one mark: that there may be questions for the client.
	news chan struct{}
	// done is closed when the call has ended, as outcome and err say.
	done    chan struct{}
	outcome outcome
	err     error

	reserved bool        // guarded by waits.mu
	expiry   *time.Timer // of a parked one

	mu       sync.Mutex // guards what follows
	attached *request   // the one that waits for it; nil while it is parked
	pending  map[string]pendingQuestion
	asked    int
}

type pendingQuestion struct {
	question wire.Object
	answer   chan<- jsontext.Value
}

// begin makes a call during which the client of r may be asked, and returns its result or the questions.
func (ws *waits) begin(
	ctx context.Context, r *request, client *upstream.Relay, call func(context.Context, *upstream.Relay) (outcome, error),
) (outcome, error) {
	detached, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	w := &waiting{
		principal: r.principal.Key(), declared: r, hangUp: hangUp, attached: r,
		news: make(chan struct{}, 1), done: make(chan struct{}), pending: map[string]pendingQuestion{},
	}
	if !ws.add(w) {
		hangUp()
		return call(ctx, client)
	}
	client.Notify = w.hear
	client.Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		if !ws.reserve(w) {
			return nil, wire.NewError(wire.InternalError, "The client cannot be asked any more now")
		}
		return w.ask(ctx, method, params)
	}
	go func() {
		defer ws.work.Done()
		defer hangUp()
		defer close(w.done)
		defer unbroken(&w.err)
		w.outcome, w.err = call(detached, client)
	}()
	return ws.attend(ctx, w)
}

// add counts a call in, unless the gateway ends.
func (ws *waits) add(w *waiting) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return false
	}
	if ws.all == nil {
		ws.all, ws.parked, ws.asking = map[*waiting]struct{}{}, map[string]*waiting{}, map[string]int{}
	}
	ws.all[w] = struct{}{}
	ws.work.Add(1)
	return true
}

// remove forgets a call and ends it.
func (ws *waits) remove(w *waiting) {
	w.hangUp()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
	if w.reserved {
		w.reserved = false
		ws.count--
		if ws.asking[w.principal]--; ws.asking[w.principal] == 0 {
			delete(ws.asking, w.principal)
		}
	}
}

// reserve counts a call among those that ask, unless there are too many.
func (ws *waits) reserve(w *waiting) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, known := ws.all[w]; !known || w.reserved {
		return known
	}
	if ws.count >= maxWaiting || ws.asking[w.principal] >= maxWaitingEach {
		return false
	}
	ws.count++
	ws.asking[w.principal]++
	w.reserved = true
	return true
}

// attend waits until a call has ended or asks something. The call ends with ctx.
func (ws *waits) attend(ctx context.Context, w *waiting) (outcome, error) {
	for {
		select {
		case <-w.news:
		case <-w.done:
		case <-ctx.Done():
			ws.remove(w)
			<-w.done
			return outcome{}, ctx.Err()
		}
		select {
		case <-w.done:
			ws.remove(w)
			return w.outcome, w.err
		default:
		}
		if questions := w.leave(); len(questions) > 0 {
			return ws.park(w, questions), nil
		}
	}
}

// leave returns what is to be asked, and lets go of the request that waited. Without a question that one stays.
func (w *waiting) leave() wire.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	var questions wire.Object
	for key, p := range w.pending {
		questions = questions.With(key, p.question.JSON())
	}
	if len(questions) > 0 {
		w.attached = nil
	}
	return questions
}

// park keeps a call for its client to come back to, for a time.
func (ws *waits) park(w *waiting, questions wire.Object) outcome {
	name := rand.Text()
	ws.mu.Lock()
	ws.parked[name] = w
	w.expiry = time.AfterFunc(stateLife, func() { ws.abandon(name, w.principal) })
	ws.mu.Unlock()
	result := wire.Object{}.
		With("resultType", wire.Quote(wire.ResultInputRequired)).
		With(memberRequests, questions.JSON())
	return outcome{result: upstream.Result{JSON: result.JSON(), Revision: wire.Rev20260728}, waiting: name}
}

// take returns a parked call, once, to whom it belongs to.
func (ws *waits) take(name, principal string) *waiting {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.parked[name]
	if w == nil || w.principal != principal {
		return nil
	}
	delete(ws.parked, name)
	w.expiry.Stop()
	return w
}

// abandon ends a parked call that its client will not come back to. No call has the empty name.
func (ws *waits) abandon(name, principal string) {
	if w := ws.take(name, principal); w != nil {
		ws.remove(w)
	}
}

// waiting returns how many calls wait for their clients.
func (ws *waits) waiting() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.parked)
}

// resume brings a call the client's answers and goes on with it.
func (ws *waits) resume(ctx context.Context, r *request, name string) (outcome, error) {
	responses := r.params.Object(memberResponses)
	for _, response := range responses {
		if response.Value.Kind() != '{' {
			return outcome{}, wire.NewError(wire.InvalidParams, "Invalid params: each of inputResponses must be an object")
		}
	}
	w := ws.take(name, r.principal.Key())
	if w == nil {
		return outcome{}, errState()
	}
	w.answer(r, responses)
	return ws.attend(ctx, w)
}

// answer takes the answers of a client that has come back. What it left unanswered is asked again.
func (w *waiting) answer(r *request, responses wire.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attached = r
	for _, response := range responses {
		if p, ok := w.pending[response.Name]; ok {
			delete(w.pending, response.Name)
			p.answer <- response.Value.Clone()
		}
	}
	w.mark()
}

// mark says that there may be questions. It never blocks.
func (w *waiting) mark() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// hear passes a notification on to the request that waits, if one does.
func (w *waiting) hear(method string, params jsontext.Value) {
	w.mu.Lock()
	r := w.attached
	w.mu.Unlock()
	if r != nil && r.talk != nil {
		r.hear(method, params)
	}
}

// ask puts a question to the client with the next result that it gets, and waits for it to come back.
func (w *waiting) ask(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
	params, err := w.declared.question(method, params)
	if err != nil {
		return nil, err
	}
	question := wire.Object{}.With("method", wire.Quote(method))
	if params != nil {
		question = question.With("params", params)
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	answer := make(chan jsontext.Value, 1)
	w.mu.Lock()
	w.asked++
	key := strconv.Itoa(w.asked)
	w.pending[key] = pendingQuestion{question, answer}
	w.mark()
	w.mu.Unlock()
	select {
	case value := <-answer:
		return value, nil
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.pending, key)
		w.mu.Unlock()
		return nil, ctx.Err()
	}
}

// end ends all calls, waits for them, and lets no more begin.
func (ws *waits) end() {
	ws.mu.Lock()
	ws.closed = true
	for w := range ws.all {
		w.hangUp()
	}
	ws.mu.Unlock()
	ws.work.Wait()
}
