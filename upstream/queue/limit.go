package queue

import "time"

// firstSlots is how many calls may be in flight before any has been answered.
const firstSlots = 64

// limit is the number of calls that may be in flight. It follows the server's capacity as TCP follows
// the network's:
//
//	answered    the limit grows by 1/limit, or by 1 if the answer was quick: within a quarter of the
//	            timeout, or within 1.5 times the shortest time that a call took. It never exceeds most
//	timed out   the limit falls to half of the calls in flight, but not below 1
//
// A call that timed out does not count if it began before the limit last fell, since one overload
// makes many calls late. It does not count either if it began before a call that has been answered:
// then the prompt is slow, and not the server.
type limit struct {
	most, slots float64
	timeout     time.Duration
	// fastest is the shortest time that a call took; 0 before any was answered.
	fastest time.Duration
	// counted is the time after which a call must have begun for its timeout to count.
	counted time.Time
}

func newLimit(most int, timeout time.Duration) limit {
	return limit{most: float64(most), slots: float64(min(most, firstSlots)), timeout: timeout}
}

// end adapts the limit to the outcome of a call that began at a time. The call is one of inFlight.
func (l *limit) end(begun time.Time, outcome Outcome, inFlight int) {
	took := time.Since(begun)
	switch {
	case outcome == Answered:
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
		l.slots = min(l.slots+more, l.most)
	case outcome == TimedOut && begun.After(l.counted):
		l.slots = max(min(l.slots, float64(inFlight))/2, 1)
		l.counted = time.Now()
	}
}
