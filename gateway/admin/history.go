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
	// historyInterval is how often the condition of the upstreams is recorded. What is shorter may be missed.
	historyInterval = 5 * time.Second
)

// History is what happened within the last hour, minute by minute: how the upstreams were, and how many gets there were. It is in
// memory, some KB for each upstream and each prompt that was got. Its methods are safe for concurrent use.
type History struct {
	mu        sync.Mutex // guards what follows
	upstreams map[string]*Hour
	prompts   map[string]*Hour
	all       Hour
	// counted are the totals at the last record.
	counted map[string]totals
}

// Hour is the last minutes, the present one last.
type Hour [historyLength]Minute

// Minute is what happened in one minute.
type Minute struct {
	// Known says that the upstream was looked at. Level is the worst that it was; without an upstream it means nothing.
	Known bool
	Level Level
	// Gets counts all gets, Errors those that failed or were refused.
	Gets, Errors int

	minute int64 // since 1970
}

// totals are counts since the start.
type totals struct{ gets, errors int }

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{upstreams: map[string]*Hour{}, prompts: map[string]*Hour{}, counted: map[string]totals{}}
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
	minute := now.Unix() / int64(time.Minute/time.Second)
	for i, state := range s.States {
		if !state.Tried { // it is starting, which is no trouble
			continue
		}
		at := hourOf(h.upstreams, s.Upstreams[i].Name).at(minute)
		if level := conditionOf(state).level(); !at.Known || level < at.Level {
			at.Known, at.Level = true, level
		}
	}
	if len(h.upstreams) > len(s.Upstreams) {
		h.forgetLocked(s)
	}
	sums := map[string]totals{}
	gets(func(prompt, outcome string, n int64) {
		sum := sums[prompt]
		sum.gets += int(n)
		switch audit.Outcome(outcome) {
		case audit.UpstreamError, audit.Failed, audit.Refused:
			sum.errors += int(n)
		}
		sums[prompt] = sum
	})
	for prompt, sum := range sums {
		h.countLocked(minute, s, prompt, totals{sum.gets - h.counted[prompt].gets, sum.errors - h.counted[prompt].errors})
		h.counted[prompt] = sum
	}
}

// forgetLocked forgets upstreams that there are no more.
func (h *History) forgetLocked(s *snapshot.Snapshot) {
	for name := range h.upstreams {
		if s.Connector(name) == nil {
			delete(h.upstreams, name)
		}
	}
}

// countLocked counts new gets of a prompt, for the prompt and the first upstream that owns it.
func (h *History) countLocked(minute int64, s *snapshot.Snapshot, prompt string, n totals) {
	if n.gets == 0 {
		return
	}
	hours := []*Hour{&h.all}
	if prompt != "" { // else the caller saw no prompt of that name
		hours = append(hours, hourOf(h.prompts, prompt))
	}
	if entry := s.Catalog.Lookup(prompt); entry != nil {
		hours = append(hours, hourOf(h.upstreams, entry.Owners[0].Upstream))
	}
	for _, hour := range hours {
		at := hour.at(minute)
		at.Gets, at.Errors = at.Gets+n.gets, at.Errors+n.errors
	}
}

func hourOf(hours map[string]*Hour, name string) *Hour {
	hour := hours[name]
	if hour == nil {
		hour = &Hour{}
		hours[name] = hour
	}
	return hour
}

// at returns the place of a minute in an hour that is used as a ring, empty if it was that of an earlier hour.
func (h *Hour) at(minute int64) *Minute {
	m := &h[minute%historyLength]
	if m.minute != minute {
		*m = Minute{minute: minute}
	}
	return m
}

// until returns the hour that ends with a minute, in order; nil for nil.
func (h *Hour) until(minute int64) *Hour {
	if h == nil {
		return nil
	}
	var ordered Hour
	for i := range ordered {
		ordered[i].minute = minute - historyLength + 1 + int64(i)
		if m := h[(ordered[i].minute%historyLength+historyLength)%historyLength]; m.minute == ordered[i].minute {
			ordered[i] = m
		}
	}
	return &ordered
}

// Upstream returns the last hour of an upstream, Prompt that of a prompt, nil where nothing is known. All is about all prompts.
func (h *History) Upstream(name string, now time.Time) *Hour { return h.hour(h.upstreams, name, now) }

// Prompt returns the last hour of a prompt. It is nil for one that was never got, or is not among the first thousand.
func (h *History) Prompt(name string, now time.Time) *Hour { return h.hour(h.prompts, name, now) }

func (h *History) hour(hours map[string]*Hour, name string, now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return hours[name].until(now.Unix() / int64(time.Minute/time.Second))
}

// All returns the last hour of all prompts together.
func (h *History) All(now time.Time) *Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.until(now.Unix() / int64(time.Minute/time.Second))
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
