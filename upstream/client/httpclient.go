package client

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// repeatTimeout is how soon a connection must have broken for its request to be repeated. Later
	// the server may have been working on it.
	repeatTimeout = time.Second
	// maxDrained bounds the rest of a body that is read to keep its connection, in bytes, and
	// drainTimeout how long that may take.
	maxDrained   = 64 << 10
	drainTimeout = 20 * time.Millisecond
)

// httpClient is what the sessions with one server share: its connections, access tokens, and the
// configured headers.
type httpClient struct {
	// network keeps connections; nil until there is a request. Fresh, which few servers ever need,
	// makes a new one for each.
	network atomic.Pointer[http.RoundTripper]
	fresh   func() http.RoundTripper
	// newNetwork returns a network; nil if Options.Transport is used.
	newNetwork func() *http.Transport
	tokens     *tokenSource // nil without an oauth block
	url        string
	headers    map[string]config.Secret
	maxMessage int
	// agent is the User-Agent, which headers may replace.
	agent string
	// missesCertificate is set once the server has asked for a client certificate and has got none.
	missesCertificate atomic.Bool
}

// newHTTPClient returns the client of one server. Its URL is empty if the configuration was loaded
// without the environment that the URL needs.
func newHTTPClient(server *config.Upstream, opts Options) *httpClient {
	c := &httpClient{
		tokens: newTokenSource(server, opts), url: server.URL, headers: server.Headers, maxMessage: server.MaxMessage,
		agent: "promptweir/" + cmp.Or(opts.Version, "0"),
	}
	if opts.Transport != nil {
		c.network.Store(&opts.Transport)
		c.fresh = func() http.RoundTripper { return opts.Transport }
		return c
	}
	c.newNetwork = func() *http.Transport {
		network := newNetwork(server.Concurrency, server.TLS, c.url, server.HostGrant, opts.DialGuard)
		if strings.HasPrefix(c.url, "https:") {
			network.DialContext = leavingErrorsToReads(network.DialContext)
			noteMissingCertificates(network.TLSClientConfig, &c.missesCertificate)
		}
		return network
	}
	c.fresh = sync.OnceValue(func() http.RoundTripper {
		fresh := c.newNetwork()
		fresh.DisableKeepAlives = true
		return fresh
	})
	return c
}

// connections returns the network of the next request.
func (c *httpClient) connections() http.RoundTripper {
	for {
		if network := c.network.Load(); network != nil {
			return *network
		}
		var made http.RoundTripper = c.newNetwork()
		// All requests have to share one: renew closes the connections of no other.
		if c.network.CompareAndSwap(nil, &made) {
			return made
		}
	}
}

// renew makes the following requests use new connections. Those that are in use are closed when
// their requests have ended: connections can break without a word, and of HTTP/2 all requests share
// one. Until the next request, nothing is kept. The nil client, of a child process, has none.
func (c *httpClient) renew() {
	if c == nil || c.newNetwork == nil {
		return
	}
	if before := c.network.Swap(nil); before != nil {
		closeIdle(*before)
	}
}

// closeIdle closes connections that no request uses. Those of the nil client are none.
func (c *httpClient) closeIdle() {
	if c == nil {
		return
	}
	if network := c.network.Load(); network != nil {
		closeIdle(*network)
	}
	if c.tokens != nil {
		c.tokens.client.CloseIdleConnections()
	}
}

// closeIdle also closes each connection in use as soon as its last request has ended.
func closeIdle(network http.RoundTripper) {
	(&http.Client{Transport: network}).CloseIdleConnections()
}

// newRequest returns a request, without a body, with the headers that every request has.
func (c *httpClient) newRequest(ctx context.Context, method, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, withoutURL(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", c.agent)
	c.setHeaders(r.Header)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return r, nil
}

// setHeaders sets the headers of the configuration.
func (c *httpClient) setHeaders(header http.Header) {
	for name, value := range c.headers {
		header.Set(name, value.Reveal())
	}
}

// httpSession is the client of one session: that of its server, with cookies of its own.
type httpSession struct {
	*httpClient

	cookies cookies
}

// do sends a request and closes its response after read has looked at it.
func (c *httpSession) do(r *http.Request, body []byte, read func(*httpResponse) error) error {
	came, err := c.send(r, body, nil)
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

// send sends a request with a body. Whoever gets the response closes its body. There are two
// reasons to send it again, once each:
//
//   - The server refused the access token: another one may do.
//   - The connection that used records had been kept from an earlier request, and broke before any
//     byte came back. Servers close idle connections at any moment, even while a request is on its
//     way. The second try has a connection of its own, so that a server sees no request more than
//     twice however many stale connections there are. With used nil, nothing is sent again for this
//     reason.
//
// Requests have no GetBody, without which net/http does not repeat a POST by itself. Redirects are
// not followed: that would take the server's credentials elsewhere.
func (c *httpSession) send(r *http.Request, body []byte, used *connection) (*httpResponse, error) {
	ctx, network, begun := r.Context(), c.connections(), time.Now()
	token, err := c.tokens.get(ctx, "")
	if err != nil {
		return nil, err
	}
	renewed, configured := false, r.Header["Cookie"]
	for {
		setBody(r, body)
		setToken(r, token)
		c.cookies.set(r, configured)
		came, err := network.RoundTrip(r)
		if err == nil {
			c.cookies.keep(r, came)
		}
		switch {
		case err != nil && used.isStale() && ctx.Err() == nil && time.Since(begun) < repeatTimeout:
			// Not from the pool: if the server restarted, all connections in it are stale.
			network, used = c.fresh(), nil
			continue
		case err != nil:
			return nil, withoutURL(err)
		case came.StatusCode != http.StatusUnauthorized || c.tokens == nil:
		case renewed: // a new token is refused as well: fetching more of them would not help
			c.tokens.refused(ctx)
		default:
			// Without another token, the refusal is the answer, and says as much as any error here.
			if next, err := c.tokens.get(ctx, token); err == nil && next != token {
				_ = came.Body.Close()
				token, renewed = next, true
				continue
			}
		}
		return newHTTPResponse(came), nil
	}
}

// setBody gives a request its body again, as a reader that net/http knows to be in memory: it sends
// header and body of any other in two writes, and the second costs a get 7 % of its CPU.
func setBody(r *http.Request, body []byte) {
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
}

// setToken sets the access token, in a copy of the header: others may share it.
func setToken(r *http.Request, token string) {
	if token != "" {
		r.Header = maps.Clone(r.Header)
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// connection is the context of one request, and records what kind of connection it was sent on.
// Some of its hooks are called by net/http's goroutines.
type connection struct {
	context.Context //nolint:containedctx // it is one

	trace                 httptrace.ClientTrace
	got, reused, answered atomic.Bool
	// The rest is only for a handshake, whose failure is explained: dialed is set once there is a
	// TCP connection, and secured is the connection if it uses TLS.
	dialed  atomic.Bool
	secured atomic.Pointer[tls.Conn]
}

// traceConnection returns a context for one request.
func traceConnection(ctx context.Context, isHandshake bool) *connection {
	c := new(connection)
	c.trace.GotConn = func(got httptrace.GotConnInfo) {
		c.got.Store(true)
		c.reused.Store(got.Reused)
		if secured, ok := got.Conn.(*tls.Conn); ok && isHandshake {
			c.secured.Store(secured)
		}
	}
	c.trace.GotFirstResponseByte = func() { c.answered.Store(true) }
	if isHandshake {
		c.trace.ConnectDone = func(_, _ string, err error) {
			if err == nil {
				c.dialed.Store(true)
			}
		}
	}
	c.Context = httptrace.WithClientTrace(ctx, &c.trace)
	return c
}

// isStale reports whether a request that failed was on a connection that was kept from an earlier
// one, before a response began. The error does not tell: net/http returns io.EOF, a reset or an
// error of its own, depending on who notices first.
func (c *connection) isStale() bool { return c != nil && c.reused.Load() && !c.answered.Load() }

// stage returns how far a request without a response had come.
func (c *connection) stage() stage {
	switch {
	case c == nil || c.got.Load():
		return stageAnswer
	case c.dialed.Load():
		return stageTLS
	}
	return stageConnect
}

// httpResponse is an HTTP response that counts how much of its body was read.
type httpResponse struct {
	*http.Response

	read int
	// idle is the idle time that ends with each byte; nil if it does not matter.
	idle *idleTime
	// ended is set once the body was read to its end.
	ended bool
	// decoded is the body without its content coding; nil for a body without one.
	decoded io.Reader
}

// newHTTPResponse returns a response whose body is read without its content coding: some servers compress
// it although the request does not allow that. Readers bound the decoded bytes.
func newHTTPResponse(came *http.Response) *httpResponse {
	r := &httpResponse{Response: came}
	switch coding := strings.ToLower(wire.Header(came.Header, "Content-Encoding")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		r.decoded, r.ContentLength = &gzipBody{response: r}, -1
	default:
		problem := fmt.Sprintf("the response has the content coding %s, and the request allows none", quoted(coding))
		r.ContentLength = -1
		r.decoded = readerFunc(func([]byte) (int, error) {
			return 0, &ProtocolError{problem: problem, foreign: true}
		})
	}
	return r
}

// gzipBody decompresses a body. It begins with the first read: a stream may begin late.
type gzipBody struct {
	response *httpResponse
	decoded  *gzip.Reader
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.decoded == nil {
		if b.decoded, err = gzip.NewReader(readerFunc(b.response.readBody)); errors.Is(err, gzip.ErrHeader) {
			err = &ProtocolError{problem: "the response is not compressed as its Content-Encoding says: " + err.Error()}
		}
		if err != nil {
			b.decoded = nil
			return 0, err
		}
	}
	return b.decoded.Read(p)
}

// readerFunc is an [io.Reader].
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (r *httpResponse) Read(p []byte) (int, error) {
	if r.decoded != nil {
		return r.decoded.Read(p)
	}
	return r.readBody(p)
}

// readBody reads the body as it came.
func (r *httpResponse) readBody(p []byte) (int, error) {
	n, err := r.Body.Read(p)
	r.read += n
	if n > 0 && r.idle != nil {
		r.idle.reset()
	}
	r.ended = r.ended || errors.Is(err, io.EOF)
	return n, err
}

// drain reads the rest of the body if that is short: only then is the connection used again.
func (r *httpResponse) drain() {
	// Some streams do not end.
	if r.ended {
		return
	}
	timer := time.AfterFunc(drainTimeout, func() { _ = r.Body.Close() }) // which ends the read
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, r, maxDrained)
}

// readAll reads the whole body.
func (r *httpResponse) readAll(maxMessage int) ([]byte, error) {
	if r.ContentLength > int64(maxMessage) {
		return nil, tooLarge(maxMessage)
	}
	if r.ContentLength >= 0 {
		raw := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r, raw)
		return raw, err
	}
	// One byte more than allowed tells a message of the maximal size from a larger one.
	raw, err := io.ReadAll(io.LimitReader(r, int64(maxMessage)+1))
	if err == nil && len(raw) > maxMessage {
		err = tooLarge(maxMessage)
	}
	return raw, err
}

func tooLarge(maxMessage int) error {
	problem := fmt.Sprintf("a message is larger than max_message = %d bytes", maxMessage)
	return &ProtocolError{problem: problem, oversized: true}
}

func (r *httpResponse) contentType() string {
	return wire.MediaType(wire.Header(r.Header, "Content-Type"))
}

// success returns an error unless the status is 2xx.
func (r *httpResponse) success() error {
	if r.StatusCode/100 == 2 {
		return nil
	}
	refusal := r.statusError()
	if r.StatusCode == http.StatusBadRequest {
		raw, _ := io.ReadAll(io.LimitReader(r, maxDrained)) // it may break off
		refusal.tls = tlsRefusalIn(r.StatusCode, raw)
	}
	return refusal
}

func (r *httpResponse) statusError() *StatusError {
	status := newStatusError(r.StatusCode, r.Header)
	status.challenge = r.Header.Get("WWW-Authenticate")
	if to, err := r.Location(); err == nil {
		status.location = to.Scheme + "://" + to.Host + to.EscapedPath() // its query may hold a credential
	}
	return status
}
