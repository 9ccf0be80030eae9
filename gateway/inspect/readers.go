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

// Admission is how one upstream's definition is checked and changed before the catalog has it.
type Admission struct {
	Team, Upstream string
	// Place is where the upstream is configured, as PATH:LINE, and Own its own name for the prompt.
	Place, Own string
	// Steps are its prompt block, the lock file and the screen blocks; one that leaves the prompt out decides.
	Steps []AnswerStep
}

// Admissions returns what the definitions of an exposed name pass, for each upstream that lists such a prompt.
func Admissions(s *snapshot.Snapshot, name string) (all []Admission) {
	for _, without := range s.NamesWithoutBlock(name) {
		for _, c := range catalog.Candidates(s.Sources(), s.Config.Gateway.Separator, without) {
			prompts, _ := listedPrompts(s, &c.Source, c.Own)
			if len(prompts) == 0 {
				continue
			}
			chain := explainAdmission(s, c, prompts, name)
			a := Admission{Team: c.Source.Team, Upstream: c.Source.Upstream, Place: c.Source.Place, Own: c.Own}
			for i, step := range chain.steps {
				a.Steps = append(a.Steps, AnswerStep{step.Rule, step.Text, i+1 == chain.leftBy})
			}
			all = append(all, a)
		}
	}
	return all
}
