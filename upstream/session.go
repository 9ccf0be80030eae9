package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// noticeBound is how long a message that nobody waits for may take to be delivered, and maxNotices how many of
	// them may be on their way: a peer that asks and does not read loses the answers.
	noticeBound = 2 * time.Second
	maxNotices  = 64
	// maxPages bounds one list: a server that never ends its pages is guarded against.
	maxPages = 1000
	// maxListBytes bounds the pages of one list.
	maxListBytes = 64 << 20
	// listBound is how long one list may take.
	listBound = 2 * time.Minute
	// maxTTL bounds, in milliseconds, how long a server may say that its list lives.
	maxTTL = 24 * 60 * 60 * 1000
)

// transport carries messages to one peer and back. There are three: Streamable HTTP, HTTP+SSE and a child process.
type transport interface {
	// listen begins the exchange: from here on what the peer says that is no response goes to handle, which must not
	// block. It is called once, before anything else.
	listen(handle func(*wire.Message))
	// roundTrip sends a request and takes the response with its id.
	roundTrip(ctx context.Context, r *request) error
	// send sends a message that no response belongs to.
	send(ctx context.Context, message []byte) error
	// standalone carries what a legacy peer says outside of calls, until ctx ends or it breaks. It calls ready once
	// nothing that is said can be missed any more, and returns errNoStream where the peer offers no such stream.
	standalone(ctx context.Context, ready func()) error
	// ties reports whether what a peer says for a call can be told from what it says for another.
	ties() bool
	// mayKeepSilent reports whether a legacy peer may leave a request that it does not know unanswered.
	mayKeepSilent() bool
	// agree tells the transport which revision was agreed on; before that it is empty. It is called once.
	agree(revision string)
	// broken is closed when the transport cannot be used any more, and brokenBy says why.
	broken() <-chan struct{}
	brokenBy() error
	close()
}

// request is a request on its way to a transport, and what came back.
type request struct {
	id     int64
	method string
	// name is what Mcp-Name carries; empty for methods without one.
	name   string
	params jsontext.Value
	// revision is the protocol revision to claim in a header; empty for none.
	revision string
	// said takes, where it is set, what the peer says that is no response but certainly belongs to this request. It must
	// not block. Only Streamable HTTP can tell.
	said func(*wire.Message)
	// answer is the response, once there is one.
	answer *wire.Message
	// place is how far the stream with the response was read. Only Streamable HTTP has any.
	place bookmark
}

// Result is what a server answered to a request.
type Result struct {
	// JSON is the result as it was sent, always an object.
	JSON jsontext.Value
	// Revision is the one that the server speaks.
	Revision string
}

// Session is an open session with one server: agreed on a revision, ready for calls. Its methods are safe for
// concurrent use.
type Session struct {
	transport transport
	// Revision is the protocol revision that both sides speak.
	Revision string
	// capabilities are what the server declared.
	capabilities capabilities
	offered      jsontext.Value
	// modern is what Revision says, for those who may ask before it is known.
	modern  atomic.Bool
	self    jsontext.Value
	timeout time.Duration
	logger  *slog.Logger
	ids     atomic.Int64
	// changed is called, and must not block, when the server says that its list of prompts changed.
	changed func()
	// notices are the messages that go out in the background, noticeSlots what bounds them.
	notices     sync.WaitGroup
	noticeSlots *semaphore.Weighted

	// reached is how the server was reached in the end, for another session with it.
	reached config.Upstream
	// aside says that the session is for clients that can be asked, see [asides], and turns that it has one call at a
	// time. Declared is what it declares at initialize, and onStray is called where the server asks and does not say in
	// which call.
	aside    bool
	turns    bool
	declared wire.Object
	onStray  func()

	// leveling is held by whoever sets the log level, which is the severity from which on the server was told to send log
	// messages; 0 before.
	leveling *semaphore.Weighted
	level    int

	mu sync.Mutex // guards what follows
	// dialogs are those of the calls in flight by the calls' ids, which are also their progress tokens.
	dialogs map[int64]*dialog
	// begun counts the dialogs that there ever were.
	begun int
	// questions are those of the server that are being put to clients, by the server's ids, to be taken back.
	questions map[string]context.CancelFunc
	// abandoned is set once a call has ended without an answer: the server may still be at it.
	abandoned bool
	// acknowledged is called for the acknowledgment of a subscriptions/listen request.
	acknowledged func()
	closed       bool
}

// capabilities is what of a server's capabilities matters to prompts.
type capabilities struct {
	prompts, listChanged, completions, logging bool
}

// Transport is how the server was reached in the end.
func (s *Session) Transport() config.Transport { return s.reached.Transport }

// Capabilities are what the server declared, an object as it was sent.
func (s *Session) Capabilities() jsontext.Value { return s.offered }

// Completes reports whether the server declared completions. Revision 2024-11-05 had no way to declare them.
func (s *Session) Completes() bool {
	return s.capabilities.completions || s.Revision == wire.Rev20241105
}

// Call sends one request and waits for its result, until ctx ends at the latest. The name is the prompt's for
// prompts/get and empty otherwise. Errors: *wire.Error is the peer's own answer, anything else is none.
func (s *Session) Call(ctx context.Context, method, name string, params wire.Object) (Result, error) {
	return s.callFor(ctx, &Client{}, &Question{method, name, params})
}

// callFor is Call on behalf of a client, which the server may talk to until it has answered.
func (s *Session) callFor(ctx context.Context, client *Client, q *Question) (Result, error) {
	r := &request{id: s.ids.Add(1), method: q.Method, name: q.Name, revision: s.Revision}
	s.setParams(ctx, r, client, q.Params)
	if client.hears() {
		return s.converse(ctx, client, r)
	}
	return s.exchange(ctx, r)
}

// converse is exchange with a client that may hear something meanwhile.
func (s *Session) converse(ctx context.Context, client *Client, r *request) (Result, error) {
	s.wantsLogs(ctx, client.LogLevel)
	d, end := s.begin(ctx, client, r.id)
	defer end()
	r.said = func(m *wire.Message) { s.hear(m, d) }
	result, err := s.exchange(ctx, r)
	if err != nil && d.hasRelayed() { // it must not be asked again
		err = &begunError{err}
	}
	return result, err
}

// exchange sends a request and makes its response a result.
func (s *Session) exchange(ctx context.Context, r *request) (Result, error) {
	err := s.transport.roundTrip(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{}, s.leave(ctx, r, err)
	case err != nil:
		return Result{}, err
	case r.answer.Error != nil:
		return Result{}, peerError(r.answer.Error)
	case r.answer.Result.Kind() != '{':
		return Result{}, &protocolError{problem: "the result is not an object"}
	}
	return Result{JSON: r.answer.Result, Revision: s.Revision}, nil
}

// leave lets the server know that nobody waits for a request any more, and returns why.
func (s *Session) leave(ctx context.Context, r *request, err error) error {
	s.abandon()
	s.giveUp(r.id)
	if answerBegun(err) {
		return &begunError{context.Cause(ctx)}
	}
	return context.Cause(ctx)
}

// abandon notes that the server may still be at work for somebody who has gone.
func (s *Session) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = true
}

// peerError is the error that a peer's error object says, or what is wrong with the object.
func peerError(raw jsontext.Value) error {
	wireErr, err := wire.ReadError(raw)
	if err != nil {
		return &protocolError{problem: err.Error()}
	}
	return wireErr
}

// giveUp tells the peer in the background that a call is not waited for any more. In the modern era over HTTP,
// the closed stream has said so already; the transport then ignores it.
func (s *Session) giveUp(id int64) {
	params := wire.Object{}.With("requestId", wire.NumberID(id)).With("reason", wire.Quote("the caller gave up"))
	message := wire.AppendNotification(nil, wire.Cancelled, params.JSON())
	s.post(message)
}

// post sends a message in the background, because neither a caller that has gone nor a transport's reader may wait
// for it.
func (s *Session) post(message []byte) {
	if s.noticeSlots.TryAcquire(1) {
		s.deliver(message, noticeBound, slog.LevelDebug)
	}
}

// deliver sends a message in the background within a bound, and gives the slot back that was acquired for it. That it
// could not be delivered is logged.
func (s *Session) deliver(message []byte, bound time.Duration, level slog.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.noticeSlots.Release(1)
		return
	}
	s.notices.Go(func() {
		defer s.noticeSlots.Release(1)
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := s.transport.send(ctx, message); err != nil {
			s.logger.Log(ctx, level, "message not delivered", slog.Any("error", err))
		}
	})
}

// Close ends the session and waits until what belongs to it has ended: a child process is asked to go, then made to.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.transport.close()
	s.notices.Wait()
}

// List drains all pages of the server's prompts and returns the definitions as they were sent. It returns all of
// them or an error: a list is never cut silently. Each page has the session's timeout.
func (s *Session) List(ctx context.Context, maxPrompts int) ([]jsontext.Value, error) {
	l, err := s.list(ctx, maxPrompts)
	return l.definitions, err
}

// listing is a whole list and how long it may live, which is 0 where the server does not say.
type listing struct {
	definitions []jsontext.Value
	ttl         time.Duration
}

func (s *Session) list(ctx context.Context, maxPrompts int) (listing, error) {
	if !s.capabilities.prompts {
		return listing{}, nil
	}
	var (
		all     listing
		bytes   int
		params  wire.Object
		cursors = map[string]bool{}
		begun   = time.Now()
	)
	for range maxPages {
		p, err := s.page(ctx, params)
		if wireErr, ok := errors.AsType[*wire.Error](err); ok && wireErr.Code == wire.MethodNotFound && len(params) == 0 {
			return listing{}, nil // declared, but there are none
		}
		if err != nil {
			return listing{}, fmt.Errorf("%s: %w", wire.PromptsList, err)
		}
		all.definitions = append(all.definitions, p.definitions...)
		if all.ttl == 0 || (p.ttl > 0 && p.ttl < all.ttl) {
			all.ttl = p.ttl
		}
		bytes += p.size
		switch {
		case len(all.definitions) > maxPrompts:
			return listing{}, &guardError{fmt.Sprintf("it offers more than max_prompts = %d prompts", maxPrompts)}
		case bytes > maxListBytes:
			return listing{}, &guardError{fmt.Sprintf("its pages are larger than %d bytes together", maxListBytes)}
		case p.next == nil:
			return all, nil
		case cursors[string(p.next)]:
			return listing{}, &guardError{"it repeats a cursor: its list would never end"}
		case time.Since(begun) > listBound:
			return listing{}, &guardError{fmt.Sprintf("its list takes longer than %s", listBound)}
		}
		cursors[string(p.next)] = true
		params = wire.Object{}.With("cursor", p.next)
	}
	return listing{}, &guardError{fmt.Sprintf("its list has more than %d pages", maxPages)}
}

// guardError says which bound a list went over.
type guardError struct{ problem string }

func (e *guardError) Error() string { return "list refused: " + e.problem }

// page is one page of a list. Its definitions alias all of what was sent, so that is what counts as its size.
type page struct {
	definitions []jsontext.Value
	// next is the cursor as it was sent; nil on the last page.
	next jsontext.Value
	ttl  time.Duration
	size int
}

func (s *Session) page(ctx context.Context, params wire.Object) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	result, err := s.Call(ctx, wire.PromptsList, "", params)
	if err != nil {
		return page{}, err
	}
	object, err := wire.ParseObject(result.JSON)
	if err != nil {
		return page{}, &protocolError{problem: err.Error()}
	}
	definitions, err := wire.ParseArray(object.Get("prompts"))
	if err != nil {
		return page{}, &protocolError{problem: "prompts is not an array"}
	}
	next := object.Get("nextCursor")
	switch {
	case next.Kind() == 'n', string(next) == `""` && !wire.Modern(s.Revision):
		next = nil // only 2026-07-28 says that an empty cursor is one
	case next != nil && next.Kind() != '"':
		return page{}, &protocolError{problem: "nextCursor is not a string"}
	}
	return page{definitions, next, s.ttl(object), len(result.JSON)}, nil
}

// ttl is how long the server says that its result may live. Zero, which the schema wants from a server that does not
// care, says nothing of when to come again.
func (s *Session) ttl(result wire.Object) time.Duration {
	if !wire.Modern(s.Revision) {
		return 0
	}
	milliseconds, err := strconv.ParseFloat(string(result.Get("ttlMs")), 64)
	if err != nil || milliseconds <= 0 {
		return 0
	}
	return time.Duration(min(milliseconds, maxTTL)) * time.Millisecond
}

// alive asks the server for a sign of life. Any answer is one.
func (s *Session) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	method := wire.Ping
	if wire.Modern(s.Revision) {
		method = wire.Discover
	}
	_, err := s.Call(ctx, method, "", nil)
	switch status, ok := errors.AsType[*statusError](err); {
	case ok && status.status == http.StatusBadRequest: // what many servers say of a session that they do not know
		return fmt.Errorf("%s: %w: %w", method, errSessionLost, err)
	case errors.Is(err, errSessionLost), suspicious(err):
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// notifies reports whether the server will say when its list changes.
func (s *Session) notifies() bool { return s.capabilities.prompts && s.capabilities.listChanged }

// watch receives what the server says outside of calls, until ctx ends or the stream breaks. It calls ready once no
// change can be missed any more.
func (s *Session) watch(ctx context.Context, ready func()) error {
	if !wire.Modern(s.Revision) {
		return s.transport.standalone(ctx, ready)
	}
	s.onAcknowledged(ready)
	filter := wire.Object{}.With("promptsListChanged", jsontext.Value("true"))
	_, err := s.Call(ctx, wire.Listen, "", wire.Object{}.With("notifications", filter.JSON()))
	if wireErr, ok := errors.AsType[*wire.Error](err); ok && wireErr.Code == wire.MethodNotFound {
		return errNoStream
	}
	if err == nil { // the server ended the subscription gracefully
		return errClosed
	}
	return err
}

func (s *Session) onAcknowledged(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledged = f
}

// handle takes what the server says outside of calls, or cannot be told to belong to one. It must not block.
func (s *Session) handle(m *wire.Message) { s.hear(m, nil) }

// Options are what a session or connector needs beside its configuration. The zero value works.
type Options struct {
	// Logger is where changes of state and a child's stderr go; nil discards them.
	Logger *slog.Logger
	// Name and Version are what the gateway calls itself towards servers.
	Name, Version string
	// Forbidden says whether an address may not be dialled, by IP and port as it was resolved; nil allows all.
	Forbidden func(address string) error
	// client is shared by the sessions of one endpoint; a session without one makes its own.
	client *httpClient
	// aside and what belongs to it are the session's, see [Session].
	aside    bool
	turns    bool
	declared wire.Object
	onStray  func()
}

func (o Options) self() jsontext.Value {
	name, version := o.Name, o.Version
	if name == "" {
		name, version = "promptweir", "0"
	}
	return wire.Object{}.With("name", wire.Quote(name)).With("version", wire.Quote(version)).JSON()
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Connect opens one session, with the first address where there are several: it reaches the server, finds out its era
// and, over HTTP, its transport where none was given, and agrees on a revision. The changed function is called, and must not block, whenever
// the server says that its list changed; it may be nil.
func Connect(ctx context.Context, u config.Upstream, opts Options, changed func()) (*Session, error) {
	s, err := connect(ctx, u, opts, changed, u.Protocol)
	switch {
	case err == nil || ctx.Err() != nil:
		return s, err
	case errors.Is(err, errProbeFatal):
		return connect(ctx, u, opts, changed, anyLegacy)
	case u.Transport == config.StreamableHTTP && !u.TransportExplicit && mayBeSSE(err):
		u.Transport = config.SSE
		s, sseErr := connect(ctx, u, opts, changed, u.Protocol)
		if sseErr != nil {
			return nil, fmt.Errorf("%w; by HTTP+SSE: %w", err, sseErr)
		}
		return s, nil
	}
	return s, err
}

func connect(ctx context.Context, u config.Upstream, opts Options, changed func(), protocol string) (*Session, error) {
	if changed == nil {
		changed = func() {}
	}
	s := &Session{
		self: opts.self(), timeout: u.Timeout, changed: changed, noticeSlots: semaphore.NewWeighted(maxNotices),
		logger: opts.logger().With(slog.String("upstream", u.Name)),
		aside:  opts.aside, turns: opts.turns, declared: opts.declared, onStray: opts.onStray,
		leveling: semaphore.NewWeighted(1), dialogs: map[int64]*dialog{}, questions: map[string]context.CancelFunc{},
	}
	if s.onStray == nil {
		s.onStray = func() {}
	}
	t, err := dial(u, opts, s.logger)
	if err != nil {
		return nil, err
	}
	if u.Transport == config.SSE && !wire.KnownLegacy(protocol) {
		protocol = anyLegacy // the modern era has no such transport
	}
	s.transport = t
	t.listen(s.handle)
	if err := s.open(ctx, protocol); err != nil {
		s.Close()
		return nil, err
	}
	s.reached = u
	s.reached.Protocol = s.Revision
	return s, nil
}

func dial(u config.Upstream, opts Options, logger *slog.Logger) (transport, error) {
	if u.Transport == config.Stdio {
		return startChild(u, logger)
	}
	client, owner := opts.client, false
	if client == nil {
		client, owner = newHTTPClient(u, opts.Forbidden, newTokens(u, opts.Forbidden)), true
	}
	if u.Transport == config.SSE {
		t := newSSETransport(client, u.Timeout)
		t.owner = owner
		return t, nil
	}
	t := newHTTPTransport(client, u.Timeout)
	t.owner = owner
	return t, nil
}
