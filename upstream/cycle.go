package upstream

import "time"

// estimate follows how long calls take, as TCP follows its round trips (RFC 6298, section 2).
type estimate struct{ mean, deviation time.Duration }

func (e *estimate) add(d time.Duration) {
	if e.mean == 0 {
		e.mean, e.deviation = d, d/2
		return
	}
	e.deviation += ((d - e.mean).Abs() - e.deviation) / 4
	e.mean += (d - e.mean) / 8
}

// cycle measures how long it takes, while all slots are taken, until as many calls have ended as there are slots. A call that is
// sent then takes as long where the server works on the calls in order. That shows earlier than in calls that have ended: of
// those that a server just began to be late with, none has.
type cycle struct {
	// ends has the last ends of calls, maxEnds at most, by the clock of busy time. The oldest is at next once it is full.
	ends []time.Duration
	next int
	// busy is that clock: it stands still while a slot is free. Since is when it was read or stood still last.
	busy    time.Duration
	since   time.Time
	running bool
}

const (
	maxEnds = 64
	// maxIdle is how long after a slot became free the ends of calls still say something.
	maxIdle = 10 * time.Second
)

// run sets the clock going when all slots are taken, and stops it when one is free.
func (c *cycle) run(running bool) {
	if running == c.running {
		return
	}
	now := time.Now()
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

// length returns how long as many calls take to end as there are slots; 0 while too few have ended to tell.
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
