package edge

import (
	"container/list"
	"log/slog"
	"time"
)

const (
	// unauthenticatedShare is the part of the connection limit that connections may take without an
	// accepted credential while others need it. Whoever has none can have as many addresses as they
	// like, so that fairness between addresses is not enough: people behind one address have several
	// connections for a moment, until their first requests have arrived in full.
	unauthenticatedShare = 8
	// ownerShare is the part of those connections that one owner may have before it loses one first.
	ownerShare = 8
	// victimsConsidered is how many of a client's oldest slots are looked at to find one that it
	// can best do without: an eviction must cost little however many it has.
	victimsConsidered = 64
	// maxClosing is how many evicted connections may still be open when another one is accepted.
	maxClosing = 16
	// evictionTimeout is how long a stream may take to end in order. Then its connection is closed.
	evictionTimeout = time.Second
)

// The classes of slots: all, and those without an accepted credential, which are in both.
const (
	all = iota
	unauthenticated

	classes
)

// slot is what one connection takes of the connection limit, or one stream of an HTTP/2 connection.
type slot struct {
	account *account
	conn    *Conn // nil for a stream of HTTP/2
	// end is closed to end a stream in order; nil for a connection without one.
	end chan struct{}
	// in is where the slot is in the rosters of its account and the account's network, and in order
	// of each class; nil where it is in none.
	in    [classes][2]*list.Element
	order [classes]*list.Element
	// evicted says that the slot does not count any more, over that its connection or stream is
	// gone.
	evicted, over bool
}

// roster is an account's slots of a class, the oldest first.
type roster struct {
	list list.List // of *slot
	// rank is where the account is in the ranking's level; nil without slots.
	rank  *list.Element
	level int
}

// ranking orders accounts by the number of their slots in a class. The largest is found at once
// however many there are: a flood of connections must not make each one more expensive.
type ranking struct {
	class  int
	slots  list.List // of *slot, the oldest first
	levels []*list.List
}

func (r *ranking) add(s *slot) {
	s.order[r.class] = r.slots.PushBack(s)
	for i, a := range s.account.andNetwork() {
		if a != nil {
			s.in[r.class][i] = a.slots[r.class].list.PushBack(s)
			r.rank(a)
		}
	}
}

// remove does nothing for a slot that is not in the class.
func (r *ranking) remove(s *slot) {
	if s.order[r.class] == nil {
		return
	}
	r.slots.Remove(s.order[r.class])
	for i, a := range s.account.andNetwork() {
		if a != nil {
			a.slots[r.class].list.Remove(s.in[r.class][i])
			r.rank(a)
		}
	}
	s.in[r.class], s.order[r.class] = [2]*list.Element{}, nil
}

func (a *account) andNetwork() [2]*account { return [2]*account{a, a.network} }

// rank moves an account to the level of as many slots as it has now.
func (r *ranking) rank(a *account) {
	roster := &a.slots[r.class]
	if roster.rank != nil {
		r.levels[roster.level].Remove(roster.rank)
		roster.rank = nil
	}
	roster.level = roster.list.Len()
	if a.members > 0 && a.members < maxNetworks {
		roster.level = 0 // its members are clients of their own
	}
	for len(r.levels) <= roster.level {
		r.levels = append(r.levels, list.New())
	}
	if roster.level > 0 {
		roster.rank = r.levels[roster.level].PushBack(a)
	}
	for top := len(r.levels) - 1; top >= 0 && r.levels[top].Len() == 0; top-- {
		r.levels = r.levels[:top]
	}
}

// largest returns the number of slots of the account that has most of them.
func (r *ranking) largest() int { return max(len(r.levels)-1, 0) }

// oldest returns the slot that has been there for the longest; nil if that is the newcomer.
func (r *ranking) oldest(newcomer *slot) *slot {
	if front := r.slots.Front(); front != nil && front.Value != newcomer {
		s, _ := front.Value.(*slot)
		return s
	}
	return nil
}

// victim returns the slot that the largest client can best do without; of several as large, the one
// that has been so for the longest. It is not the newcomer, and nil if there is no other.
func (r *ranking) victim(newcomer *slot) *slot {
	for level := len(r.levels) - 1; level > 0; level-- {
		for e := r.levels[level].Front(); e != nil; e = e.Next() {
			a, _ := e.Value.(*account)
			if s := a.slots[r.class].victim(newcomer); s != nil {
				return s
			}
		}
	}
	return nil
}

// victim returns an idle connection, else a stream, else another connection; of these the oldest.
func (r *roster) victim(newcomer *slot) (victim *slot) {
	considered := 0
	for e := r.list.Front(); e != nil && considered < victimsConsidered; e = e.Next() {
		considered++
		if s, _ := e.Value.(*slot); s != newcomer && (victim == nil || s.need() < victim.need()) {
			victim = s
		}
	}
	return victim
}

// need orders slots by how much their clients need them.
func (s *slot) need() int {
	switch {
	case s.end == nil && s.conn != nil && s.conn.Idle():
		return 0
	case s.end != nil:
		return 1
	default:
		return 2
	}
}

// OpenStream gives a slot to a stream of an owner, which is a principal or an address. A stream of
// HTTP/1.1 has its connection to itself and takes over its slot. The stream is to end in order, and
// soon, when ending is closed. Release must be called when it is over. Without a connection of this
// ledger, nothing bounds it.
func (l *Ledger) OpenStream(
	c *Conn, multiplexed bool, owner string,
) (ending <-chan struct{}, release func()) {
	if c == nil || c.ledger != l {
		return nil, func() {}
	}
	l.mu.Lock()
	s := c.slot
	if s.over || s.evicted {
		l.mu.Unlock()
		return nil, func() {}
	}
	end := make(chan struct{})
	if !multiplexed {
		defer l.mu.Unlock()
		// Before it leaves: a slot in no class looks as if it were known.
		isKnown := s.isKnown()
		l.leaveLocked(s)
		s.end = end
		l.enterLocked(s, owner, isKnown)
		return end, func() { l.endStream(s) }
	}
	stream := &slot{end: end}
	l.enterLocked(stream, owner, s.isKnown())
	victim := l.makeRoomLocked(stream)
	l.mu.Unlock()
	victim.closeEvicted()
	return end, func() { l.release(stream) }
}

// isKnown reports whether a credential was accepted on the connection.
func (s *slot) isKnown() bool { return s.order[unauthenticated] == nil }

// endStream notes that a connection is none of a stream any more. It closes soon.
func (l *Ledger) endStream(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.end = nil
}

// authenticated notes that a credential was accepted on a connection.
func (l *Ledger) authenticated(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots[unauthenticated].remove(s)
}

// accept gives a slot to a connection that was accepted.
func (l *Ledger) accept(c *Conn) {
	l.mu.Lock()
	l.enterLocked(c.slot, c.client, false)
	victim := l.makeRoomLocked(c.slot)
	l.mu.Unlock()
	victim.closeEvicted()
}

// awaitClosing waits until few enough evicted connections are open, at most evictionTimeout.
func (l *Ledger) awaitClosing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.closing > maxClosing {
		l.closed.Wait()
	}
}

func (l *Ledger) enterLocked(s *slot, owner string, isKnown bool) {
	s.account = l.accountLocked(key{client: owner})
	l.slots[all].add(s)
	if !isKnown {
		l.slots[unauthenticated].add(s)
	}
}

func (l *Ledger) leaveLocked(s *slot) {
	for class := range l.slots {
		l.slots[class].remove(s)
	}
	l.settleLocked(s.account)
}

// release frees the slot of a connection or stream that is over.
func (l *Ledger) release(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.over:
		return
	case !s.evicted:
		l.leaveLocked(s)
	case s.conn != nil:
		l.closing--
		l.closed.Signal()
	}
	s.over = true
}

// makeRoomLocked evicts another one if a newcomer is one too many. It returns the connection that is
// to be closed at once; nil for none.
func (l *Ledger) makeRoomLocked(newcomer *slot) (victim *Conn) {
	if l.connections == 0 || l.slots[all].slots.Len() <= l.connections {
		return nil
	}
	return l.evictLocked(newcomer)
}

// victimLocked returns the slot that is to be evicted. Where there are too many without a credential,
// it is the oldest of these: an honest request brings its credential sooner than a stranger comes
// round, whatever the stranger sends and however often it connects again. Only an owner of many has
// to give up one of its own, or one address could make all others come round.
func (l *Ledger) victimLocked(newcomer *slot) *slot {
	unknown := &l.slots[unauthenticated]
	if count := unknown.slots.Len(); count > l.connections/unauthenticatedShare {
		victim := unknown.oldest(newcomer)
		if unknown.largest() > count/ownerShare {
			victim = unknown.victim(newcomer)
		}
		if victim != nil {
			return victim
		}
	}
	return l.slots[all].victim(newcomer)
}

// evictLocked ends a stream in order, or returns the connection to close.
func (l *Ledger) evictLocked(newcomer *slot) *Conn {
	s := l.victimLocked(newcomer)
	if s == nil {
		return nil
	}
	l.logger.Warn("connection limit reached: a connection or stream was closed",
		slog.Int("limit", l.connections), slog.String("client", s.account.key.client),
		slog.Bool("authenticated", s.isKnown()))
	l.leaveLocked(s)
	s.evicted = true
	if s.conn != nil {
		l.closing++
	}
	if s.end == nil {
		return s.conn
	}
	close(s.end)
	if c := s.conn; c != nil { // one of HTTP/2 takes no descriptor, and its writes have a timeout
		time.AfterFunc(evictionTimeout, func() { _ = c.Close() })
	}
	return nil
}

// makeRoom evicts one connection or stream, because the system has no descriptor left for another
// connection.
func (l *Ledger) makeRoom() {
	l.mu.Lock()
	var victim *Conn
	// Those that are closing free descriptors soon.
	if l.closing <= maxClosing {
		victim = l.evictLocked(nil)
	}
	l.mu.Unlock()
	victim.closeEvicted()
}

// closeEvicted closes a connection that was evicted; nil is none. To be called without the ledger's
// lock, which closing takes.
func (c *Conn) closeEvicted() {
	if c != nil {
		_ = c.Close() // its client is told by that
	}
}
