package publish

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
)

// Evaluate returns the snapshot of a configuration with saved lists, and with the prompts in files.
// It contacts no server and starts no connector.
func Evaluate(ctx context.Context, cfg *config.Config, lists snapshot.Lists, opts Options) (*snapshot.Snapshot, error) {
	g, err := snapshot.NewGeneration(cfg, nil, opts.logger())
	if err != nil {
		return nil, err
	}
	for _, u := range g.Upstreams {
		if list, ok := lists.For(u); ok {
			g.Saved[u.Name] = list.OrEmpty()
		}
	}
	// Reading a team's files may take long, so the caller may cancel it.
	if readFiles(ctx, g); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// Admit without a time limit, unlike during startup, because commands need the complete result.
	s, _ := admission{g, newAdmissionLogger(opts.logger())}.evaluate(context.Background(), time.Now())
	return s, nil
}

// evaluate returns the snapshot of the saved lists. Lists that are not admitted before the end of
// ctx are missing.
func (a admission) evaluate(ctx context.Context, started time.Time) (*snapshot.Snapshot, []upstreamSlot) {
	slots := a.admitAll(ctx, nil)
	contents := contentsOf(slots)
	contents.Catalog = catalog.Merge(contributions(a.Sources, slots), catalogOptions(a.Generation))
	contents.Rejected = rejections(a.Generation, &contents, slots)
	return snapshot.New(a.Generation, contents, started), slots
}

// admitAll admits one list of each upstream until ctx ends: the list in the earlier slot if the
// slot still has the state of the same connector, otherwise the latest list. Decisions about the
// earlier lists are reused. earlier has slots by label; it may be nil.
func (a admission) admitAll(ctx context.Context, earlier map[string]upstreamSlot) []upstreamSlot {
	slots := make([]upstreamSlot, len(a.Upstreams))
	var running sync.WaitGroup
	for i := range slots {
		u, source := &slots[i], &a.Sources[i]
		was, state := earlier[source.Upstream], stateOf(a.Generation, i)
		definitions, known := a.LatestList(i, state)
		switch {
		case was.list != nil && was.state != nil:
			state, definitions = was.state, was.list.definitions
		case !known:
			u.state = state
			continue
		}
		u.state = withListOf(&upstream.State{}, state)
		running.Go(func() {
			if list, err := a.admit(ctx, source, definitions, was.list); err == nil {
				u.state, u.list = state, list
			}
		})
	}
	running.Wait()
	return slots
}

// contributions returns the sources with the prompts of the visible lists, and records that these
// are in the catalog.
func contributions(sources []catalog.Source, slots []upstreamSlot) []catalog.Source {
	all := slices.Clone(sources)
	for i := range slots {
		all[i].Prompts = slots[i].contribute()
	}
	return all
}

// readFiles reads the lists of upstreams with files, for a generation without connectors.
func readFiles(ctx context.Context, g *snapshot.Generation) {
	for i, read := range files.Read(ctx, g.Upstreams) {
		u := &g.Upstreams[i]
		if u.Files == nil {
			continue
		}
		problems := read.List.Problems
		if problem, ok := errors.AsType[files.Problem](read.Err); ok {
			// Clip, so that append copies the problems instead of changing the list's slice.
			problems = append(slices.Clip(problems), problem)
		} else if read.Err == nil {
			g.Folders[u.Name] = read.List
			g.Saved[u.Name] = snapshot.List{Definitions: read.List.Definitions}
		}
		g.FolderProblems[u.Name] = problems
	}
}

// catalogOptions returns the options for merging lists.
func catalogOptions(g *snapshot.Generation) catalog.Options {
	p := g.Policy // capture p, not g: a catalog keeps these options, and may outlive many generations
	return catalog.Options{
		Separator: g.Config.Gateway.Separator, KeepFirst: g.Config.Gateway.Conflict == config.ConflictFirst,
		Decide: func(e *catalog.Entry) []*policy.Visibility {
			owners := e.Owners
			if !p.ReadsUpstream(e.Team, e.Name) {
				owners = owners[:1]
			}
			return exslices.CastFunc(owners, func(o catalog.Owner) *policy.Visibility {
				return p.Visibility(e.Team, o.Upstream, e.Name, e.Facts())
			})
		},
	}
}

// stateOf returns the current state of the upstream at index i, or the zero state if the generation
// has no connectors.
func stateOf(g *snapshot.Generation, i int) *upstream.State {
	if len(g.Connectors) == 0 {
		return &upstream.State{}
	}
	return g.Connectors[i].State()
}
