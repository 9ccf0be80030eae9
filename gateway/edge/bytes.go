package edge

import "github.com/promptweir/promptweir/config"

// Least is the size in bytes from which requests and responses are counted. Smaller requests and responses fit
// into buffers that each connection has anyway.
const Least = 4 << 10

// LeastForSocket is [Least] for the response to a request that is the only one on its connection. The client's socket takes a
// smaller response at once, even if the client does not read. Counting a response costs 1 % of the CPU time of a get.
const LeastForSocket = 16 << 10

// Each principal and each upstream may hold 1/quarters of max_buffered.
const quarters = 4

// mostOfUpstream returns the part of an upstream's quarter that one principal may hold: three quarters, so
// that other principals get something.
func mostOfUpstream(quarter int64) int64 { return quarter - quarter/4 }

// Reservation is the counted memory of one request or response. Release of the zero value does nothing.
type Reservation struct {
	ledger *Ledger
	key    key
	bytes  int64
}

// Acquire counts bytes for a client and an upstream, each of which may be empty. ok is false if max_buffered
// does not allow these bytes. If ok is true, call [Reservation.Release] afterwards.
func (l *Ledger) Acquire(
	maxBuffered config.Share, client, upstream string, bytes int,
) (r Reservation, ok bool) {
	r = Reservation{ledger: l, key: key{client, upstream}}
	return r, r.Grow(maxBuffered, bytes)
}

// Grow raises the reservation to a number of bytes. If max_buffered does not allow that, it changes nothing
// and ok is false.
func (r *Reservation) Grow(maxBuffered config.Share, bytes int) (ok bool) {
	l, most, more := r.ledger, maxBuffered.Of(r.ledger.memory), int64(bytes)-r.bytes
	l.mu.Lock()
	defer l.mu.Unlock()
	if most > 0 && !l.fitsLocked(r, most, more) {
		return false
	}
	r.bytes += more
	l.addLocked(r.key, more)
	return true
}

// Release stops counting. Calling it again does nothing.
func (r *Reservation) Release() {
	if r.bytes == 0 {
		return
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.ledger.addLocked(r.key, -r.bytes)
	r.bytes = 0
}

// fitsLocked reports whether r may grow by extra bytes. maxBuffered is in bytes.
func (l *Ledger) fitsLocked(r *Reservation, maxBuffered, extra int64) bool {
	if l.total.Load()+extra <= mostOfUpstream(maxBuffered/quarters) {
		return true // within the smallest bound, even if one client holds everything
	}
	// Each bound admits one reservation of any size while no other reservation counts for that bound.
	fits := func(held, bound int64) bool { return held == r.bytes || held+extra <= bound }
	k := r.key
	return fits(l.total.Load(), maxBuffered) &&
		(k.client == "" || fits(l.bytesLocked(key{client: k.client}), maxBuffered/quarters)) &&
		(k.upstream == "" || fits(l.bytesLocked(key{upstream: k.upstream}), maxBuffered/quarters)) &&
		(k.client == "" || k.upstream == "" || fits(l.bytesLocked(k), mostOfUpstream(maxBuffered/quarters)))
}

// bytesLocked returns the number of bytes of an account.
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

// Full reports whether a client holds its quarter of max_buffered, so that another response would not fit.
// Call it only if [Ledger.Busy] returns true.
func (l *Ledger) Full(maxBuffered config.Share, client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytesLocked(key{client: client}) >= maxBuffered.Of(l.memory)/quarters
}

// Busy reports whether so many bytes are held that one client may be [Ledger.Full]. It takes no lock.
func (l *Ledger) Busy(maxBuffered config.Share) bool {
	total := l.total.Load()
	if total < Least {
		return false
	}
	most := maxBuffered.Of(l.memory)
	return most > 0 && total >= most/quarters
}

// Held returns the number of bytes held by all clients and upstreams.
func (l *Ledger) Held() int64 { return l.total.Load() }
