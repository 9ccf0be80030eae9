package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func explainCommand(a *app) *cobra.Command {
	q := newQuery(a)
	command := &cobra.Command{
		Use:   "explain NAME",
		Short: "Explain whether a principal sees a prompt, and which rule decides",
		Long: `Explain whether a principal sees a prompt, and which rule decides; without --as, explain who sees
it. NAME is the exposed name.

Each step has the source location of its rule; * marks the deciding one. explain also prints the
upstreams that offer the prompt: by files and the lock file or, with --live, by the upstreams' own
lists. The exit code is 1 if the prompt is not visible.`,
		Example: "  promptweir explain billing.invoice --config promptweir --as user:bob,group:support\n" +
			"  promptweir explain billing.invoice --config promptweir --live",
		SuggestFor: []string{"why"},
		Args:       wantArgs(1, 1, "a prompt's name"),
		RunE:       func(cmd *cobra.Command, args []string) error { return q.explain(cmd.Context(), args[0]) },
	}
	q.who.addTo(command, a, "`PRINCIPAL` to explain for, for example user:alice,group:payments")
	q.lists.addTo(command)
	addOutput(command, &q.output, formatText, formatJSON)
	command.ValidArgsFunction = q.completePrompts(1)
	return command
}

func (q *query) explain(ctx context.Context, name string) error {
	cfg, err := q.app.load(q.lists.options())
	if err != nil {
		return err
	}
	principal, err := q.who.principal(cfg)
	if err != nil {
		return err
	}
	if principal == nil && cfg.Auth == nil { // without an auth block, all callers are the anonymous one
		principal = &policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}
	}
	return q.lists.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		result := q.answer(s, principal, name)
		if q.output == formatJSON {
			err = terminal.PrintJSON(q.app.out, result)
		} else {
			_, err = io.WriteString(q.app.out, result.String())
		}
		if err == nil && !result.Visible && !result.Undecided {
			err = errReported
		}
		return err
	})
}

// answer explains whether a principal sees a name; a nil principal means all principals. The answer also names
// the source of the upstreams' lists.
func (q *query) answer(s *snapshot.Snapshot, principal *policy.Principal, name string) *inspect.Answer {
	answer, source := inspect.Ask(s, principal, name), "files and lock file"
	switch {
	case q.lists.live:
		source = "live"
	case q.lists.suffices(s.Config, nil):
		source = "files"
	case answer.IsUnknown():
		answer.Offered = "unknown whether an upstream offers it: " + chooseSource
		return answer
	}
	answer.Offered = source + ": " + terminal.OneLine(answer.Offered)
	return answer
}
