package upstream

import (
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/upstream/client"
)

// blame knows whose calls failed in a row. One principal may well ask for what the server cannot do, over and over: that must not
// open the circuit breaker for everybody else.
type blame struct {
	// failing is set while calls fail, so that those that do not need not lock.
	failing atomic.Bool

	mu sync.Mutex // guards what follows
	// only is who made all of them, unless several did.
	only    string
	several bool
}

// end notes how a caller's call ended, before the breaker is told. Of a nil caller nothing is known: it may be anybody.
func (b *blame) end(caller Caller, err error) {
	answered := client.Answered(err)
	if (answered && !b.failing.Load()) || (!answered && isExcused(err)) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered:
		b.only, b.several = "", false
	case caller == nil:
		b.several = true
	case !b.failing.Load():
		b.only = caller.Key()
	case b.only != caller.Key():
		b.several = true
	}
	b.failing.Store(!answered)
}

// onSeveral reports whether the calls that failed in a row are those of several principals.
func (b *blame) onSeveral() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.several
}
