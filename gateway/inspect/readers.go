package inspect

import (
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// readerships returns who sees an exposed name, for each upstream that owns it or, where that is
// not known, may own it. There are none where no upstream offers the prompt, or it is left out of
// the catalog.
func readerships(s *snapshot.Snapshot, name string) (all []AnswerUpstream) {
	add := func(upstream, team, offers string, definition []byte) {
		u := AnswerUpstream{Upstream: upstream, Team: team, Offers: offers}
		for _, r := range s.Policy.Readers(team, upstream, name, definition) {
			u.Readers = append(u.Readers, AnswerReader{r.String(), r.Rule})
		}
		u.Visible = len(u.Readers) > 0
		all = append(all, u)
	}
	if entry := s.Catalog.Lookup(name); entry != nil {
		for _, owner := range entry.Owners {
			add(owner.Upstream, entry.Team, "yes", entry.JSON)
		}
		return all
	}
	for _, without := range s.NamesWithoutBlock(name) {
		for _, c := range catalog.Candidates(s.Sources(), s.Config.Gateway.Separator, without) {
			if _, listed := listedPrompts(s, &c.Source, c.Own); !listed {
				// Rules whose condition reads the definition are not counted.
				add(c.Source.Upstream, c.Source.Team, "unknown", nil)
			}
		}
	}
	return all
}

// Admission is how one upstream's definition is checked and changed before the catalog has it.
type Admission struct {
	Upstream string
	// Steps are its prompt block, the lock file and the screen blocks; one that leaves the prompt
	// out decides.
	Steps []AnswerStep
}

// Admissions returns what the definitions of an exposed name pass, for each upstream that lists
// such a prompt.
func Admissions(s *snapshot.Snapshot, name string) (all []Admission) {
	for _, without := range s.NamesWithoutBlock(name) {
		for _, c := range catalog.Candidates(s.Sources(), s.Config.Gateway.Separator, without) {
			prompts, _ := listedPrompts(s, &c.Source, c.Own)
			if len(prompts) == 0 {
				continue
			}
			chain := explainAdmission(s, c, prompts, name)
			a := Admission{Upstream: c.Source.Upstream}
			for i, step := range chain.steps {
				a.Steps = append(a.Steps, AnswerStep{step.Rule, step.Text, i+1 == chain.leftBy})
			}
			all = append(all, a)
		}
	}
	return all
}
