package history

import (
	"math"
	"slices"
	"time"
)

const (
	// recovery is how long after a fault replicas may count alone, and begin with a full bucket.
	recovery = 5 * time.Second
	// window is how long there must be calm for a rate to be expected, and least how much of it.
	window = 4 * time.Second
	least  = 0.9
)

// limits checks the rates.
func (c *checker) limits() {
	for _, limit := range c.model.Limits {
		byPrincipal := map[string]History{}
		for _, o := range c.history {
			if o.Name == Get && o.Of == limit.Prompt {
				byPrincipal[o.Who] = append(byPrincipal[o.Who], o)
			}
		}
		for _, gets := range byPrincipal {
			c.most(limit, gets)
			if !limit.Slow {
				c.least(limit, gets)
			}
		}
	}
}

// troubled returns the times of faults, with a time after the causes of all had gone.
func (c *checker) troubled(after time.Duration) (spans [][2]time.Duration) {
	for _, o := range c.rig {
		switch o.Name {
		case Fault:
			spans = append(spans, [2]time.Duration{o.Sent, math.MaxInt64})
		case Healed:
			for j := range spans {
				spans[j][1] = min(spans[j][1], o.Received+after)
			}
		}
	}
	return spans
}

// capacity returns how many gets a limit admits until a time, but for one burst.
func (c *checker) capacity(limit Limit, spans [][2]time.Duration, at time.Duration) float64 {
	admits, counted := limit.Rate*at.Seconds(), time.Duration(0)
	for _, span := range spans { // they may overlap
		if from, to := max(span[0], counted), min(span[1], at); to > from {
			admits += float64(c.model.Replicas-1) * limit.Rate * (to - from).Seconds()
			counted = to
		}
		for _, moment := range span {
			if at >= moment {
				admits += float64(c.model.Replicas) * limit.Burst
			}
		}
	}
	return admits
}

// most checks that no window has more gets than the limit admits. Between a and b were at least
// those that ended until b, without those that began before a.
func (c *checker) most(limit Limit, gets History) {
	spans := c.troubled(recovery)
	var begun, ended []time.Duration
	for _, o := range gets {
		if o.Error == "" {
			begun, ended = append(begun, o.Sent), append(ended, o.Received)
		}
	}
	slices.Sort(begun)
	slices.Sort(ended)
	lowest, from, next := 0.0, time.Duration(0), 0
	for n, to := range ended {
		for ; next < len(begun) && begun[next] <= to; next++ {
			level := float64(next) - c.capacity(limit, spans, begun[next])
			if isWithin(spans, begun[next]) { // each replica may have a full bucket, and the store another
				level += float64(c.model.Replicas) * limit.Burst
			}
			if level < lowest {
				lowest, from = level, begun[next]
			}
		}
		if over := float64(n+1) - c.capacity(limit, spans, to) - lowest - limit.Burst; over >= 1 {
			c.violated("L", gets.within(from, to), "between %v and %v, %s was got %.0f times more than its limit admits",
				from, to, limit.Prompt, over)
			return
		}
	}
}

func isWithin(spans [][2]time.Duration, at time.Duration) bool {
	return slices.ContainsFunc(spans, func(s [2]time.Duration) bool { return s[0] <= at && at <= s[1] })
}

// least checks that a limit admits enough in calm windows. Where it refuses, less than one get is
// left: between two refusals, it has admitted all that came in but for one, and for what a bucket that
// was full has lost.
func (c *checker) least(limit Limit, gets History) {
	spans, end := c.troubled(recovery), time.Duration(0)
	for _, o := range gets {
		end = max(end, o.Received)
	}
	for from := time.Duration(0); from+window <= end; from += window / 4 {
		to := from + window
		if slices.ContainsFunc(spans, func(s [2]time.Duration) bool { return s[0] <= to && s[1] >= from }) {
			continue
		}
		var first, last Op
		for _, o := range gets {
			if o.Error == RateLimited && o.Sent >= from && o.Received <= to {
				if first.Name == "" {
					first = o
				}
				last = o
			}
		}
		admitted, due := 1.0, least*limit.Rate*(last.Sent-first.Received).Seconds()
		level, before := 1.0, first.Sent
		for _, o := range gets {
			if o.Sent > last.Received || o.Received < first.Sent {
				continue
			}
			level += limit.Rate * (o.Received - before).Seconds()
			due -= max(level-limit.Burst, 0)
			level, before = min(level, limit.Burst)-1, o.Sent
			if o.Error == RateLimited {
				level = 1
			} else {
				admitted++
			}
		}
		if admitted < due {
			c.violated("L", gets.within(from, to), "from %v to %v, only %.0f gets of %s were answered while others were refused, not %.0f",
				first.Received, last.Sent, admitted-1, limit.Prompt, due)
		}
	}
}
