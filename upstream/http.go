package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	dialBound  = 5 * time.Second
	idleBound  = 90 * time.Second
	endBound   = 2 * time.Second // for ending a session at the server
	maxIgnored = 64 << 10        // bytes of an unwanted body that are read to keep its connection
	// lingerBound is how long they are waited for.
	lingerBound = 20 * time.Millisecond
	// maxStale is how often a request goes out again because its connection was closed, and staleBound how soon that must
	// have been: later the server may have been at work on it.
	maxStale   = 3
	staleBound = time.Second
)

// httpClient is what the sessions of one endpoint share: its connections, and what goes on every request.
type httpClient struct {
	network    http.RoundTripper
	url        string
	headers    map[string]config.Secret
	maxMessage int
}

// newHTTPClient makes the client of one endpoint. The tokens are the upstream's, or nil.
func newHTTPClient(u config.Upstream, forbidden func(address string) error, tokens *tokens) *httpClient {
	var url string // none where a configuration was loaded that lacks some of its environment
	if len(u.URLs) > 0 {
		url = u.URLs[0]
	}
	var network http.RoundTripper = newNetwork(u.Concurrency, u.TLS, forbidden)
	if tokens != nil {
		network = &authorized{network, tokens}
	}
	return &httpClient{
		network: network, url: url, headers: u.Headers, maxMessage: u.MaxMessage,
	}
}

// newNetwork makes connections that are kept open, as many as are used at once.
func newNetwork(connections int, block *config.TLS, forbidden func(address string) error) *http.Transport {
	dialer := &net.Dialer{Timeout: dialBound, KeepAlive: 15 * time.Second}
	if forbidden != nil {
		// Checked after resolution, on the address that is really dialled, so that no DNS name gets around it.
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return forbidden(address) }
	}
	return &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: idleBound,
		TLSClientConfig: clientTLS(block), TLSHandshakeTimeout: dialBound,
		DisableCompression: true, // max_message bounds what comes over the wire, and what is read, alike
	}
}

// noRedirects hands a redirect back as it is: following it would take the upstream's credentials elsewhere.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// clientTLS returns the settings of connections with a tls block, which may be nil.
func clientTLS(block *config.TLS) *tls.Config {
	settings, err := block.ClientConfig()
	if err != nil {
		panic("a tls block that was not loaded: " + err.Error())
	}
	settings.MinVersion = tls.VersionTLS12
	return settings
}

// closeIdle lets go of connections that nobody uses.
func (c *httpClient) closeIdle() { (&http.Client{Transport: c.network}).CloseIdleConnections() }

// httpTransport is Streamable HTTP of both eras: one POST for each message, and in the legacy era a GET stream.
type httpTransport struct {
	*httpClient
	// owner is set where the client is this transport's alone.
	owner bool
	// openBound is how long each request may take by which the two sides get to know each other.
	openBound time.Duration

	handle func(*wire.Message)
	agreed atomic.Pointer[agreedHeaders]
	// heard is how far standalone has read.
	heard bookmark

	once sync.Once
	gone chan struct{}
}

// agreedHeaders go on each request once they are known.
type agreedHeaders struct {
	revision, session string
	// post is a POST with all of its headers, that lacks its body.
	post *http.Request
}

func newHTTPTransport(client *httpClient, openBound time.Duration) *httpTransport {
	t := &httpTransport{httpClient: client, openBound: openBound, gone: make(chan struct{})}
	t.settle("", "")
	return t
}

// settle makes the requests that follow be of a revision and a session.
func (t *httpTransport) settle(revision, session string) {
	a := &agreedHeaders{revision: revision, session: session}
	a.post = &http.Request{
		Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}
	if u, err := url.Parse(t.url); err == nil { // the configuration was checked; without a URL no request gets anywhere
		a.post.URL, a.post.Host = u, u.Host
	}
	t.setHeaders(a.post.Header)
	a.setHeaders(a.post.Header)
	a.post.Header.Set("Content-Type", wire.ContentJSON)
	a.post.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	t.agreed.Store(a)
}

func (a *agreedHeaders) setHeaders(header http.Header) {
	if a.revision != "" {
		header.Set(wire.HeaderProtocolVersion, a.revision)
	}
	if a.session != "" {
		header.Set(wire.HeaderSessionID, a.session)
	}
}

func (t *httpTransport) listen(handle func(*wire.Message)) { t.handle = handle }

func (t *httpTransport) ties() bool { return true }

func (t *httpTransport) mayKeepSilent() bool { return false }

func (t *httpTransport) agree(revision string) {
	session := t.session()
	if wire.Modern(revision) {
		session = ""
	}
	t.settle(revision, session)
}

func (t *httpTransport) session() string { return t.agreed.Load().session }

func (t *httpTransport) broken() <-chan struct{} { return t.gone }

func (t *httpTransport) brokenBy() error { return errSessionLost }

func (t *httpTransport) lose() { t.once.Do(func() { close(t.gone) }) }

// roundTrip implements [transport]. A server gives up connections that it has not heard from for a while, and
// may do so just when a request goes out on one: that is no answer of the server's, so the request goes out again.
func (t *httpTransport) roundTrip(ctx context.Context, r *request) error {
	if t.agreed.Load().revision == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.openBound)
		defer cancel()
	}
	begun := time.Now()
	err := t.post(ctx, r)
	for range maxStale {
		if !wasClosed(err) || r.method == wire.Initialize || r.said != nil || ctx.Err() != nil || time.Since(begun) > staleBound {
			break
		}
		err = t.post(ctx, r)
	}
	if err == nil || r.place.id == "" || wire.Modern(r.revision) || ctx.Err() != nil || !interrupted(err) {
		return err // the modern era resumes nothing
	}
	return t.carryOn(ctx, r, err)
}

// post sends a request and takes its answer.
func (t *httpTransport) post(ctx context.Context, r *request) error {
	came, err := t.open(t.pack(ctx, r))
	if err != nil {
		return err
	}
	defer came.Body.Close()
	if err := t.unpack(came, r); err != nil {
		return err
	}
	came.drain()
	return nil
}

// carryOn takes up an answer that broke off. A server that cannot go on may take it for the stream that belongs to no call,
// where it asks others, too.
func (t *httpTransport) carryOn(ctx context.Context, r *request, broke error) (err error) {
	r.place.stopped = time.Now()
	if r.answer, err = t.resume(ctx, &r.place, string(wire.NumberID(r.id)), t.handle, broke); err != nil {
		return &begunError{err}
	}
	return nil
}

// pack makes a request the POST that carries it.
func (t *httpTransport) pack(ctx context.Context, r *request) *http.Request {
	const around = 80 // bytes at most, but for the method
	body := make([]byte, 0, around+len(r.method)+len(r.params))
	post := t.newPost(ctx, wire.AppendRequest(body, r.id, r.method, r.params))
	if r.revision != t.agreed.Load().revision || wire.Modern(r.revision) {
		post.Header = maps.Clone(post.Header) // nobody changes a header's values in place
		t.describe(post.Header, r)
	}
	return post
}

// unpack takes a request's answer out of the response to its POST.
func (t *httpTransport) unpack(came *response, r *request) (err error) {
	id, said := string(wire.NumberID(r.id)), r.said
	if said == nil {
		said = t.handle
	}
	if came.StatusCode != http.StatusOK {
		r.answer, err = t.refusal(came, id)
		return err
	}
	if r.method == wire.Initialize {
		t.settle("", came.Header.Get(wire.HeaderSessionID))
	}
	if r.answer, err = t.read(came, &r.place, id, said); err != nil && came.read > 0 {
		err = &begunError{err}
	}
	return err
}

// describe sets the headers that say what is in a request.
func (t *httpTransport) describe(header http.Header, r *request) {
	if r.revision != "" {
		header.Set(wire.HeaderProtocolVersion, r.revision)
	}
	if wire.Modern(r.revision) {
		header.Set(wire.HeaderMethod, r.method)
		if r.name != "" {
			header.Set(wire.HeaderName, wire.EncodeHeader(r.name))
		}
	}
}

// response is what came back for a request. It reads its own body, and knows how much of it has been read and whether
// that was all.
type response struct {
	*http.Response

	read  int
	ended bool
}

func (r *response) Read(p []byte) (int, error) {
	n, err := r.Body.Read(p)
	r.read += n
	r.ended = r.ended || errors.Is(err, io.EOF)
	return n, err
}

// drain reads what little may be left of the body: one that has been read to its end leaves its connection for the next
// request. Some streams do not end.
func (r *response) drain() {
	if r.ended {
		return
	}
	linger := time.AfterFunc(lingerBound, func() { _ = r.Body.Close() }) // which ends the reading
	defer linger.Stop()
	_, _ = io.CopyN(io.Discard, r, maxIgnored)
}

// open makes a request. The response, whose body is to be closed, follows no redirect: that would take the upstream's
// credentials elsewhere.
func (c *httpClient) open(r *http.Request) (*response, error) {
	came, err := c.network.RoundTrip(r) //nolint:bodyclose // whoever opens closes
	if err == nil {
		return &response{Response: came}, nil
	}
	if isClosed(err) {
		return nil, &closedError{withoutURL(err)}
	}
	return nil, withoutURL(err)
}

// do makes a request and lets read look at the response.
func (c *httpClient) do(r *http.Request, read func(*response) error) error {
	came, err := c.open(r)
	if err != nil {
		return err
	}
	defer came.Body.Close()
	if err := read(came); err != nil {
		return err
	}
	came.drain()
	return nil
}

// closedError is that the connection was closed on which a request went out, before anything came back.
type closedError struct{ cause error }

func (e *closedError) Error() string { return e.cause.Error() }

func (e *closedError) Unwrap() error { return e.cause }

func wasClosed(err error) bool {
	_, ok := errors.AsType[*closedError](err)
	return ok
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection") // which net/http keeps to itself
}

// withoutURL takes the URL and the host's name out of an error, because they may hold what is sensitive.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("resolve the host's name: " + wrapped.Err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// newPost makes a POST request with the headers that every message has. They are shared: whoever adds one clones them.
func (t *httpTransport) newPost(ctx context.Context, body []byte) *http.Request {
	r := t.agreed.Load().post.WithContext(ctx)
	reader := bytes.NewReader(body)
	r.Body, r.ContentLength = io.NopCloser(reader), int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if trace.SpanContextFromContext(ctx).IsValid() {
		r.Header = maps.Clone(r.Header)
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	}
	return r
}

func (t *httpTransport) newRequest(ctx context.Context, method string) (*http.Request, error) {
	r, err := t.httpClient.newRequest(ctx, method, t.url, http.NoBody)
	if err == nil {
		t.agreed.Load().setHeaders(r.Header)
	}
	return r, err
}

// newRequest makes a request with the headers that every one has.
func (c *httpClient) newRequest(ctx context.Context, method, url string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, withoutURL(err)
	}
	c.setHeaders(r.Header)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return r, nil
}

// setHeaders sets those of the configuration.
func (c *httpClient) setHeaders(header http.Header) {
	for name, value := range c.headers {
		header.Set(name, value.Reveal())
	}
}

// read reads the response with the id from a body that is JSON or an event stream. What else is said goes to said.
func (t *httpTransport) read(came *response, place *bookmark, id string, said func(*wire.Message)) (*wire.Message, error) {
	switch contentType := came.contentType(); contentType {
	case wire.ContentJSON:
		return t.readJSON(came, id, said)
	case wire.ContentSSE:
		return t.readStream(came, place, id, said)
	default:
		return nil, foreignType(contentType)
	}
}

func foreignType(contentType string) error {
	return &protocolError{problem: fmt.Sprintf("content type %q is neither JSON nor an event stream", contentType), foreign: true}
}

func (t *httpTransport) readJSON(came *response, id string, said func(*wire.Message)) (*wire.Message, error) {
	messages, err := t.readMessages(came)
	if err != nil {
		return nil, err
	}
	if answer := sort(messages, id, said); answer != nil {
		return answer, nil
	}
	if only := &messages[0]; len(messages) == 1 && only.Error != nil && only.ID == nil { // it can only be this request's
		return only, nil
	}
	return nil, &protocolError{problem: "the response is not the one to the request"}
}

func (r *response) contentType() string { return wire.MediaType(wire.Header(r.Header, "Content-Type")) }

// readMessages reads a body of JSON, which has at least one message where there is no error.
func (t *httpTransport) readMessages(came *response) ([]wire.Message, error) {
	raw, err := t.readAll(came.ContentLength, came)
	if err != nil {
		return nil, err
	}
	messages, err := wire.ParseAll(raw, t.agreed.Load().revision)
	if err != nil {
		return nil, &protocolError{problem: "the response is not a JSON-RPC message: " + err.Error()}
	}
	return messages, nil
}

// readAll reads a body of a length, or of one that is not known where that is negative.
func (c *httpClient) readAll(length int64, body io.Reader) ([]byte, error) {
	if length > int64(c.maxMessage) {
		return nil, c.tooLarge()
	}
	if length >= 0 {
		raw := make([]byte, length)
		_, err := io.ReadFull(body, raw)
		return raw, err
	}
	raw, err := io.ReadAll(io.LimitReader(body, int64(c.maxMessage)+1))
	if err == nil && len(raw) > c.maxMessage {
		err = c.tooLarge()
	}
	return raw, err
}

func (c *httpClient) tooLarge() error { return tooLarge(c.maxMessage) }

func tooLarge(maxMessage int) error {
	return &protocolError{problem: fmt.Sprintf("a message is larger than max_message = %d bytes", maxMessage)}
}

// sort picks the response with the id, nil where it is not there, out of what the peer said at once, and hands on what is no response.
func sort(messages []wire.Message, id string, said func(*wire.Message)) (answer *wire.Message) {
	for i := range messages {
		switch message := &messages[i]; {
		case message.Method != "":
			said(message)
		case id != "" && string(message.ID) == id:
			answer = message
		}
	}
	return answer
}

// readStream hands each message of an event stream on, to said, until the response with the id has come. An empty id
// matches none: the stream is read to its end. The bookmark goes with it.
func (t *httpTransport) readStream(body io.Reader, place *bookmark, id string, said func(*wire.Message)) (*wire.Message, error) {
	events := eventReader{source: body, maxMessage: t.maxMessage, place: place}
	defer events.close()
	for {
		event, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errClosed
		case err != nil:
			return nil, err
		case !event.isMessage():
			continue
		}
		messages, err := wire.ParseAll(event.data, t.agreed.Load().revision)
		if err != nil {
			return nil, &protocolError{problem: "an event is not a JSON-RPC message: " + err.Error()}
		}
		if answer := sort(messages, id, said); answer != nil {
			return answer, nil
		}
	}
}

// refusal makes sense of a status other than 200: a JSON-RPC error in the body that names the request is the peer's
// answer to it, whatever the status is.
func (t *httpTransport) refusal(came *response, id string) (*wire.Message, error) {
	refusal := &statusError{status: came.StatusCode, retryAfter: retryAfter(came.Header)}
	var (
		message = new(wire.Message)
		answer  *wire.Error
	)
	if messages, err := t.readMessages(came); err == nil && len(messages) == 1 {
		message = &messages[0]
	}
	if message.Error != nil {
		answer, _ = wire.ReadError(message.Error) // one that is none is no answer
	}
	named := answer != nil && string(message.ID) == id
	lost := came.StatusCode == http.StatusNotFound && t.session() != ""
	switch {
	case lost && (!named || answer.Code != wire.MethodNotFound):
		t.lose()
		return nil, errSessionLost
	case named && !refusal.refuses():
		return message, nil
	case named, answer != nil && message.ID == nil && came.StatusCode < http.StatusInternalServerError:
		refusal.answer = answer // above 499 an error that names no request may be a proxy's
	}
	return nil, refusal
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (t *httpTransport) send(ctx context.Context, message []byte) error {
	if wire.Modern(t.agreed.Load().revision) {
		return nil // the modern era has no such messages over HTTP: a closed stream has said it
	}
	return t.do(t.newPost(ctx, message), accepted)
}

// accepted returns the error of a response that is not a good one.
func accepted(came *response) error {
	if came.StatusCode/100 == 2 {
		return nil
	}
	return &statusError{status: came.StatusCode, retryAfter: retryAfter(came.Header)}
}

// standalone goes on where the last stream stopped, if the server can.
func (t *httpTransport) standalone(ctx context.Context, ready func()) error {
	if err := t.heard.rest(ctx, 0); err != nil {
		return err
	}
	_, err := t.get(ctx, &t.heard, "", t.handle, ready)
	if errors.Is(err, errNoStream) && t.heard.id != "" { // perhaps it only cannot go on from there
		t.heard = bookmark{}
		_, err = t.get(ctx, &t.heard, "", t.handle, ready)
	}
	return err
}

// get opens a stream by GET, to go on from the bookmark, and reads it. It calls ready once the stream stands.
func (t *httpTransport) get(
	ctx context.Context, place *bookmark, id string, said func(*wire.Message), ready func(),
) (answer *wire.Message, err error) {
	r, err := t.newRequest(ctx, http.MethodGet)
	if err != nil {
		return nil, err
	}
	defer func() { place.stopped = time.Now() }()
	r.Header.Set("Accept", wire.ContentSSE)
	if place.id != "" {
		r.Header.Set(wire.HeaderLastEventID, place.id)
	}
	err = t.do(r, func(came *response) error {
		status := came.StatusCode
		switch {
		case status == http.StatusNotFound && t.session() != "":
			t.lose()
			return errSessionLost
		case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
			return &statusError{status: status, retryAfter: retryAfter(came.Header)}
		case status != http.StatusOK, came.contentType() != wire.ContentSSE:
			return errNoStream
		}
		ready()
		answer, err = t.readStream(came, place, id, said)
		return err
	})
	return answer, err
}

// close ends the session at the server, best effort, and interrupts nothing: each call has its own connection.
func (t *httpTransport) close() {
	if t.owner {
		defer t.closeIdle()
	}
	select {
	case <-t.gone:
		return
	default:
		t.lose()
	}
	if t.session() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endBound)
	defer cancel()
	if r, err := t.newRequest(ctx, http.MethodDelete); err == nil {
		_ = t.do(r, func(*response) error { return nil }) // the server may not know DELETE
	}
}
