package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	listSource
	principalFlags

	output string
}

func (a *app) explainCommand() *cobra.Command {
	e := &explainFlags{listSource: listSource{app: a}}
	command := &cobra.Command{
		Use: "explain NAME", Short: "Explain whether a principal sees a prompt, and which rule decides",
		Long: "Explain whether a principal sees the prompt with an exposed name, and which rule decides; without --as, who sees it.\n\n" +
			"Each step is printed with the place of its rule; the deciding one is marked with *. Without --state or --live, only the " +
			"configuration is evaluated. With them, explain also prints which upstreams offer the prompt. The exit code is 1 if the " +
			"prompt is not visible.",
		Example: "  promptweir explain billing.invoice --config promptweir --as user:bob,group:support\n" +
			"  promptweir explain billing.invoice --config promptweir --live",
		SuggestFor: []string{"why"},
		Args:       takes(cobra.ExactArgs(1)),
		RunE:       func(cmd *cobra.Command, args []string) error { return e.explain(cmd.Context(), args[0]) },
	}
	e.principalFlags.addTo(command, a, "`PRINCIPAL` to explain for, for example user:alice,group:payments")
	e.listSource.addTo(command)
	addOutput(command, &e.output, formatText, formatJSON)
	command.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return (&query{listSource: e.listSource}).completePrompts(1)(cmd, args, word)
	}
	return command
}

func (e *explainFlags) explain(ctx context.Context, name string) error {
	if e.claims != "" && e.as == "" {
		return errClaimsWithoutAs
	}
	if err := e.check(); err != nil {
		return err
	}
	cfg, err := e.load(!e.live)
	if err != nil {
		return err
	}
	principal, err := e.principalToExplain(cfg)
	if err != nil {
		return err
	}
	return e.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		result := e.explanation(s, principal, name)
		if e.output == formatJSON {
			err = printJSON(e.out, result)
		} else {
			_, err = io.WriteString(e.out, result.String())
		}
		if err == nil && !result.Visible && !result.Undecided {
			err = errReported
		}
		return err
	})
}

// explanation is what explain prints.
type explanation struct {
	Name string `json:"name"`
	// Principal is empty where it is about all principals.
	Principal string `json:"principal,omitempty"`
	// Visible says that the principal sees the prompt or, without one, that anybody does. Where it is not known whether an upstream
	// offers the prompt, that is on condition that one does.
	Visible bool `json:"visible"`
	// Undecided is true where it is not visible, and that depends on something that is not known.
	Undecided bool `json:"undecided,omitempty"`
	// Offered says which upstreams offer the prompt, as far as that is known.
	Offered string `json:"offered"`
	// Upstreams are those that offer the prompt, or could.
	Upstreams []explainedUpstream `json:"upstreams"`
}

// explainedUpstream is what becomes of the name as the prompt of one upstream.
type explainedUpstream struct {
	Upstream string `json:"upstream"`
	Team     string `json:"team"`
	// Own is the upstream's own name for the prompt; empty where it is about all principals.
	Own string `json:"own_name,omitempty"`
	// Offers is "yes", "no" or "unknown".
	Offers  string `json:"offers"`
	Visible bool   `json:"visible"`
	// Undecided is true where the decision depends on what is not known; then Visible is false.
	Undecided bool `json:"undecided,omitempty"`
	// verdict is the decision in words: where the upstream does not offer the prompt, what it would be.
	verdict string
	Rule    string          `json:"rule,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Steps   []explainedStep `json:"steps,omitempty"`
	// Readers are who sees the prompt, where it is about all principals.
	Readers []explainedReader `json:"readers,omitempty"`
}

type explainedStep struct {
	Rule    string `json:"rule"`
	Text    string `json:"text"`
	Decides bool   `json:"decides,omitempty"`
}

type explainedReader struct {
	Who  string `json:"who"`
	Rule string `json:"rule"`
}

// explanation explains a name for a principal or, if it is nil, for all.
func (e *explainFlags) explanation(s *snapshot.Snapshot, principal *policy.Principal, name string) *explanation {
	result := &explanation{Name: name, Upstreams: []explainedUpstream{}}
	explanations := inspect.Explain(s, policy.Principal{}, name)
	if principal != nil {
		result.Principal = principal.Subject
		explanations = inspect.Explain(s, *principal, name)
		for i := range explanations {
			result.add(&explanations[i])
		}
	} else {
		for _, r := range inspect.Readers(s, name) {
			result.addReaders(&r)
		}
	}
	result.Offered = e.offered(s, explanations, name)
	return result
}

// add adds what becomes of the name for the principal.
func (e *explanation) add(x *inspect.Explanation) {
	u := explainedUpstream{
		Upstream: x.Upstream, Team: x.Team, Own: x.Own, Offers: "yes", Visible: x.Visible && !x.Absent, Undecided: x.Depends,
		Rule: x.Rule, Reason: x.Reason,
	}
	u.verdict = "not visible"
	switch {
	case x.Depends:
		u.verdict = "possibly visible"
	case x.Visible:
		u.verdict = "visible"
	}
	switch {
	case x.Absent:
		u.Offers, u.Undecided = "no", false
	case x.Unknown:
		u.Offers = "unknown"
	}
	for _, step := range x.Chain {
		u.Steps = append(u.Steps, explainedStep{step.Rule, step.Text, step.Decides})
	}
	e.Visible, e.Undecided = e.Visible || u.Visible, e.Undecided || u.Undecided
	e.Upstreams = append(e.Upstreams, u)
}

// addReaders adds who sees the name.
func (e *explanation) addReaders(r *inspect.Readership) {
	u := explainedUpstream{Upstream: r.Upstream, Team: r.Team, Offers: "yes", Visible: len(r.Readers) > 0}
	if r.Unknown {
		u.Offers = "unknown"
	}
	for _, reader := range r.Readers {
		u.Readers = append(u.Readers, explainedReader{reader.String(), reader.Rule})
	}
	e.Visible = e.Visible || u.Visible
	e.Upstreams = append(e.Upstreams, u)
}

// String writes the explanation for a person: the whole truth first.
func (e *explanation) String() string {
	var text strings.Builder
	isOffered := slices.ContainsFunc(e.Upstreams, func(u explainedUpstream) bool { return u.Offers != "no" })
	switch {
	case len(e.Upstreams) == 0 && e.Principal != "":
		fmt.Fprintf(&text, "no upstream offers %s: none has a prefix that matches this name, so no prompt can have it\n", e.Name)
		return text.String()
	case len(e.Upstreams) == 0:
		fmt.Fprintf(&text, "nobody sees %s: %s\n", e.Name, e.Offered)
		return text.String()
	case !isOffered:
		fmt.Fprintf(&text, "no upstream offers %s\n", e.Name)
	}
	for i := range e.Upstreams {
		if e.Principal == "" {
			e.writeReaders(&text, &e.Upstreams[i])
		} else {
			e.write(&text, &e.Upstreams[i])
		}
	}
	fmt.Fprintln(&text, e.Offered)
	return text.String()
}

// write writes what becomes of the name for the principal.
func (e *explanation) write(text *strings.Builder, u *explainedUpstream) {
	rule := u.Rule
	if rule == "" {
		rule = "no rule"
	}
	if u.Offers == "no" {
		fmt.Fprintf(text, "%s is not visible to %s: upstream %s (team %s) does not offer %q\n", e.Name, e.Principal, u.Upstream, u.Team, u.Own)
		fmt.Fprintf(text, "  if it did, the prompt would be %s, decided by %s: %s\n", u.verdict, rule, u.Reason)
	} else {
		fmt.Fprintf(text, "%s is %s to %s, as %q of upstream %s (team %s)\n", e.Name, u.verdict, e.Principal, u.Own, u.Upstream, u.Team)
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

// writeReaders writes who sees the name.
func (e *explanation) writeReaders(text *strings.Builder, u *explainedUpstream) {
	if len(u.Readers) == 0 {
		fmt.Fprintf(text, "nobody sees %s of upstream %s (team %s): no rule shows it\n", e.Name, u.Upstream, u.Team)
		return
	}
	fmt.Fprintf(text, "%s of upstream %s (team %s) is visible to\n", e.Name, u.Upstream, u.Team)
	for _, reader := range u.Readers {
		fmt.Fprintf(text, "    %s: %s\n", reader.Rule, reader.Who)
	}
	if u.Offers == "unknown" {
		fmt.Fprintln(text, "  its definition is not known: rules that read it are not counted")
	}
}

// principalToExplain returns the principal of the flags, or nil for all principals. Without an auth block it defaults to an
// anonymous caller, as every caller is then.
func (e *explainFlags) principalToExplain(cfg *config.Config) (*policy.Principal, error) {
	switch {
	case e.as != "":
		principal, err := e.principal(cfg)
		return &principal, err
	case cfg.Auth != nil:
		return nil, nil //nolint:nilnil // all principals
	}
	return &policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}, nil
}

// offered returns a line that says which upstreams offer the name: a report about it if there is one, else its owners, else
// those whose lists are not known.
func (l *listSource) offered(s *snapshot.Snapshot, explanations []inspect.Explanation, name string) string {
	if !l.given() && len(s.Unlisted()) > 0 {
		return "whether an upstream offers it is not known: " + chooseSource
	}
	source, line := "live: ", "no upstream offers it"
	switch {
	case l.state != "":
		source = "saved lists: "
	case !l.live:
		source = "files: "
	}
	var unknown []string
	for _, e := range explanations {
		if e.Unknown {
			unknown = append(unknown, e.Upstream)
		}
	}
	if len(unknown) > 0 {
		line = fmt.Sprintf("whether %s offers it is not known", strings.Join(unknown, " or "))
	}
	for _, entry := range inspect.Entries(s, nil) {
		if entry.Name != name {
			continue
		}
		var owners []string
		for _, owner := range entry.Owners {
			owners = append(owners, owner.Upstream)
		}
		line = "offered by " + strings.Join(owners, ", ")
	}
	for _, report := range s.Reports() {
		if report.Name == name {
			line = oneLine(report.Text, maxReport)
		}
	}
	return source + line
}
