package transport

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// batchWidth is how many requests of a batch run concurrently.
const batchWidth = 8

// job carries out one request and returns its response, which has no JSON if the client no longer
// wants one.
type job func() requests.Response

// serveBatch handles a batch over Streamable HTTP, each message as if it had come by itself.
func (l *legacyExchange) serveBatch(batch []jsontext.Value) {
	x := l.x
	if !wire.Batches(l.sealed.Revision) {
		x.refuse(http.StatusBadRequest, nil, wire.NoBatches())
		return
	}
	s, lost := l.session(), false
	s.setLogLevel = l.logLevelSetter()
	responses, release := runBatch(readBatch(batch, func(request *requests.Request) job {
		request.Caller, request.Snapshot = l.caller, x.snapshot
		request.Revision, request.Session = l.sealed.Revision, l.sealed.ID
		request.Software, request.Client = s.software, x.client
		if request.Message.IsRequest() {
			return l.acceptBatched(&s, request)
		}
		if !s.receive(x.r.Context(), request) { // the others of the batch are handled all the same
			lost = true
		}
		return nil
	}))
	defer release()
	switch {
	case responses == nil && lost:
		x.refuseAtOnce(replyLost)
		return
	case responses == nil:
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	// An error means that the client has gone.
	_ = write(x.r.Context(), x.w, time.Now(), http.StatusOK, true, responses)
}

// acceptBatched returns the job of one request of a batch. Responses come together at the end, so
// nothing can be relayed before one of them.
func (l *legacyExchange) acceptBatched(s *session, request *requests.Request) job {
	x := l.x
	request.SetLogLevel = s.setLogLevel
	ctx := requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header)
	ctx, begun := s.inFlight.begin(ctx, s.id, request.Message.ID)
	if begun == nil {
		refusal := errInFlight()
		x.t.requests.Record(ctx, request, refusal)
		return refuseJob(request.Message.ID, refusal)
	}
	return func() requests.Response {
		defer begun.end()
		return x.t.requests.Handle(ctx, request, nil)
	}
}

// readBatch reads the messages of a batch in order and passes each to accept. It returns the jobs
// that make the responses; what is not a message, or must not be part of a batch, gets an error.
func readBatch(batch []jsontext.Value, accept func(*requests.Request) job) (jobs []job) {
	for _, raw := range batch {
		request, refusal := requests.Read(raw)
		switch {
		case refusal != nil || !request.Message.IsRequest():
		case request.Message.Method == wire.Initialize:
			refusal = wire.NewError(wire.InvalidRequest, "Invalid request: initialize must not be part of a batch")
		case request.ClaimsModern():
			refusal = wire.NoBatches()
		}
		if refusal != nil {
			jobs = append(jobs, refuseJob(request.Message.ID, refusal))
		} else if run := accept(request); run != nil {
			jobs = append(jobs, run)
		}
	}
	return jobs
}

// refuseJob returns the job of a request that is refused.
func refuseJob(id jsontext.Value, refusal *wire.Error) job {
	return func() requests.Response {
		return requests.Response{JSON: wire.AppendError(nil, id, refusal), Code: refusal.Code}
	}
}

// runBatch runs jobs concurrently and returns their responses as a batch; nil where there are none.
// Release must be called when the batch is written.
func runBatch(jobs []job) (batch []byte, release func()) {
	responses := make([]requests.Response, len(jobs))
	release = func() {
		for i := range responses {
			responses[i].Release()
		}
	}
	var group errgroup.Group
	group.SetLimit(batchWidth)
	for i, run := range jobs {
		group.Go(func() error {
			responses[i] = run()
			return nil
		})
	}
	_ = group.Wait() // jobs return no errors
	for _, response := range responses {
		switch {
		case response.JSON == nil:
			continue
		case batch == nil:
			batch = append(batch, '[')
		default:
			batch = append(batch, ',')
		}
		batch = append(batch, response.JSON...)
	}
	if batch == nil {
		return nil, release
	}
	return append(batch, ']'), release
}
