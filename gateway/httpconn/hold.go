package httpconn

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// serverBuffer is the size of the buffer through which net/http writes to a connection, in bytes. What is longer is what
// was given to Write.
const serverBuffer = 4 << 10

// Held is what a handler has written since [Hold]. A nil one holds nothing.
type Held struct {
	conn *Conn
	// parts are in order. Those of the server's buffers are copies, in copied. Left is what is not sent of them.
	parts, left net.Buffers
	copied      []byte
}

var pool = sync.Pool{New: func() any { return &Held{copied: make([]byte, 0, 2*serverBuffer)} }} //nolint:gochecknoglobals // a pool is shared by nature

// Hold keeps what is written to the response of a request from leaving until [Held.Send], so that it leaves at once. Ctx is
// the request's. The handler may not change what it writes before then, nor write to anything else but the response, and
// must send. It writes by Write: [io.Copy], fmt.Fprint and encoders change what they wrote by themselves. Where nothing can
// be held, it returns nil, with which Send does nothing.
func Hold(ctx context.Context) *Held {
	c, ok := ctx.Value(connKey{}).(*Conn)
	if !ok || c.held != nil {
		return nil
	}
	h, _ := pool.Get().(*Held)
	h.conn, c.held = c, h
	return h
}

// keep adds what the server writes.
func (h *Held) keep(p []byte) {
	if len(p) <= serverBuffer { // the server uses it again at once
		start := len(h.copied)
		h.copied = append(h.copied, p...)
		p = h.copied[start:]
	}
	h.parts = append(h.parts, p)
}

// Send ends what Hold began. After an error the connection is closed, and the server carries out no further request from
// it, though one may be there already: it does not know how far the response came. The handler is done with it then.
func (h *Held) Send(w http.ResponseWriter) error {
	if h == nil {
		return nil
	}
	server := http.NewResponseController(w)
	err := server.Flush()
	c := h.conn
	c.held = nil
	if err == nil {
		h.left = h.parts
		err = c.writeAll(&h.left)
	}
	if err != nil {
		_ = c.Close()
		_, _, _ = server.Hijack() // of what goes wrong beside it the server does not hear
		return err
	}
	clear(h.parts)
	h.conn, h.parts, h.left, h.copied = nil, h.parts[:0], nil, h.copied[:0]
	pool.Put(h)
	return nil
}
