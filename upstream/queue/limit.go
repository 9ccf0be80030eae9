package queue

import "time"

const (
	// firstSlots is how many calls may be in flight before any has ended, leastSlots how many
	// always may.
	firstSlots, leastSlots = 64, 8
	// fewEnds and manyEnds bound how many ends of calls the limit is judged by.
	fewEnds, manyEnds = 8, 32
	// stableEnds is after how many ends of calls that nobody waited for the base is measured anew.
	stableEnds = 64
)

// limit is how many calls may be in flight, and how long they take. It is a value that only time
// and the ends of calls change; see the package's description for the rule.
type limit struct {
	most    int
	timeout time.Duration

	// slots is the limit now.
	slots int
	// wanted is how many calls found no slot free since the limit grew for one, as many as slots at
	// most.
	wanted int
	// late is what is known of the last calls, as long as all of them were late.
	late late
	// base is the least time that a call took when none had to wait. Stable and stableEnded measure
	// it anew.
	base, stable time.Duration
	stableEnded  int

	roundTrip roundTrip
	cycle     cycle
}

// late is what is known of calls that needed more than half of the timeout, one after another.
type late struct {
	// since is when the first of them ended, and ended how many have.
	since time.Time
	ended int
	// fastest is the least time that one took, fewest the least number of calls in flight when one
	// began.
	fastest time.Duration
	fewest  int
	// timedOut is how many of them were not answered.
	timedOut int
}

func newLimit(most int, timeout time.Duration) limit {
	return limit{most: most, timeout: timeout, slots: min(most, firstSlots)}
}

// want notes that a call found no slot free.
func (l *limit) want() { l.wanted = min(l.wanted+1, l.slots) }

// setBusy notes whether all slots are occupied.
func (l *limit) setBusy(busy bool) {
	if busy != l.cycle.running {
		l.cycle.run(time.Now(), busy)
	}
}

// end notes how the call in a slot has ended. Waiting says that others wait for one.
func (l *limit) end(now time.Time, s *Slot, outcome Outcome, waiting bool) {
	took := now.Sub(s.begun)
	l.roundTrip.add(took)
	l.cycle.end(now, l.slots)
	if outcome == Answered {
		l.measure(took, waiting)
		if l.wanted > 0 && took < max(l.timeout/4, l.usual()) {
			l.wanted--
			l.slots = min(l.slots+1, l.most)
		}
	}
	// One is enough: a server that is slow with some prompts keeps its calls.
	if took <= l.timeout/2 {
		l.late = late{}
		return
	}
	l.late.add(now, took, s.among, outcome)
	if l.late.ended >= min(max(l.slots/2, fewEnds), manyEnds) {
		l.judge(now)
		l.late = late{}
	}
}

func (l *late) add(now time.Time, took time.Duration, among int, outcome Outcome) {
	if l.ended == 0 {
		l.since, l.fastest, l.fewest = now, took, among
	}
	l.ended++
	l.fastest, l.fewest = min(l.fastest, took), min(l.fewest, among)
	if outcome == TimedOut {
		l.timedOut++
	}
}

// judge lowers the limit if the server is late because it has too many calls.
func (l *limit) judge(now time.Time) {
	last := &l.late
	if last.timedOut < last.ended && last.fastest <= l.usual() {
		return
	}
	each := max(now.Sub(last.since)/time.Duration(last.ended), 1)
	few := max(int(l.timeout/4/each), leastSlots)
	// After timeouts, even a call among few has others before it, which the server goes on with.
	if last.timedOut == 0 && last.fewest <= few {
		l.base = last.fastest
		return
	}
	l.slots, l.wanted = min(l.slots, few), 0
}

// usual is how long a call may take of a server that does not have too many.
func (l *limit) usual() time.Duration { return l.base + l.base/2 }

// measure keeps the base.
func (l *limit) measure(took time.Duration, waiting bool) {
	// While calls wait it only falls: it would otherwise follow the delay that it is compared with.
	if l.base == 0 || took < l.base {
		l.base = took
	}
	if waiting {
		return
	}
	if l.stableEnded == 0 || took < l.stable {
		l.stable = took
	}
	if l.stableEnded++; l.stableEnded == stableEnds {
		l.base, l.stableEnded = l.stable, 0
	}
}

// duration returns how long a call takes that is sent now.
func (l *limit) duration(now time.Time) time.Duration {
	return max(l.roundTrip.smoothed, l.cycle.length(now, l.slots))
}

// need returns how much time a call must have left to be sent.
func (l *limit) need(now time.Time) time.Duration {
	// An estimate is no promise. But of an upstream that usually times out, no call that has waited
	// at all would be sent.
	return min(l.duration(now)+2*l.roundTrip.deviation, l.timeout-l.timeout/10)
}

// roundTrip is the smoothed time that calls take, and its deviation, as TCP has it (RFC 6298,
// section 2).
type roundTrip struct{ smoothed, deviation time.Duration }

func (r *roundTrip) add(took time.Duration) {
	if r.smoothed == 0 {
		r.smoothed, r.deviation = took, took/2
		return
	}
	r.deviation += ((took - r.smoothed).Abs() - r.deviation) / 4
	r.smoothed += (took - r.smoothed) / 8
}

// cycle measures how long it takes, while all slots are occupied, until as many calls have ended as
// there are slots. A call that is sent then takes as long where the server works on the calls in
// order. That shows earlier than in calls that have ended: of those that a server just began to be
// late with, none has.
type cycle struct {
	// ends has the last ends of calls, maxEnds at most, by the clock of busy time. Once it is full,
	// the oldest is at next.
	ends []time.Duration
	next int
	// busy is that clock: it stands still while a slot is free. Since is when it was read or stood
	// still last.
	busy    time.Duration
	since   time.Time
	running bool
}

const (
	maxEnds = 64
	// maxIdle is how long after a slot became free the ends of calls still say something.
	maxIdle = 10 * time.Second
)

// run starts the clock, or stops it.
func (c *cycle) run(now time.Time, running bool) {
	switch {
	case c.running:
		c.busy += now.Sub(c.since)
	case now.Sub(c.since) > maxIdle:
		c.ends, c.next, c.busy = c.ends[:0], 0, 0
	}
	c.running, c.since = running, now
}

// end notes that a call has ended, of those that a number of slots are for.
func (c *cycle) end(now time.Time, slots int) {
	at := c.clock(now)
	if len(c.ends) < min(slots, maxEnds) {
		c.ends = append(c.ends, at)
		return
	}
	c.ends[c.next] = at
	c.next = (c.next + 1) % len(c.ends)
}

func (c *cycle) clock(now time.Time) time.Duration {
	if c.running {
		return c.busy + now.Sub(c.since)
	}
	return c.busy
}

// length returns how long as many calls take to end as there are slots; 0 while too few have ended
// to tell.
func (c *cycle) length(now time.Time, slots int) time.Duration {
	known, most := len(c.ends), min(slots, maxEnds)
	if known == 0 || known < (most+3)/4 {
		return 0
	}
	span := c.clock(now)
	if known >= most {
		span -= c.ends[c.next%known]
	}
	return span * time.Duration(slots) / time.Duration(known)
}
