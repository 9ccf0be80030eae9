package gateway

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// askBound is how long a client may take to answer a question.
	askBound = 10 * time.Minute
	// maxPending bounds the questions that one session is asked at once.
	maxPending = 16
)

// questions are those that clients of the legacy era were asked and have not answered. An answer counts only from the
// session that was asked, and once. The ids are random, so that an answer which reaches another replica is none there.
// The zero value is ready.
type questions struct {
	mu      sync.Mutex // guards what follows
	pending map[string]map[string]chan<- wire.Message
	closed  bool
}

// ask puts a question to a session, by say, and waits for the answer. Whoever does not wait any more tells the client so.
func (q *questions) ask(
	ctx context.Context, session string, say func([]byte) bool, method string, params jsontext.Value,
) (jsontext.Value, error) {
	id, answer := rand.Text(), make(chan wire.Message, 1)
	if !q.add(session, id, answer) {
		return nil, wire.NewError(wire.InternalError, "The client cannot be asked any more now")
	}
	defer q.remove(session, id)
	quoted := wire.Quote(id)
	if !say(wire.AppendCall(nil, quoted, method, params)) {
		return nil, wire.NewError(wire.InternalError, "The request that this belongs to has ended")
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	select {
	case m := <-answer:
		return read(m)
	case <-ctx.Done():
		params := wire.Object{}.With("requestId", quoted).With("reason", wire.Quote("the answer is not needed any more"))
		say(wire.AppendNotification(nil, wire.Cancelled, params.JSON()))
		return nil, ctx.Err()
	}
}

// waiting returns how many are not answered.
func (q *questions) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, pending := range q.pending {
		n += len(pending)
	}
	return n
}

// read returns what a client answered.
func read(m wire.Message) (jsontext.Value, error) {
	switch {
	case m.Error != nil:
		refusal, err := wire.ReadError(m.Error)
		if err != nil {
			return nil, wire.NewError(wire.InternalError, "The client did not answer")
		}
		return nil, refusal
	case m.Result.Kind() != '{':
		return nil, wire.NewError(wire.InternalError, "The client did not answer with an object")
	}
	return m.Result, nil
}

func (q *questions) add(session, id string, answer chan<- wire.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.pending[session]) >= maxPending {
		return false
	}
	if q.pending == nil {
		q.pending = map[string]map[string]chan<- wire.Message{}
	}
	if q.pending[session] == nil {
		q.pending[session] = map[string]chan<- wire.Message{}
	}
	q.pending[session][id] = answer
	return true
}

func (q *questions) remove(session, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.pending[session], id)
	if len(q.pending[session]) == 0 {
		delete(q.pending, session)
	}
}

// answered takes a session's answer. One to what that session was not asked, or has answered, is nobody's.
func (q *questions) answered(session string, m *wire.Message) {
	id, ok := wire.Text(m.ID)
	q.mu.Lock()
	defer q.mu.Unlock()
	if answer := q.pending[session][id]; ok && answer != nil {
		delete(q.pending[session], id)
		answer <- *m
	}
}

// end takes it that a session will not answer any more.
func (q *questions) end(session string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, answer := range q.pending[session] {
		delete(q.pending[session], id)
		answer <- wire.Message{}
	}
}

// close is end for all sessions, and nobody can be asked from now on.
func (q *questions) close() {
	q.mu.Lock()
	q.closed = true
	sessions := make([]string, 0, len(q.pending))
	for session := range q.pending {
		sessions = append(sessions, session)
	}
	q.mu.Unlock()
	for _, session := range sessions {
		q.end(session)
	}
}

// known names the capabilities of a session: how they are declared, and where they are kept in its token.
func known(s *seal.Session) []struct {
	capability, part string
	has              *bool
} {
	return []struct {
		capability, part string
		has              *bool
	}{
		{"elicitation", "", &s.Elicitation},
		{"elicitation", "form", &s.ElicitationForm},
		{"elicitation", "url", &s.ElicitationURL},
		{"sampling", "", &s.Sampling},
		{"sampling", "context", &s.SamplingContext},
		{"sampling", "tools", &s.SamplingTools},
		{"roots", "", &s.Roots},
	}
}

// remember keeps in a session what its client declared.
func remember(s *seal.Session, declared wire.Object) {
	for _, k := range known(s) {
		capability := declared.Get(k.capability)
		*k.has = capability.Kind() == '{' && (k.part == "" || declared.Object(k.capability).Get(k.part).Kind() == '{')
	}
}

// declared are the capabilities that a session's client declared.
func declared(s *seal.Session) wire.Object {
	if !s.Elicitation && !s.Sampling && !s.Roots {
		return nil
	}
	var all wire.Object
	own := *s // so that the session itself can stay on the stack
	for _, k := range known(&own) {
		switch {
		case !*k.has:
		case k.part == "":
			all = all.With(k.capability, jsontext.Value("{}"))
		default:
			all = all.With(k.capability, all.Object(k.capability).With(k.part, jsontext.Value("{}")).JSON())
		}
	}
	return all
}

// askable are those of a client's capabilities by which it can be asked for input.
func askable(capabilities wire.Object) wire.Object {
	var s seal.Session
	remember(&s, capabilities)
	return declared(&s)
}
