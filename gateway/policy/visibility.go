package policy

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
)

// Visibility is what a policy decides about one entry, whoever is calling: the rules that show it.
// It stays valid until the entry or the policy changes. A nil *Visibility, and one without rules,
// shows the entry to nobody.
type Visibility struct {
	policy *Policy
	rules  []int32
	// hiddenBy is the block that hides the entry from everybody; nil where none does.
	hiddenBy *block
	// conditional is nil if no condition reads the principal.
	conditional *conditional
}

// conditional is what remains to be decided for each audience.
type conditional struct {
	hides []*gate
	// shows has a gate for each of the rules: nil if the rule always shows the entry.
	shows []*gate
}

// Equal reports whether both show entries to the same audiences, and by the same rules. Where
// conditions read the principal, it may report false though they do.
func (v *Visibility) Equal(other *Visibility) bool {
	if v == nil || other == nil {
		return v == other
	}
	return v.policy == other.policy && v.hiddenBy == other.hiddenBy && v.conditional == nil && other.conditional == nil &&
		slices.Equal(v.rules, other.rules)
}

// add adds a rule with the gate that decides whether it shows the entry, nil if it always does.
func (v *Visibility) add(id int, open *gate) {
	v.rules = append(v.rules, int32(id))
	if open != nil && v.conditional == nil {
		v.conditional = &conditional{}
	}
	if v.conditional != nil {
		// The rules before the first gate have none yet.
		missing := len(v.rules) - 1 - len(v.conditional.shows)
		v.conditional.shows = append(append(v.conditional.shows, make([]*gate, missing)...), open)
	}
}

// team is a team that owns upstreams. A team that owns none shows nothing and is only a set of
// people.
type team struct {
	upstreams map[string]config.Place // where each block begins
	hides     []*block
	// The team's rules are those from first, which is its membership, to before end; the others are
	// its expose blocks.
	first, end int
}

// Rule names a block of the configuration that shows prompts or hides them.
type Rule struct {
	// Title is the block's type and label, as they stand in its header.
	Title string
	// Place is where the block begins, as PATH:LINE.
	Place string
}

// rule shows entries of a team: to its members, or to those whom an expose block names.
type rule struct {
	team   string
	expose *block // nil for membership
	place  config.Place
	// membership names the rule that is the team itself.
	membership Rule
}

// named names the rule's block.
func (r *rule) named() *Rule {
	if r.expose == nil {
		return &r.membership
	}
	return &r.expose.named
}

// matches reports whether the rule shows entries of this name at all.
func (r *rule) matches(name string) bool { return r.expose == nil || r.expose.Matches(name) }

// The kinds of blocks.
const (
	kindExpose = "expose"
	kindHide   = "hide"
)

// failureInterval is how often a block whose condition cannot be evaluated is reported.
const failureInterval = time.Minute

// Failure is a condition that could not be evaluated.
type Failure struct {
	// Rule is where the block begins, as PATH:LINE.
	Rule string
	// Prompt is the exposed name of the prompt for which it failed, possibly one of many. It is
	// empty if the condition does not read the prompt.
	Prompt string
	Err    error
}

// block is an expose or a hide block.
type block struct {
	*config.Rule
	// fallback is whether the block applies if its condition cannot be evaluated.
	fallback bool
	// shared is the gate for all prompts, if the condition does not read the prompt.
	shared *gate
	alarm  *rate.Sometimes
	named  Rule
}

// newBlock returns the block of a kind, "expose" or "hide".
func newBlock(kind string, rule *config.Rule) *block {
	// One that cannot be evaluated hides, or does not expose.
	// One gate for all prompts keeps the decisions few: one for each audience instead of one for
	// each prompt as well.
	b := &block{
		Rule: rule, fallback: kind == kindHide, alarm: &rate.Sometimes{First: 1, Interval: failureInterval},
		named: Rule{Title: rule.Title(kind), Place: rule.Place.String()},
	}
	if rule.When != nil && !rule.When.ReadsPrompt() {
		b.shared = &gate{block: b}
	}
	return b
}

// newHides returns hide blocks.
func newHides(rules []config.Rule) []*block {
	blocks := make([]*block, len(rules))
	for i := range rules {
		blocks[i] = newBlock(kindHide, &rules[i])
	}
	return blocks
}

// reads returns the attributes of the principal that the block's condition reads.
func (b *block) reads() []string {
	if b == nil || b.When == nil {
		return nil
	}
	return b.When.PrincipalFields()
}

// entry is the prompt to decide about. Its facts are made when a condition first reads them: most
// blocks have none.
type entry struct {
	team, upstream, name string
	definition           []byte
	facts                *config.PromptFacts
}

func (e *entry) read() config.PromptFacts {
	if e.facts == nil {
		facts := config.NewPromptFacts(e.name, e.upstream, e.team, e.definition)
		e.facts = &facts
	}
	return *e.facts
}

// gate is a condition that depends on the principal: for one prompt or, if it does not read the
// prompt, for all.
type gate struct {
	*block

	prompt config.PromptFacts
	name   string
}

// What the conditions of all rules may cost one request. Each evaluation has a bound of its own,
// which decides; these fail the request and decide nothing.
const (
	requestSteps = 64 << 20
	entrySteps   = 16 << 10 // besides, for each entry of the catalog
	requestTime  = 5 * time.Second
)

// ErrBudget means that the conditions take more than one request may spend. What was evaluated is
// remembered, so that a later request gets further.
var ErrBudget = errors.New("the catalog's conditions take longer than one request may")

// Budget is what one request may spend on conditions. It is for one goroutine.
type Budget struct {
	steps    int
	deadline time.Time
}

// NewBudget returns the budget of a request that looks at a number of entries, which begins now.
func NewBudget(entries int) *Budget {
	return &Budget{requestSteps + entries*entrySteps, time.Now().Add(requestTime)}
}

// left reports whether another condition may be evaluated. A nil budget has no bound.
func (b *Budget) left() bool { return b == nil || b.steps > 0 && time.Now().Before(b.deadline) }

// spend takes the steps of an evaluation, which may be more than were left.
func (b *Budget) spend(steps int) {
	if b != nil {
		b.steps -= steps
	}
}
