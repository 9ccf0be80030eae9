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
	// handshakeTimeout is how long the TLS handshake may take.
	handshakeTimeout = 5 * time.Second
	// idleTimeout is how long a connection that no request uses is kept.
	idleTimeout = 90 * time.Second
)

// Client sends requests to one server. Its methods are safe for concurrent use. Dial must be set, and no field
// be changed after the first request.
type Client struct {
	// Dial returns a new connection.
	Dial func(ctx context.Context) (*Link, error)
	// TLS returns the settings of TLS, with the server's name. Nil is for a server without TLS.
	TLS func() *tls.Config
	// MaxIdle is how many connections are kept for later requests.
	MaxIdle int

	mu sync.Mutex // guards what follows
	// idle are connections that no request uses, the one that was used last at the end.
	idle []*conn
	// round counts the calls of CloseIdle. A connection of an earlier round is not kept.
	round int
	// sweep closes what has been idle for too long; nil while nothing is idle.
	sweep *time.Timer
}

// Link is a new connection, to the server or to a proxy that passes requests on.
type Link struct {
	net.Conn
	// Origin is the scheme and host of the server if the connection leads to a proxy that reads the requests, and
	// Fields what that proxy wants to see in each.
	Origin string
	Fields Fields
}

// Lazy is a context that makes a channel and a timer only when something asks for Done. Do waits for the end of
// Parent and for Deadline instead, which may move while a request is under way.
type Lazy interface {
	context.Context
	Parent() context.Context
}

// Do sends a request and returns its response, whose body must be closed. A nil body is none. Fresh is true for
// a request that needs a new connection, which is closed afterwards. The request ends with ctx, whose error is
// then in the [*Error]. If ctx has ended before, or the head is not valid, nothing is sent.
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
	used.begin(ctx)
	response, err := used.exchange(head, extra, body)
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

// isFarewell reports whether a response with which the server closes a kept connection is to that connection
// rather than to the request, which was on its way when the server grew tired of waiting (RFC 9110, section
// 15.5.9). Some servers say 400 instead.
func isFarewell(r *http.Response) bool {
	return r.StatusCode == http.StatusRequestTimeout ||
		r.StatusCode == http.StatusBadRequest && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

// connect returns a new connection.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	link, err := c.Dial(ctx)
	if err != nil {
		if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
			<-ctx.Done() // whose timer is due as well; which of the two the dial has noticed is left to chance
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

// take returns an idle connection, or nil.
func (c *Client) take() *conn {
	for {
		c.mu.Lock()
		last := len(c.idle) - 1
		if last < 0 {
			c.mu.Unlock()
			return nil
		}
		taken := c.idle[last]
		c.idle = slices.Delete(c.idle, last, last+1)
		c.mu.Unlock()
		if !taken.hasEnded() {
			return taken
		}
		_ = taken.link.Close()
	}
}

// put keeps a connection for a later request, or closes it.
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

// CloseIdle closes the connections that no request uses, and each of the others when its request has ended.
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

// responseBody gives its connection back when it was read to its end.
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

// Close ends the response, and with it a read on another goroutine. It does not read the rest of the body.
func (b *responseBody) Close() error {
	b.end(false)
	return nil
}

// end gives the connection back, once: it may be another request's by now.
func (b *responseBody) end(isWhole bool) {
	if !b.ended.Swap(true) {
		b.conn.release(isWhole)
	}
}
