package snapshot

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
)

// Starting is the reason of an upstream that has neither answered nor failed yet.
const Starting upstream.Reason = "starting"

// Snapshot is all that a request needs to know: what follows from the configuration, the catalog,
// and how each upstream is. It is immutable, except that views are built when they are first asked
// for.
type Snapshot struct {
	*Generation

	// Catalog is the merge of all admitted lists. Its entries carry their visibility.
	Catalog *catalog.Catalog
	// States are those of [Generation.Upstreams], in the same order.
	States []*upstream.State

	// lists are what the admission made of the upstreams' lists; nil where nothing is admitted.
	lists []*admitted
	// rejected reports what of the upstreams' lists is not in the catalog, or not as the upstream
	// sent it.
	rejected []catalog.Report
	// untried are the indexes of upstreams that have neither answered nor failed yet; unhealthy
	// adds the degraded ones. A request looks at these only, however many upstreams there are.
	untried, unhealthy []int
	// polled are the indexes of upstreams whose servers say how long their lists are good, and
	// would not report a change; those of the shortest time first.
	polled  []int
	started time.Time

	// views are those of the most recent audiences. Snapshots with the same policy and catalog
	// share them.
	views views
	// number is higher than that of every earlier snapshot.
	number uint64
	// published is when it took the place of the one before.
	published time.Time
	// superseded is closed when the next snapshot has replaced this one.
	superseded chan struct{}
}

// newSnapshot returns a snapshot without a catalog, states and lists.
func newSnapshot(g *Generation, started time.Time) *Snapshot {
	return &Snapshot{
		Generation: g, States: make([]*upstream.State, len(g.Upstreams)), lists: make([]*admitted, len(g.Upstreams)),
		started: started, superseded: make(chan struct{}),
	}
}

// successor returns the snapshot that follows, as far as nothing has changed. It is to be
// completed.
func successor(s *Snapshot, g *Generation) *Snapshot {
	next := newSnapshot(g, s.started)
	next.Catalog, next.number = s.Catalog, s.number+1
	if g == s.Generation {
		copy(next.States, s.States)
		copy(next.lists, s.lists)
	}
	return next
}

// complete fills in what follows from the catalog, the states and the lists. Of the snapshot
// before, which is nil for the first one, only the upstreams that were touched may differ, or the
// whole generation. Touched is in order.
func (s *Snapshot) complete(before *Snapshot, touched []int) {
	if before == nil || before.Generation != s.Generation {
		s.untried, s.unhealthy = nil, nil
		s.polled, s.rejected = polled(s.States), rejections(s)
	} else {
		s.untried, s.unhealthy, s.polled, s.rejected = before.untried, before.unhealthy, before.polled, before.rejected
		if slices.ContainsFunc(touched, func(i int) bool { return s.States[i].TTL != before.States[i].TTL }) {
			s.polled = polled(s.States)
		}
		if !sameRejections(s, before, touched) {
			s.rejected = rejections(s)
		}
	}
	s.untried = update(s.untried, touched, func(i int) bool { return !s.States[i].Tried })
	s.unhealthy = update(s.unhealthy, touched, func(i int) bool {
		state := s.States[i]
		// One that is tried and not listed, without a problem, is being admitted.
		return !state.Tried || !state.Listed || state.Problem != nil
	})
	// Audiences are those of one policy.
	if before == nil || before.Policy != s.Policy {
		s.views = newViews(s.Catalog)
	} else {
		s.views = before.views.after(s.Catalog)
	}
}

// update returns a list of indexes with those of the touched that belong in it, and without those
// that do not. Both are in order.
func update(list, touched []int, belongs func(i int) bool) []int {
	var updated []int
	for _, i := range touched {
		at, isIn := slices.BinarySearch(list, i)
		updated = append(updated, list[:at]...)
		if list = list[at:]; isIn {
			list = list[1:]
		}
		if belongs(i) {
			updated = append(updated, i)
		}
	}
	return append(updated, list...)
}

// polled returns the indexes of the states that have a TTL, those of the shortest first.
func polled(states []*upstream.State) (polled []int) {
	for i, state := range states {
		if state.TTL > 0 {
			polled = append(polled, i)
		}
	}
	slices.SortFunc(polled, func(a, b int) int { return cmp.Compare(states[a].TTL, states[b].TTL) })
	return polled
}

// Superseded is closed once a later snapshot has replaced this one.
func (s *Snapshot) Superseded() <-chan struct{} { return s.superseded }

// Reports returns the findings that a person should fix.
func (s *Snapshot) Reports() []catalog.Report { return slices.Concat(s.Catalog.Reports(), s.rejected) }

// View returns what an audience sees of the catalog, however long the conditions of the policy
// take.
func (s *Snapshot) View(audience *policy.Audience) *catalog.View {
	return s.views.of(audience).entries()
}

// RequestView is [Snapshot.View] for a request. The error is [policy.ErrBudget] if the conditions
// take more than one request may spend; a later one gets further.
func (s *Snapshot) RequestView(audience *policy.Audience) (*catalog.View, error) {
	v := s.views.of(audience)
	if s.Policy.EvaluatesNothing() || v.ready.Load() {
		return v.entries(), nil
	}
	entries := s.Catalog.Entries()
	budget := policy.NewBudget(len(entries))
	for _, entry := range entries {
		if err := entry.Decide(audience, budget); err != nil {
			return nil, err
		}
	}
	return v.entries(), nil
}

// FirstPaged reports whether this is the first call for the audience since the policy changed.
// Whoever finds that its view has more than one page says so then.
func (s *Snapshot) FirstPaged(audience *policy.Audience) bool {
	paged := s.views.of(audience).paged
	return !paged.Load() && paged.CompareAndSwap(false, true)
}

// Lookup returns the entry that an audience sees under a name. It is nil both for a name that does
// not exist and for one that the audience may not see.
func (s *Snapshot) Lookup(audience *policy.Audience, name string) *catalog.Entry {
	// In the view, not in the catalog: evaluating an entry's conditions takes time, which would
	// tell a hidden name from an unknown one.
	return s.View(audience).Lookup(name)
}

// Number is higher than that of every earlier snapshot.
func (s *Snapshot) Number() uint64 { return s.number }

// AllTried reports whether every upstream has answered or failed once.
func (s *Snapshot) AllTried() bool { return len(s.untried) == 0 }

// Listed reports whether a list of the upstream at index i is known: from its connector, from an
// earlier one or, with a state_dir, from an earlier process.
func (s *Snapshot) Listed(i int) bool {
	_, known := s.definitions(i, s.States[i])
	return known && s.lists[i] != nil
}

// Definitions returns the list of the upstream at index i, as the upstream sent it; nil where none
// is known.
func (s *Snapshot) Definitions(i int) []jsontext.Value {
	definitions, _ := s.definitions(i, s.States[i])
	return definitions
}

// Lists returns the upstreams' lists as far as they are known now.
func (s *Snapshot) Lists() Lists {
	lists := Lists{}
	for i, u := range s.Upstreams {
		if state := s.States[i]; state.Listed {
			lists[u.Name] = List{Server: serverOf(u), Definitions: state.Definitions}
		} else if list, ok := s.saved[u.Name]; ok {
			lists[u.Name] = list
		}
	}
	return lists
}

// Unlisted returns the labels of the upstreams whose lists are unknown, sorted.
func (s *Snapshot) Unlisted() (labels []string) {
	for i, u := range s.Upstreams {
		if !s.Listed(i) {
			labels = append(labels, u.Name)
		}
	}
	slices.Sort(labels)
	return labels
}

// Degradation is why the list of one upstream is not fresh, or its gets fail.
type Degradation struct {
	Upstream string
	Reason   upstream.Reason
	Since    time.Time
	// Stale is true where an earlier list is served meanwhile, and Failing where the list is fresh,
	// but gets fail.
	Stale, Failing bool
}

// Degradations returns the upstreams in the audience's view whose lists are not fresh, or whose
// gets fail. An upstream is named only to members of its team and to those who see an entry of it.
func (s *Snapshot) Degradations(audience *policy.Audience) (all []Degradation) {
	for _, i := range s.unhealthy {
		u := &s.Upstreams[i]
		if !s.views.of(audience).knows(audience, u) {
			continue
		}
		d := Degradation{Upstream: u.Name, Reason: Starting, Since: s.started, Stale: s.Listed(i)}
		if problem := s.States[i].Problem; problem != nil {
			d.Reason, d.Since = problem.Reason, problem.Since
			d.Stale, d.Failing = d.Stale && !problem.Failing, problem.Failing
		}
		all = append(all, d)
	}
	return all
}

// TTL returns for how long the audience's view is good: the shortest time that a server behind it
// gives which would not report a change, and at most a given one.
func (s *Snapshot) TTL(audience *policy.Audience, most time.Duration) time.Duration {
	for _, i := range s.polled {
		ttl := s.States[i].TTL
		if ttl >= most {
			break
		}
		if s.views.of(audience).knows(audience, &s.Upstreams[i]) {
			return ttl
		}
	}
	return most
}

// CheckListed returns an [*upstream.Unavailable] where the audience's view is empty only because
// none of the upstreams behind it has ever been listed. The error names the first of them that the
// audience may know of.
func (s *Snapshot) CheckListed(audience *policy.Audience) error {
	var unlisted *upstream.Unavailable
	for i, state := range s.States {
		u := &s.Upstreams[i]
		switch {
		case !audience.SeesTeam(u.Team):
			continue
		case s.Listed(i):
			return nil
		case unlisted != nil && unlisted.Upstream != "":
			continue
		}
		unlisted = &upstream.Unavailable{Reason: Starting}
		// To others, the name of an upstream is nothing that they may know.
		if audience.Member(u.Team) {
			unlisted.Upstream = u.Name
			if state.Problem != nil {
				unlisted.Reason, unlisted.Err = state.Problem.Reason, state.Problem.Err
			}
		}
	}
	if unlisted == nil {
		return nil
	}
	return unlisted
}
