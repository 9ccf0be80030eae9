package snapshot

import (
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
)

// Evaluate returns the snapshot that a configuration makes of saved lists. It contacts and starts nothing.
func Evaluate(cfg *config.Config, lists Lists, opts Options) (*Snapshot, error) {
	g, err := newGeneration(cfg, nil, opts.logger())
	if err != nil {
		return nil, err
	}
	for _, u := range g.Upstreams {
		if list, ok := lists.of(u); ok {
			g.saved[u.Name] = list.known()
		}
	}
	s, _ := g.evaluate()
	return s, nil
}

// evaluate returns the snapshot of the saved lists.
func (g *Generation) evaluate() (*Snapshot, []published) {
	states, lists := g.states(), make([]published, len(g.Upstreams))
	for i, state := range states {
		lists[i].admitted = g.admission.admit(&g.sources[i], g.definitions(i, state))
	}
	s := newSnapshot(g, catalog.Merge(g.contributions(lists), g.catalogOptions()), states, time.Now())
	s.rejected = g.rejections(lists, states)
	return s, lists
}

// contributions returns what each upstream contributes to the catalog.
func (g *Generation) contributions(lists []published) []catalog.Source {
	sources := make([]catalog.Source, len(lists))
	for i := range lists {
		sources[i] = g.contribution(i, &lists[i])
	}
	return sources
}

func (g *Generation) contribution(i int, list *published) catalog.Source {
	source := g.sources[i]
	if !list.hidden {
		source.Prompts = list.prompts
	}
	return source
}

// rejections reports what is not in the catalog, or not as its upstream sent it.
func (g *Generation) rejections(lists []published, states []*upstream.State) (reports []catalog.Report) {
	byLabel, complete := map[string]admitted{}, map[string]bool{}
	for i, u := range g.Upstreams {
		reports = append(reports, lists[i].reports...)
		byLabel[u.Name], complete[u.Name] = lists[i].admitted, g.whollyListed(i, states[i])
	}
	return append(reports, g.admission.unmatched(byLabel, complete)...)
}

// published is the part of one upstream in the current snapshot.
type published struct {
	admitted

	// hidden is true while the upstream is down and its configuration hides it.
	hidden bool
}
