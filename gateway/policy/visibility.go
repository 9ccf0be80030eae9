package policy

import (
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
)

// Visibility is the part of the decision about an entry that does not depend on the caller: the
// rules that show the entry, and the conditions to evaluate for each audience. It is valid until the
// entry or the policy changes. A nil *Visibility, or a Visibility without rules, shows the entry to
// no one.
type Visibility struct {
	policy *Policy
	rules  []int32
	// hiddenBy is the block that hides the entry from everyone, or nil if no block does.
	hiddenBy *block
	// conditional is nil if no condition reads the principal.
	conditional *conditional
}

// conditional is the part of the decision that depends on the audience.
type conditional struct {
	hides []*gate
	// shows contains a gate for each rule, or nil if the rule has no condition on the principal.
	shows []*gate
}

// team is a team that owns upstreams. A team without upstreams shows nothing and is only a set of
// principals.
type team struct {
	upstreams map[string]config.Place // where each block begins
	hides     []*block
	// The team's rules are Policy.rules[first:end]: membership, then its expose blocks.
	first, end int
}

// Rule names a block of the configuration that shows prompts or hides them.
type Rule struct {
	// Title is the type and label of the block, as in its header.
	Title string
	// Place is the location of the block, as PATH:LINE.
	Place string
}

// rule shows entries of a team to its members, or to the principals that an expose block names.
type rule struct {
	team   string
	expose *block // nil for membership
	named  Rule   // names the expose block, or for membership the team's block
}

// matches reports whether the rule can show an entry with this name.
func (r *rule) matches(name string) bool { return r.expose == nil || r.expose.Matches(name) }

// The block types with which titles begin.
const (
	kindExpose = "expose"
	kindHide   = "hide"
)

// failureInterval is the minimum time between reports about a block whose condition cannot be
// evaluated.
const failureInterval = time.Minute

// Failure is a condition that could not be evaluated.
type Failure struct {
	// Rule is the location of the block, as PATH:LINE.
	Rule string
	// Prompt is the exposed name of one of the prompts for which the evaluation failed. It is empty if
	// the condition does not read the prompt.
	Prompt string
	Err    error
}

// block is an expose or a hide block.
type block struct {
	*config.Rule
	// fallback is the value of a condition that cannot be evaluated: true for hide, false for expose.
	fallback bool
	// shared is the gate for all prompts, so that there is one decision per audience and not one per
	// audience and prompt. It is nil if the condition reads the prompt.
	shared *gate
	alarm  *rate.Sometimes
	named  Rule
}

func newBlock(kind string, rule *config.Rule) *block {
	b := &block{
		Rule: rule, fallback: kind == kindHide, alarm: &rate.Sometimes{First: 1, Interval: failureInterval},
		named: Rule{Title: rule.Title(kind), Place: rule.Place.String()},
	}
	if rule.When != nil && !rule.When.ReadsPrompt {
		b.shared = &gate{block: b}
	}
	return b
}

// reads returns the principal attributes that the block's condition reads.
func (b *block) reads() []string {
	if b == nil || b.When == nil {
		return nil
	}
	return b.When.PrincipalFields
}

// entry is the prompt that a decision is about.
type entry struct {
	team, upstream, name string
	definition           []byte
	facts                *config.PromptFacts
}

// read returns the facts that conditions read. It parses the definition at the first call, because
// most prompts meet no condition.
func (e *entry) read() config.PromptFacts {
	if e.facts == nil {
		e.facts = new(config.NewPromptFacts(e.name, e.upstream, e.team, e.definition))
	}
	return *e.facts
}

// gate is a block with a condition on the principal, and the prompt for which to evaluate it. Prompt
// and name are empty if the condition does not read the prompt.
type gate struct {
	*block

	prompt config.PromptFacts
	name   string
}

// ErrBudget is the error of [Audience.Decide] after its deadline. Decisions are cached, so a later
// request gets further.
var ErrBudget = errors.New("the catalog's conditions take longer than one request may")
