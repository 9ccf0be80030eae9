package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Answer explains who sees an exposed name, for people and programs.
type Answer struct {
	Name string `json:"name"`
	// Principal is empty if the answer is about all principals.
	Principal string `json:"principal,omitempty"`
	// Visible is true if the principal sees the prompt or, in an answer about all principals, if
	// any of them does. If it is unknown whether an upstream offers the prompt, Visible assumes
	// that one does.
	Visible bool `json:"visible"`
	// Undecided is true if the prompt is not visible, and that depends on unknown facts.
	Undecided bool `json:"undecided,omitempty"`
	// Offered describes which upstreams offer the prompt.
	Offered string `json:"offered"`
	// Upstreams are the upstreams that offer the prompt, or may do so.
	Upstreams []AnswerUpstream `json:"upstreams"`
}

// AnswerUpstream is the answer for the prompt of one upstream.
type AnswerUpstream struct {
	Upstream string `json:"upstream"`
	Team     string `json:"team"`
	// Own is the upstream's own name for the prompt. It is empty if the answer is about all
	// principals.
	Own string `json:"own_name,omitempty"`
	// Offers is "yes", "no" or "unknown".
	Offers  string `json:"offers"`
	Visible bool   `json:"visible"`
	// Undecided is true if the decision depends on unknown facts. If so, Visible is false.
	Undecided bool `json:"undecided,omitempty"`
	// Verdict is the decision in words. If the upstream does not offer the prompt, Verdict assumes
	// that it does.
	Verdict string `json:"-"`
	// Rule and Reason explain why the principal sees the prompt or not. If the answer is about all
	// principals, they explain only why no principal sees it.
	Rule   string        `json:"rule,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Steps  []policy.Step `json:"steps,omitempty"`
	// Readers see the prompt, if the answer is about all principals.
	Readers []AnswerReader `json:"readers,omitempty"`
}

// AnswerReader is a user or group that sees a prompt, and the location and the title of the rule.
type AnswerReader struct {
	Who  string `json:"who"`
	Rule string `json:"rule"`
	By   string `json:"by"`
}

// Ask returns who sees an exposed name: for a principal, whether it does and why; for nil, all
// readers.
func Ask(s *snapshot.Snapshot, principal *policy.Principal, name string) *Answer {
	answer := &Answer{Name: name, Upstreams: []AnswerUpstream{}}
	if principal != nil {
		answer.Principal = principal.Subject
		for _, explanation := range Explain(s, *principal, name) {
			answer.add(&explanation)
		}
	} else {
		for _, u := range readerships(s, name) {
			answer.Visible = answer.Visible || u.Visible
			answer.Upstreams = append(answer.Upstreams, u)
		}
	}
	answer.Offered = offered(s, name)
	return answer
}

// add adds the explanation for one upstream.
func (a *Answer) add(x *Explanation) {
	u := AnswerUpstream{
		Upstream: x.Upstream, Team: x.Team, Own: x.Own, Offers: "yes",
		Visible: x.Visible && !x.Absent, Undecided: x.Depends,
		Rule: x.Rule, Reason: x.Reason, Steps: x.Chain,
	}
	u.Verdict = "not visible"
	switch {
	case x.Depends:
		u.Verdict = "possibly visible"
	case x.Visible:
		u.Verdict = "visible"
	}
	switch {
	case x.Absent:
		u.Offers, u.Undecided = "no", false
	case x.Unknown:
		u.Offers = "unknown"
	}
	a.Visible, a.Undecided = a.Visible || u.Visible, a.Undecided || u.Undecided
	a.Upstreams = append(a.Upstreams, u)
}

// IsOffered reports whether an upstream offers the prompt or may do so.
func (a *Answer) IsOffered() bool {
	return slices.ContainsFunc(a.Upstreams, func(u AnswerUpstream) bool { return u.Offers != "no" })
}

// IsUnknown reports whether an upstream with an unknown list may offer the prompt.
func (a *Answer) IsUnknown() bool {
	return slices.ContainsFunc(a.Upstreams, func(u AnswerUpstream) bool { return u.Offers == "unknown" })
}

// String returns the answer for a terminal. The answer comes before its reasons.
func (a *Answer) String() string {
	var text strings.Builder
	switch {
	case len(a.Upstreams) == 0 && a.Principal != "":
		_, guess, _ := strings.Cut(a.Offered, notOffered)
		fmt.Fprintf(&text, "no upstream offers %s: none has a prefix that matches this name, "+
			"so no prompt can have it%s\n", a.Name, guess)
		return text.String()
	case len(a.Upstreams) == 0:
		fmt.Fprintf(&text, "nobody sees %s: %s\n", a.Name, a.Offered)
		return text.String()
	case !a.IsOffered():
		fmt.Fprintf(&text, "no upstream offers %s\n", a.Name)
	}
	for i := range a.Upstreams {
		if a.Principal == "" {
			a.writeReaders(&text, &a.Upstreams[i])
		} else {
			a.write(&text, &a.Upstreams[i])
		}
	}
	fmt.Fprintln(&text, a.Offered)
	return text.String()
}

// write writes the part about one upstream.
func (a *Answer) write(text *strings.Builder, u *AnswerUpstream) {
	rule := cmp.Or(u.Rule, "no rule")
	switch {
	case u.Offers == "no":
		fmt.Fprintf(text, "%s is not visible to %s: upstream %s (team %s) does not offer %q\n",
			a.Name, a.Principal, u.Upstream, u.Team, u.Own)
		would := "would be " + u.Verdict
		if u.Verdict == "not visible" {
			would = "would not be visible"
		}
		fmt.Fprintf(text, "  if it did, the prompt %s, decided by %s: %s\n", would, rule, u.Reason)
	case u.Offers == "unknown" && u.Visible:
		fmt.Fprintf(text, "%s is %s to %s if upstream %s (team %s) offers %q, which is unknown\n",
			a.Name, u.Verdict, a.Principal, u.Upstream, u.Team, u.Own)
		fmt.Fprintf(text, "  decided by %s: %s\n", rule, u.Reason)
	default:
		fmt.Fprintf(text, "%s is %s to %s, as %q of upstream %s (team %s)\n",
			a.Name, u.Verdict, a.Principal, u.Own, u.Upstream, u.Team)
		fmt.Fprintf(text, "  decided by %s: %s\n", rule, u.Reason)
	}
	for _, step := range u.Steps {
		mark := " "
		if step.Decides {
			mark = "*"
		}
		fmt.Fprintf(text, "  %s %s: %s\n", mark, step.Rule, step.Text)
	}
}

// writeReaders writes who sees the prompt of one upstream.
func (a *Answer) writeReaders(text *strings.Builder, u *AnswerUpstream) {
	if len(u.Readers) == 0 {
		fmt.Fprintf(text, "nobody sees %s of upstream %s (team %s): %s\n", a.Name, u.Upstream, u.Team, u.Reason)
		if u.Rule != "" {
			fmt.Fprintf(text, "  decided by %s\n", u.Rule)
		}
		return
	}
	fmt.Fprintf(text, "%s of upstream %s (team %s) is visible to\n", a.Name, u.Upstream, u.Team)
	for _, reader := range u.Readers {
		fmt.Fprintf(text, "    %s: %s\n", reader.Rule, reader.Who)
	}
	if u.Offers == "unknown" {
		fmt.Fprintln(text, "  its definition is unknown: rules that read it are not counted")
	}
}

// offered returns a clause about the upstreams that offer a name: a report, the owners, the reason
// why a prompt is left out, or the upstreams with unknown lists.
func offered(s *snapshot.Snapshot, name string) string {
	for _, report := range slices.Backward(s.Reports()) {
		if report.Name == name {
			return report.Text
		}
	}
	if entry := s.Catalog.Lookup(name); entry != nil {
		var owners []string
		for _, owner := range entry.Owners {
			owners = append(owners, owner.Upstream)
		}
		return "offered by " + strings.Join(owners, ", ")
	}
	for _, a := range Admissions(s, name) {
		for _, step := range a.Steps {
			if step.Decides {
				return "upstream " + a.Upstream + " offers it, but " + step.Text
			}
		}
	}
	var unknown []string
	for _, c := range s.Candidates(name) {
		if prompt, listed := listedPrompt(s, &c.Source, c.Own); prompt == nil && !listed {
			unknown = append(unknown, c.Source.Upstream)
		}
	}
	if len(unknown) > 0 {
		return fmt.Sprintf("unknown whether %s offers it", strings.Join(unknown, " or "))
	}
	return notOffered + strings.TrimSuffix(guess(s, name), ".")
}

// guess suggests a listed name in place of an unknown one, preferably a name with the same prefix.
func guess(s *snapshot.Snapshot, name string) string {
	head, own, _ := strings.Cut(name, s.Config.Gateway.Separator)
	head += s.Config.Gateway.Separator
	var all, beside []string
	entries := s.Catalog.Entries()
	for _, entry := range entries[:min(len(entries), maxGuesses)] {
		all = append(all, entry.Name)
		if rest, ok := strings.CutPrefix(entry.Name, head); ok {
			beside = append(beside, rest)
		}
	}
	if len(beside) > 0 {
		return strings.Replace(config.Suggest(own, beside), `"`, `"`+head, 1)
	}
	return config.Suggest(name, all)
}

const (
	// notOffered is the text for a name that no upstream offers. A guess may follow.
	notOffered = "no upstream offers it"
	// maxGuesses bounds the names that guess compares.
	maxGuesses = 10_000
)

// Entries returns the entries that a principal sees; for nil, all entries.
func Entries(s *snapshot.Snapshot, principal *policy.Principal) []*catalog.Entry {
	if principal == nil {
		return s.Catalog.Entries()
	}
	return s.View(s.Policy.Audience(*principal)).Entries()
}

// Lock returns a lock file that approves all listed prompts, including prompts that the current
// lock file leaves out. Each name has one definition, from the first upstream.
func Lock(s *snapshot.Snapshot) config.Lock {
	seen := map[string]bool{}
	var prompts []config.LockedPrompt
	for i, source := range s.Sources {
		for _, definition := range s.Definitions(i) {
			prompt, err := catalog.ParseDefinition(definition, source.Skills)
			if err != nil {
				continue // reported elsewhere, and never listed
			}
			name := s.ExposedName(&source, prompt.Name)
			locked, err := config.NewLockedPrompt(name, source.Upstream, prompt.Nameless())
			if err == nil && !seen[name] {
				seen[name] = true
				prompts = append(prompts, locked)
			}
		}
	}
	return config.NewLock(prompts)
}

// readerships returns who sees an exposed name, for each upstream that owns it. If the catalog does
// not have the name, it returns the upstreams that may own it because their lists are unknown.
func readerships(s *snapshot.Snapshot, name string) (all []AnswerUpstream) {
	add := func(upstream, team, offers string, definition []byte) {
		u := AnswerUpstream{Upstream: upstream, Team: team, Offers: offers}
		for _, r := range s.Policy.Readers(team, upstream, name, definition) {
			u.Readers = append(u.Readers, AnswerReader{r.String(), r.Rule, r.By})
		}
		if u.Visible = len(u.Readers) > 0; !u.Visible {
			u.Reason = "no rule shows it"
			if hide := s.Policy.HiddenBy(team, upstream, name, definition); hide.Decides {
				u.Rule, u.Reason = hide.Rule, hide.Text
			}
		}
		all = append(all, u)
	}
	if entry := s.Catalog.Lookup(name); entry != nil {
		for _, owner := range entry.Owners {
			add(owner.Upstream, entry.Team, "yes", entry.Facts())
		}
		return all
	}
	for _, c := range s.Candidates(name) {
		if _, listed := listedPrompt(s, &c.Source, c.Own); !listed {
			// Rules with a condition on the definition are left out.
			add(c.Source.Upstream, c.Source.Team, "unknown", nil)
		}
	}
	return all
}

// Admission lists the checks and changes of one upstream's definition on the way into the catalog.
type Admission struct {
	Upstream string
	// Steps are the prompt block, the lock file and the screen blocks. A step decides if it leaves
	// the prompt out.
	Steps []policy.Step
}

// Admissions returns the admission of an exposed name for each upstream that lists it.
func Admissions(s *snapshot.Snapshot, name string) (all []Admission) {
	for _, c := range s.Candidates(name) {
		prompt, _ := listedPrompt(s, &c.Source, c.Own)
		if prompt == nil {
			continue
		}
		all = append(all, Admission{c.Source.Upstream, newAdmissionChain(s, c, prompt, name).steps})
	}
	return all
}
