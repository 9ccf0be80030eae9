package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
)

// Decision is the answer of [Policy.Explain] about one principal and one entry.
type Decision struct {
	Visible bool
	// Depends is true if the decision depends on a definition or on claims that Explain did not get.
	// If so, Visible is false.
	Depends bool
	// Rule is the location of the deciding block, as PATH:LINE. It is empty if no block decided.
	Rule string
	// Reason explains the decision.
	Reason string
	// Chain lists the upstream's block, then every block that matches the entry, in order of
	// precedence.
	Chain []Step
}

// Step is one block that concerns an entry.
type Step struct {
	// Rule is the location of the block, as PATH:LINE.
	Rule string `json:"rule"`
	// Text describes the block.
	Text string `json:"text"`
	// Decides is true for the block that made the decision, in at most one step.
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
	// Order of precedence: the gateway's hide blocks, the team's hide blocks, then rules.
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
	isDecided  bool // true after the step that decides
	// undecided is the text of the first step that depends on an unknown definition or claim.
	undecided string
	// mayHide is true after a hide block that may hide the prompt, depending on unknown facts.
	mayHide bool
	// unmet is the text of the first expose block for the principal. If nothing decides and nothing is
	// unknown, it becomes the reason, because the condition of that block is false.
	unmet string
}

// step adds a step. The first step that applies decides, with one exception: after a hide block that
// may hide the prompt, a step that shows the prompt does not decide.
func (e *explanation) step(rule, text string, applies, shows bool) {
	// List the steps after the decision, too: they show what would follow without the deciding block.
	decides := applies && !e.isDecided && (!shows || !e.mayHide)
	e.Chain = append(e.Chain, Step{rule, text, decides})
	if decides {
		e.isDecided, e.Rule, e.Reason, e.Visible = true, rule, text, shows
	}
}

// outcome is the result of a block's condition.
type outcome struct {
	applies bool
	// because explains the result. It is empty if the block has no condition.
	because string
	// unknown is true if the result depends on a definition or on claims that Explain did not get.
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

// missing names the facts that a condition reads but that Explain did not get.
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

// hides adds a step for each hide block that matches the name, even if its condition is false.
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

// leaveOpen records the text of the first step with an unknown outcome, unless a step has already
// decided.
func (e *explanation) leaveOpen(out outcome, text string) {
	if out.unknown && !e.isDecided && e.undecided == "" {
		e.undecided = text
	}
}

// rules adds a step for each rule that matches the name, even if the rule is for other principals.
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
		e.step(r.named.Place, text, applies, true)
	}
}

// describe returns the text of a rule's step. named is true if the rule is for the principal.
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
	return strings.Join(exslices.CastFunc(to, config.Selector.String), ", ")
}

// Reader is a principal or group to whom a rule shows an entry.
type Reader struct {
	// Who is a user, a group or everybody. The members of a team replace the team.
	Who config.Selector
	// When is the condition that the principal must satisfy, or empty if there is no condition.
	When string
	// Rule is the location of the rule's block, as PATH:LINE.
	Rule string
	// By is the title of the expose block, or the text "membership of team …".
	By string
}

func (r Reader) String() string {
	if r.When == "" {
		return r.Who.String()
	}
	return r.Who.String() + " when " + r.When
}

// Everybody reports whether the rule shows the entry to everybody, without a condition.
func (r Reader) Everybody() bool { return r.Who.Kind == config.Anybody && r.When == "" }

// Readers returns the readers of an entry in the order of the rules, each once, with the first rule
// that shows the entry to that reader. It agrees with [Policy.Explain].
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
			reader := Reader{who, when, r.named.Place, by}
			// Two rules may show the entry to the same readers. Explain names the first one.
			if !slices.ContainsFunc(readers, func(other Reader) bool { return other.String() == reader.String() }) {
				readers = append(readers, reader)
			}
		}
	}
	return readers
}

// when returns the condition under which the i-th rule shows the entry and no hide block hides it,
// or "" if there is no condition.
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

// HiddenBy returns the first block that hides an entry from everyone, or the zero Step if no block
// does. It ignores blocks whose condition reads the principal. If definition is nil and the block's
// condition reads it, the text of the step says so.
func (p *Policy) HiddenBy(team, upstream, name string, definition []byte) Step {
	t := p.owner(team, upstream)
	if t == nil {
		return Step{}
	}
	_, hide := p.hidesOf(t, &entry{team: team, upstream: upstream, name: name, definition: definition})
	if hide == nil {
		return Step{}
	}
	owner, what := ownerOf(team), "removes it from everybody"
	if slices.Contains(p.hides, hide) {
		owner = ownerOf("")
	}
	if definition == nil && hide.When != nil && hide.When.ReadsDefinition {
		what = "may remove it, depending on its definition, which is not known here"
	}
	return Step{Rule: hide.Place.String(), Text: hide.named.Title + " " + owner + " " + what, Decides: true}
}
