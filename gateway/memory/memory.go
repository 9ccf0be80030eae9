package memory

import (
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/config"
)

// Least is the size in bytes from which it is worth counting what a request or response holds. Less fits into buffers that each
// connection has anyway.
const Least = 4 << 10

// parts is how many holders can hold their most at the same time.
const parts = 4

// mostOfUpstream returns what one principal may hold of an upstream's part: less than all, which leaves some to others.
func mostOfUpstream(part int64) int64 { return part - part/4 }

// Account counts what is held. Its methods are safe for concurrent use; make it with [New].
type Account struct {
	// memory is what a percentage is of.
	memory int64
	total  atomic.Int64 // written under mu

	mu   sync.Mutex // guards held
	held map[holder]int64
}

// holder is a principal, an upstream, or a principal with responses of an upstream.
type holder struct{ principal, upstream string }

// New returns an account that takes a percentage to be of so many bytes of memory. Where that is 0, a percentage bounds nothing.
func New(memory int64) *Account { return &Account{memory: memory, held: map[holder]int64{}} }

// Hold is what one request or response holds. The zero value holds nothing.
type Hold struct {
	account *Account
	holder  holder
	bytes   int64
}

// Acquire counts bytes for a principal and an upstream, either of which may be empty. It is not ok if that is more than the share
// allows. [Hold.Release] must follow.
func (a *Account) Acquire(share config.Share, principal, upstream string, bytes int) (h Hold, ok bool) {
	h = Hold{account: a, holder: holder{principal, upstream}}
	return h, h.Grow(share, bytes)
}

// Grow changes what is held to more bytes, or reports that this is too much.
func (h *Hold) Grow(share config.Share, bytes int) (ok bool) {
	a, most, more := h.account, share.Of(h.account.memory), int64(bytes)-h.bytes
	a.mu.Lock()
	defer a.mu.Unlock()
	if most > 0 && !a.fitsLocked(h, most, more) {
		return false
	}
	h.bytes += more
	a.addLocked(h.holder, more)
	return true
}

// fitsLocked reports whether h may hold more bytes.
func (a *Account) fitsLocked(h *Hold, most, more int64) bool {
	if a.total.Load()+more <= mostOfUpstream(most/parts) {
		return true // even if one holds it all
	}
	fits := func(held, most int64) bool { return held == h.bytes || held+more <= most }
	return fits(a.total.Load(), most) &&
		(h.holder.principal == "" || fits(a.held[holder{principal: h.holder.principal}], most/parts)) &&
		(h.holder.upstream == "" || fits(a.held[holder{upstream: h.holder.upstream}], most/parts)) &&
		(h.holder.principal == "" || h.holder.upstream == "" || fits(a.held[h.holder], mostOfUpstream(most/parts)))
}

func (a *Account) addLocked(h holder, bytes int64) {
	a.total.Add(bytes)
	a.addOneLocked(h, bytes)
	if h.principal != "" && h.upstream != "" {
		a.addOneLocked(holder{principal: h.principal}, bytes)
		a.addOneLocked(holder{upstream: h.upstream}, bytes)
	}
}

func (a *Account) addOneLocked(h holder, bytes int64) {
	if held := a.held[h] + bytes; held != 0 {
		a.held[h] = held
	} else {
		delete(a.held, h)
	}
}

// Release stops counting. Calling it again does nothing.
func (h *Hold) Release() {
	if h.bytes == 0 {
		return
	}
	h.account.mu.Lock()
	defer h.account.mu.Unlock()
	h.account.addLocked(h.holder, -h.bytes)
	h.bytes = 0
}

// Full reports whether a principal holds as much as it may, so that another response would not fit. To be called if
// [Account.Busy].
func (a *Account) Full(share config.Share, principal string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[holder{principal: principal}] >= share.Of(a.memory)/parts
}

// Busy reports whether so much is held that some holder may hold as much as it may. It costs next to nothing.
func (a *Account) Busy(share config.Share) bool {
	total := a.total.Load()
	if total < Least {
		return false
	}
	most := share.Of(a.memory)
	return most > 0 && total >= most/parts
}

// Held returns how many bytes are held.
func (a *Account) Held() int64 { return a.total.Load() }
