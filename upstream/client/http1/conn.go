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
	"syscall"
	"time"

	"github.com/promptweir/promptweir/upstream/system"
)

const (
	// maxHead bounds the heads of one response, with those of informational ones before it, in bytes.
	maxHead = 64 << 10
	// maxInformational is how many informational responses may come before a response.
	maxInformational = 5
	// maxKept is the largest buffer that a connection keeps for the next request, in bytes.
	maxKept = 16 << 10
)

// conn is a connection. One request uses it at a time.
type conn struct {
	client *Client
	link   *Link
	// stream is the link, or TLS over it.
	stream net.Conn
	// raw is the link's socket; nil if it has none.
	raw    syscall.RawConn
	reader *bufio.Reader
	// out is the buffer of the last request.
	out   []byte
	round int
	since time.Time // since when it is idle
	// interrupt ends reads and writes.
	interrupt func()

	// What follows is of the present request. Stop stops the wait for the end of its context, and reports false if
	// that has come.
	ctx  context.Context //nolint:containedctx // the request's
	stop func() bool
	// headLeft is how many bytes may still be read before the head is complete; negative afterwards.
	headLeft int
	answered bool
	// isLast says that no other request may follow.
	isLast bool
}

func newConn(c *Client, link *Link) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := &conn{client: c, link: link, stream: link.Conn, round: c.round}
	made.interrupt = func() { _ = link.Close() }
	made.reader = bufio.NewReader(made)
	inner := link.Conn
	if secured, ok := inner.(*tls.Conn); ok { // to a proxy
		inner = secured.NetConn()
	}
	if socket, ok := inner.(syscall.Conn); ok {
		made.raw, _ = socket.SyscallConn() // nil for an error
	}
	return made
}

// begin prepares the connection for a request.
func (c *conn) begin(ctx context.Context) {
	c.ctx, c.answered, c.headLeft = ctx, false, maxHead
	until, _ := ctx.Deadline()
	_ = c.stream.SetDeadline(until) // none for the zero time
	if lazy, ok := ctx.(Lazy); ok {
		ctx = lazy.Parent()
	}
	c.stop = context.AfterFunc(ctx, c.interrupt)
}

// release ends the use of the connection by a request. It is kept if isWhole says that the response was read to
// its end, and nothing else speaks against it. It is called once for each request.
func (c *conn) release(isWhole bool) {
	if isGone := !c.stop(); !isWhole || isGone || c.isLast || c.reader.Buffered() > 0 {
		_ = c.link.Close()
		return
	}
	c.ctx = nil
	c.client.put(c)
}

// hasEnded reports whether the server has closed an idle connection, or said something that nobody asked for.
func (c *conn) hasEnded() bool {
	if c.reader.Buffered() > 0 || c.raw != nil && system.HasInput(c.raw) {
		return true
	}
	secured, ok := c.stream.(*tls.Conn)
	if !ok {
		return false
	}
	// What TLS has already read from the socket.
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
	// Also where not all could be written: a server may answer, and close, before it has read all. And over TLS 1.3,
	// why it refused a certificate is there to be read (RFC 8446, section 4.4.2.4).
	first, err := c.reader.Peek(1)
	c.answered = err == nil
	switch {
	case err != nil:
		return nil, err
	case first[0] == 0x15: // an alert
		return nil, ErrWantsTLS
	case first[0] != 'H':
		return nil, errNotHTTP
	}
	for range maxInformational + 1 {
		buffered, _ := c.reader.Peek(c.reader.Buffered())
		raw, _, isWhole := bytes.Cut(buffered, []byte("\r\n\r\n")) // before more is read over it
		response, err := http.ReadResponse(c.reader, head.request)
		switch {
		case err != nil && c.headLeft == 0: // else the error would be about a line that is not whole
			return nil, errHeadTooLong
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitching
		case response.StatusCode/100 == 1:
			continue
		}
		c.headLeft = -1
		// With two lengths, a proxy on the way may believe the other one (RFC 9112, section 6.3).
		isDoubtful := response.ContentLength < 0 && (!isWhole || hasLength(raw))
		c.isLast = c.isLast || unwritten != nil || response.Close || response.Proto != "HTTP/1.1" || isDoubtful
		return response, nil //nolint:nilerr // the answer counts, also to a request that was not written whole
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

// rearm sets the deadline anew that has passed, if that of the context has moved. Otherwise it returns why the
// context has ended.
func (c *conn) rearm() error {
	until, isBounded := c.ctx.Deadline()
	if !isBounded || time.Now().Before(until) {
		return c.stream.SetReadDeadline(until)
	}
	if _, ok := c.ctx.(Lazy); !ok {
		<-c.ctx.Done() // its timer is due as well
	}
	return c.ctx.Err()
}
