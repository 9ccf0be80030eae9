package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// handshakeTimeout bounds the TLS handshake.
	handshakeTimeout = 5 * time.Second
	// idleTimeout is the time after which an idle connection is closed.
	idleTimeout = 90 * time.Second
)

// Client sends requests to one server. Its methods are safe for concurrent use. Set Dial, and
// change no field after the first request.
type Client struct {
	// Dial returns a new connection.
	Dial func(ctx context.Context) (*Link, error)
	// TLS returns the TLS settings, with the server's name. It is nil for a server without TLS.
	TLS func() *tls.Config
	// MaxIdle bounds the idle connections.
	MaxIdle int

	mu sync.Mutex // guards the fields below
	// idle are the connections that no request uses, the most recently used one last.
	idle []*conn
	// round counts the calls of CloseIdle. Connections of earlier rounds are closed after their request.
	round int
	// sweep closes connections that were idle for too long. It is nil if no connection is idle.
	sweep *time.Timer
}

// Link is a new connection to the server, or to a proxy that forwards requests.
type Link struct {
	net.Conn
	// Origin is the scheme and host of the server if a proxy reads the requests, and otherwise empty. Fields are added
	// to each request. They are for the proxy.
	Origin string
	Fields Fields
}

// Lazy is a context that makes a channel and a timer only when Done is called. Do uses Parent and
// Deadline instead. The deadline may move while a request is in flight.
type Lazy interface {
	context.Context
	Parent() context.Context
}

// Do sends a request and returns its response. The caller closes the response's body. body may be nil. If fresh is
// true, the request uses a new connection, which is closed afterwards. If ctx ends, the [*Error] wraps the error of
// ctx. If ctx has ended already, or the head or extra is invalid, Do sends nothing.
func (c *Client) Do(ctx context.Context, head *Head, extra Fields, body []byte, fresh bool) (*http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var used *conn
	if !fresh {
		used = c.take()
	}
	isReused := used != nil
	if !isReused {
		var err error
		if used, err = c.connect(ctx); err != nil {
			return nil, err
		}
		used.isLast = fresh
	}
	used.begin(ctx, isReused)
	response, err := used.exchange(head, extra, body)
	if errors.Is(err, errEnded) { // try the next idle connection
		used.release(false)
		return c.Do(ctx, head, extra, body, fresh)
	}
	answered := used.answered
	if err == nil && isReused && used.isLast && isFarewell(response) {
		err, answered = errFarewell, false
	}
	if err != nil {
		used.release(false)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &Error{Step: Exchange, IsReused: isReused, HasAnswer: answered, cause: err}
	}
	if response.Body == http.NoBody {
		used.release(true)
	} else {
		response.Body = &responseBody{ReadCloser: response.Body, conn: used}
	}
	return response, nil
}

// isFarewell reports whether a response only announces that the server closes an idle connection (RFC 9110, section
// 15.5.9). The server sent it before it read the request. Some servers send 400 instead of 408.
func isFarewell(r *http.Response) bool {
	return r.StatusCode == http.StatusRequestTimeout ||
		r.StatusCode == http.StatusBadRequest && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

// connect returns a new connection, after the TLS handshake if the server has TLS.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	link, err := c.Dial(ctx)
	if err != nil {
		if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
			<-ctx.Done() // the dial may see the deadline before the timer of ctx fires
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, &Error{Step: Connect, cause: err}
	}
	made := newConn(c, link)
	if c.TLS == nil {
		return made, nil
	}
	secured := tls.Client(link.Conn, c.TLS())
	made.stream = secured
	within, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, ErrHandshakeTimeout)
	defer cancel()
	if err := secured.HandshakeContext(within); err != nil {
		_ = link.Close()
		if errors.Is(context.Cause(within), ErrHandshakeTimeout) {
			err = ErrHandshakeTimeout
		}
		return nil, &Error{Step: Handshake, cause: err}
	}
	return made, nil
}

// take returns an idle connection, or nil if there is none. It closes those from which TLS has read something unexpected.
func (c *Client) take() *conn {
	for {
		c.mu.Lock()
		last := len(c.idle) - 1
		if last < 0 {
			c.mu.Unlock()
			return nil
		}
		idle := c.idle[last]
		c.idle = slices.Delete(c.idle, last, last+1)
		c.mu.Unlock()
		if !idle.hasBuffered() {
			return idle
		}
		_ = idle.link.Close()
	}
}

// put keeps a connection for a later request. It closes the connection if enough are idle, or after CloseIdle.
func (c *Client) put(idle *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= c.MaxIdle || idle.round != c.round {
		_ = idle.link.Close()
		return
	}
	idle.since = time.Now()
	c.idle = append(c.idle, idle)
	if c.sweep == nil {
		c.sweep = time.AfterFunc(idleTimeout, c.closeOld)
	}
}

// closeOld closes connections that have been idle for too long.
func (c *Client) closeOld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep = nil
	for i, idle := range c.idle {
		if left := idleTimeout - time.Since(idle.since); left > 0 {
			c.idle = slices.Delete(c.idle, 0, i)
			c.sweep = time.AfterFunc(left, c.closeOld)
			return
		}
		_ = idle.link.Close()
	}
	c.idle = nil
}

// CloseIdle closes the connections that no request uses. Each of the other connections is closed
// when its request has ended.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	for _, idle := range c.idle {
		_ = idle.link.Close()
	}
	c.idle = nil
	if c.sweep != nil {
		c.sweep.Stop()
		c.sweep = nil
	}
}

// responseBody releases its connection when it was read to its end or closed.
type responseBody struct {
	io.ReadCloser

	conn  *conn
	ended atomic.Bool
}

// Read implements [io.Reader].
func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close ends the response, and any Read on another goroutine. It does not read the rest of the
// body.
func (b *responseBody) Close() error {
	b.end(false)
	return nil
}

// end releases the connection. It does so only once, because another request may use the connection afterwards.
func (b *responseBody) end(isWhole bool) {
	if !b.ended.Swap(true) {
		b.conn.release(isWhole)
	}
}
