package snapshot

import (
	"encoding/hex"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/gateway/catalog"
)

// With replicas, a client that one of them tells of a change may list at any other one, which has
// to have the change by then. So a snapshot that is swapped in here is announced when
// [Publisher.Announce] says so: once all replicas serve its lists, or after a while. In the latter
// case its listeners are told again when they all do. Without replicas, each snapshot is announced
// at once.

// maxWaiting bounds the snapshots that wait to be announced.
const maxWaiting = 64

// announcements are the snapshots that were swapped in and not announced yet, in order. What
// subscribers see of one takes evaluating conditions, which must not hold up the next.
type announcements struct {
	wake chan struct{} // has room for one
	// served is [Options.Served]; nil where there are no replicas.
	served func(number uint64, lists map[string]string, later bool)
	// announced is the snapshot that subscriptions are at; nil without replicas, and until the
	// gateway has started, when changes are only the catalog filling.
	announced atomic.Pointer[Snapshot]

	mu      sync.Mutex // guards what follows
	waiting []*Snapshot
	overrun bool // some were left out
	// upTo is the number of the last snapshot that is to be announced, again that of the snapshot
	// from which listeners are to be notified again; MaxUint64 for none.
	upTo, again uint64
	// early is the number of the first snapshot that was announced before upTo said so, and
	// unsettled that of the first one that not all replicas may serve all the same; 0 for none.
	early, unsettled uint64
}

// add adds a snapshot. If too many wait, it replaces all.
func (a *announcements) add(next *Snapshot) {
	a.mu.Lock()
	// Each of them keeps a catalog in memory.
	if len(a.waiting) == maxWaiting {
		a.waiting, a.overrun = a.waiting[:0], true
	}
	a.waiting = append(a.waiting, next)
	a.mu.Unlock()
	signal(a.wake)
}

// signal marks a channel that holds one mark at most. It never blocks.
func signal(marked chan<- struct{}) {
	select {
	case marked <- struct{}{}:
	default: // whoever receives the mark that is there sees this change, too
	}
}

// Announce has listeners notified of all snapshots up to a number and, if again, those notified
// again whose view changed in the snapshot numbered since or a later one. Those of the one numbered
// unsettled and of later ones will be notified again; 0 for none. It does not block.
func (p *Publisher) Announce(upTo uint64, again bool, since, unsettled uint64) {
	a := &p.announcements
	a.mu.Lock()
	a.unsettled = unsettled
	// What was announced too early is settled now: its listeners may have listed elsewhere.
	if a.upTo = max(a.upTo, upTo); a.early > 0 && a.upTo >= a.early {
		a.again, a.early = min(a.again, a.early), 0
	}
	if again {
		a.again = min(a.again, since)
	}
	a.mu.Unlock()
	signal(a.wake)
}

// isSettled reports whether all replicas serve what changed in the snapshot with a number.
func (a *announcements) isSettled(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	isBefore := func(first uint64) bool { return first == 0 || number < first }
	return isBefore(a.early) && isBefore(a.unsettled)
}

// next returns the snapshots to announce now, whether some were left out before them, and from
// which number on listeners are notified again.
func (a *announcements) next() (due []*Snapshot, overrun bool, again uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, again := len(a.waiting), uint64(math.MaxUint64)
	if a.announced.Load() != nil {
		again, a.again = a.again, again
		isLater := func(s *Snapshot) bool { return s.number > a.upTo }
		later := slices.IndexFunc(a.waiting, isLater)
		switch {
		case later < 0:
		// From half of the bound on, those that wait are announced early, before add replaces them.
		case n < maxWaiting/2:
			n = later
		case a.early == 0: // too many wait
			a.early = a.waiting[later].number
		}
	}
	// Cloned, or the array would keep snapshots in memory that have been announced.
	due, a.waiting = a.waiting[:n], slices.Clone(a.waiting[n:])
	if overrun = a.overrun && n > 0; overrun {
		a.overrun = false
	}
	return due, overrun, again
}

// known returns the snapshot that a client knows who lists now: the current one or, with replicas,
// the one that was announced last.
func (p *Publisher) known() *Snapshot {
	if s := p.announcements.announced.Load(); s != nil {
		return s
	}
	return p.Current()
}

// start begins to announce changes later than they are published, once the gateway has started. To
// be called by Run's goroutine before it publishes a change of this snapshot.
func (a *announcements) start(before *Snapshot) {
	if a.served != nil && a.announced.Load() == nil && before.AllTried() {
		a.announced.Store(before)
	}
}

// announce makes a snapshot the one that subscriptions are at.
func (a *announcements) announce(next *Snapshot) {
	if a.announced.Load() != nil {
		a.announced.Store(next)
	}
}

// tellServed says which lists a snapshot changes, of a generation and of those of its upstreams
// that are stale. To be called by Run's goroutine.
func (p *Publisher) tellServed(next *Snapshot, before *Generation, stale []int) {
	if p.announcements.served == nil {
		return
	}
	g, lists := next.Generation, map[string]string{}
	if g != before {
		lists[""] = g.Config.Hash
		if before != nil {
			for i := range before.Upstreams {
				if _, stays := g.index[before.Upstreams[i].Name]; !stays {
					// Or this replica would seem to serve it still.
					lists[before.Upstreams[i].Name] = ""
				}
			}
		}
	}
	for _, i := range stale {
		label := g.Upstreams[i].Name
		lists[label] = "" // as for an upstream that has shown nothing yet
		if list := p.builder.published[i].merged; list != nil {
			content := catalog.Content(list.prompts)
			lists[label] = hex.EncodeToString(content[:])
		}
	}
	p.announcements.served(next.number, lists, p.announcements.announced.Load() != nil)
}

// wakeChanged wakes the subscriptions whose view changed, or that were opened, in a snapshot with
// this number or a later one.
func (s *subscriptions) wakeChanged(since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, audience := range s.all {
		for sub := range audience {
			if sub.changedIn >= since {
				signal(sub.wake)
			}
		}
	}
}
