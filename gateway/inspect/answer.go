package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Answer is the result of [Ask]: who sees an exposed name, and why.
type Answer struct {
	Name string `json:"name"`
	// Principal is empty if the answer is about all principals.
	Principal string `json:"principal,omitempty"`
	// Visible is true if the principal sees the prompt or, in an answer about all principals, if any
	// principal does. An upstream with an unknown list counts as offering the prompt.
	Visible bool `json:"visible"`
	// Undecided is true if the decision about any of the upstreams depends on unknown facts.
	Undecided bool `json:"undecided,omitempty"`
	// Offered is a sentence about the upstreams that offer the prompt.
	Offered string `json:"offered"`
	// Upstreams are the upstreams that offer the prompt or may offer it. If there are none, an answer
	// about one principal contains the upstreams whose prefix matches the name.
	Upstreams []AnswerUpstream `json:"upstreams"`
}

// AnswerUpstream is the answer for the prompt of one upstream.
type AnswerUpstream struct {
	Upstream string `json:"upstream"`
	Team     string `json:"team"`
	// Own is the upstream's own name for the prompt. It is empty if the answer is about all
	// principals.
	Own string `json:"own_name,omitempty"`
	// Offers is "yes", "no", or "unknown" if the upstream's list is unknown.
	Offers  string `json:"offers"`
	Visible bool   `json:"visible"`
	// Undecided is true if the decision depends on unknown facts. If so, Visible is false.
	Undecided bool `json:"undecided,omitempty"`
	// Verdict is the decision in words, as if the upstream offered the prompt. It is empty if the
	// answer is about all principals.
	Verdict string `json:"-"`
	// Rule and Reason explain the decision. If the answer is about all principals, they are set only if
	// no principal sees the prompt.
	Rule   string        `json:"rule,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Steps  []policy.Step `json:"steps,omitempty"`
	// Readers are the principals who see the prompt. It is nil if the answer is about one principal.
	Readers []AnswerReader `json:"readers,omitempty"`
}

// AnswerReader is a user or group that sees a prompt, with the location (Rule) and the title (By) of
// the rule that shows it.
type AnswerReader struct {
	Who  string `json:"who"`
	Rule string `json:"rule"`
	By   string `json:"by"`
}

// Ask explains whether a principal sees an exposed name. If principal is nil, it returns all readers
// of the name.
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

// add adds the answer for the prompt of one upstream.
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

// IsOffered reports whether an upstream offers the prompt or may offer it.
func (a *Answer) IsOffered() bool {
	return slices.ContainsFunc(a.Upstreams, func(u AnswerUpstream) bool { return u.Offers != "no" })
}

// IsUnknown reports whether an upstream with an unknown list may offer the prompt.
func (a *Answer) IsUnknown() bool {
	return slices.ContainsFunc(a.Upstreams, func(u AnswerUpstream) bool { return u.Offers == "unknown" })
}

// String returns the answer as lines for a terminal.
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

// write writes the answer about one principal and one upstream.
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

// writeReaders writes the readers of one upstream's prompt.
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

// offered returns the text of [Answer.Offered]: a report about the name, its owners, the step that
// leaves the prompt out, the upstreams with unknown lists, or a guess.
func offered(s *snapshot.Snapshot, name string) string {
	for _, report := range slices.Backward(s.Reports()) {
		if report.Name == name {
			return report.Text
		}
	}
	if entry := s.Catalog.Lookup(name); entry != nil {
		owners := exslices.CastFunc(entry.Owners, func(o catalog.Owner) string { return o.Upstream })
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
	names := exslices.CastFunc(s.Catalog.Entries(), func(e *catalog.Entry) string { return e.Name })
	return notOffered + strings.TrimSuffix(Suggest(name, s.Config.Gateway.Separator, names), ".")
}

// Suggest is [config.Suggest] for names of prompts, whose prefix people often leave out. If there are names with the
// same prefix, it suggests only such a name.
func Suggest(name, separator string, known []string) string {
	known = known[:min(len(known), maxGuesses)]
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, separator+name) }); i >= 0 {
		return config.Suggest(known[i], known)
	}
	head, own, _ := strings.Cut(name, separator)
	head += separator
	var beside []string
	for _, k := range known {
		if rest, ok := strings.CutPrefix(k, head); ok {
			beside = append(beside, rest)
		}
	}
	if len(beside) > 0 {
		return strings.Replace(config.Suggest(own, beside), `"`, `"`+head, 1)
	}
	return config.Suggest(name, known)
}

const (
	// notOffered begins [Answer.Offered] for a name that no upstream offers. A guess may follow.
	notOffered = "no upstream offers it"
	// maxGuesses bounds the names that Suggest compares with the unknown name.
	maxGuesses = 10_000
)

// Entries returns the entries that a principal sees, or all entries if principal is nil.
func Entries(s *snapshot.Snapshot, principal *policy.Principal) []*catalog.Entry {
	if principal == nil {
		return s.Catalog.Entries()
	}
	return s.View(s.Policy.Audience(*principal)).Entries()
}

// Lock returns a lock file that approves all listed prompts, even if the current lock leaves them out.
// If several upstreams list the same exposed name, the definition of the first upstream counts.
func Lock(s *snapshot.Snapshot) config.Lock {
	seen := map[string]bool{}
	var prompts []config.LockedPrompt
	for i, source := range s.Sources {
		for _, definition := range s.Definitions(i) {
			prompt, err := catalog.ParseDefinition(definition, source.Skills)
			if err != nil {
				continue // the catalog leaves out a malformed definition and reports it
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

// readerships returns the readers of an exposed name for each of its owners. If the catalog does not
// contain the name, it returns the readers for each upstream that may own it and whose list is unknown.
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
			// The definition is unknown, so rules with a condition on the definition do not count.
			add(c.Source.Upstream, c.Source.Team, "unknown", nil)
		}
	}
	return all
}

// Admission lists the steps by which one upstream's definition is admitted to the catalog or left out.
type Admission struct {
	Upstream string
	// Steps are about the prompt block, the lock file, the screens and more. The first step that leaves
	// the prompt out decides.
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
