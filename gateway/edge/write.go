package edge

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Write writes the body of a response, given in parts, in one system call together with the header,
// which the caller has set. Ctx is the context of the request. If the connection cannot gather, as
// with TLS and HTTP/2, Write writes one part after the other. After an error the connection is
// closed.
func Write(ctx context.Context, w http.ResponseWriter, parts ...[]byte) error {
	c, ok := ctx.Value(connKey{}).(*Conn)
	if !ok {
		return writeEach(w, parts)
	}
	g, _ := pool.Get().(*gathered)
	g.body = append(g.body, parts...) // a copy lets the caller keep its slice of parts on the stack
	c.gathering = g
	err := writeEach(w, parts)
	if err == nil {
		err = http.NewResponseController(w).Flush() // hands over what is left in the server's buffer
	}
	c.gathering = nil
	if err == nil {
		// Writing consumes the slice that it is given; release needs the whole one.
		g.unsent = g.writes
		err = c.writeAll(&g.unsent)
	}
	if err != nil {
		abandon(c, w)
	}
	g.release()
	return err
}

func writeEach(w http.ResponseWriter, parts [][]byte) error {
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// abandon closes a connection on which a response broke off. The server knows nothing of the error,
// and would carry out the next request if the client has already sent one. It stops when the
// connection is no longer its own.
func abandon(c *Conn, w http.ResponseWriter) {
	_ = c.Close()
	_, _, _ = http.NewResponseController(w).Hijack()
}

// gathered is what the server writes to a connection during one call of [Write].
type gathered struct {
	body [][]byte // the caller's
	// writes are slices of the body, or of copied.
	writes, unsent net.Buffers
	copied         []byte
}

var pool = sync.Pool{ //nolint:gochecknoglobals // a pool is shared by nature
	New: func() any { return &gathered{copied: make([]byte, 0, 8<<10)} },
}

func (g *gathered) add(p []byte) {
	if !g.ofBody(p) { // then it is the server's buffer, which the server uses again
		start := len(g.copied)
		g.copied = append(g.copied, p...)
		p = g.copied[start:]
	}
	g.writes = append(g.writes, p)
}

// ofBody reports whether p is a part of the body, or the end of one: the server fills up its buffer
// with the beginning of a part that is larger than the buffer and passes on the rest as it is.
func (g *gathered) ofBody(p []byte) bool {
	for _, part := range g.body {
		if len(p) > 0 && len(part) > 0 && &p[len(p)-1] == &part[len(part)-1] {
			return true
		}
	}
	return false
}

func (g *gathered) release() {
	clear(g.body) // the pool must not keep the caller's parts alive
	clear(g.writes)
	g.body, g.writes, g.unsent, g.copied = g.body[:0], g.writes[:0], nil, g.copied[:0]
	pool.Put(g)
}
