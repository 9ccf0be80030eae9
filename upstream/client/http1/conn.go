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
	// plain is the link without TLS. socket is its socket, or nil if it is not a socket. advance is the method advanceSocket.
	plain   net.Conn
	socket  syscall.RawConn
	advance func(socket uintptr) (isDone bool)
	peeked  [1]byte // for [system.HasInput]

	// The fields below belong to the current request. stop ends the wait for the end of its context. It returns false if
	// the context has already ended. isReused is true if an earlier request used the connection, and hasEnded if the
	// server has ended the connection since. unsent is the request until it is written, and unwritten is the error of
	// the write.
	ctx       context.Context //nolint:containedctx // the request's
	stop      func() bool
	reader    *bufio.Reader
	isReused  bool
	hasEnded  bool
	unsent    []byte
	unwritten error
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
	made.plain = link.Conn
	if secured, ok := link.Conn.(*tls.Conn); ok { // TLS to a proxy
		made.plain = secured.NetConn()
	}
	if socket, ok := made.plain.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			made.socket, made.advance = raw, made.advanceSocket
		}
	}
	return made
}

// begin prepares the connection for a request.
func (c *conn) begin(ctx context.Context, isReused bool) {
	c.ctx, c.isReused, c.answered, c.headLeft = ctx, isReused, false, maxHead
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

// hasBuffered reports whether TLS has already read something unexpected from the socket of an idle connection.
func (c *conn) hasBuffered() bool {
	secured, ok := c.stream.(*tls.Conn)
	if !ok {
		return false
	}
	// Try to read without waiting.
	_ = secured.SetReadDeadline(time.Unix(1, 0))
	_, err := secured.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// write writes a request. If the server has ended an idle connection, write returns errEnded and has written nothing.
func (c *conn) write(request []byte) error {
	c.unsent, c.unwritten, c.hasEnded = request, nil, false
	// On a new connection, input from before the Read would not be noticed.
	if c.socket != nil && c.isReused {
		_ = c.socket.Read(c.advance) // the next read returns the same error
	}
	if c.hasEnded {
		return errEnded
	}
	if c.unsent != nil {
		_, c.unwritten = c.stream.Write(request)
		c.unsent = nil
	}
	return nil
}

// advanceSocket is the function of the socket's Read. The Read notices input from before the first call on. The first call
// looks for earlier input and writes the request. The Read then waits: to read before the response has begun would be
// a wasted system call. The second call ends the Read, which has read nothing.
func (c *conn) advanceSocket(socket uintptr) (isDone bool) {
	switch {
	case c.unsent == nil: // the response has begun
		return true
	case system.HasInput(socket, c.peeked[:]):
		c.hasEnded = true
		return true
	case c.stream != c.plain: // TLS may read in order to write
		return true
	}
	_, c.unwritten = c.stream.Write(c.unsent)
	c.unsent = nil
	return c.unwritten != nil
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
	if err := c.write(out); err != nil {
		return nil, err
	}
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
		c.isLast = c.isLast || c.unwritten != nil || response.Close || response.Proto != "HTTP/1.1" || isDoubtful
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
