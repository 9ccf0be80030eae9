package inspect

import (
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Readership is who sees an exposed name as the prompt of one upstream.
type Readership struct {
	Team, Upstream string
	// Unknown is true where the upstream's list is not known, so that it may not offer the prompt. Rules whose condition reads the
	// definition are not counted then.
	Unknown bool
	// Readers is empty where no rule shows the prompt to anybody.
	Readers []policy.Reader
}

// Readers returns who sees an exposed name, for each upstream that owns it or, where that is not known, may own it. There are none
// where no upstream offers the prompt, or it is left out of the catalog.
func Readers(s *snapshot.Snapshot, name string) (all []Readership) {
	if entry := s.Catalog.Lookup(name); entry != nil {
		for _, owner := range entry.Owners {
			readers := s.Policy.Readers(entry.Team, owner.Upstream, name, entry.JSON)
			all = append(all, Readership{Team: entry.Team, Upstream: owner.Upstream, Readers: readers})
		}
		return all
	}
	for _, without := range s.NamesWithoutBlock(name) {
		for _, c := range catalog.Candidates(s.Sources(), s.Config.Gateway.Separator, without) {
			if _, listed := listedPrompts(s, &c.Source, c.Own); listed {
				continue
			}
			readers := s.Policy.Readers(c.Source.Team, c.Source.Upstream, name, nil)
			all = append(all, Readership{Team: c.Source.Team, Upstream: c.Source.Upstream, Unknown: true, Readers: readers})
		}
	}
	return all
}
