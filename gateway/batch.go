package gateway

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxBatch bounds the messages of a batch.
	maxBatch = 100
	// batchWidth is how many requests of a batch are carried out beside each other.
	batchWidth = 8
)

// incoming is what a client sent at once: one message or a batch of them.
type incoming struct {
	call *request
	// batch is the messages of a batch, each still to be read; nil for a single message.
	batch []jsontext.Value
	// header is that of the HTTP request that brought it; nil over stdio.
	header http.Header
}

// readIncoming reads what a client sent at once. The call has the message's id beside an error too, where that much
// could be read. Whether the client's revision has batches at all is for the caller to check.
func readIncoming(raw []byte) (in incoming, refusal *wire.Error) {
	if !wire.IsBatch(raw) {
		in.call, refusal = readRequest(raw)
		return in, refusal
	}
	in.call = &request{}
	batch, err := wire.ParseBatch(raw)
	switch {
	case err != nil:
		return in, asWireError(err)
	case len(batch) > maxBatch:
		return in, wire.NewError(wire.InvalidRequest, fmt.Sprintf("Invalid request: a batch has at most %d messages", maxBatch))
	}
	in.batch = batch
	return in, nil
}

// job carries one request out and returns its response, or nil where the client wants none any more.
type job func() []byte

// answerEach reads the messages of a batch in their order and lets accept handle each. It returns what is to be done
// for the responses; one to what was no message, or must not stand in a batch, is known already.
func answerEach(batch []jsontext.Value, accept func(*request) job) []job {
	var jobs []job
	for _, raw := range batch {
		call, refusal := readRequest(raw)
		switch {
		case refusal != nil || !call.message.IsRequest():
		case call.message.Method == wire.Initialize:
			refusal = wire.NewError(wire.InvalidRequest, "Invalid request: initialize must not stand in a batch")
		case call.claimsModern():
			refusal = wire.NoBatches()
		}
		if refusal != nil {
			jobs = append(jobs, func() []byte { return wire.AppendError(nil, call.message.ID, refusal) })
		} else if run := accept(call); run != nil {
			jobs = append(jobs, run)
		}
	}
	return jobs
}

// together carries jobs out beside each other and returns their responses as a batch; nil where there are none.
func together(jobs []job) []byte {
	responses := make([][]byte, len(jobs))
	var group errgroup.Group
	group.SetLimit(batchWidth)
	for i, run := range jobs {
		group.Go(func() error {
			responses[i] = run()
			return nil
		})
	}
	_ = group.Wait() // jobs do not fail: they answer with errors
	var batch []byte
	for _, response := range responses {
		switch {
		case response == nil:
			continue
		case batch == nil:
			batch = append(batch, '[')
		default:
			batch = append(batch, ',')
		}
		batch = append(batch, response...)
	}
	if batch == nil {
		return nil
	}
	return append(batch, ']')
}

// serveBatch handles a batch over Streamable HTTP, each message as if it had come alone.
func (g *Gateway) serveBatch(w http.ResponseWriter, r *http.Request, batch []jsontext.Value) {
	who, ok := g.authenticate(w, r, nil)
	if !ok {
		return
	}
	session, ok := g.openSession(w, r, who.Principal, time.Now())
	if !ok {
		return
	}
	if !wire.Batches(session.Revision) {
		refuse(w, http.StatusBadRequest, nil, wire.NoBatches())
		return
	}
	responses := together(answerEach(batch, func(call *request) job {
		call.principal, call.revision = who.Principal, session.Revision
		return g.batched(r, &session, call)
	}))
	if responses == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_ = writeWhole(r.Context(), w, time.Now(), http.StatusOK, responses) // the client has gone
}

// batched returns the job of one message of a batch, nil for one that wants no response.
func (g *Gateway) batched(r *http.Request, session *seal.Session, call *request) job {
	g.cameBy(r, call)
	if !call.message.IsRequest() {
		g.noted(session, call)
		return nil
	}
	// The responses come together at the end, so that nothing can be said before one of them.
	call.setLevel = func(level string) { g.sessions.setLevel(session, level) }
	ctx, end, _ := g.calls.begin(extractTrace(r.Context(), call.meta, r.Header), callKey(session, call.message.ID))
	return func() []byte {
		defer end()
		response, _ := g.respond(ctx, nil, call)
		return response
	}
}
