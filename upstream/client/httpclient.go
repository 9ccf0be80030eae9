package client

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client/http1"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// repeatTimeout is the time within which a connection must break for its request to be repeated. Later, the server
	// may already have worked on the request.
	repeatTimeout = time.Second
	// maxDrained and drainTimeout bound, in bytes and time, the rest of a body that is read so that the connection can
	// be reused.
	maxDrained   = 64 << 10
	drainTimeout = 20 * time.Millisecond
	// usualBody is the initial size of the buffer for a body of unknown length, in bytes.
	usualBody = 4 << 10
)

// network carries HTTP requests to one server, see [http1.Client].
type network interface {
	Do(ctx context.Context, head *http1.Head, extra http1.Fields, body []byte, fresh bool) (*http.Response, error)
	CloseIdle()
}

// httpClient holds the connections, access tokens and configured headers that the sessions with one server share.
type httpClient struct {
	network network
	tokens  *tokenSource // nil if there is no oauth block
	// target is the server's URL. It is empty if the configuration was loaded without an
	// environment variable that the URL needs.
	target     *url.URL
	headers    map[string]config.Secret
	maxMessage int
	// agent is the default User-Agent. Configured headers can replace it.
	agent string
	// cookie is the configured Cookie header, or empty if none is configured.
	cookie string
	// missesCertificate is true once the server has requested a client certificate and received none.
	missesCertificate atomic.Bool
}

// newHTTPClient returns the client of one server.
func newHTTPClient(server *config.Upstream, opts Options) *httpClient {
	target, err := url.Parse(server.URL)
	if err != nil {
		panic("url was not checked by config.Load") // without err, which contains the URL
	}
	// Certificates, proxies and servers use Punycode. If the conversion fails, dial reports it.
	if host, err := httpguts.PunycodeHostPort(target.Host); err == nil {
		target.Host = host
	}
	c := &httpClient{
		tokens: newTokenSource(server, opts), target: target, headers: server.Headers, maxMessage: server.MaxMessage,
		agent: "promptweir/" + cmp.Or(opts.Version, "0"),
	}
	for name, value := range server.Headers {
		if http.CanonicalHeaderKey(name) == "Cookie" {
			c.cookie = value.Reveal()
		}
	}
	if opts.Transport != nil {
		c.network = roundTripper{opts.Transport}
		return c
	}
	own := &http1.Client{
		Dial: func(ctx context.Context) (*http1.Link, error) {
			return dial(ctx, target, server.HostGrant, opts.DialGuard)
		},
		MaxIdle: server.Concurrency,
	}
	if target.Scheme == "https" {
		own.TLS = sync.OnceValue(func() *tls.Config {
			settings := tlsConfig(server.TLS)
			settings.NextProtos = []string{"http/1.1"}
			settings.ServerName = cmp.Or(settings.ServerName, target.Hostname())
			noteMissingCertificates(settings, &c.missesCertificate)
			return settings
		})
	}
	c.network = own
	return c
}

// newHead returns the head of requests to a URL, with the headers of every request and the headers that set adds.
func (c *httpClient) newHead(method string, to *url.URL, set func(http.Header)) *http1.Head {
	header := http.Header{}
	header.Set("Accept-Encoding", "identity")
	header.Set("User-Agent", c.agent)
	for name, value := range c.headers {
		header.Set(name, value.Reveal())
	}
	header.Del("Cookie") // send adds the cookies of the session
	set(header)
	return http1.NewHead(method, to, header)
}

// httpSession is an httpClient with the cookies of one session.
type httpSession struct {
	*httpClient

	cookies cookies
}

// do sends a request, passes the response to read, and closes it. A request without a body is a GET or DELETE, which may
// be repeated.
func (c *httpSession) do(ctx context.Context, head *http1.Head, body []byte, read func(*httpResponse) error) error {
	came, err := c.send(ctx, head, http1.Fields{}, body, body == nil)
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

// send sends a request. The caller closes the response's body. A request is sent again for two reasons, once each:
//   - The server refused the access token. Another one may be accepted.
//   - With mayRepeat, a reused connection broke before any byte of the response arrived. Servers close idle connections
//     at any moment, even while a request is on its way. The second attempt uses a new connection, so that a server sees
//     a request at most twice, however many stale connections there are.
//
// Redirects are not followed, because they would take the server's credentials elsewhere.
func (c *httpSession) send(
	ctx context.Context, head *http1.Head, extra http1.Fields, body []byte, mayRepeat bool,
) (*httpResponse, error) {
	begun := time.Now()
	token, err := c.tokens.get(ctx, "")
	if err != nil {
		return nil, err
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		traced := extra // a copy, because extra itself would escape to the heap in each request
		propagation.TraceContext{}.Inject(ctx, carrier{&traced})
		extra = traced
	}
	renewed, fresh := false, false
	for {
		fields := extra
		if token != "" {
			fields.Add("Authorization", "Bearer "+token)
		}
		if cookie := c.cookies.header(head.URL(), c.cookie); cookie != "" {
			fields.Add("Cookie", cookie)
		}
		came, err := c.network.Do(ctx, head, fields, body, fresh)
		if err == nil {
			c.cookies.keep(head.URL(), came)
		}
		switch {
		case err != nil && mayRepeat && isStale(err) && ctx.Err() == nil && time.Since(begun) < repeatTimeout:
			// Use a new connection: after a restart of the server, all idle connections are stale.
			mayRepeat, fresh = false, true
			continue
		case err != nil:
			return nil, err
		case came.StatusCode != http.StatusUnauthorized || c.tokens == nil:
		case renewed: // a new token was refused as well: another token would not help
			c.tokens.refused(ctx)
		default:
			// If there is no other token, the refusal is the best explanation.
			if next, err := c.tokens.get(ctx, token); err == nil && next != token {
				_ = came.Body.Close()
				token, renewed = next, true
				continue
			}
		}
		return newHTTPResponse(came), nil
	}
}

// isStale reports whether a request failed on a reused connection before a response began.
func isStale(err error) bool {
	failed, ok := errors.AsType[*http1.Error](err)
	return ok && failed.IsReused && !failed.HasAnswer
}

// carrier adds a trace context to the fields of a request.
type carrier struct{ fields *http1.Fields }

// Get implements [propagation.TextMapCarrier].
func (carrier) Get(string) string { return "" }

// Set implements [propagation.TextMapCarrier].
func (c carrier) Set(name, value string) { c.fields.Add(name, value) }

// Keys implements [propagation.TextMapCarrier].
func (carrier) Keys() []string { return nil }

// roundTripper adapts a configured [Options.Transport] to [network].
type roundTripper struct{ http.RoundTripper }

// Do implements [network].
func (t roundTripper) Do(ctx context.Context, head *http1.Head, extra http1.Fields, body []byte, _ bool) (*http.Response, error) {
	raw, err := head.Append(nil, &http1.Link{}, extra, body)
	if err != nil {
		return nil, err
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, err
	}
	r.URL, r.RequestURI = head.URL(), ""
	return t.RoundTrip(r.WithContext(ctx))
}

// CloseIdle implements [network].
func (t roundTripper) CloseIdle() { (&http.Client{Transport: t.RoundTripper}).CloseIdleConnections() }

// httpResponse is an HTTP response that counts the bytes read from its body.
type httpResponse struct {
	*http.Response

	read int
	// idle is reset with each byte. It is nil if it is not needed.
	idle *idleTime
	// ended is true once the body was read to its end.
	ended bool
	// decoded is the body after decompression. It is nil if the body is not compressed.
	decoded io.Reader
}

// newHTTPResponse returns a response whose body is decompressed when it is read: some servers use gzip although the
// request forbids it. Readers bound the decompressed bytes.
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

// gzipBody decompresses a body. It reads the gzip header only in the first Read, because a stream may be silent at first.
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
			return 0, err
		}
	}
	return b.decoded.Read(p)
}

// readerFunc is a function as an [io.Reader].
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (r *httpResponse) Read(p []byte) (int, error) {
	if r.decoded != nil {
		return r.decoded.Read(p)
	}
	return r.readBody(p)
}

// readBody reads the body without decompression.
func (r *httpResponse) readBody(p []byte) (int, error) {
	n, err := r.Body.Read(p)
	r.read += n
	if n > 0 && r.idle != nil {
		r.idle.reset()
	}
	r.ended = r.ended || errors.Is(err, io.EOF)
	return n, err
}

// drain reads the rest of the body if it is short, so that the connection can be reused.
func (r *httpResponse) drain() {
	if r.ended {
		return
	}
	// Close ends the read: a stream may never end by itself.
	timer := time.AfterFunc(drainTimeout, func() { _ = r.Body.Close() })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, r, maxDrained)
}

// readAll reads the whole body, into memory unless that is nil. It replaces memory that is too small.
func (r *httpResponse) readAll(maxMessage int, memory *[]byte) ([]byte, error) {
	if memory == nil {
		memory = new([]byte)
	}
	if r.ContentLength > int64(maxMessage) {
		return nil, tooLarge(maxMessage)
	}
	if r.ContentLength >= 0 {
		if int64(cap(*memory)) < r.ContentLength {
			*memory = make([]byte, r.ContentLength)
		}
		raw := (*memory)[:r.ContentLength]
		_, err := io.ReadFull(r, raw)
		return raw, err
	}
	body := bytes.NewBuffer((*memory)[:0])
	body.Grow(usualBody)
	// Read one byte more than the maximum, to detect a larger message.
	_, err := body.ReadFrom(io.LimitReader(r, int64(maxMessage)+1))
	if err == nil && body.Len() > maxMessage {
		err = tooLarge(maxMessage)
	}
	*memory = body.Bytes()
	return *memory, err
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
		raw, _ := io.ReadAll(io.LimitReader(r, maxDrained)) // the text is near the beginning
		refusal.tls = tlsRefusalIn(r.StatusCode, raw)
	}
	return refusal
}

func (r *httpResponse) statusError() *StatusError {
	status := newStatusError(r.StatusCode, r.Header)
	status.challenge = r.Header.Get("WWW-Authenticate")
	if to, err := r.Location(); err == nil {
		status.location = to.Scheme + "://" + to.Host + to.EscapedPath() // without the query, which may contain a credential
	}
	return status
}
