package httpconn

import (
	"runtime"
	"sync"
	"time"
)

const (
	// departuresAtOnce is how many connections for each processor are closed within departuresInterval. To close one takes 15 to 20
	// microseconds, so that together they take a quarter of the processors' time.
	departuresAtOnce   = 64
	departuresInterval = 5 * time.Millisecond
)

// departures closes the connections of clients that have left. When thousands leave at once, nobody waits for that, and everybody else
// would for up to 0.2 s if it was done at once. The zero value is ready.
type departures struct {
	mu sync.Mutex // guards what follows
	// began is when the present interval began, in which count connections were closed.
	began time.Time
	count int
	// waiting are those that are closed later, by run.
	waiting []*Conn
}

// close closes a connection, now or soon.
func (d *departures) close(c *Conn) error {
	if !d.isDue(c) {
		return nil
	}
	return c.closeNow()
}

// isDue reports whether a connection is to be closed now. Otherwise run closes it.
func (d *departures) isDue(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.began) > departuresInterval {
		d.began, d.count = now, 0
	}
	if d.count++; len(d.waiting) == 0 && d.count <= departuresAtOnce*runtime.GOMAXPROCS(0) {
		return true
	}
	if d.waiting = append(d.waiting, c); len(d.waiting) == 1 {
		go d.run()
	}
	return false
}

// run closes connections until none waits.
func (d *departures) run() {
	for left := true; left; {
		time.Sleep(departuresInterval)
		var due []*Conn
		due, left = d.take(departuresAtOnce * runtime.GOMAXPROCS(0))
		for _, c := range due {
			_ = c.closeNow() // its client has left
		}
	}
}

// take returns up to n connections that wait, and whether there are more.
func (d *departures) take(n int) (due []*Conn, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(n, len(d.waiting))
	due, d.waiting = d.waiting[:n], d.waiting[n:]
	if len(d.waiting) == 0 {
		d.waiting = nil
	}
	return due, d.waiting != nil
}
