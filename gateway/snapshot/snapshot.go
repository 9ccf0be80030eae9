package snapshot

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
)

// Starting is the reason of an upstream that has neither answered nor failed yet.
const Starting upstream.Reason = "starting"

// Snapshot holds everything that a request needs: a generation, the catalog, and the state of each
// upstream. It is immutable, except that views are built at their first use.
type Snapshot struct {
	*Generation
	Contents

	// untried are the indexes of upstreams that have neither answered nor failed yet. unhealthy are
	// the indexes of upstreams that are untried, are not listed, or have a problem. Requests look
	// at these indexes rather than at all upstreams.
	untried, unhealthy []int
	// polled are the indexes of upstreams with a TTL, whose servers would not report every change.
	// The shortest TTL comes first.
	polled  []int
	started time.Time
	// brokenFiles returns the broken prompt files of unhealthy upstreams.
	brokenFiles func() map[int][]BrokenFile

	// views holds the views of the most recent audiences. Snapshots with the same generation and
	// catalog share them.
	views views
	// number is higher than the number of every earlier snapshot.
	number uint64
	// published is the time at which the snapshot replaced the previous one.
	published time.Time
	// superseded is closed when the next snapshot has replaced this one.
	superseded chan struct{}
}

// Contents are the parts that change within a generation. The slices are parallel to
// [Generation.Upstreams].
type Contents struct {
	// Catalog is the merge of all admitted lists. Each entry carries its visibility.
	Catalog *catalog.Catalog
	States  []*upstream.State
	// Admitted is true for each upstream with an admitted list.
	Admitted []bool
	// Rejected contains a report for each definition that is missing from the catalog, or changed
	// in it.
	Rejected []catalog.Report
}

// New returns the first snapshot of a gateway. started is the time of the gateway's start.
func New(g *Generation, contents Contents, started time.Time) *Snapshot {
	s := &Snapshot{Generation: g, Contents: contents, started: started, views: newViews(contents.Catalog)}
	s.complete()
	return s
}

// Successor returns the snapshot after s.
func (s *Snapshot) Successor(g *Generation, contents Contents) *Snapshot {
	next := &Snapshot{Generation: g, Contents: contents, started: s.started, number: s.number + 1}
	if g == s.Generation {
		next.views = s.views.after(contents.Catalog)
	} else { // another policy has other audiences
		next.views = newViews(contents.Catalog)
	}
	next.complete()
	return next
}

// complete computes the fields that follow from States.
func (s *Snapshot) complete() {
	for i, state := range s.States {
		if !state.Tried {
			s.untried = append(s.untried, i)
		}
		// An upstream that is tried but not listed, without a problem, is being admitted.
		if !state.Tried || !state.Listed || state.Problem != nil {
			s.unhealthy = append(s.unhealthy, i)
		}
		if state.TTL > 0 {
			s.polled = append(s.polled, i)
		}
	}
	slices.SortFunc(s.polled, func(a, b int) int { return cmp.Compare(s.States[a].TTL, s.States[b].TTL) })
	s.brokenFiles = sync.OnceValue(s.findBroken)
	s.superseded = make(chan struct{})
}

// Superseded returns a channel that is closed when a later snapshot has replaced this one.
func (s *Snapshot) Superseded() <-chan struct{} { return s.superseded }

// Reports returns the findings that a person should fix.
func (s *Snapshot) Reports() []catalog.Report { return slices.Concat(s.Catalog.Reports(), s.Rejected) }

// View returns an audience's view of the catalog. It may block for long, because it evaluates
// conditions without a time limit.
func (s *Snapshot) View(audience *policy.Audience) *catalog.View {
	return s.views.of(audience).entries()
}

// requestTime bounds the evaluation of conditions in one request.
const requestTime = 5 * time.Second

// RequestView is [Snapshot.View] with a time limit, for requests. Its error is [policy.ErrBudget]
// if the conditions exceed the limit, and ctx's error if the client leaves. Decisions are cached,
// so a later request gets further.
func (s *Snapshot) RequestView(ctx context.Context, audience *policy.Audience) (*catalog.View, error) {
	v := s.views.of(audience)
	if s.Policy.EvaluatesNothing() || v.ready.Load() {
		return v.entries(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	for _, entry := range s.Catalog.Entries() {
		if err := entry.Decide(ctx, audience); err != nil {
			return nil, err
		}
	}
	return v.entries(), nil
}

// FirstPaged reports whether it is called for the audience for the first time since the start or a
// reload. If so, the caller logs that the view has several pages.
func (s *Snapshot) FirstPaged(audience *policy.Audience) bool {
	paged := s.views.of(audience).paged
	return !paged.Load() && paged.CompareAndSwap(false, true)
}

// Lookup returns the entry that an audience sees under a name, or nil if the name does not exist or
// the audience may not see the entry.
func (s *Snapshot) Lookup(audience *policy.Audience, name string) *catalog.Entry {
	// Look in the view, not in the catalog: evaluating an entry's conditions takes time, and a
	// client could measure it to tell a hidden name from an unknown one.
	return s.View(audience).Lookup(name)
}

// Number returns the number of the snapshot, which is higher than the number of every earlier snapshot.
func (s *Snapshot) Number() uint64 { return s.number }

// Published returns the time at which the snapshot replaced the previous one.
func (s *Snapshot) Published() time.Time { return s.published }

// AllTried reports whether every upstream has answered or failed once.
func (s *Snapshot) AllTried() bool { return len(s.untried) == 0 }

// Listed reports whether an admitted list of the upstream at index i exists: from its connector, an
// earlier connector or, with a state_dir, an earlier process.
func (s *Snapshot) Listed(i int) bool {
	_, known := s.LatestList(i, s.States[i])
	return known && s.Admitted[i]
}

// Definitions returns the list of the upstream at index i in the upstream's form, or nil if the list
// is unknown.
func (s *Snapshot) Definitions(i int) []jsontext.Value {
	definitions, _ := s.LatestList(i, s.States[i])
	return definitions
}

// Lists returns the latest list of each upstream. Upstreams whose lists are unknown are missing.
func (s *Snapshot) Lists() Lists {
	lists := Lists{}
	for i, u := range s.Upstreams {
		if state := s.States[i]; state.Listed {
			lists[u.Name] = List{Server: ServerOf(u), Definitions: state.Definitions}
		} else if list, ok := s.Saved[u.Name]; ok {
			lists[u.Name] = list
		}
	}
	return lists
}

// Unlisted returns the labels, sorted, of the upstreams for which [Snapshot.Listed] is false.
func (s *Snapshot) Unlisted() (labels []string) {
	for i, u := range s.Upstreams {
		if !s.Listed(i) {
			labels = append(labels, u.Name)
		}
	}
	slices.Sort(labels)
	return labels
}

// Degradation is the problem of one upstream, limited to the facts that one audience may know.
type Degradation struct {
	upstream.Problem

	Upstream string
	// Stale is true if an earlier list is served.
	Stale bool
	// Files are the broken prompt files. A file is named only to audiences that may see its prompt.
	Files []BrokenFile
}

// Degradations returns the upstreams in the audience's view whose lists may be outdated, or whose
// gets fail. An upstream is named only to members of its team, and to audiences that see an entry
// of it.
func (s *Snapshot) Degradations(audience *policy.Audience) (all []Degradation) {
	for _, i := range s.unhealthy {
		u := &s.Upstreams[i]
		if !s.views.of(audience).knows(audience, u) {
			continue
		}
		d := Degradation{Problem: upstream.Problem{Reason: Starting, Since: s.started}, Upstream: u.Name, Stale: s.Listed(i)}
		if problem := s.States[i].Problem; problem != nil {
			d.Problem, d.Stale = *problem, d.Stale && !problem.Failing
			if d.Reason == upstream.InvalidFile {
				d.Files = slices.DeleteFunc(slices.Clone(s.brokenFiles()[i]), func(f BrokenFile) bool { return !audience.Sees(f.visibility) })
			}
		}
		all = append(all, d)
	}
	return all
}

// TTL returns how long the audience's view may be cached: the shortest TTL of an upstream in the
// view that does not report changes, but at most the given time.
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

// CheckListed returns an [*upstream.Unavailable] if the audience's view is empty only because none
// of its upstreams has ever been listed. The error names an upstream only to members of its team.
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
		// Other audiences must not learn the name of an upstream.
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
