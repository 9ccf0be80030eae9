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
	// Depends is true if the decision depends on the prompt's definition or the principal's claims,
	// which were not given. If so, Visible is false.
	Depends bool
	// Rule is the location of the deciding block, as PATH:LINE. It is empty if no block shows the
	// entry to the principal and none hides it.
	Rule string
	// Reason explains the decision.
	Reason string
	// Chain lists every block that concerns the entry, in order of precedence.
	Chain []Step
}

// Step is one block that concerns an entry.
type Step struct {
	// Rule is the location of the block, as PATH:LINE.
	Rule string `json:"rule"`
	// Text describes the block.
	Text string `json:"text"`
	// Decides is true for the step that made the decision. If no block decided, no step has it.
	Decides bool `json:"decides,omitempty"`
}

// Explain returns the answer of [Audience.Sees] for a principal and an entry, and its reasons.
// Without a definition, a decision that depends on the definition is left open.
func (p *Policy) Explain(who Principal, team, upstream, name string, definition []byte) Decision {
	t := p.owner(team, upstream)
	if t == nil {
		return Decision{Reason: fmt.Sprintf("no team %q has an upstream %q", team, upstream)}
	}
	e := explanation{who: who, team: team, name: name, facts: who.facts()}
	e.entry = entry{team: team, upstream: upstream, name: name, definition: definition}
	// The audience is not cached: an explanation must not displace an audience in use.
	e.audience = &Audience{policy: p, rules: string(p.rulesFor(who))}
	e.Reason = fmt.Sprintf("%s is not a member of team %q, and no expose block of that team is for %s and matches %q",
		who.Subject, team, who.Subject, name)
	e.Chain = []Step{{Rule: t.upstreams[upstream].String(), Text: fmt.Sprintf("upstream %q of "+
		"team %q owns it", upstream, team)}}
	// In order of precedence: hide blocks before rules, and the gateway's before the team's.
	e.hides(p.hides, ownerOf(""))
	e.hides(t.hides, ownerOf(team))
	e.rules(t)
	switch {
	case e.isDecided: // a step has decided and given its reason
	case e.undecided != "":
		e.Depends, e.Reason = true, e.undecided
	case e.unmet != "":
		e.Reason = e.unmet
	}
	return e.Decision
}

// explanation is a decision in progress.
type explanation struct {
	Decision

	who        Principal
	team, name string
	entry      entry
	audience   *Audience
	facts      config.PrincipalFacts
	isDecided  bool // by a step
	// undecided is the first step that depends on something unknown. mayHide is true if such a step
	// may hide what later steps show.
	undecided string
	mayHide   bool
	// unmet is the first step about an expose block that names the principal. It is the reason if
	// no step decides and no step depends on something unknown: the block's condition is false.
	unmet string
}

// step adds a step. The first applicable step decides, with one exception: while an undecided hide
// block may hide the prompt, a step that shows it does not decide.
func (e *explanation) step(rule, text string, applies, shows bool) {
	// Later steps are also listed: they show people the effect of removing the deciding block.
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
	// unknown is true if the condition reads something that was not given.
	unknown bool
}

// evaluate evaluates a block's condition with the known facts.
func (e *explanation) evaluate(b *block) outcome {
	if b.When == nil {
		return outcome{applies: true}
	}
	because := fmt.Sprintf("when = %s ", b.When)
	holds, err := b.When.Holds(e.entry.read(), e.facts)
	switch {
	case errors.Is(err, config.ErrUnknown): // not a failure: the condition may be true or false
		return outcome{because: because + "depends on " + e.missing(b.When), unknown: true}
	case err != nil:
		return outcome{applies: b.fallback, because: because + "cannot be evaluated: " + err.Error()}
	case holds:
		return outcome{applies: true, because: because + "holds"}
	}
	return outcome{because: because + "does not hold"}
}

// missing names the facts that a condition needs and that were not given.
func (e *explanation) missing(when *config.Condition) string {
	claims := e.who.ClaimsUnknown && when.ReadsClaims()
	switch definition := when.ReadsDefinition && e.entry.definition == nil; {
	case claims && definition:
		return "the prompt's definition and the principal's claims, which are not known here"
	case claims:
		return "the principal's claims, which are not known here"
	}
	return "the prompt's definition, which is not known here"
}

// hides adds a step for each hide block that matches the name: it hides the prompt, may hide it, or
// does not.
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

// leaveOpen remembers the first step with an unknown outcome, unless a step has already decided.
func (e *explanation) leaveOpen(out outcome, text string) {
	if out.unknown && !e.isDecided && e.undecided == "" {
		e.undecided = text
	}
}

// rules adds a step for each rule that matches the name, whether or not it names the principal.
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

// describe describes the rule for a principal; named is true if the rule names the principal.
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

// names lists selectors in the form of the configuration.
func names(to []config.Selector) string {
	words := make([]string, 0, len(to))
	for _, selector := range to {
		words = append(words, selector.String())
	}
	return strings.Join(words, ", ")
}

// Reader is a principal or group to whom a rule shows an entry.
type Reader struct {
	// Who is a user, a group or everybody. Teams are replaced by their members.
	Who config.Selector
	// When is the condition that the principal must satisfy; empty for none.
	When string
	// Rule is the location of the rule's block, as PATH:LINE. By is the title of an expose block,
	// or the membership of a team.
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

// Readers returns all readers of an entry, each once, with the first rule that shows it to them, in
// the order of the rules. It agrees with [Policy.Explain].
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
			// Two rules may show the entry to the same readers. Explain names the first one.
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

// selectorsOf returns the selectors of a rule, with teams replaced by their members.
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

// HiddenBy returns the first hide block that removes an entry for everyone, or the zero Step. If
// definition is nil, the block may depend on the definition.
func (p *Policy) HiddenBy(team, upstream, name string, definition []byte) Step {
	t := p.owner(team, upstream)
	if t == nil {
		return Step{}
	}
	e := &entry{team: team, upstream: upstream, name: name, definition: definition}
	// Blocks that depend on the caller are ignored.
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
			if definition == nil && hide.When != nil && hide.When.ReadsDefinition {
				what = "may remove it, depending on its definition, which is not known here"
			}
			return Step{Rule: hide.Place.String(), Text: hide.named.Title + " " + owner + " " + what, Decides: true}
		}
	}
	return Step{}
}
