package snapshot

import (
	"encoding/hex"
	"math"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/gateway/catalog"
)

// With replicas, a client that one of them tells of a change may list at any other one, which has
// to have the change by then. So a snapshot that is swapped in here is announced when
// [Publisher.Announce] says so: once all replicas serve its lists, or after a while. In the latter
// case its listeners are told again when they all do. Without replicas, each snapshot is announced
// at once.

// settled is what the publisher knows of the other replicas.
type settled struct {
	// served is [Options.Served]; nil where there are no replicas.
	served func(number uint64, lists map[string]string, later bool)
	// announced is the snapshot that subscriptions are at; nil without replicas, and until the
	// gateway has started, when changes are only the catalog filling.
	announced atomic.Pointer[Snapshot]

	mu sync.Mutex // guards what follows
	// upTo is the number of the last snapshot that is to be announced, again that of the snapshot
	// from which listeners are to be told again; MaxUint64 for none.
	upTo, again uint64
	// early is the number of the first snapshot that was announced before upTo said so; 0 for none.
	early uint64
}

// Announce has listeners told of all snapshots up to a number and, if again, those told again whose
// view changed in the snapshot numbered since or a later one. It does not block.
func (p *Publisher) Announce(upTo uint64, again bool, since uint64) {
	s := &p.settled
	s.mu.Lock()
	if s.upTo = max(s.upTo, upTo); s.early > 0 && s.upTo >= s.early {
		s.again, s.early = min(s.again, s.early), 0
	}
	if again {
		s.again = min(s.again, since)
	}
	s.mu.Unlock()
	p.swapped.signal()
}

// take returns up to which snapshot is to be announced, and from which on listeners are told again.
func (s *settled) take() (upTo, again uint64) {
	if s.announced.Load() == nil {
		return math.MaxUint64, math.MaxUint64
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	again, s.again = s.again, math.MaxUint64
	return s.upTo, again
}

// force notes that snapshots from a number on are announced too early, because too many wait.
func (s *settled) force(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early == 0 {
		s.early = number
	}
}

// known returns the snapshot that a client knows who lists now: the current one or, with replicas,
// the one that was announced last.
func (p *Publisher) known() *Snapshot {
	if s := p.settled.announced.Load(); s != nil {
		return s
	}
	return p.Current()
}

// start begins to announce changes later than they are published, once the gateway has started. To
// be called by Run's goroutine before it publishes a change of this snapshot.
func (s *settled) start(before *Snapshot) {
	if s.served != nil && s.announced.Load() == nil && before.AllTried() {
		s.announced.Store(before)
	}
}

// announce makes a snapshot the one that subscriptions are at.
func (s *settled) announce(next *Snapshot) {
	if s.announced.Load() != nil {
		s.announced.Store(next)
	}
}

// tellServed says which lists a snapshot changes, of a generation and of those of its upstreams
// that are stale. To be called by Run's goroutine.
func (p *Publisher) tellServed(next *Snapshot, before *Generation, stale []int) {
	if p.settled.served == nil {
		return
	}
	g, lists := next.Generation, map[string]string{}
	if g != before {
		lists[""] = g.Config.Hash
		if before != nil {
			for i := range before.Upstreams {
				if _, stays := g.index[before.Upstreams[i].Name]; !stays {
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
	p.settled.served(next.number, lists, p.settled.announced.Load() != nil)
}

// wakeChanged wakes the subscriptions whose view changed, or that were opened, in a snapshot with
// this number or a later one.
func (s *subscriptions) wakeChanged(since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, audience := range s.all {
		for sub := range audience {
			if sub.changedIn >= since {
				sub.signal()
			}
		}
	}
}
