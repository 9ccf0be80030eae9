package cluster

import (
	"crypto/rand"
	"maps"
	"time"
)

const (
	// settleTimeout is how long listeners are not notified of a change that not all replicas serve.
	settleTimeout = time.Second
	// reportAfter is how long a list may be unsettled before that is reported.
	reportAfter = 30 * time.Second
	// behindFor is how long a record says that its replica has been behind.
	behindFor = 30 * time.Second
)

// Drain is what an operator did last to an upstream.
type Drain struct {
	At      time.Time `json:"at"`
	Drained bool      `json:"drained"`
}

// record is what a replica serves, as the others know it.
type record struct {
	// Lists are digests by the upstream's label; that of the configuration has none.
	Lists map[string]string `json:"lists"`
	// Behind has an id for each list that may have been served when the others served a later one.
	Behind map[string]string `json:"behind,omitzero"`
	Drains map[string]Drain  `json:"drains,omitzero"`
	// IsAlone is that of [Options].
	IsAlone bool `json:"alone,omitzero"`
}

// Verdict says which listeners to notify of changes.
type Verdict struct {
	// Announce is the number of the last snapshot whose listeners are notified now; 0 for none.
	Announce uint64
	// Again says that the listeners whose view changed in the snapshot numbered Since, or a later
	// one, are notified again.
	Again bool
	Since uint64
	// Unsettled is the number of the first snapshot that not all replicas may serve although its
	// listeners were notified; 0 for none.
	Unsettled uint64
}

// Unsettled is a list of which listeners were notified, and which not all live replicas serve.
type Unsettled struct {
	// Upstream is a label; empty for the configuration.
	Upstream string
	Since    time.Time
}

// settlement decides when a change is settled, see doc.go. It knows no clock and no network.
type settlement struct {
	lists map[string]string
	// changed has the number of the snapshot in which each list changed last.
	changed map[string]uint64
	// pending has, by list, the number of the first snapshot that waits to be announced; since is
	// when the first of all was made, and number that of the last.
	pending map[string]uint64
	since   time.Time
	number  uint64
	// unsettled are those that listeners were notified of, or that another replica serves
	// differently.
	unsettled map[string]*difference
	// seen has the ids of lists that were behind, by replica and list.
	seen map[[2]string]string
	// behind are those of this replica.
	behind      map[string]string
	behindSince time.Time
}

// difference is an unsettled list.
type difference struct {
	// since is when it began, and number that of the snapshot from which listeners are to be
	// notified again.
	since  time.Time
	number uint64
	// notified says that listeners were notified: a change here does not do that again.
	notified, reported bool
}

func newSettlement() *settlement {
	return &settlement{
		lists: map[string]string{}, changed: map[string]uint64{}, pending: map[string]uint64{},
		unsettled: map[string]*difference{}, seen: map[[2]string]string{}, behind: map[string]string{},
	}
}

// change notes lists that a snapshot serves. If they are announced later, they wait to be settled.
func (s *settlement) change(now time.Time, number uint64, lists map[string]string, later bool) {
	maps.Copy(s.lists, lists)
	// Of upstreams that are gone, so that a replica that never had them serves the same.
	maps.DeleteFunc(s.lists, func(_, digest string) bool { return digest == "" })
	if !later {
		return
	}
	if len(s.pending) == 0 {
		s.since = now
	}
	s.number = max(s.number, number)
	for label := range lists {
		// The first snapshot counts: listeners who were notified of it may have read an older list
		// elsewhere.
		if _, ok := s.pending[label]; !ok {
			s.pending[label] = number
		}
		s.changed[label] = number
		// Another replica was faster: no listener was notified of what this change does not
		// include.
		if d := s.unsettled[label]; d != nil && !d.notified {
			delete(s.unsettled, label)
		}
	}
}

// compare decides by the records of the live replicas that serve something else. If not known, the
// store cannot be used.
func (s *settlement) compare(
	now time.Time, others map[string]record, known bool,
) (v Verdict, late []Unsettled) {
	if known {
		s.observe(now, others)
	}
	settled := func(label string) bool { return known && !s.differs(label, others) }
	if len(s.pending) > 0 {
		differing := map[string]uint64{}
		for label, number := range s.pending {
			if !settled(label) {
				differing[label] = number
			}
		}
		if len(differing) == 0 || now.Sub(s.since) >= settleTimeout {
			// Announced as a whole: snapshots are announced in order, whichever list waits.
			v.Announce = s.number
			for label, number := range differing {
				s.mark(now, label, number, true)
			}
			clear(s.pending)
		}
	}
	for label, d := range s.unsettled {
		_, isPending := s.pending[label]
		switch {
		// Its own announcement comes first, and says whether it is settled.
		case isPending:
		case settled(label):
			// All in one verdict: a client that has two lists to read again is notified once.
			if !v.Again || d.number < v.Since {
				v.Since = d.number
			}
			v.Again = true
			delete(s.unsettled, label)
		case known && !d.reported && now.Sub(d.since) >= reportAfter:
			d.reported = true
			late = append(late, Unsettled{label, d.since})
		}
	}
	if v.Announce == 0 && !v.Again {
		return v, late
	}
	for _, d := range s.unsettled {
		// One that has no snapshot here concerns all of them.
		if number := max(d.number, 1); d.notified && (v.Unsettled == 0 || number < v.Unsettled) {
			v.Unsettled = number
		}
	}
	return v, late
}

// observe notes which lists others serve differently, or have served when they were behind.
func (s *settlement) observe(now time.Time, others map[string]record) {
	for replica, other := range others {
		for label, id := range other.Behind {
			// A record has its marks for half a minute, and each counts once.
			if key := [2]string{replica, label}; s.seen[key] != id {
				s.seen[key] = id
				s.mark(now, label, s.changed[label], true)
			}
		}
		for _, label := range differing(s.lists, other.Lists) {
			// While a change here is pending, the other may only be slower: compare marks it once
			// it has waited for too long.
			if _, isPending := s.pending[label]; !isPending {
				s.mark(now, label, s.changed[label], false)
			}
		}
	}
	maps.DeleteFunc(s.seen, func(key [2]string, _ string) bool {
		_, isThere := others[key[0]]
		return !isThere
	})
}

// mark notes that a list is unsettled.
func (s *settlement) mark(now time.Time, label string, number uint64, notified bool) {
	d := s.unsettled[label]
	if d == nil {
		d = &difference{since: now, number: number}
		s.unsettled[label] = d
	}
	// The earliest snapshot: whoever was notified of that one or a later one is notified again.
	d.number, d.notified = min(d.number, number), d.notified || notified
}

func (s *settlement) differs(label string, others map[string]record) bool {
	for _, other := range others {
		if other.Lists[label] != s.lists[label] {
			return true
		}
	}
	return false
}

// rejoin notes that this replica has joined the live set, or come back to it: what it serves
// differently, or has changed while it was away, it may have served when the others had a later
// list.
func (s *settlement) rejoin(now time.Time, others map[string]record, meanwhile map[string]bool) {
	for _, other := range others {
		for _, label := range differing(s.lists, other.Lists) {
			s.behind[label] = rand.Text() // so that another time is another mark
		}
	}
	for label := range meanwhile {
		s.behind[label] = rand.Text()
	}
	s.behindSince = now
}

// record returns what this replica serves.
func (s *settlement) record(now time.Time, drains map[string]Drain) record {
	if now.Sub(s.behindSince) >= behindFor {
		clear(s.behind)
	}
	return record{Lists: s.lists, Behind: s.behind, Drains: drains}
}

// oldest returns how many lists are unsettled, and since when the first of them is.
func (s *settlement) oldest() (n int, since time.Time) {
	for _, d := range s.unsettled {
		if n++; since.IsZero() || d.since.Before(since) {
			since = d.since
		}
	}
	return n, since
}

// differing returns the labels of the lists that two replicas serve differently.
func differing(a, b map[string]string) (labels []string) {
	for label, digest := range a {
		if b[label] != digest {
			labels = append(labels, label)
		}
	}
	for label := range b {
		if _, isThere := a[label]; !isThere {
			labels = append(labels, label)
		}
	}
	return labels
}
