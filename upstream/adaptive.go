package upstream

import "time"

const (
	// firstLimit is how many calls may be in flight before any has ended, leastLimit how many always may.
	firstLimit, leastLimit = 64, 8
	// fewEnds and manyEnds bound how many ends of calls the limit is judged by.
	fewEnds, manyEnds = 8, 32
	// calmEnds is after how many ends of calls, while none had to wait, the least time that one took is measured anew.
	calmEnds = 64
)

// adaptive is how many calls may be in flight: the upstream's concurrency, or fewer if the server lets them wait for each other.
// A server that can answer 10 calls a second would answer none of 256 within 10 seconds, if callers kept up that number.
//
// It judges by the fastest of the calls that ended last. If even that took more than half of the timeout, though calls were
// answered in less than half of that time when none had to wait, then the server is late with all of them, and the limit falls to
// what it can answer in a quarter of the timeout. A server that is slow with some prompts, or always, keeps its calls.
type adaptive struct {
	most    int
	timeout time.Duration

	now int
	// wanted is how many calls found no slot free since the limit grew for one, as many as the limit at most.
	wanted int
	// least is the least time that one of the last ended calls took; ended is how many these are.
	least time.Duration
	ended int
	// base is the least time that a call took when none had to wait. Calm and calmEnded measure it anew.
	base, calm time.Duration
	calmEnded  int
}

func newAdaptive(most int, timeout time.Duration) adaptive {
	return adaptive{most: most, timeout: timeout, now: min(most, firstLimit)}
}

// want notes that a call found no slot free.
func (a *adaptive) want() { a.wanted = min(a.wanted+1, a.now) }

// end notes how long a call took that has ended. Waiting says that others wait for a slot, inFlight how many have one.
func (a *adaptive) end(took time.Duration, waiting bool, inFlight int) {
	a.measure(took, waiting)
	if a.wanted > 0 && took < max(a.timeout/4, 2*a.base) {
		a.wanted--
		a.now = min(a.now+1, a.most)
	}
	if a.ended == 0 || took < a.least {
		a.least = took
	}
	if a.ended++; a.ended < min(max(a.now/2, fewEnds), manyEnds) {
		return
	}
	if a.least > a.timeout/2 && a.least > 2*a.base {
		quarter := int(int64(inFlight) * int64(a.timeout/4) / int64(a.least))
		a.now, a.wanted = min(a.now, max(quarter, leastLimit)), 0
	}
	a.ended = 0
}

// measure keeps base. While calls wait it only falls: it would otherwise follow the delay that it is compared with.
func (a *adaptive) measure(took time.Duration, waiting bool) {
	if a.base == 0 || took < a.base {
		a.base = took
	}
	if waiting {
		return
	}
	if a.calmEnded == 0 || took < a.calm {
		a.calm = took
	}
	if a.calmEnded++; a.calmEnded == calmEnds {
		a.base, a.calmEnded = a.calm, 0
	}
}
