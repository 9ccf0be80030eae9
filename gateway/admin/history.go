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
	// historyLength is the number of minutes in a history.
	historyLength = 60
	// historyInterval is the time between two records of the upstreams. Shorter events may be
	// missed.
	historyInterval = 5 * time.Second
)

// History contains the last hour of all upstreams and gets, minute by minute. It is in memory: 700
// bytes for each upstream. Its methods are safe for concurrent use.
type History struct {
	mu        sync.Mutex // guards the fields below
	upstreams map[string]*series
	all       series
	counted   map[string]totals // at the last record, by prompt
}

// Hour contains the last minutes; the current minute comes last.
type Hour [historyLength]Minute

// Minute is one minute of an upstream or of all gets.
type Minute struct {
	// Known is true if the upstream was recorded. Level is its worst level.
	Known bool
	Level Level
	// Gets counts all gets, Errors the gets that failed or were refused.
	Gets, Errors uint32
}

// series is a ring of minutes. last is the number of the newest minute since 1970.
type series struct {
	last    int64
	minutes Hour
}

// at returns the record of a minute. For a minute before the newest, it returns the newest.
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

// hour returns the hour that ends with the given minute; nil for a nil series.
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
	return &History{upstreams: map[string]*series{}, counted: map[string]totals{}}
}

// GetCounts calls observe with the number of gets since the start, for each prompt and outcome.
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

// Record records the current state of the upstreams, and the gets since the last call.
func (h *History) Record(now time.Time, s *snapshot.Snapshot, gets GetCounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	minute := minuteOf(now)
	for i, state := range s.States {
		if !state.Tried { // starting is no problem
			continue
		}
		at := h.ofLocked(s.Upstreams[i].Name).at(minute)
		if level, _ := conditionOf(state); !at.Known || level < at.Level {
			at.Known, at.Level = true, level
		}
	}
	// Every recorded upstream was in a snapshot. If there are more than in this one, some are gone.
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
		n := totals{sum.gets - before.gets, sum.errors - before.errors}
		h.all.count(minute, n)
		if entry := s.Catalog.Lookup(prompt); entry != nil && n.gets > 0 {
			h.ofLocked(entry.Owners[0].Upstream).count(minute, n)
		}
	}
}

func minuteOf(now time.Time) int64 { return now.Unix() / int64(time.Minute/time.Second) }

// ofLocked returns the series of an upstream.
func (h *History) ofLocked(upstream string) *series {
	if h.upstreams[upstream] == nil {
		h.upstreams[upstream] = new(series)
	}
	return h.upstreams[upstream]
}

// Upstream returns the last hour of an upstream; nil for an unknown upstream.
func (h *History) Upstream(name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.upstreams[name].hour(minuteOf(now))
}

// All returns the last hour of all prompts together.
func (h *History) All(now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.hour(minuteOf(now))
}

// Sum returns the number of gets, and the number of gets that failed or were refused.
func (h *Hour) Sum() (gets, errors int) {
	if h != nil {
		for _, m := range h {
			gets, errors = gets+int(m.Gets), errors+int(m.Errors)
		}
	}
	return gets, errors
}
