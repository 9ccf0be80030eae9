package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Client is whoever a call is made for, as far as the server may talk to it while the call is in flight. The zero value
// can neither be asked nor told anything.
type Client struct {
	// Capabilities are what the client declared, an object; what stands in _meta counts where they are nil.
	Capabilities jsontext.Value
	// Caller tells whoever makes calls from others, so that nobody holds all sessions of a server on which calls take
	// turns. Empty is nobody in particular, and is not held to that.
	Caller string
	// Ask puts a server's request (elicitation, sampling, roots) to the client and returns its result, or the
	// [*wire.Error] with which it is refused. It must return soon after ctx has ended. Nil refuses all at once. The
	// time of the call stands still meanwhile.
	Ask func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)
	// Progress says that the client wants to hear of progress, and LogLevel which log messages: none where it is empty.
	Progress bool
	LogLevel string
	// Tell is called for a notification that belongs to the call: progress, whose token is not the client's, a log
	// message, of any level, or the end of an elicitation by URL. It must not block. It may be nil.
	Tell func(method string, params jsontext.Value)
}

// hears reports whether a server can say anything to the client during a call.
func (c *Client) hears() bool {
	return c.Ask != nil || (c.Tell != nil && (c.Progress || c.LogLevel != ""))
}

const (
	// maxQuestions bounds what a server may ask at once during a call.
	maxQuestions = 8
	// answerBound is how long a client's answer may take to be delivered.
	answerBound = 5 * time.Second
)

// dialog is what a server and a client say to each other during a call.
type dialog struct {
	session *Session
	client  *Client
	ctx     context.Context //nolint:containedctx // the call's
	hangUp  context.CancelFunc
	asking  sync.WaitGroup

	// The session's lock guards what follows.
	questions int
	relayed   bool // something was asked
	over      bool
	urls      []string // the elicitations by URL that the client was asked for
}

// begin makes a call one that the server may talk in. End hangs up on what is still being asked, and waits for that.
func (s *Session) begin(ctx context.Context, client *Client, id int64) (d *dialog, end func()) {
	ctx, hangUp := context.WithCancel(ctx)
	d = &dialog{session: s, client: client, ctx: ctx, hangUp: hangUp}
	s.mu.Lock()
	s.dialogs[id] = d
	s.begun++
	s.mu.Unlock()
	return d, func() {
		s.mu.Lock()
		delete(s.dialogs, id)
		d.over = true
		s.mu.Unlock()
		hangUp()
		d.asking.Wait()
	}
}

// hasRelayed reports whether the client was asked something.
func (d *dialog) hasRelayed() bool {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	return d.relayed
}

// concerned returns the dialog that a message belongs to which did not come tied to one, or nil. It is the only one
// there is, on a session on which calls take turns or which never had another: what a server says for a call that has
// ended may still come, and after one that was given up that may be at any time.
func (s *Session) concerned() *dialog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aside || s.abandoned || len(s.dialogs) != 1 || (!s.turns && s.begun > 1) {
		return nil
	}
	for _, d := range s.dialogs {
		return d
	}
	return nil
}

// askable reports whether a request of a server's is one that a client may be able to answer.
func askable(method string) bool {
	return method == wire.Elicit || method == wire.CreateMessage || method == wire.RootsList
}

// hear takes what the server says that is not the response to a call. Tied is the dialog of the call that it came
// with, or nil. It must not block.
func (s *Session) hear(m *wire.Message, tied *dialog) {
	switch {
	case m.Method == wire.PromptsListChanged:
		s.changed()
	case m.Method == wire.Acknowledged:
		s.mu.Lock()
		f := s.acknowledged
		s.mu.Unlock()
		if f != nil {
			f()
		}
	case m.IsRequest() && !s.modern.Load():
		s.answer(m, tied)
	case m.Method == wire.Cancelled:
		s.takeBack(m)
	case m.Method == wire.Progress:
		s.progressed(m, tied)
	case m.Method == wire.LogMessage:
		s.logged(m, tied)
	case m.Method == wire.ElicitComplete:
		s.elicited(m, tied)
	default:
		s.logger.Debug("message ignored", slog.String("method", m.Method))
	}
}

// answer answers a request of a legacy server's: ping itself, what a client may answer by the client of the call that
// it belongs to. All else is refused.
func (s *Session) answer(m *wire.Message, tied *dialog) {
	if m.Method == wire.Ping {
		s.post(wire.AppendResult(nil, slices.Clone(m.ID), jsontext.Value(emptyObject)))
		return
	}
	d := tied
	if askable(m.Method) && d == nil {
		d = s.concerned()
		s.onStray()
		if d == nil {
			s.logger.Warn("question that belongs to no call refused", slog.String("method", m.Method))
		}
	}
	if d == nil || !askable(m.Method) || d.client.Ask == nil || !d.ask(m) {
		s.refuse(m.ID, wire.NewError(wire.MethodNotFound, "Method not found: nobody can be asked here"))
	}
}

func (s *Session) refuse(id jsontext.Value, err *wire.Error) {
	s.post(wire.AppendError(nil, slices.Clone(id), err))
}

// ask puts a question to the client in the background. It reports false where there may be no more.
func (d *dialog) ask(m *wire.Message) bool {
	s, id := d.session, bytes.Clone(m.ID)
	ctx, takeBack := context.WithCancel(d.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.over || d.questions >= maxQuestions || s.questions[string(id)] != nil {
		takeBack()
		return false
	}
	s.questions[string(id)] = takeBack
	d.questions++
	d.relayed = true
	resume := pause(ctx)
	method, params := m.Method, bytes.Clone(m.Params)
	d.asking.Go(func() {
		result, err := d.client.Ask(ctx, method, params)
		resume()
		s.mu.Lock()
		delete(s.questions, string(id))
		d.questions--
		if url, ok := elicitationID(method, params); ok && err == nil {
			d.urls = append(d.urls, url)
		}
		s.mu.Unlock()
		switch {
		case d.ctx.Err() != nil: // nobody waits here for the answer to be delivered
			s.refuse(id, wire.NewError(wire.InternalError, "The request that this belongs to has ended"))
		case ctx.Err() == nil: // it was not taken back
			s.reply(d.ctx, id, result, err)
		}
		takeBack()
	})
	return true
}

// reply delivers a client's answer in the background: the server may end the call before it has confirmed the delivery,
// and a request that is broken off at that moment may take its connection from another (net/http hands it on before).
func (s *Session) reply(ctx context.Context, id, result jsontext.Value, err error) {
	response := wire.AppendResult(nil, id, result)
	if err != nil {
		refusal, ok := errors.AsType[*wire.Error](err)
		if !ok {
			refusal = wire.NewError(wire.InternalError, "The client did not answer")
		}
		response = wire.AppendError(nil, id, refusal)
	}
	if s.noticeSlots.Acquire(ctx, 1) == nil {
		s.deliver(response, answerBound, slog.LevelWarn)
	}
}

// takeBack ends a question that the server does not want answered any more.
func (s *Session) takeBack(m *wire.Message) {
	params, err := wire.ParseObject(m.Params)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.questions[string(params.Get("requestId"))]; end != nil {
		end()
	}
}

// progressed tells the client whose call a progress notification names, unless it came with another.
func (s *Session) progressed(m *wire.Message, tied *dialog) {
	params, err := wire.ParseObject(m.Params)
	if err != nil {
		return
	}
	token, ok := wire.Int(params.Get(wire.MetaProgressToken))
	s.mu.Lock()
	d := s.dialogs[token]
	s.mu.Unlock()
	if ok && d != nil && d.client.Progress && (tied == nil || tied == d) {
		d.tell(m)
	}
}

// logged tells the client whose call a log message belongs to.
func (s *Session) logged(m *wire.Message, tied *dialog) {
	if tied == nil {
		tied = s.concerned()
	}
	if tied != nil && tied.client.LogLevel != "" {
		tied.tell(m)
	}
}

// elicited tells the client that was asked to go to a URL that it is done there, while its call is in flight. Where
// several were asked by one id, nobody knows which of them is meant.
func (s *Session) elicited(m *wire.Message, tied *dialog) {
	params, err := wire.ParseObject(m.Params)
	if err != nil {
		return
	}
	id, _ := params.Text("elicitationId")
	var asked []*dialog
	s.mu.Lock()
	for _, d := range s.dialogs {
		if slices.Contains(d.urls, id) && (tied == nil || tied == d) {
			asked = append(asked, d)
		}
	}
	s.mu.Unlock()
	if len(asked) == 1 {
		asked[0].tell(m)
	}
}

// elicitationID returns what an elicitation by URL is known by.
func elicitationID(method string, raw jsontext.Value) (string, bool) {
	params, err := wire.ParseObject(raw)
	if method != wire.Elicit || err != nil {
		return "", false
	}
	return params.Text("elicitationId")
}

func (d *dialog) tell(m *wire.Message) {
	if d.client.Tell != nil {
		d.client.Tell(m.Method, bytes.Clone(m.Params))
	}
}

// wantsLogs makes a server whose log level counts for a whole session send what the client wants. The level is only
// ever lowered: what is too much for others is kept from them.
func (s *Session) wantsLogs(ctx context.Context, level string) {
	if level == "" || wire.Modern(s.Revision) || !s.capabilities.logging {
		return
	}
	if s.leveling.Acquire(ctx, 1) != nil {
		return
	}
	defer s.leveling.Release(1)
	severity := wire.Severity(level)
	if s.level != 0 && s.level <= severity {
		return
	}
	if _, err := s.Call(ctx, wire.SetLogLevel, "", wire.Object{}.With("level", wire.Quote(level))); err != nil {
		s.logger.DebugContext(ctx, "log level not set", slog.Any("error", err))
		return
	}
	s.level = severity
}

// declarable are the capabilities that a client of a legacy revision can declare, with their parts.
var declarable = []struct { //nolint:gochecknoglobals // a constant table
	name, since string
	parts       []string // since 2025-11-25
}{
	{"elicitation", wire.Rev20250618, []string{"form", "url"}},
	{"sampling", wire.Rev20241105, []string{"context", "tools"}},
	{"roots", wire.Rev20241105, nil},
}

// declare returns what a client's capabilities are worth in a legacy revision, of which equal ones give equal bytes.
// The gateway relays requests only, so that no listChanged is in it.
func declare(client jsontext.Value, revision string) wire.Object {
	capabilities := wire.Object{}
	declared, err := wire.ParseObject(client)
	if err != nil {
		return capabilities
	}
	for _, c := range declarable {
		if declared.Get(c.name).Kind() != '{' || revision < c.since {
			continue
		}
		given, parts := declared.Object(c.name), wire.Object{}
		for _, part := range c.parts {
			if given.Get(part).Kind() == '{' {
				parts = parts.With(part, jsontext.Value(emptyObject))
			}
		}
		if revision < wire.Rev20251125 {
			if parts.Get("url") != nil && parts.Get("form") == nil {
				continue // what it can do is not known yet in that revision
			}
			parts = wire.Object{}
		}
		capabilities = capabilities.With(c.name, parts.JSON())
	}
	return capabilities
}
