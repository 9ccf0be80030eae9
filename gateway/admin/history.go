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
	// historyInterval is the time between two records. A problem that ends sooner may be missed.
	historyInterval = 5 * time.Second
)

// History contains the levels of all upstreams and the numbers of gets in the last hour, minute by
// minute. It takes 700 bytes of memory per upstream. Its methods are safe for concurrent use.
type History struct {
	mu        sync.Mutex // guards the fields below
	upstreams map[string]*series
	all       series            // of all gets
	counted   map[string]totals // the totals of each prompt at the last record
}

// Hour contains the last 60 minutes. The current minute is the last one.
type Hour [historyLength]Minute

// Minute is one minute of an upstream or of all gets.
type Minute struct {
	// Known is true if the upstream's level was recorded in this minute.
	Known bool
	// Level is the worst level in this minute, if Known is true.
	Level Level
	// Gets is the number of all gets.
	Gets uint32
	// Errors is the number of gets that failed or were refused.
	Errors uint32
}

// series is a ring of minutes: minute m since 1970 is minutes[m%60].
type series struct {
	last    int64 // the newest minute
	minutes Hour
}

// at returns the record of a minute and makes it the newest. If the clock was set back and the minute is
// before the newest, at returns the newest.
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

// hour returns the hour that ends with the given minute, or nil for a nil series.
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

// totals are numbers of gets and errors since the start, modulo 2³².
type totals struct{ gets, errors uint32 }

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{upstreams: map[string]*series{}, counted: map[string]totals{}}
}

// GetCounts calls observe for each prompt and outcome with the number of gets since the start.
type GetCounts func(observe func(prompt, outcome string, n int64))

// Run calls Record every five seconds until ctx ends.
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
		if !state.Tried { // an upstream that is still starting has no level
			continue
		}
		at := h.ofLocked(s.Upstreams[i].Name).at(minute)
		if level, _ := conditionOf(state); !at.Known || level < at.Level {
			at.Known, at.Level = true, level
		}
	}
	// Forget removed upstreams. Search for them only if there are more series than upstreams.
	if len(h.upstreams) > len(s.Upstreams) {
		maps.DeleteFunc(h.upstreams, func(name string, _ *series) bool { return s.Connector(name) == nil })
	}
	sums := map[string]totals{}
	gets(func(prompt, outcome string, n int64) {
		sum := sums[prompt]
		sum.gets += uint32(n) //nolint:gosec // differences are right even after an overflow
		switch audit.Outcome(outcome) {
		case audit.UpstreamError, audit.Failed, audit.Refused:
			sum.errors += uint32(n) //nolint:gosec // differences are right even after an overflow
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

// ofLocked returns the series of an upstream, and makes the series if necessary. The caller holds the mutex.
func (h *History) ofLocked(upstream string) *series {
	if h.upstreams[upstream] == nil {
		h.upstreams[upstream] = new(series)
	}
	return h.upstreams[upstream]
}

// Upstream returns the last hour of an upstream, or nil if nothing was recorded for it.
func (h *History) Upstream(name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.upstreams[name].hour(minuteOf(now))
}

// All returns the gets of all prompts in the last hour. It has no levels.
func (h *History) All(now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.hour(minuteOf(now))
}

// Sum returns the number of gets, and the number of gets that failed or were refused. Both are 0 for a
// nil hour.
func (h *Hour) Sum() (gets, errors int) {
	if h != nil {
		for _, m := range h {
			gets, errors = gets+int(m.Gets), errors+int(m.Errors)
		}
	}
	return gets, errors
}
