package edge

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Write sends a response in one system call: its header, which the caller has set, and the parts of its body.
// ctx is the request's context. Over TLS and HTTP/2, Write writes the parts one by one. After an error the
// connection is closed.
func Write(ctx context.Context, w http.ResponseWriter, parts ...[]byte) error {
	c, ok := ctx.Value(connKey{}).(*Conn)
	if !ok { // TLS must see every byte
		return writeEach(w, parts)
	}
	g, _ := pool.Get().(*gathered)
	g.body = append(g.body, parts...) // copied, so that the caller's slice of parts can stay on the stack
	c.gathering = g
	err := writeEach(w, parts)
	if err == nil {
		err = http.NewResponseController(w).Flush() // moves the server's buffer to g
	}
	c.gathering = nil
	if err == nil {
		// writeAll consumes its slice; release needs the whole slice.
		g.unsent = g.writes
		err = c.writeAll(&g.unsent)
	}
	if err != nil {
		// The server has not seen the error, and would carry out the next request on the connection, so take the
		// connection from it.
		_ = c.Close()
		_, _, _ = http.NewResponseController(w).Hijack()
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

// gathered collects the server's output on a connection during one call of [Write].
type gathered struct {
	body [][]byte // the caller's parts
	// writes contains the output in order, as slices of body or of copied. unsent is a copy that writeAll
	// consumes.
	writes, unsent net.Buffers
	copied         []byte
}

var pool = sync.Pool{ //nolint:gochecknoglobals // a pool is shared by nature
	New: func() any { return &gathered{copied: make([]byte, 0, 8<<10)} },
}

func (g *gathered) add(p []byte) {
	if !g.ofBody(p) { // copy p: it is the server's buffer, which the server reuses
		start := len(g.copied)
		g.copied = append(g.copied, p...)
		p = g.copied[start:]
	}
	g.writes = append(g.writes, p)
}

// ofBody reports whether p is a part of the body, or the end of one. The server copies the beginning of a
// large part into its buffer, and passes on the remaining bytes unchanged.
func (g *gathered) ofBody(p []byte) bool {
	return slices.ContainsFunc(g.body, func(part []byte) bool {
		return len(p) > 0 && len(part) > 0 && &p[len(p)-1] == &part[len(part)-1]
	})
}

func (g *gathered) release() {
	clear(g.body) // the pool must not keep the caller's parts alive
	clear(g.writes)
	g.body, g.writes, g.unsent, g.copied = g.body[:0], g.writes[:0], nil, g.copied[:0]
	pool.Put(g)
}
