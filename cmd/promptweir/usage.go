package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func usageCommand(a *app) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "usage AUDIT-LOG...",
		Short: "Print who uses which prompts, according to audit logs",
		Long: `Print the last use, the users and the outcomes of each prompt and skill according to audit logs,
compressed ones too; - is standard input. Prompts that were not used for the longest time come first.
Prompts that nobody ever used are not in a log: the console's page Usage has them.`,
		Example: "  promptweir usage /var/log/promptweir/audit.jsonl*\n" +
			"  kubectl logs deployment/promptweir | promptweir usage - -o json",
		Args:              wantArgs(1, noBound, "an audit log, or - for standard input"),
		ValidArgsFunction: aFile,
		RunE: func(_ *cobra.Command, paths []string) error {
			usage, err := a.readUsage(paths)
			if err != nil {
				return err
			}
			return a.printUsage(usage.Report(nil, time.Now()), output)
		},
	}
	addOutput(command, &output, formatTable, formatJSON)
	return command
}

// readUsage reads the audit logs at paths; - is standard input. If no line is valid, it returns an error.
func (a *app) readUsage(paths []string) (*audit.Usage, error) {
	usage := &audit.Usage{}
	for _, path := range paths {
		in := a.in
		if path != "-" {
			file, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			in = file
		}
		if err := usage.Read(in); err != nil {
			return nil, fmt.Errorf("read the audit log %s: %w", path, err)
		}
	}
	if usage.From.IsZero() {
		return nil, fmt.Errorf("no line of an audit log is in %s: use the path of the audit block", strings.Join(paths, ", "))
	}
	return usage, nil
}

func (a *app) printUsage(r *audit.Report, output string) error {
	if output == formatJSON {
		return terminal.PrintJSON(a.out, r)
	}
	rows := [][]string{{"NAME", "LAST USED", "USERS", "OUTCOMES"}}
	for i := range r.Prompts {
		p, last := r.Prompts[i], "never"
		if !p.Last.IsZero() {
			last = p.Last.Format(time.DateOnly)
		}
		rows = append(rows, []string{p.Name, last, audit.Names(p.Users), p.Counts()})
	}
	if err := terminal.WriteTable(a.out, rows); err != nil {
		return err
	}
	return a.printf("%s.\n", r.Summary)
}

// addUsers adds to each hidden or renamed prompt the users who would lose it. An audit log has no claims, so
// these users see no prompts that depend on claims.
func addUsers(changes []inspect.PromptChange, usage *audit.Usage, after *snapshot.Snapshot) {
	for i := range changes {
		name := changes[i].Name
		if changes[i].Kind == inspect.Renamed {
			name = changes[i].Before
		} else if changes[i].Kind != inspect.Hidden {
			continue
		}
		entry := after.Catalog.Lookup(name)
		for _, u := range usage.Users(name) {
			if entry == nil || !entry.VisibleTo(after.Policy.Audience(policy.Principal{
				Subject: u.Subject, Groups: u.Groups, Anonymous: u.Anonymous, ClaimsUnknown: true,
				EveryTeam: after.Config.Auth == nil,
			})) {
				changes[i].UsedBy = append(changes[i].UsedBy, u.Subject)
			}
		}
	}
}
