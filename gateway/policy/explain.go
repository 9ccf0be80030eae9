package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Decision is whether a principal may see an entry, and why.
type Decision struct {
	Visible bool
	// Depends means that the decision depends on the prompt's definition or the principal's claims,
	// which were not given. Visible is false then.
	Depends bool
	// Rule is where the block that decides begins, as PATH:LINE. It is empty if no block shows the
	// entry to the principal and none hides it.
	Rule string
	// Reason says in words why.
	Reason string
	// Chain is every block that bears on the entry, in order of precedence.
	Chain []Step
}

// Step is one block that bears on an entry.
type Step struct {
	// Rule is where the block begins, as PATH:LINE.
	Rule string `json:"rule"`
	// Text says what the block does.
	Text string `json:"text"`
	// Decides marks the step that made the decision. There is none if no block did.
	Decides bool `json:"decides,omitempty"`
}

// Explain returns what [Audience.Sees] answers for the principal's audience and the entry's
// [Visibility], and why. Without a definition, it leaves open whatever depends on one.
func (p *Policy) Explain(who Principal, team, upstream, name string, definition []byte) Decision {
	t := p.owner(team, upstream)
	if t == nil {
		return Decision{Reason: fmt.Sprintf("no team %q has an upstream %q", team, upstream)}
	}
	e := explanation{who: who, team: team, name: name, facts: who.facts()}
	e.entry = entry{team: team, upstream: upstream, name: name, definition: definition}
	// It is not one of the policy's audiences: an explanation must not push out one that is in use.
	e.audience = &Audience{policy: p, rules: string(p.rulesFor(who))}
	e.Reason = fmt.Sprintf("%s is not a member of team %q, and no expose block of that team is for %s and matches %q",
		who.Subject, team, who.Subject, name)
	e.Chain = []Step{{Rule: t.upstreams[upstream].String(), Text: fmt.Sprintf("upstream %q of "+
		"team %q owns it", upstream, team)}}
	// In order of precedence: hide blocks beat rules, and the gateway's beat the team's.
	e.hides(p.hides, ownerOf(""))
	e.hides(t.hides, ownerOf(team))
	e.rules(t)
	switch {
	case e.isDecided: // a step decided and gave its reason
	case e.undecided != "":
		e.Depends, e.Reason = true, e.undecided
	case e.unmet != "":
		e.Reason = e.unmet
	}
	return e.Decision
}

// explanation is a decision that is being made.
type explanation struct {
	Decision

	who        Principal
	team, name string
	entry      entry
	audience   *Audience
	facts      config.PrincipalFacts
	isDecided  bool // by a step
	// undecided is the first step that depends on something unknown. If mayHide is set, such a step
	// may hide what later ones show.
	undecided string
	mayHide   bool
	// unmet is the first step about an expose block that names the principal. If no step decides and
	// none depends on something unknown, the block's condition does not hold.
	unmet string
}

// step adds a step. The first one that applies decides, but none can show what an undecided hide
// block may hide.
func (e *explanation) step(rule, text string, applies, shows bool) {
	// Steps after the deciding one are listed too: a reader wants to know what a change of that one
	// would lead to.
	decides := applies && !e.isDecided && (!shows || !e.mayHide)
	e.Chain = append(e.Chain, Step{rule, text, decides})
	if decides {
		e.isDecided, e.Rule, e.Reason, e.Visible = true, rule, text, shows
	}
}

// outcome is the result of a block's condition.
type outcome struct {
	applies bool
	// because explains the result; empty if the block has no condition.
	because string
	// unknown means that the condition reads something that was not given.
	unknown bool
}

// evaluate evaluates a block's condition with whatever is known.
func (e *explanation) evaluate(b *block) outcome {
	if b.When == nil {
		return outcome{applies: true}
	}
	because := fmt.Sprintf("when = %s ", b.When)
	holds, err := b.When.Holds(e.entry.read(), e.facts)
	switch {
	case errors.Is(err, config.ErrUnknown): // unlike a failure, it may turn out either way
		return outcome{because: because + "depends on " + e.missing(b.When), unknown: true}
	case err != nil:
		return outcome{applies: b.fallback, because: because + "cannot be evaluated: " + err.Error()}
	case holds:
		return outcome{applies: true, because: because + "holds"}
	}
	return outcome{because: because + "does not hold"}
}

// missing names what a condition depends on and was not given.
func (e *explanation) missing(when *config.Condition) string {
	claims := e.who.ClaimsUnknown && when.ReadsClaims()
	switch definition := when.ReadsDefinition() && e.entry.definition == nil; {
	case claims && definition:
		return "the prompt's definition and the principal's claims, which are not known here"
	case claims:
		return "the principal's claims, which are not known here"
	}
	return "the prompt's definition, which is not known here"
}

// hides adds the blocks that hide the name, or might.
func (e *explanation) hides(hides []*block, owner string) {
	for _, hide := range hides {
		if !hide.Matches(e.name) {
			continue
		}
		out := e.evaluate(hide)
		text := hide.named.Title + " " + owner
		switch {
		case out.because == "":
			text += " removes it from everybody"
		case out.applies:
			text += " removes it: " + out.because
		case out.unknown:
			text += " may remove it: " + out.because
			e.mayHide = true
		default:
			text += " does not remove it: " + out.because
		}
		e.leaveOpen(out, text)
		e.step(hide.Place.String(), text, out.applies, false)
	}
}

// leaveOpen remembers a step with an unknown outcome, unless an earlier step decided already.
func (e *explanation) leaveOpen(out outcome, text string) {
	if out.unknown && !e.isDecided && e.undecided == "" {
		e.undecided = text
	}
}

// rules adds the rules that show the name, to the principal or to others.
func (e *explanation) rules(t *team) {
	for id := t.first; id < t.end; id++ {
		r := &e.audience.policy.rules[id]
		if !r.matches(e.name) {
			continue
		}
		named := e.audience.has(id)
		text, applies := r.describe(e.who, named), named
		if r.expose != nil && named {
			out := e.evaluate(r.expose)
			if applies = out.applies; out.because != "" {
				text = fmt.Sprintf("%s of team %q is for %s, and %s", r.expose.named.Title, r.team, e.who.Subject, out.because)
				e.leaveOpen(out, text)
			}
			e.unmet = cmp.Or(e.unmet, text)
		}
		e.step(r.place.String(), text, applies, true)
	}
}

// describe says what the rule does for a principal, whom it names or not.
func (r *rule) describe(who Principal, named bool) string {
	switch {
	case r.expose != nil && named:
		return fmt.Sprintf("%s of team %q shows it to %s", r.expose.named.Title, r.team, who.Subject)
	case r.expose != nil:
		return fmt.Sprintf("%s of team %q shows it to %s, not to %s",
			r.expose.named.Title, r.team, names(r.expose.To), who.Subject)
	case who.EveryTeam:
		return fmt.Sprintf("%s is a member of team %q, as of every team: there is no auth block", who.Subject, r.team)
	case named:
		return fmt.Sprintf("%s is a member of team %q", who.Subject, r.team)
	default:
		return fmt.Sprintf("%s is not a member of team %q", who.Subject, r.team)
	}
}

// names lists selectors as they stand in the configuration.
func names(to []config.Selector) string {
	words := make([]string, 0, len(to))
	for _, selector := range to {
		words = append(words, selector.String())
	}
	return strings.Join(words, ", ")
}

// Reader is somebody whom a rule shows an entry.
type Reader struct {
	// Who is a user, a group or anybody. A team is replaced by its members.
	Who config.Selector
	// When is the condition that the principal has to satisfy as well; empty if there is none.
	When string
	// Rule is where the rule's block begins, as PATH:LINE, and By what it is called.
	Rule, By string
}

func (r Reader) String() string {
	if r.When == "" {
		return r.Who.String()
	}
	return r.Who.String() + " when " + r.When
}

// Everybody reports whether the rule shows the entry to everybody, without a condition.
func (r Reader) Everybody() bool { return r.Who.Kind == config.Anybody && r.When == "" }

// Readers returns everybody whom some rule shows an entry, each once with the first such rule, in
// the order of the rules. It agrees with [Policy.Explain], but for all principals at once.
func (p *Policy) Readers(team, upstream, name string, definition []byte) []Reader {
	v := p.Visibility(team, upstream, name, definition)
	if v == nil {
		return nil
	}
	var readers []Reader
	for i, id := range v.rules {
		r, when := &p.rules[id], v.when(i)
		by := fmt.Sprintf("membership of team %q", r.team)
		if r.expose != nil {
			by = r.expose.named.Title
		}
		for _, who := range p.selectorsOf(r) {
			reader := Reader{who, when, r.place.String(), by}
			// Two rules may show the entry to the same readers; the first is the one that Explain
			// names.
			if !slices.ContainsFunc(readers, func(known Reader) bool { return known.String() == reader.String() }) {
				readers = append(readers, reader)
			}
		}
	}
	return readers
}

// when returns the condition under which the i-th rule shows the entry and no hide block hides it.
func (v *Visibility) when(i int) string {
	if v.conditional == nil {
		return ""
	}
	var all []string
	if shows := v.conditional.shows[i]; shows != nil {
		all = append(all, shows.When.String())
	}
	for _, hides := range v.conditional.hides {
		all = append(all, "not ("+hides.When.String()+")")
	}
	return strings.Join(all, " and ")
}

// selectorsOf returns whom a rule applies to, with teams replaced by their members.
func (p *Policy) selectorsOf(r *rule) []config.Selector {
	to := []config.Selector{{Kind: config.TeamMembers, Name: r.team}}
	if r.expose != nil {
		to = r.expose.To
	}
	var readers []config.Selector
	for _, selector := range to {
		switch {
		case selector.Kind != config.TeamMembers:
			readers = append(readers, selector)
		case p.open: // everybody is a member of every team
			readers = append(readers, config.Selector{Kind: config.Anybody})
		default:
			readers = append(readers, p.members[selector.Name]...)
		}
	}
	return readers
}

// HiddenBy returns the hide block that removes an entry from everybody, or may, where the definition
// that it reads is nil; the zero Step if there is none.
func (p *Policy) HiddenBy(team, upstream, name string, definition []byte) Step {
	t := p.owner(team, upstream)
	if t == nil {
		return Step{}
	}
	e := &entry{team: team, upstream: upstream, name: name, definition: definition}
	// Only blocks that hide from everybody count: what others hide depends on who is calling.
	for i, hide := range slices.Concat(p.hides, t.hides) {
		if !hide.Matches(name) {
			continue
		}
		if applies, _ := p.decide(hide, e); applies {
			owner := ownerOf("")
			if i >= len(p.hides) {
				owner = ownerOf(team)
			}
			what := "removes it from everybody"
			if definition == nil && hide.When != nil && hide.When.ReadsDefinition() {
				what = "may remove it, depending on its definition, which is not known here"
			}
			return Step{Rule: hide.Place.String(), Text: hide.named.Title + " " + owner + " " + what, Decides: true}
		}
	}
	return Step{}
}
