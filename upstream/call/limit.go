package call

import "time"

// firstSlots bounds the calls in flight before the first answer.
const firstSlots = 64

// limit is the number of calls that may be in flight. It adapts to the server's capacity as TCP
// does to the network's:
//
//	answered    the limit grows by 1/limit, or by 1 if the answer was quick: within a quarter of the
//	            timeout, or within 1.5 times the shortest time that a call took. It never exceeds maximum
//	timed out   the limit falls to half of itself or, if fewer calls are in flight, to half of their
//	            number, but not below 1
//
// A timeout is ignored if its call began before the limit last fell, because one overload makes
// many calls late. It is also ignored if its call began before a call that has been answered: then
// the prompt is slow, and not the server.
type limit struct {
	maximum, slots float64
	timeout        time.Duration
	// fastest is the shortest duration of a call, or 0 before the first answer.
	fastest time.Duration
	// counted is the time of the latest start of an answered call or of the last fall of the limit,
	// whichever is later. Only timeouts of calls that began later count.
	counted time.Time
}

func newLimit(maximum int, timeout time.Duration) limit {
	return limit{maximum: float64(maximum), slots: float64(min(maximum, firstSlots)), timeout: timeout}
}

// end adapts the limit to the outcome of a call that began at the given time. inFlight includes
// that call.
func (l *limit) end(begun time.Time, o outcome, inFlight int) {
	took := time.Since(begun)
	switch {
	case o.Answered:
		if begun.After(l.counted) {
			l.counted = begun
		}
		if l.fastest == 0 || took < l.fastest {
			l.fastest = took
		}
		more := 1 / l.slots
		if took < max(l.timeout/4, l.fastest*3/2) {
			more = 1
		}
		l.slots = min(l.slots+more, l.maximum)
	case o.timedOut && begun.After(l.counted):
		l.slots = max(min(l.slots, float64(inFlight))/2, 1)
		l.counted = time.Now()
	}
}
