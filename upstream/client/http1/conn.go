package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/upstream/system"
)

const (
	// maxHead bounds the heads of one response, including informational responses, in bytes.
	maxHead = 64 << 10
	// maxInformational bounds the informational responses before a response.
	maxInformational = 5
	// maxKept bounds the buffer that a connection keeps for the next request, in bytes.
	maxKept = 16 << 10
	// readSize is the size of a read buffer in bytes. Most responses are read at once.
	readSize = 16 << 10
)

// readers are the read buffers of connections that no request uses.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readSize) }} //nolint:gochecknoglobals // a pool is shared by nature

// conn is a connection. One request at a time uses it.
type conn struct {
	client *Client
	link   *Link
	// stream is the link, or TLS over it.
	stream net.Conn
	// out is the write buffer, which holds the previous request. It is nil after a large request.
	out   []byte
	round int       // the client's round at the start of the connection
	since time.Time // start of the idle time
	// interrupt ends reads and writes in progress.
	interrupt func()
	// hasInput reports whether the socket has input, see [system.HasInput]. It is nil if the link
	// is not a socket, and on Windows.
	hasInput func() bool

	// The fields below belong to the current request. stop ends the wait for the end of its context. It returns false
	// if the context has already ended.
	ctx    context.Context //nolint:containedctx // the request's
	stop   func() bool
	reader *bufio.Reader
	// headLeft is the number of bytes that the head may still have. It is negative after the head.
	headLeft int
	answered bool
	// isLast is true if the connection cannot be used for another request.
	isLast bool
}

func newConn(c *Client, link *Link) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := &conn{client: c, link: link, stream: link.Conn, round: c.round}
	made.interrupt = func() { _ = link.Close() }
	inner := link.Conn
	if secured, ok := inner.(*tls.Conn); ok { // TLS to a proxy
		inner = secured.NetConn()
	}
	if socket, ok := inner.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			made.hasInput = system.HasInput(raw)
		}
	}
	return made
}

// begin prepares the connection for a request.
func (c *conn) begin(ctx context.Context) {
	c.ctx, c.answered, c.headLeft = ctx, false, maxHead
	until, _ := ctx.Deadline()
	_ = c.stream.SetDeadline(until) // the zero time means no deadline
	if lazy, ok := ctx.(Lazy); ok {
		ctx = lazy.Parent()
	}
	c.stop = context.AfterFunc(ctx, c.interrupt)
	c.reader, _ = readers.Get().(*bufio.Reader)
	c.reader.Reset(c)
}

// release ends a request, once. isWhole is true if the response was read to its end. If so, the connection is kept for the
// next request, unless the context has ended, isLast is true or the server sent more. Otherwise it is closed.
func (c *conn) release(isWhole bool) {
	if isGone := !c.stop(); !isWhole || isGone || c.isLast || c.reader.Buffered() > 0 {
		_ = c.link.Close() // a Read may be in progress, so the reader is not used again
		return
	}
	readers.Put(c.reader)
	c.ctx, c.reader = nil, nil
	c.client.put(c)
}

// hasEnded reports whether the server has closed an idle connection, or sent something unexpected.
func (c *conn) hasEnded() bool {
	if c.hasInput != nil && c.hasInput() {
		return true
	}
	secured, ok := c.stream.(*tls.Conn)
	if !ok {
		return false
	}
	// crypto/tls may already have read input from the socket, so try to read without waiting.
	_ = secured.SetReadDeadline(time.Unix(1, 0))
	_, err := secured.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// exchange sends a request and reads the head of the response.
func (c *conn) exchange(head *Head, extra Fields, body []byte) (*http.Response, error) {
	out, err := head.Append(c.out[:0], c.link, extra, body)
	if err != nil {
		return nil, err
	}
	if c.out = out; cap(out) > maxKept {
		c.out = nil
	}
	_, unwritten := c.stream.Write(out)
	// Read the response even after a failed write. A server may respond and close before it has read the whole request.
	// In TLS 1.3, the alert that refuses a client certificate arrives in this read (RFC 8446, section 4.4.2.4).
	first, err := c.reader.Peek(1)
	c.answered = err == nil
	switch {
	case err != nil:
		return nil, err
	case first[0] == 0x15: // a TLS alert
		return nil, ErrWantsTLS
	case first[0] != 'H':
		return nil, errNotHTTP
	}
	for range maxInformational + 1 {
		buffered, _ := c.reader.Peek(c.reader.Buffered())
		raw, _, isWhole := bytes.Cut(buffered, []byte("\r\n\r\n")) // before ReadResponse overwrites the buffer
		response, err := http.ReadResponse(c.reader, head.request)
		switch {
		case err != nil && c.headLeft == 0: // err would only report an incomplete line
			return nil, errHeadTooLong
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitching
		case response.StatusCode/100 == 1:
			continue
		}
		c.headLeft = -1
		// With Content-Length and chunks, a proxy in between may have used the other length (RFC 9112, section 6.3).
		isDoubtful := response.ContentLength < 0 && (!isWhole || hasLength(raw))
		c.isLast = c.isLast || unwritten != nil || response.Close || response.Proto != "HTTP/1.1" || isDoubtful
		return response, nil //nolint:nilerr // the response is valid even if the request was not written completely
	}
	return nil, errInformation
}

// Read implements [io.Reader] for the reader of the connection.
func (c *conn) Read(p []byte) (int, error) {
	if c.headLeft == 0 {
		return 0, errHeadTooLong
	}
	if c.headLeft > 0 {
		p = p[:min(len(p), c.headLeft)]
	}
	for {
		n, err := c.stream.Read(p)
		if c.headLeft > 0 {
			c.headLeft -= n
		}
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := c.rearm(); err != nil {
			return 0, err
		}
	}
}

// rearm sets the deadline again if the context's deadline has moved. Otherwise it returns the
// context's error.
func (c *conn) rearm() error {
	until, isBounded := c.ctx.Deadline()
	if !isBounded || time.Now().Before(until) {
		return c.stream.SetReadDeadline(until)
	}
	if _, ok := c.ctx.(Lazy); !ok {
		<-c.ctx.Done() // its timer fires at the same deadline
	}
	return c.ctx.Err()
}
