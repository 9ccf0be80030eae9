package policy

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
)

// A when that reads the prompt only is decided with the entry's [Grants]. One that reads the principal becomes a gate,
// which is decided once for each audience: it can be, since all principals of an audience have the same values of
// whatever a when reads.

const (
	// maxDecisions bounds the decided gates that are kept.
	maxDecisions = 1 << 17
	// alarmInterval is how often a block whose when cannot be evaluated is reported.
	alarmInterval = time.Minute
)

// Failure is a when that could not be evaluated: the block then hides, or does not expose.
type Failure struct {
	// Rule is where the block begins, as PATH:LINE.
	Rule string
	// Prompt is the exposed name of the one that it happened with, one of maybe many; empty for a when that reads none.
	Prompt string
	Err    error
}

// Reporting has failures reported, each block's at most once a minute. It is to be called before anything else.
func (p *Policy) Reporting(report func(Failure)) *Policy {
	p.failed = report
	return p
}

// block is an expose or a hide block.
type block struct {
	*config.Rule
	// otherwise is what counts where when cannot be evaluated.
	otherwise bool
	// shared is the gate of all prompts, for a when that does not read the prompt.
	shared *gate
	alarm  *rate.Sometimes
}

func newBlock(rule *config.Rule, otherwise bool) *block {
	b := &block{Rule: rule, otherwise: otherwise, alarm: &rate.Sometimes{First: 1, Interval: alarmInterval}}
	if rule.When != nil && !rule.When.ReadsPrompt() {
		b.shared = &gate{block: b}
	}
	return b
}

func newBlocks(rules []config.Rule, otherwise bool) []*block {
	blocks := make([]*block, len(rules))
	for i := range rules {
		blocks[i] = newBlock(&rules[i], otherwise)
	}
	return blocks
}

// reads are what of a principal the block's when reads.
func (b *block) reads() []string {
	if b == nil || b.When == nil {
		return nil
	}
	return b.When.Reads()
}

// gate is a when that depends on the principal, for one prompt or, where it does not read the prompt, for all.
type gate struct {
	*block

	prompt config.PromptFacts
	name   string
}

// subject is an entry whose facts are made when a when first reads them.
type subject struct {
	team, upstream, name string
	definition           []byte
	made                 bool
	facts                config.PromptFacts
}

func (s *subject) read() config.PromptFacts {
	if !s.made {
		s.made, s.facts = true, config.NewPromptFacts(s.name, s.upstream, s.team, s.definition)
	}
	return s.facts
}

// decide says whether a block that matches the entry's name counts, or returns the gate that decides.
func (p *Policy) decide(b *block, entry *subject) (counts bool, open *gate) {
	switch {
	case b == nil || b.When == nil:
		return true, nil
	case len(b.When.Reads()) > 0 && b.shared != nil:
		return false, b.shared
	case len(b.When.Reads()) > 0:
		return false, &gate{block: b, prompt: entry.read(), name: entry.name}
	}
	return p.holds(b, entry.read(), config.PrincipalFacts{}, entry.name), nil
}

// holds evaluates a when; one that cannot be evaluated is reported.
func (p *Policy) holds(b *block, prompt config.PromptFacts, who config.PrincipalFacts, name string) bool {
	holds, err := b.When.Holds(prompt, who)
	if err == nil {
		return holds
	}
	if p.failed != nil {
		b.alarm.Do(func() { p.failed(Failure{Rule: b.Place.String(), Prompt: name, Err: err}) })
	}
	return b.otherwise
}

// decision is a gate and the audience that it was decided for.
type decision struct {
	gate     *gate
	audience *Audience
}

// opens reports whether the block of a gate counts for the audience; no gate always does.
func (a *Audience) opens(g *gate) bool {
	if g == nil {
		return true
	}
	key := decision{g, a}
	if decided, ok := a.policy.decisions.Get(key); ok {
		return decided
	}
	decided := a.policy.holds(g.block, g.prompt, a.facts, g.name)
	a.policy.decisions.Add(key, decided)
	return decided
}
