package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
)

// Evaluate returns the snapshot that a configuration makes of saved lists, and of the files that
// hold prompts, which count instead of a list. It contacts and starts nothing.
func Evaluate(ctx context.Context, cfg *config.Config, lists Lists, opts Options) (*Snapshot, error) {
	g, err := newGeneration(cfg, nil, opts.logger())
	if err != nil {
		return nil, err
	}
	for _, u := range g.Upstreams {
		if list, ok := lists.of(u); ok {
			g.saved[u.Name] = list.known()
		}
	}
	// A team decides how long its files take: whoever waits may give up.
	if g.readFiles(ctx); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// Without a bound, unlike at a start: a command that checks has to know everything.
	s, _ := g.evaluate(context.Background())
	return s, nil
}

// evaluate returns the snapshot of the saved lists, without those that are not admitted when ctx
// ends.
func (g *Generation) evaluate(ctx context.Context) (*Snapshot, []published) {
	s, lists := newSnapshot(g, time.Now()), make([]published, len(g.Upstreams))
	for i := range s.States {
		s.States[i] = g.state(i)
	}
	s.lists = g.admitLists(ctx, func(i int) (offered offer, earlier *admitted, ok bool) {
		offered, ok = g.offer(i, s.States[i])
		return offered, nil, ok
	})
	for i := range lists {
		lists[i].list = s.lists[i]
		s.States[i] = g.shown(i, &lists[i], s.States[i])
	}
	s.Catalog = catalog.Merge(contributions(g.sources, lists), g.catalogOptions())
	s.complete(nil, g.all())
	return s, lists
}

// admitLists admits, until ctx ends, the lists of those upstreams for which want returns one;
// earlier is the list that was admitted before. The result is nil for the others, and for those
// that were not done in time.
func (g *Generation) admitLists(
	ctx context.Context, want func(i int) (offered offer, earlier *admitted, ok bool),
) []*admitted {
	lists := make([]*admitted, len(g.Upstreams))
	var running sync.WaitGroup
	for i := range lists {
		offered, earlier, ok := want(i)
		if !ok {
			continue
		}
		running.Go(func() {
			// A list is nil when ctx has ended.
			lists[i], _ = g.admission.admitOffer(ctx, &g.sources[i], offered, earlier)
		})
	}
	running.Wait()
	return lists
}

// contributions returns what each upstream contributes to the catalog, and notes that it is in the
// catalog.
func contributions(sources []catalog.Source, lists []published) []catalog.Source {
	all := make([]catalog.Source, len(lists))
	for i := range lists {
		all[i] = lists[i].contribution(sources[i])
	}
	return all
}

// contribution returns a source with what it contributes to the catalog, and notes that it is in
// the catalog.
func (p *published) contribution(source catalog.Source) catalog.Source {
	if p.merged = p.visible(); p.merged != nil {
		source.Prompts = p.merged.prompts
	}
	return source
}

// shown returns the state of the upstream at index i as a snapshot has it: a list counts once it is
// admitted, and an upstream as tried once its list is, or takes longer than others should wait for.
func (g *Generation) shown(i int, p *published, state *upstream.State) *upstream.State {
	offered, known := g.offer(i, state)
	if !known || p.list.admits(offered) {
		// It stays: an upstream that was shown once does not hold up requests again.
		p.tried = p.tried || state.Tried
		p.files = state.Files // whose definitions are the same, though texts may differ
		return state
	}
	early := *state
	early.Files = p.files
	early.Tried = state.Tried &&
		(p.tried || p.running != nil && time.Since(p.running.began) >= admissionBound)
	if p.failed.about(offered) {
		early.Tried, early.Problem = state.Tried, cmp.Or(early.Problem, p.failed.problem)
	}
	if p.list == nil || !p.list.offer.listed {
		early.Listed, early.Lists, early.Definitions = false, 0, nil
		return &early
	}
	early.Definitions = p.list.offer.definitions
	return &early
}

// rejections reports what is not in the catalog, or not as its upstream sent it.
func rejections(s *Snapshot) (reports []catalog.Report) {
	byLabel, complete := map[string]*admitted{}, map[string]bool{}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		reports = append(reports, fileReports(u, s.problemsOf(i, s.States[i]))...)
		if why := s.States[i].Promptless; why != nil {
			reports = append(reports, promptless(u, why))
		}
		list := s.lists[i]
		if list == nil {
			continue
		}
		reports = append(reports, list.reports...)
		byLabel[u.Name], complete[u.Name] = list, s.Listed(i)
	}
	return append(reports, s.admission.unmatched(byLabel, complete)...)
}

// sameRejections reports whether two snapshots have the same reports about what upstreams list, or
// what is in their files. They differ at most in the upstreams that were touched.
func sameRejections(s, other *Snapshot, touched []int) bool {
	if s.Generation != other.Generation {
		return false
	}
	differs := func(i int) bool {
		a, b := s.problemsOf(i, s.States[i]), other.problemsOf(i, other.States[i])
		return s.lists[i] != other.lists[i] || s.Listed(i) != other.Listed(i) ||
			s.States[i].Promptless != other.States[i].Promptless ||
			len(a) != len(b) || len(a) > 0 && &a[0] != &b[0]
	}
	return !slices.ContainsFunc(touched, differs)
}

// promptless reports that an upstream has no prompts.
func promptless(u *config.Upstream, why *upstream.Cause) catalog.Report {
	return catalog.Report{
		Kind: catalog.NoPrompts, Name: u.Name, Owners: []catalog.Owner{ownerOf(u)},
		Text: fmt.Sprintf("upstream %q (%s): %s", u.Name, u.Place, why),
	}
}

// published is the part of one upstream in the current snapshot. Nothing in a snapshot is about a
// list that it does not have, so what it shows of the upstream depends on which list was admitted,
// and which is offered now:
//
//	admitted         offered now    in the catalog   state in the snapshot
//	none             nothing        nothing          the upstream's
//	none, or a       another list,  the admitted     the upstream's, but not listed yet
//	saved list         not yet        list, if any
//	                   admitted
//	what the         another list,  the admitted     the upstream's, but with the definitions of
//	upstream listed    not yet        list             the admitted list
//	                   admitted
//	as above         one over which  as above        as above, with that as its problem if it has
//	                   it panicked                     no other
//	what is offered                 that list        the upstream's
//
// The catalog has nothing of an upstream that is hidden while it is down. After a reload that has
// other rules for the upstream, none is admitted.
type published struct {
	list *admitted // nil until one is admitted by the rules of the generation
	// earlier is a list that was admitted by other rules, whose results are used again; nil once
	// there is another.
	earlier *admitted
	// failed is the offer whose admission a panic ended; nil once another was admitted.
	failed *failure
	// merged is the list that is in the catalog; nil if none is.
	merged *admitted
	// files are those from which gets are answered: the newest whose definitions are those of list.
	files *files.List
	// tried is true after the snapshot had what the upstream listed at first.
	tried bool
	// hidden is true while the upstream is down and its configuration hides it.
	hidden bool

	running *running // the admission of a newer list; nil if there is none
	pace    pace
}

// visible returns the list that belongs into the catalog.
func (p *published) visible() *admitted {
	if p.hidden {
		return nil
	}
	return p.list
}

// receive notes the list whose admission has ended, if there is one.
func (p *published) receive() {
	if p.running == nil {
		return
	}
	select {
	case r := <-p.running.done:
		p.admitted(r, p.running.began)
		p.running = nil
	default:
	}
}

// admitted notes how an admission ended. What was admitted before stays after a panic.
func (p *published) admitted(r result, began time.Time) {
	p.pace = p.pace.after(began, r.ended)
	if r.err != nil {
		problem := &upstream.Problem{Reason: upstream.BadResponse, Since: r.ended, Err: r.err}
		p.failed = &failure{r.offer, problem}
		return
	}
	p.list, p.earlier, p.failed, p.files = r.list, nil, nil, r.offer.files
}

// failure is an offer whose admission a panic ended, which is not tried again. The nil one is none.
type failure struct {
	offer   offer
	problem *upstream.Problem
}

func (f *failure) about(o offer) bool { return f != nil && f.offer.same(o) }

// maxPause bounds the pause after an admission, in multiples of what the admission took. An
// upstream whose list never stops changing thus takes a seventeenth of one processor's time at
// most.
const maxPause = 16

// pace is when an upstream's next list may be admitted. A list that is quick to admit, or changes
// now and then, is admitted at once. One that keeps changing waits in proportion to what it costs,
// and longer each time. The zero value waits for nothing.
type pace struct {
	ended  time.Time // of the last admission
	factor int       // the pause in multiples of what that took
	pause  time.Duration
}

// due returns when the next admission may begin.
func (p pace) due() time.Time { return p.ended.Add(p.pause) }

// after returns the pace after another admission.
func (p pace) after(began, ended time.Time) pace {
	factor := 1
	if began.Before(p.due().Add(p.pause)) { // it waited for the pause, or came soon after
		factor = min(2*p.factor, maxPause)
	}
	return pace{ended: ended, factor: factor, pause: time.Duration(factor) * ended.Sub(began)}
}
