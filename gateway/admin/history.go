package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

const (
	// historyLength is how many minutes a history has.
	historyLength = 60
	// historyInterval is how often the condition of the upstreams is recorded. What is shorter may
	// be missed.
	historyInterval = 5 * time.Second
)

// History is what happened within the last hour, minute by minute: how the upstreams were, and how
// many gets there were. It is in memory: some 100 bytes for each upstream, and 500 for each of
// those and of the prompts that were used. Its methods are safe for concurrent use.
type History struct {
	mu sync.Mutex // guards what follows
	// levels are those of upstreams; gets are theirs, and those of prompts, as far as there were
	// any.
	levels             map[string]*levels
	upstreams, prompts map[string]*tally
	all                tally
	counted            map[string]totals // at the last record, by prompt
}

// Hour is the last minutes, the present one last.
type Hour [historyLength]Minute

// Minute is what happened in one minute.
type Minute struct {
	// Known says that the upstream was looked at. Level is the worst that it was; without an
	// upstream it means nothing.
	Known bool
	Level Level
	// Gets counts all gets, Errors those that failed or were refused.
	Gets, Errors int
}

// clock is the last minute, since 1970, of something that is kept in a ring.
type clock struct{ last int64 }

// advance moves on to a minute, never back, and calls begin for the slot of each one that begins.
// It returns the slot of the last.
func (c *clock) advance(minute int64, begin func(slot int)) int {
	for m := max(c.last+1, minute-historyLength+1); m <= minute; m++ {
		begin(int(m % historyLength))
	}
	c.last = max(c.last, minute)
	return int(c.last % historyLength)
}

// each calls use with the slots of the hour that ends with a minute, in order, as far as they are
// known.
func (c *clock) each(minute int64, use func(i, slot int)) {
	for i := range historyLength {
		if m := minute - historyLength + 1 + int64(i); m <= c.last && m > c.last-historyLength {
			use(i, int(m%historyLength))
		}
	}
}

// levels are how an upstream was: 0 where that is not known, else one more than the worst level.
type levels struct {
	clock clock
	worst [historyLength]uint8
}

func (l *levels) record(minute int64, level Level) {
	at := &l.worst[l.clock.advance(minute, func(slot int) { l.worst[slot] = 0 })]
	if known := uint8(level) + 1; *at == 0 || known < *at { //nolint:gosec // there are three levels
		*at = known
	}
}

// tally counts gets.
type tally struct {
	clock        clock
	gets, errors [historyLength]uint32
}

func (t *tally) add(minute int64, n totals) {
	at := t.clock.advance(minute, func(slot int) { t.gets[slot], t.errors[slot] = 0, 0 })
	t.gets[at] += n.gets
	t.errors[at] += n.errors
}

// addTo adds the counts to the hour that ends with a minute. A nil tally has none.
func (t *tally) addTo(hour *Hour, minute int64) {
	if t != nil {
		t.clock.each(minute, func(i, slot int) { hour[i].Gets, hour[i].Errors = int(t.gets[slot]), int(t.errors[slot]) })
	}
}

// totals are counts since the start.
type totals struct{ gets, errors uint32 }

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		levels: map[string]*levels{}, upstreams: map[string]*tally{}, prompts: map[string]*tally{},
		counted: map[string]totals{},
	}
}

// GetCounts calls observe with how many gets of each prompt had each outcome since the start.
type GetCounts func(observe func(prompt, outcome string, n int64))

// Run records until ctx ends.
func (h *History) Run(ctx context.Context, current func() *snapshot.Snapshot, gets GetCounts) {
	ticker := time.NewTicker(historyInterval)
	defer ticker.Stop()
	for {
		h.Record(time.Now(), current(), gets)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Record records how the upstreams are now, and the gets since the last call.
func (h *History) Record(now time.Time, s *snapshot.Snapshot, gets GetCounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	minute := minuteOf(now)
	for i, state := range s.States {
		if state.Tried { // else it is starting, which is no trouble
			of(h.levels, s.Upstreams[i].Name).record(minute, conditionOf(state).level())
		}
	}
	if len(h.levels) > len(s.Upstreams) {
		h.forgetLocked(s)
	}
	sums := map[string]totals{}
	gets(func(prompt, outcome string, n int64) {
		sum := sums[prompt]
		sum.gets += uint32(n) //nolint:gosec // differences are right even after an overflow
		switch audit.Outcome(outcome) {
		case audit.UpstreamError, audit.Failed, audit.Refused:
			sum.errors += uint32(n) //nolint:gosec // as above
		}
		sums[prompt] = sum
	})
	for prompt, sum := range sums {
		before := h.counted[prompt]
		h.counted[prompt] = sum
		if sum != before {
			h.countLocked(minute, s, prompt, totals{
				sum.gets - before.gets,
				sum.errors - before.errors,
			})
		}
	}
}

func minuteOf(now time.Time) int64 { return now.Unix() / int64(time.Minute/time.Second) }

// of returns what is kept under a name.
func of[T any](all map[string]*T, name string) *T {
	one := all[name]
	if one == nil {
		one = new(T)
		all[name] = one
	}
	return one
}

// forgetLocked forgets upstreams that there are no more.
func (h *History) forgetLocked(s *snapshot.Snapshot) {
	for name := range h.levels {
		if s.Connector(name) == nil {
			delete(h.levels, name)
			delete(h.upstreams, name)
		}
	}
}

// countLocked counts new gets of a prompt, for the prompt and the first upstream that owns it.
func (h *History) countLocked(minute int64, s *snapshot.Snapshot, prompt string, n totals) {
	h.all.add(minute, n)
	if prompt == "" { // the caller saw no prompt of that name
		return
	}
	of(h.prompts, prompt).add(minute, n)
	if entry := s.Catalog.Lookup(prompt); entry != nil {
		of(h.upstreams, entry.Owners[0].Upstream).add(minute, n)
	}
}

// Upstream returns the last hour of an upstream, nil for one that is not known.
func (h *History) Upstream(name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.levels[name]
	if known == nil {
		return nil
	}
	var hour Hour
	known.clock.each(minuteOf(now), func(i, slot int) {
		if worst := known.worst[slot]; worst > 0 {
			hour[i].Known, hour[i].Level = true, Level(worst-1)
		}
	})
	h.upstreams[name].addTo(&hour, minuteOf(now))
	return &hour
}

// Prompt returns the last hour of a prompt. It is nil for one that was never got, or is not among
// the first thousand.
func (h *History) Prompt(name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.prompts[name] == nil {
		return nil
	}
	var hour Hour
	h.prompts[name].addTo(&hour, minuteOf(now))
	return &hour
}

// All returns the last hour of all prompts together.
func (h *History) All(now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	var hour Hour
	h.all.addTo(&hour, minuteOf(now))
	return &hour
}

// Gets returns how many gets there were, and Errors how many of them failed or were refused.
func (h *Hour) Gets() (gets int) {
	if h != nil {
		for i := range h {
			gets += h[i].Gets
		}
	}
	return gets
}

// Errors returns how many gets failed or were refused.
func (h *Hour) Errors() (errors int) {
	if h != nil {
		for i := range h {
			errors += h[i].Errors
		}
	}
	return errors
}

// MostGets returns the gets of the busiest minute.
func (h *Hour) MostGets() int {
	return slices.MaxFunc(h[:], func(a, b Minute) int { return a.Gets - b.Gets }).Gets
}
