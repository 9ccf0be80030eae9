package edge

import (
	"runtime"
	"sync"
	"time"
)

const (
	// closesAtOnce is how many connections for each processor are closed within closeInterval. To close one takes 15 to 20
	// microseconds, so that together they take a quarter of the processors' time.
	closesAtOnce  = 64
	closeInterval = 5 * time.Millisecond
)

// pacedClose closes the connections of clients that have left. When thousands leave at once, nobody waits for that, and everybody else
// would for up to 0.2 s if it was done at once. The zero value is ready.
type pacedClose struct {
	mu sync.Mutex // guards what follows
	// began is when the present interval began, in which count connections were closed.
	began time.Time
	count int
	// waiting are those that are closed later, by run.
	waiting []*Conn
}

// close closes a connection, now or soon.
func (p *pacedClose) close(c *Conn) error {
	if !p.isDue(c) {
		return nil
	}
	return c.closeNow()
}

// isDue reports whether a connection is to be closed now. Otherwise run closes it.
func (p *pacedClose) isDue(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.began) > closeInterval {
		p.began, p.count = now, 0
	}
	if p.count++; len(p.waiting) == 0 && p.count <= closesAtOnce*runtime.GOMAXPROCS(0) {
		return true
	}
	if p.waiting = append(p.waiting, c); len(p.waiting) == 1 {
		go p.run()
	}
	return false
}

// run closes connections until none waits.
func (p *pacedClose) run() {
	for left := true; left; {
		time.Sleep(closeInterval)
		var due []*Conn
		due, left = p.next(closesAtOnce * runtime.GOMAXPROCS(0))
		for _, c := range due {
			_ = c.closeNow() // its client has left
		}
	}
}

// next returns up to n connections that wait, and whether there are more.
func (p *pacedClose) next(n int) (due []*Conn, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, len(p.waiting))
	due, p.waiting = p.waiting[:n], p.waiting[n:]
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	return due, p.waiting != nil
}
