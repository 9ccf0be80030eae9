package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Decision is whether a principal may see an entry, and why.
type Decision struct {
	Visible bool
	// Depends means that it depends on the prompt's definition or the principal's claims, which were not given: Visible is
	// false then.
	Depends bool
	// Rule is where the block that decides begins, as PATH:LINE; empty where no block shows the entry to
	// the principal and none hides it.
	Rule string
	// Reason says it in words.
	Reason string
	// Chain is everything that bears on the entry, in order of precedence.
	Chain []Step
}

// Step is one thing that bears on an entry.
type Step struct {
	// Rule is where the step's block begins, as PATH:LINE.
	Rule string
	// Text says what the block does.
	Text string
	// Decides marks the one step that made the decision; there is none where no block did.
	Decides bool
}

// Explain says what [Audience.Allows] answers for the principal's audience and the entry's [Grants], and why. Without a
// definition, what depends on it is left open.
func (p *Policy) Explain(who Principal, team, upstream, name string, definition []byte) Decision {
	t := p.owner(team, upstream)
	if t == nil {
		return Decision{Reason: fmt.Sprintf("no team %q has an upstream %q", team, upstream)}
	}
	e := explanation{who: who, team: team, name: name, facts: who.facts()}
	e.entry = subject{team: team, upstream: upstream, name: name, definition: definition}
	// An audience of its own: to explain must not push out those in use.
	e.audience = &Audience{policy: p, rules: string(p.rulesFor(who))}
	e.Reason = fmt.Sprintf("%s is not a member of team %q, and no expose block of that team is for %s and matches %q",
		who.Subject, team, who.Subject, name)
	e.Chain = []Step{{Rule: t.upstreams[upstream].String(), Text: fmt.Sprintf("upstream %q of team %q owns it", upstream, team)}}
	e.hides(p.hides, "of the gateway")
	e.hides(t.hides, fmt.Sprintf("of team %q", team))
	e.rules(t)
	switch {
	case e.Rule != "":
	case e.open != "":
		e.Depends, e.Reason = true, e.open
	case e.closed != "":
		e.Reason = e.closed
	}
	return e.Decision
}

// explanation is a decision in the making.
type explanation struct {
	Decision

	who        Principal
	team, name string
	entry      subject
	audience   *Audience
	facts      config.PrincipalFacts
	// open is the first step that depends on what is not known; hidden, that it may hide what later steps show.
	open   string
	hidden bool
	// closed is the first expose block that is for the principal and whose when does not hold.
	closed string
}

// step adds a step. The first that counts decides, but none shows what a hide block may hide.
func (e *explanation) step(rule, text string, counts, shows bool) {
	decides := counts && e.Rule == "" && (!shows || !e.hidden)
	e.Chain = append(e.Chain, Step{rule, text, decides})
	if decides {
		e.Rule, e.Reason, e.Visible = rule, text, shows
	}
}

// when evaluates a block's condition, and says so.
func (e *explanation) when(b *block) (counts bool, because string) {
	if b.When == nil {
		return true, ""
	}
	because = fmt.Sprintf("when = %s ", b.When)
	counts, err := b.When.Holds(e.entry.read(), e.facts)
	switch {
	case errors.Is(err, config.ErrUnknown):
		return false, because + "depends on " + e.missing(b.When)
	case err != nil:
		return b.otherwise, because + "cannot be evaluated: " + err.Error()
	case counts:
		return true, because + "holds"
	}
	return false, because + "does not hold"
}

// missing says what a condition depends on that is not known.
func (e *explanation) missing(when *config.Condition) string {
	claims := e.who.ClaimsUnknown && when.ReadsClaims()
	switch definition := when.ReadsPrompt() && e.entry.definition == nil; {
	case claims && definition:
		return "the prompt's definition and the principal's claims, which are not known here"
	case claims:
		return "the principal's claims, which are not known here"
	}
	return "the prompt's definition, which is not known here"
}

// hides adds the blocks that hide the name, or would.
func (e *explanation) hides(hides []*block, whose string) {
	for _, hide := range hides {
		if !hide.Matches(e.name) {
			continue
		}
		counts, because := e.when(hide)
		text := title("hide", hide.Rule) + " " + whose
		switch {
		case because == "":
			text += " removes it from everybody"
		case counts:
			text += " removes it: " + because
		case e.opens(because):
			text += " may remove it: " + because
		default:
			text += " does not remove it: " + because
		}
		e.note(because, text)
		e.hidden = e.hidden || e.opens(because)
		e.step(hide.Place.String(), text, counts, false)
	}
}

// opens reports whether the reason is that something is not known.
func (e *explanation) opens(because string) bool { return strings.HasSuffix(because, "not known here") }

// note remembers a step that leaves the decision open, if nothing before it decided.
func (e *explanation) note(because, text string) {
	if e.opens(because) && e.Rule == "" && e.open == "" {
		e.open = text
	}
}

// rules adds the rules that show the name, to the principal or to others.
func (e *explanation) rules(t *team) {
	for id := t.first; id < t.end; id++ {
		r := &e.audience.policy.rules[id]
		if !r.shows(e.name) {
			continue
		}
		applies := e.audience.has(id)
		text, counts := r.describe(e.who, applies), applies
		if r.expose != nil && applies {
			var because string
			if counts, because = e.when(r.expose); because != "" {
				text = fmt.Sprintf("%s of team %q is for %s, and %s", title("expose", r.expose.Rule), r.team, e.who.Subject, because)
				e.note(because, text)
			}
			if !counts && e.closed == "" {
				e.closed = text
			}
		}
		e.step(r.place.String(), text, counts, true)
	}
}

func (r *rule) describe(who Principal, applies bool) string {
	switch {
	case r.expose != nil && applies:
		return fmt.Sprintf("%s of team %q shows it to %s", title("expose", r.expose.Rule), r.team, who.Subject)
	case r.expose != nil:
		return fmt.Sprintf("%s of team %q shows it to %s, not to %s",
			title("expose", r.expose.Rule), r.team, names(r.expose.To), who.Subject)
	case who.EveryTeam:
		return fmt.Sprintf("%s is a member of team %q, as of every team: there is no auth block", who.Subject, r.team)
	case applies:
		return fmt.Sprintf("%s is a member of team %q", who.Subject, r.team)
	default:
		return fmt.Sprintf("%s is not a member of team %q", who.Subject, r.team)
	}
}

func title(kind string, block *config.Rule) string {
	if block.Label == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, block.Label)
}

func names(to []config.Selector) string {
	words := make([]string, 0, len(to))
	for _, selector := range to {
		words = append(words, selector.String())
	}
	return strings.Join(words, ", ")
}
