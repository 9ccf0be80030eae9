package policy

import (
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Decision is whether a principal may see an entry, and why.
type Decision struct {
	Visible bool
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

// Explain says what [Audience.Allows] answers for the principal's audience and the entry's [Grants], and why.
func (p *Policy) Explain(who Principal, team, upstream, name string) Decision {
	t := p.owner(team, upstream)
	if t == nil {
		return Decision{Reason: fmt.Sprintf("no team %q has an upstream %q", team, upstream)}
	}
	// An audience of its own: to explain must not push out those in use.
	audience := &Audience{p, string(p.rulesFor(who))}
	allowedBy := audience.allowedBy(p.Grants(team, upstream, name))

	decision := Decision{
		Visible: allowedBy != nil,
		Reason: fmt.Sprintf("%s is not a member of team %q, and no expose block of that team is for %s and matches %q",
			who.Subject, team, who.Subject, name),
		Chain: []Step{{Rule: t.upstreams[upstream].String(), Text: fmt.Sprintf("upstream %q of team %q owns it", upstream, team)}},
	}
	decision.Chain = append(decision.Chain, p.hideSteps(t, team, name)...)
	decision.Chain = append(decision.Chain, audience.ruleSteps(t, who, name, allowedBy)...)
	for _, step := range decision.Chain {
		if step.Decides {
			decision.Rule, decision.Reason = step.Rule, step.Text
		}
	}
	return decision
}

// hideSteps are the blocks that hide a name of a team's: the first decides.
func (p *Policy) hideSteps(t *team, teamName, name string) (steps []Step) {
	decides := p.hide(t, name)
	add := func(hides []config.Rule, whose string) {
		for i := range hides {
			if hide := &hides[i]; hide.Matches(name) {
				text := title("hide", hide) + " " + whose + " removes it from everybody"
				steps = append(steps, Step{hide.Place.String(), text, hide == decides})
			}
		}
	}
	add(p.hides, "of the gateway")
	add(t.hides, fmt.Sprintf("of team %q", teamName))
	return steps
}

// ruleSteps are the rules that show a name of a team's, to the audience or to others.
func (a *Audience) ruleSteps(t *team, who Principal, name string, decides *rule) (steps []Step) {
	for id := t.first; id < t.end; id++ {
		if r := &a.policy.rules[id]; r.shows(name) {
			steps = append(steps, Step{r.place.String(), r.describe(who, a.has(id)), r == decides})
		}
	}
	return steps
}

func (r *rule) describe(who Principal, applies bool) string {
	switch {
	case r.expose != nil && applies:
		return fmt.Sprintf("%s of team %q shows it to %s", title("expose", r.expose), r.team, who.Subject)
	case r.expose != nil:
		return fmt.Sprintf("%s of team %q shows it to %s, not to %s",
			title("expose", r.expose), r.team, names(r.expose.To), who.Subject)
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
