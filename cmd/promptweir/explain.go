package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func (a *app) explainCommand() *cobra.Command {
	source, flags := &listSource{app: a}, &principalFlags{}
	command := &cobra.Command{
		Use: "explain NAME", Short: "Explain whether a principal sees a prompt, and which rule decides",
		Long: "Explain whether a principal sees the prompt with an exposed name, and which rule decides.\n\n" +
			"Each step is printed with the place of its rule; the deciding one is marked with *. Without --state or --live, only the " +
			"configuration is evaluated. With them, explain also prints which upstreams offer the prompt.",
		Example: "  promptweir explain billing.invoice --config promptweir --as user:bob,group:support\n" +
			"  promptweir explain billing.invoice --config promptweir --as user:bob --live",
		SuggestFor: []string{"why"},
		Args:       takes(cobra.ExactArgs(1)),
		RunE:       func(cmd *cobra.Command, args []string) error { return source.explain(cmd.Context(), args[0], flags) },
	}
	flags.addTo(command, a, "`PRINCIPAL` to explain for, for example user:alice,group:payments; required with an auth block")
	source.addTo(command)
	command.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return (&query{listSource: *source}).completePrompts(1)(cmd, args, word)
	}
	return command
}

func (l *listSource) explain(ctx context.Context, name string, flags *principalFlags) error {
	if err := l.check(); err != nil {
		return err
	}
	cfg, err := l.load(!l.live)
	if err != nil {
		return err
	}
	principal, err := principalToExplain(cfg, flags)
	if err != nil {
		return err
	}
	return l.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		explanations := inspect.Explain(s, principal, name)
		if err := printExplanations(l.out, explanations, principal, name); err != nil {
			return err
		}
		_, err := fmt.Fprintln(l.out, l.offered(s, explanations, name))
		return err
	})
}

// principalToExplain returns the principal of the flags. Without an auth block it defaults to an anonymous caller, as every
// caller is then.
func principalToExplain(cfg *config.Config, flags *principalFlags) (policy.Principal, error) {
	switch {
	case flags.as != "":
		return flags.principal(cfg)
	case flags.claims != "":
		return policy.Principal{}, errClaimsWithoutAs
	case cfg.Auth != nil:
		return policy.Principal{}, &usageError{"the configuration has an auth block: --as PRINCIPAL is required"}
	}
	return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}, nil
}

// printExplanations prints one explanation for each upstream that the name could belong to.
func printExplanations(w io.Writer, explanations []inspect.Explanation, principal policy.Principal, name string) error {
	if len(explanations) == 0 {
		_, err := fmt.Fprintf(w, "%s: no upstream has a prefix that matches this name, so no prompt can have it\n", name)
		return err
	}
	var text strings.Builder
	for _, e := range explanations {
		printExplanation(&text, &e, principal.Subject, name)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func printExplanation(text *strings.Builder, e *inspect.Explanation, subject, name string) {
	verdict := "not visible"
	switch {
	case e.Visible:
		verdict = "visible"
	case e.Depends:
		verdict = "possibly visible"
	}
	rule := e.Rule
	if rule == "" {
		rule = "no rule"
	}
	if e.Absent {
		fmt.Fprintf(text, "%s is not visible to %s: upstream %s (team %s) does not offer %q\n", name, subject, e.Upstream, e.Team, e.Own)
		fmt.Fprintf(text, "  if it did, the prompt would be %s, decided by %s: %s\n", verdict, rule, e.Reason)
	} else {
		fmt.Fprintf(text, "%s is %s to %s, as %q of upstream %s (team %s)\n", name, verdict, subject, e.Own, e.Upstream, e.Team)
		fmt.Fprintf(text, "  decided by %s: %s\n", rule, e.Reason)
	}
	for _, step := range e.Chain {
		mark := " "
		if step.Decides {
			mark = "*"
		}
		fmt.Fprintf(text, "  %s %s: %s\n", mark, step.Rule, step.Text)
	}
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
