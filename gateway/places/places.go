package places

import (
	"log/slog"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/httpconn"
)

const (
	// maxLeaving is how many connections may be about to close when another one is accepted.
	maxLeaving = 16
	// leaveBound is how long a stream may take to end in order. Then its connection is closed.
	leaveBound = time.Second
)

// Places are what connections and streams take. Their methods are safe for concurrent use; make them with [New].
type Places struct {
	most   int
	ended  counter
	failed counter

	mu      sync.Mutex // guards what follows, and the fields of all places
	holders map[string]map[*place]struct{}
	byConn  map[*httpconn.Conn]*place
	count   int
	emptied time.Time // when the last place was left; zero before that
	taken   uint64    // places taken since the start
	leaving int
	left    *sync.Cond // on mu: fewer are leaving
}

// place is what one connection takes, or one stream of an HTTP/2 connection.
type place struct {
	holder string
	age    uint64 // the lower, the older
	conn   *httpconn.Conn
	// end is closed to end a stream in order; nil for a connection without one.
	end chan struct{}
	// leaving says that it does not count any more, free that it is over.
	leaving, free bool
}

// New returns a number of places for one or more listeners.
func New(most int, logger *slog.Logger) *Places {
	p := &Places{
		most: max(most, 1), holders: map[string]map[*place]struct{}{}, byConn: map[*httpconn.Conn]*place{},
		ended: counter{log: func(count, last slog.Attr) {
			logger.Warn("no place left for another connection or stream, the oldest of the largest holder was ended",
				slog.Int("places", most), count, last)
		}},
		failed: counter{log: func(count, last slog.Attr) { logger.Warn("connection not accepted", count, last) }},
	}
	p.left = sync.NewCond(&p.mu)
	return p
}

// UsedWithin reports whether a place is taken, or was so within a time.
func (p *Places) UsedWithin(recent time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 0 || !p.emptied.IsZero() && time.Since(p.emptied) < recent
}

// Stream gives a place to a stream that a principal or an address holds. A stream of HTTP/1.1 has its connection to itself and
// takes over its place. The stream is to end in order, and soon, when ending is closed. Leave must be called when it is over.
// A nil *Places bounds nothing, nor does one that does not know the connection.
func (p *Places) Stream(conn *httpconn.Conn, multiplexed bool, holder string) (ending <-chan struct{}, leave func()) {
	if p == nil || conn == nil {
		return nil, func() {}
	}
	p.mu.Lock()
	of := p.byConn[conn]
	if of == nil || of.leaving {
		p.mu.Unlock()
		return nil, func() {}
	}
	if !multiplexed {
		defer p.mu.Unlock()
		return p.takeOverLocked(of, holder)
	}
	end := make(chan struct{})
	stream := &place{holder: holder, end: end}
	p.insertLocked(stream)
	losers := p.makeRoomLocked(stream)
	p.mu.Unlock()
	closeAll(losers)
	return end, func() { p.release(stream) }
}

// takeOverLocked makes a connection's place one of a stream.
func (p *Places) takeOverLocked(of *place, holder string) (ending <-chan struct{}, leave func()) {
	end := make(chan struct{})
	p.removeLocked(of)
	of.holder, of.end = holder, end
	p.insertLocked(of)
	return end, func() { p.endStream(of) }
}

// endStream notes that a connection is none of a stream any more. It closes soon.
func (p *Places) endStream(of *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.end = nil
}

// add gives a place to a connection that was accepted.
func (p *Places) add(conn *httpconn.Conn, holder string) {
	added := &place{holder: holder, conn: conn}
	conn.OnClose(func() { p.release(added) })
	p.mu.Lock()
	p.byConn[conn] = added
	p.insertLocked(added)
	losers := p.makeRoomLocked(added)
	p.mu.Unlock()
	closeAll(losers)
	p.awaitLeaving()
}

// awaitLeaving waits until few enough connections are about to close, which leaveBound bounds.
func (p *Places) awaitLeaving() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.leaving > maxLeaving {
		p.left.Wait()
	}
}

// release frees a place.
func (p *Places) release(of *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.free {
		return
	}
	of.free = true
	delete(p.byConn, of.conn)
	if !of.leaving {
		p.removeLocked(of)
		return
	}
	if of.conn != nil {
		p.leaving--
		p.left.Signal()
	}
}

func (p *Places) insertLocked(of *place) {
	p.taken++
	of.age = p.taken
	if p.holders[of.holder] == nil {
		p.holders[of.holder] = map[*place]struct{}{}
	}
	p.holders[of.holder][of] = struct{}{}
	p.count++
}

func (p *Places) removeLocked(of *place) {
	if p.count--; p.count == 0 {
		p.emptied = time.Now()
	}
	held := p.holders[of.holder]
	if delete(held, of); len(held) == 0 {
		delete(p.holders, of.holder)
	}
}

// makeRoomLocked ends others until there is a place for a newcomer. It returns the connections that are to be closed at once.
func (p *Places) makeRoomLocked(newcomer *place) (losers []*httpconn.Conn) {
	for p.count > p.most {
		loser := p.loserLocked(newcomer)
		if loser == nil {
			break
		}
		if conn := p.dismissLocked(loser); conn != nil {
			losers = append(losers, conn)
		}
	}
	return losers
}

// closeAll closes connections. To be called without the lock, which they take when they are closed.
func closeAll(conns []*httpconn.Conn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// makeRoom ends one connection or stream, because the system has no descriptor left for another connection.
func (p *Places) makeRoom() {
	p.mu.Lock()
	var conn *httpconn.Conn
	if loser := p.loserLocked(nil); loser != nil && p.leaving <= maxLeaving {
		conn = p.dismissLocked(loser)
	}
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// loserLocked returns the place that the holder of the most loses; of several such holders, the one with the oldest. It is not
// the newcomer, and nil if there is no other.
func (p *Places) loserLocked(newcomer *place) (loser *place) {
	most := 0
	for _, held := range p.holders {
		if len(held) < most {
			continue
		}
		first := firstToEnd(held, newcomer)
		if first != nil && (loser == nil || len(held) > most || first.age < loser.age) {
			loser, most = first, len(held)
		}
	}
	return loser
}

// firstToEnd returns the place that its holder can best do without: an idle connection, a stream, or another connection; of
// these the oldest. It is nil if there is only the newcomer.
func firstToEnd(held map[*place]struct{}, newcomer *place) (first *place) {
	for of := range held {
		if of != newcomer && (first == nil || of.rank() < first.rank() || of.rank() == first.rank() && of.age < first.age) {
			first = of
		}
	}
	return first
}

func (of *place) rank() int {
	switch {
	case of.end == nil && of.conn != nil && of.conn.Idle():
		return 0
	case of.end != nil:
		return 1
	default:
		return 2
	}
}

// dismissLocked ends a stream in order, or returns the connection to close.
func (p *Places) dismissLocked(of *place) *httpconn.Conn {
	p.ended.add(slog.String("holder", of.holder))
	p.removeLocked(of)
	of.leaving = true
	if of.conn != nil {
		p.leaving++
	}
	if of.end == nil {
		return of.conn
	}
	close(of.end)
	if conn := of.conn; conn != nil { // a stream of HTTP/2 takes no descriptor, and its writes have a bound of their own
		time.AfterFunc(leaveBound, func() { _ = conn.Close() })
	}
	return nil
}
