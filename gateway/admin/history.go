package admin

import (
	"context"
	"maps"
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
// many gets there were. It is in memory: 700 bytes for each upstream, and for each prompt that was
// used. Its methods are safe for concurrent use.
type History struct {
	mu                 sync.Mutex // guards what follows
	upstreams, prompts map[string]*series
	all                series
	counted            map[string]totals // at the last record, by prompt
}

// Hour is the last minutes, the present one last.
type Hour [historyLength]Minute

// Minute is what happened in one minute.
type Minute struct {
	// Known says that the upstream was recorded. Level is the worst that it was; without an
	// upstream it means nothing.
	Known bool
	Level Level
	// Gets counts all gets, Errors those that failed or were refused.
	Gets, Errors uint32
}

// series is a ring of minutes, the last of which is numbered since 1970.
type series struct {
	last    int64
	minutes Hour
}

// at returns what is recorded of a minute; of an earlier one than the last, that of the last.
func (s *series) at(minute int64) *Minute {
	for m := max(s.last+1, minute-historyLength+1); m <= minute; m++ {
		s.minutes[m%historyLength] = Minute{}
	}
	s.last = max(s.last, minute)
	return &s.minutes[s.last%historyLength]
}

func (s *series) count(minute int64, n totals) {
	at := s.at(minute)
	at.Gets += n.gets
	at.Errors += n.errors
}

// hour returns the hour that ends with a minute, nil of a nil series.
func (s *series) hour(minute int64) *Hour {
	if s == nil {
		return nil
	}
	var hour Hour
	for i := range hour {
		if m := minute - historyLength + 1 + int64(i); m <= s.last && m > s.last-historyLength {
			hour[i] = s.minutes[m%historyLength]
		}
	}
	return &hour
}

// totals are counts since the start.
type totals struct{ gets, errors uint32 }

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		upstreams: map[string]*series{}, prompts: map[string]*series{}, counted: map[string]totals{},
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
		if !state.Tried { // it is starting, which is no trouble
			continue
		}
		at := of(h.upstreams, s.Upstreams[i].Name).at(minute)
		if level := conditionOf(state).level; !at.Known || level < at.Level {
			at.Known, at.Level = true, level
		}
	}
	// Only those of a snapshot are ever added, so that more than it has means that some are gone.
	if len(h.upstreams) > len(s.Upstreams) {
		maps.DeleteFunc(h.upstreams, func(name string, _ *series) bool { return s.Connector(name) == nil })
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

// of returns the series under a name.
func of(all map[string]*series, name string) *series {
	if all[name] == nil {
		all[name] = new(series)
	}
	return all[name]
}

// countLocked counts new gets of a prompt, for the prompt and the first upstream that owns it.
func (h *History) countLocked(minute int64, s *snapshot.Snapshot, prompt string, n totals) {
	h.all.count(minute, n)
	if prompt == "" { // the caller saw no prompt of that name
		return
	}
	of(h.prompts, prompt).count(minute, n)
	if entry := s.Catalog.Lookup(prompt); entry != nil {
		of(h.upstreams, entry.Owners[0].Upstream).count(minute, n)
	}
}

// Upstream returns the last hour of an upstream, nil for one that is not known.
func (h *History) Upstream(name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.upstreams[name].hour(minuteOf(now))
}

// Prompt returns the last hour of a prompt. It is nil for one that was never got, or is not among
// the first thousand.
func (h *History) Prompt(name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.prompts[name].hour(minuteOf(now))
}

// All returns the last hour of all prompts together.
func (h *History) All(now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.hour(minuteOf(now))
}

// Sum returns how many gets there were, and how many of them failed or were refused.
func (h *Hour) Sum() (gets, errors int) {
	if h != nil {
		for _, m := range h {
			gets, errors = gets+int(m.Gets), errors+int(m.Errors)
		}
	}
	return gets, errors
}
