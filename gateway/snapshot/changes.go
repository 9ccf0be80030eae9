package snapshot

import (
	"maps"
	"sync"
	"time"
)

// changes are the upstreams, by label, whose part of the current snapshot may not be up to date. [newChanges] makes them.
type changes struct {
	// wake holds at most one mark: there are some.
	wake chan struct{}

	mu     sync.Mutex // guards labels
	labels map[string]bool
}

func newChanges() *changes { return &changes{wake: make(chan struct{}, 1), labels: map[string]bool{}} }

// add adds an upstream. It never blocks.
func (c *changes) add(label string) {
	c.mu.Lock()
	c.labels[label] = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take returns the upstreams that were added since the last time.
func (c *changes) take() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.labels
	c.labels = map[string]bool{}
	return taken
}

// appointments are times at which upstreams, by index, have to be looked at although nothing about them changes. The zero value
// has none.
type appointments struct {
	at map[int]time.Time
	// next is no later than the earliest of them; zero if there are none.
	next time.Time
}

// make adds a time for an upstream, of which the earliest counts.
func (a *appointments) make(i int, at time.Time) {
	if before, ok := a.at[i]; ok && before.Before(at) {
		return
	}
	if a.at == nil {
		a.at = map[int]time.Time{}
	}
	a.at[i] = at
	if a.next.IsZero() || at.Before(a.next) {
		a.next = at
	}
}

// cancel removes the time of an upstream.
func (a *appointments) cancel(i int) { delete(a.at, i) }

// take removes the times that have come, and returns whose they are.
func (a *appointments) take(now time.Time) (due []int) {
	if a.next.IsZero() || now.Before(a.next) {
		return nil
	}
	a.next = time.Time{}
	for i, at := range maps.Clone(a.at) {
		switch {
		case !now.Before(at):
			due = append(due, i)
			delete(a.at, i)
		case a.next.IsZero() || at.Before(a.next):
			a.next = at
		}
	}
	return due
}
