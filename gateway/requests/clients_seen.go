package requests

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// seenSlot is how long each of the slots of clientsSeen lasts; together they are the last hour.
	seenSlot  = 10 * time.Minute
	seenSlots = 6
	// seenBits is how many bits a slot has. Up to about as many clients are told apart within a few percent.
	seenBits = 1 << 13
)

// clientsSeen estimates how many callers used each revision within the last hour, in a fixed amount of memory and without holding
// who they are: each caller sets one bit, and how many bits stay unset says how many callers there were (linear counting).
type clientsSeen struct {
	seed maphash.Seed
	// byRevision never changes.
	byRevision map[string]*[seenSlots]seenDuring
}

// seenDuring are the callers of one slot.
type seenDuring struct {
	// slot is which one, counted from 1970.
	slot  atomic.Int64
	bits  [seenBits / 64]atomic.Uint64
	begin sync.Mutex // held while the bits are those of another slot
}

func newClientsSeen() *clientsSeen {
	c := &clientsSeen{seed: maphash.MakeSeed(), byRevision: map[string]*[seenSlots]seenDuring{}}
	for _, revision := range wire.Revisions() {
		c.byRevision[revision] = &[seenSlots]seenDuring{}
	}
	return c
}

// see notes who sent a request, once that is known.
func (c *clientsSeen) see(r *Request) {
	slots := c.byRevision[r.Revision]
	if slots == nil || r.Caller.Generation == nil {
		return
	}
	principal := &r.Caller.Principal
	hash := maphash.String(c.seed, principal.Subject)
	switch {
	case principal.Anonymous && r.Client != nil:
		hash = maphash.String(c.seed, r.Client.ClientAddress())
	case principal.Source != "":
		hash = bits.RotateLeft64(hash, 1) ^ maphash.String(c.seed, principal.Source)
	}
	slot := slotOf(r.Received)
	slots[slot%seenSlots].set(slot, hash%seenBits)
}

func slotOf(now time.Time) int64 { return now.Unix() / int64(seenSlot/time.Second) }

// set sets a bit of a slot. Those of an earlier slot are unset before.
func (d *seenDuring) set(slot int64, bit uint64) {
	if d.slot.Load() != slot {
		d.begin.Lock()
		if d.slot.Load() < slot {
			for i := range d.bits {
				d.bits[i].Store(0)
			}
			d.slot.Store(slot)
		}
		d.begin.Unlock()
	}
	if word, mask := &d.bits[bit/64], uint64(1)<<(bit%64); word.Load()&mask == 0 {
		word.Or(mask)
	}
}

// ClientsSeen calls observe with an estimate of how many callers sent a request in each revision within the last hour: principals
// or, without a credential, addresses.
func (h *Handler) ClientsSeen(now time.Time, observe func(revision string, n int64)) {
	for revision, slots := range h.clients.byRevision {
		if n := countSeen(slots, slotOf(now)); n > 0 {
			observe(revision, n)
		}
	}
}

func countSeen(slots *[seenSlots]seenDuring, current int64) int64 {
	unset := 0
	for i := range slots[0].bits {
		var union uint64
		for j := range slots {
			if slots[j].slot.Load() > current-seenSlots {
				union |= slots[j].bits[i].Load()
			}
		}
		unset += 64 - bits.OnesCount64(union)
	}
	return int64(math.Round(seenBits * math.Log(seenBits/math.Max(1, float64(unset)))))
}
