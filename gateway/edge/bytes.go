package edge

import "github.com/promptweir/promptweir/config"

// Least is the size in bytes from which it is worth counting what a request or response holds. Less
// fits into buffers that each connection has anyway.
const Least = 4 << 10

// quarters is how many principals or upstreams can hold their most at the same time.
const quarters = 4

// mostOfUpstream returns what one principal may hold of an upstream's quarter: less than all, which
// leaves some to others.
func mostOfUpstream(quarter int64) int64 { return quarter - quarter/4 }

// Hold is the memory that one request or response holds. The zero value holds nothing.
type Hold struct {
	ledger *Ledger
	key    key
	bytes  int64
}

// Acquire counts bytes for a client and an upstream, either of which may be empty. It is not ok if
// that is more than max_buffered allows. [Hold.Release] must follow.
func (l *Ledger) Acquire(
	maxBuffered config.Share, client, upstream string, bytes int,
) (h Hold, ok bool) {
	h = Hold{ledger: l, key: key{client, upstream}}
	return h, h.Grow(maxBuffered, bytes)
}

// Grow changes what is held to more bytes, or reports that this is too much.
func (h *Hold) Grow(maxBuffered config.Share, bytes int) (ok bool) {
	l, most, more := h.ledger, maxBuffered.Of(h.ledger.memory), int64(bytes)-h.bytes
	l.mu.Lock()
	defer l.mu.Unlock()
	if most > 0 && !l.fitsLocked(h, most, more) {
		return false
	}
	h.bytes += more
	l.addLocked(h.key, more)
	return true
}

// Release stops counting. Calling it again does nothing.
func (h *Hold) Release() {
	if h.bytes == 0 {
		return
	}
	h.ledger.mu.Lock()
	defer h.ledger.mu.Unlock()
	h.ledger.addLocked(h.key, -h.bytes)
	h.bytes = 0
}

// fitsLocked reports whether h may hold more bytes.
func (l *Ledger) fitsLocked(h *Hold, most, more int64) bool {
	if l.total.Load()+more <= mostOfUpstream(most/quarters) {
		return true // even if one holds it all
	}
	// Whoever holds nothing else may hold one thing, however large.
	fits := func(held, most int64) bool { return held == h.bytes || held+more <= most }
	k := h.key
	return fits(l.total.Load(), most) &&
		(k.client == "" || fits(l.bytesLocked(key{client: k.client}), most/quarters)) &&
		(k.upstream == "" || fits(l.bytesLocked(key{upstream: k.upstream}), most/quarters)) &&
		(k.client == "" || k.upstream == "" || fits(l.bytesLocked(k), mostOfUpstream(most/quarters)))
}

// bytesLocked returns how many bytes are held by whoever pays for an account.
func (l *Ledger) bytesLocked(k key) int64 {
	if a := l.accounts[k]; a != nil {
		return a.bytes
	}
	return 0
}

func (l *Ledger) addLocked(k key, bytes int64) {
	l.total.Add(bytes)
	l.addOneLocked(k, bytes)
	if k.client != "" && k.upstream != "" {
		l.addOneLocked(key{client: k.client}, bytes)
		l.addOneLocked(key{upstream: k.upstream}, bytes)
	}
}

func (l *Ledger) addOneLocked(k key, bytes int64) {
	a := l.accountLocked(k)
	a.bytes += bytes
	l.settleLocked(a)
}

// Full reports whether a client holds as much as it may, so that another response would not fit. To
// be called if [Ledger.Busy].
func (l *Ledger) Full(maxBuffered config.Share, client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytesLocked(key{client: client}) >= maxBuffered.Of(l.memory)/quarters
}

// Busy reports whether so much is held that some client may hold as much as it may. It costs next
// to nothing.
func (l *Ledger) Busy(maxBuffered config.Share) bool {
	total := l.total.Load()
	if total < Least {
		return false
	}
	most := maxBuffered.Of(l.memory)
	return most > 0 && total >= most/quarters
}

// Held returns how many bytes are held.
func (l *Ledger) Held() int64 { return l.total.Load() }
