package bubble

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"time"
)

// ErrCut means that a link is cut.
var ErrCut = errors.New("the link is cut")

// Listener is one whose connections are pipes.
type Listener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// NewListener returns a listener.
func NewListener() *Listener {
	return &Listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Connect returns the client's end of a connection.
func (l *Listener) Connect() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accepted <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Directions of bytes on a [Link].
const (
	Forth = iota
	Back
)

// Link is a way from one program in a bubble to another. Its zero value carries all bytes at once.
// Like TCP, it loses none as long as it is not cut.
type Link struct {
	// Delay returns how late the next bytes arrive. Those sent later do not arrive earlier.
	Delay func() time.Duration

	mu    sync.Mutex // guards what follows
	isCut bool
	hung  [2]chan struct{} // each is closed when its direction goes on; nil while it does
	open  map[net.Conn]struct{}
}

// Join returns the near end of a connection over the link, of which another one is the far end.
func (l *Link) Join(connect func() (net.Conn, error)) (net.Conn, error) {
	l.mu.Lock()
	isCut := l.isCut
	l.mu.Unlock()
	if isCut {
		return nil, ErrCut
	}
	far, err := connect()
	if err != nil {
		return nil, err
	}
	near, middle := net.Pipe()
	l.mu.Lock()
	if l.open == nil {
		l.open = map[net.Conn]struct{}{}
	}
	l.open[far], l.open[middle] = struct{}{}, struct{}{}
	l.mu.Unlock()
	go l.pass(middle, far, Forth)
	go l.pass(far, middle, Back)
	return near, nil
}

// Cut closes all connections, and refuses others until [Link.Heal].
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.open {
		_ = c.Close() // of a pipe, it returns none
	}
	l.goOn()
}

// Hang lets nothing through in some directions until [Link.Heal].
func (l *Link) Hang(directions ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range directions {
		if l.hung[d] == nil {
			l.hung[d] = make(chan struct{})
		}
	}
}

// Heal ends what [Link.Cut] and [Link.Hang] did.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
	l.goOn()
}

func (l *Link) goOn() {
	for d, hung := range l.hung {
		if hung != nil {
			close(hung)
			l.hung[d] = nil
		}
	}
}

// wait waits while a direction hangs.
func (l *Link) wait(direction int) {
	l.mu.Lock()
	hung := l.hung[direction]
	l.mu.Unlock()
	if hung != nil {
		<-hung
	}
}

// pass passes bytes in one direction. Those that are on their way do not keep others from being
// sent.
func (l *Link) pass(from, to net.Conn, direction int) {
	type sent struct {
		bytes []byte
		due   time.Time
	}
	queue := make(chan sent, 100)
	go func() {
		defer close(queue)
		for b := make([]byte, 16<<10); ; {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			due := time.Now()
			if l.Delay != nil {
				due = due.Add(l.Delay())
			}
			queue <- sent{bytes.Clone(b[:n]), due}
		}
	}()
	for next := range queue {
		time.Sleep(time.Until(next.due))
		l.wait(direction)
		if _, err := to.Write(next.bytes); err != nil {
			_ = from.Close() // which ends the queue
		}
	}
	_, _ = to.Close(), from.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, to)
	delete(l.open, from)
}
