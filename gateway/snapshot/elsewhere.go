package snapshot

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/gateway/catalog"
)

// With replicas, a client that one of them tells of a change may list at any other one, which has to have the change by then. Each hears of
// it from the server at about the same time, so clients are told a little later than that. Where another replica is slower still, it says
// when it has the list, and the clients that were told too early are told again:
//
//	server ── changed ──▶ replica A ── serves the list ──▶ B          settleTime later, A tells its clients
//	                 └──▶ replica B ── serves the list ──▶ A, later than that: A tells them again

const (
	// settleTime is how long clients are not told of a change yet.
	settleTime = 100 * time.Millisecond
	// sameChange is how soon after one another the changes of a list count as one: a replica may skip some of them.
	sameChange = 10 * time.Second
	// maxHeard bounds what was heard of other replicas and not looked at yet. Further changes are not heard.
	maxHeard = 10_000
)

// ListChange says which list of an upstream a replica serves.
type ListChange struct {
	// Upstream is the upstream's label; empty for all that follows from a new configuration.
	Upstream string
	// Content is equal for equal prompts, on every replica.
	Content catalog.Fingerprint
}

// elsewhere is what the publisher knows of other replicas.
type elsewhere struct {
	tell func([]ListChange) // nil where there are none
	// announced is the snapshot that subscriptions are at; nil without replicas, and until the gateway has started, when changes are only
	// the catalog filling.
	announced atomic.Pointer[Snapshot]

	mu    sync.Mutex // guards heard
	heard []ListChange

	// The rest belongs to announceChanges.

	lists map[string]servedList // by label
	// here and there are what changed here and elsewhere since announceChanges last looked.
	here, there []ListChange
}

// servedList is a list that changed while the gateway ran.
type servedList struct {
	// content is what is served, and number that of the snapshot in which it, or a change shortly before it, was announced; 0 for none.
	content catalog.Fingerprint
	number  uint64
	changed time.Time
	// other is what another replica said last that it serves, at a time.
	other   catalog.Fingerprint
	otherAt time.Time
}

// HearReplica takes what another replica says that it serves. It does not block.
func (p *Publisher) HearReplica(changes []ListChange) {
	e := &p.elsewhere
	e.mu.Lock()
	e.heard = append(e.heard, changes[:min(len(changes), maxHeard-len(e.heard))]...)
	e.mu.Unlock()
	p.swapped.signal()
}

func (e *elsewhere) takeHeard() []ListChange {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

// known returns the snapshot that a client knows who lists now: the current one or, with replicas, the one that all of them have.
func (p *Publisher) known() *Snapshot {
	if s := p.elsewhere.announced.Load(); s != nil {
		return s
	}
	return p.Current()
}

// start begins to announce changes later than they are published, once the gateway has started. To be called by Run's goroutine before it
// publishes a change of this snapshot.
func (e *elsewhere) start(s *Snapshot) {
	if e.tell != nil && e.announced.Load() == nil && s.AllTried() {
		e.announced.Store(s)
	}
}

// announce makes a snapshot the one that subscriptions are at.
func (e *elsewhere) announce(s *Snapshot) {
	if e.announced.Load() != nil {
		e.announced.Store(s)
	}
}

// listChanges returns the lists that a snapshot changes, of a generation and of those of its upstreams that are stale. It is for replicas
// only. To be called by Run's goroutine.
func (p *Publisher) listChanges(before, g *Generation, stale []int) (changes []ListChange) {
	if p.elsewhere.tell == nil {
		return nil
	}
	if g != before {
		changes = append(changes, ListChange{})
	}
	for _, i := range stale {
		change := ListChange{Upstream: g.Upstreams[i].Name}
		if list := p.builder.published[i].merged; list != nil {
			change.Content = catalog.Content(list.prompts)
		}
		changes = append(changes, change)
	}
	return changes
}

// awaitReplicas tells the other replicas, if there are any, what was swapped in here, and waits until they can be expected to have it too.
// It returns early if too much waits to be announced, or ctx ends.
func (p *Publisher) awaitReplicas(done <-chan struct{}) {
	if p.elsewhere.announced.Load() == nil {
		return
	}
	settled := time.NewTimer(settleTime)
	defer settled.Stop()
	for p.tellReplicas(); !p.swapped.isHalfFull(); p.tellReplicas() {
		select {
		case <-p.swapped.wake:
		case <-settled.C:
			return
		case <-done:
			return
		}
	}
}

// tellReplicas notes what other replicas serve, and tells them what is served here that none of them has just said that it serves.
func (p *Publisher) tellReplicas() {
	e, now := &p.elsewhere, time.Now()
	for _, change := range e.takeHeard() {
		e.there = append(e.there, change)
		if list, ok := e.lists[change.Upstream]; ok { // only lists that are served here count, so that they are bounded
			list.other, list.otherAt = change.Content, now
			e.lists[change.Upstream] = list
		}
	}
	var news []ListChange
	for _, change := range p.swapped.takeLists() {
		e.here = append(e.here, change)
		list := e.lists[change.Upstream]
		if list.other != change.Content || now.Sub(list.otherAt) >= settleTime/2 {
			news = append(news, change)
		}
	}
	if len(news) > 0 {
		e.tell(news)
	}
}

// announceAgain wakes the subscriptions whose clients were told of a change that another replica has only now. The snapshots are those
// that were just announced.
func (p *Publisher) announceAgain(announced []*Snapshot) {
	e := &p.elsewhere
	if e.tell == nil {
		return
	}
	p.tellReplicas() // the lists of all that was announced are in here now
	number, now, changed := p.Current().number, time.Now(), map[string]bool{}
	if len(announced) > 0 {
		number = announced[0].number
	}
	for _, change := range e.here {
		list := e.lists[change.Upstream]
		if now.Sub(list.changed) > sameChange {
			list.number = number
		}
		list.content, list.changed = change.Content, now
		e.lists[change.Upstream], changed[change.Upstream] = list, true
	}
	since := uint64(math.MaxUint64)
	for _, change := range e.there {
		// A list that changes here now is about the same change, and one that differs will be.
		if list, ok := e.lists[change.Upstream]; ok && list.content == change.Content && !changed[change.Upstream] {
			since = min(since, list.number)
		}
	}
	e.here, e.there = nil, nil
	if since < math.MaxUint64 {
		p.subscriptions.wakeChanged(since)
	}
}

// wakeChanged wakes the subscriptions whose view changed, or that were opened, in a snapshot with this number or a later one.
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
