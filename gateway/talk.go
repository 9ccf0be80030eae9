package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// While a get is in flight, the server may have something to say to its client: a question, progress, a log message. All
// of it goes the way of the request's response, before it:
//
//	upstream ── Ask, Tell ──▶ talk ──▶ the request's own stream (Streamable HTTP), or the conversation's
//	         ◀── answer ───── questions ◀── a later message of the same session, see questions.go
//
// A client of the modern era is not asked that way: see waiting.go.

const (
	// maxSaid and maxSaidBytes bound what waits to be said before a response. What is more is lost, unless it is a
	// question: those have a bound of their own.
	maxSaid      = 256
	maxSaidBytes = 1 << 20
	// maxQuestionBytes bounds one question.
	maxQuestionBytes = 1 << 20
)

// talk is what is to be said to the client of one request before its response. Saying never blocks.
type talk struct {
	// news holds at most one mark: that there is something to be said.
	news chan struct{}

	mu    sync.Mutex // guards what follows
	queue [][]byte
	bytes int
	over  bool
}

func newTalk() *talk { return &talk{news: make(chan struct{}, 1)} }

// tell says what a slow client can do without.
func (t *talk) tell(message []byte) { t.put(message, false) }

// say says what must reach the client. It reports false where the request has been answered.
func (t *talk) say(message []byte) bool { return t.put(message, true) }

func (t *talk) put(message []byte, must bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || (!must && (len(t.queue) >= maxSaid || t.bytes+len(message) > maxSaidBytes)) {
		return false
	}
	t.queue = append(t.queue, message)
	t.bytes += len(message)
	select {
	case t.news <- struct{}{}:
	default:
	}
	return true
}

// take returns what is to be said now.
func (t *talk) take() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.queue
	t.queue, t.bytes = nil, 0
	return said
}

// end says that nothing more is to be said.
func (t *talk) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// speaker brings to a client what is to be said before a response.
type speaker struct {
	say func(message []byte)
	// quiet is called from time to time.
	quiet func()
}

// respondTalking is respond for a request whose client may be talked to meanwhile.
func (g *Gateway) respondTalking(ctx context.Context, dst []byte, r *request, to speaker) (response []byte, code int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		response, code = g.respond(ctx, dst, r)
		r.talk.end()
	}()
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case <-r.talk.news:
			to.sayAll(r.talk)
		case <-alive.C:
			to.quiet()
		case <-done:
			to.sayAll(r.talk)
			return response, code
		}
	}
}

func (s speaker) sayAll(t *talk) {
	for _, message := range t.take() {
		s.say(message)
	}
}

// mayHear reports whether a request is one during which its client may be talked to.
func (r *request) mayHear() bool {
	switch r.message.Method {
	case wire.PromptsGet:
		return len(r.declared) > 0 || r.token() != nil || r.level != ""
	case wire.Complete:
		return r.token() != nil || r.level != ""
	}
	return false
}

// token is the client's progress token, or nil.
func (r *request) token() jsontext.Value {
	token := r.meta.Get(wire.MetaProgressToken)
	if kind := token.Kind(); kind != '"' && kind != '0' {
		return nil
	}
	return token
}

// client is the request's client as an upstream may talk to it.
func (g *Gateway) client(r *request) *upstream.Relay {
	c := &upstream.Relay{Capabilities: r.meta.Get(wire.MetaClientCapabilities)}
	if !r.modern() {
		c.Capabilities = jsontext.Value("{}")
	}
	if !r.principal.Anonymous {
		c.Caller = r.principal.Key()
	}
	if r.talk == nil {
		return c
	}
	c.Progress, c.LogLevel, c.Notify = r.token() != nil, r.level, r.hear
	if r.ask != nil && r.message.Method == wire.PromptsGet {
		c.Capabilities, c.Reply = r.declared.JSON(), r.answer
	}
	return c
}

// hear tells the client what an upstream notifies it of, where its revision knows that and it wants to hear of it.
func (r *request) hear(method string, params jsontext.Value) {
	object, err := wire.ParseObject(params)
	if err != nil {
		return
	}
	switch method {
	case wire.Progress:
		if r.token() == nil {
			return
		}
		object = object.With(wire.MetaProgressToken, r.token())
	case wire.LogMessage:
		level, _ := object.Text("level")
		if r.level == "" || wire.Severity(level) < wire.Severity(r.level) {
			return
		}
	case wire.ElicitComplete:
		if r.modern() || r.revision < wire.Rev20251125 {
			return
		}
	}
	told := object.JSON()
	if r.screen != nil {
		var ok bool
		if told, ok = r.screen(told); !ok {
			return
		}
	}
	r.talk.tell(wire.AppendNotification(nil, method, told))
}

// answer puts an upstream's question to a client of the legacy era.
func (r *request) answer(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
	question, err := r.question(method, params)
	if err != nil {
		return nil, err
	}
	return r.ask(ctx, method, question)
}

// question returns the params of a question as they go to the client, or the refusal of one that it could not answer.
func (r *request) question(method string, params jsontext.Value) (jsontext.Value, error) {
	if len(params) > maxQuestionBytes {
		return nil, wire.NewError(wire.InvalidParams, "The question is too large")
	}
	object := wire.Object{}
	if params != nil {
		var err error
		if object, err = wire.ParseObject(params); err != nil {
			return nil, asWireError(err)
		}
	}
	capability, part := needed(method, object)
	switch {
	case capability == "", !has(r.declared, capability, ""):
		return nil, wire.NewError(wire.MethodNotFound, "Method not found: the client did not declare it")
	case !has(r.declared, capability, part):
		return nil, wire.NewError(wire.InvalidParams, "Invalid params: the client did not declare "+capability+"."+part)
	}
	if meta := object.Object("_meta"); meta.Get(wire.MetaProgressToken) != nil { // the client's progress stays behind
		object = object.With("_meta", meta.Without(func(name string) bool { return name == wire.MetaProgressToken }).JSON())
	}
	// 2026-07-28 has no such id, and 2025-11-25 none without.
	if part == "url" && !r.modern() && object.Get("elicitationId") == nil {
		object = object.With("elicitationId", wire.Quote(randomName()))
	}
	if params == nil {
		return nil, nil
	}
	if r.screen == nil {
		return object.JSON(), nil
	}
	asked, ok := r.screen(object.JSON())
	if !ok {
		return nil, wire.NewError(wire.InvalidParams, "Invalid params: the gateway's rules do not let the question through")
	}
	return asked, nil
}
