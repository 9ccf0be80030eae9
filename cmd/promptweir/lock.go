package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// locking is the lock command's call.
type locking struct {
	origin

	diff, exitCode bool
}

func (a *app) lockCommand() *cobra.Command {
	l := &locking{origin: origin{app: a}}
	command := &cobra.Command{
		Use: "lock", Short: "Approve the definitions that the upstreams list now", Args: takes(cobra.NoArgs),
		Long: "Write " + config.LockFile + " beside the configuration: every definition that the upstreams list now, approved.\n\n" +
			"With --diff, say what differs from what is approved, and write nothing. Of what is not known, what was approved stays.",
		RunE: func(cmd *cobra.Command, _ []string) error { return l.lock(cmd.Context()) },
	}
	l.flags(command)
	command.Flags().BoolVar(&l.diff, "diff", false, "only show what would change, the old definition against the new")
	command.Flags().BoolVar(&l.exitCode, "exit-code", false, "with --diff, exit with 1 if anything would change")
	return command
}

func (l *locking) lock(ctx context.Context) error {
	switch {
	case l.config == "":
		return errNoConfig
	case !l.known():
		return &usageError{"say where the definitions come from: " + remedy}
	case l.exitCode && !l.diff:
		return &usageError{"--exit-code goes with --diff"}
	}
	if err := l.check(); err != nil {
		return err
	}
	cfg, err := l.loadBy(func() (*config.Config, config.Diagnostics) {
		return config.Load(l.config, config.Options{AllowUnsetEnv: !l.live, SkipLockFile: true})
	})
	if err != nil {
		return err
	}
	path := config.LockPath(l.config)
	before, err := l.approved(path)
	if err != nil {
		return err
	}
	return l.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		after := l.merged(before, s)
		changes := config.DiffLocks(before, after)
		if l.diff {
			return l.show(changes)
		}
		if err := replaceFile(path, after.Format()); err != nil {
			return err
		}
		_, err := fmt.Fprintf(l.out, "%s approves %d prompts, %s\n", path, len(after), counted(changes))
		return err
	})
}

// approved is what the lock file says; nothing where there is none.
func (l *locking) approved(path string) (config.Lock, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lock, diagnostics := config.ParseLock(path, content)
	width, color := terminal(l.err)
	if err := diagnostics.Write(l.err, width, color); err != nil {
		return nil, err
	}
	if diagnostics.HasErrors() {
		return nil, errReported
	}
	return lock, nil
}

// merged is what the upstreams list now, and of those whose list is not known what was approved before.
func (l *locking) merged(before config.Lock, s *snapshot.Snapshot) config.Lock {
	unlisted := s.Unlisted()
	if len(unlisted) > 0 {
		fmt.Fprintf(l.err, "promptweir: not known are the prompts of %s: what was approved of them stays\n", strings.Join(unlisted, ", "))
	}
	listed, lists := inspect.Lock(s), s.Lists()
	all := slices.Clone(listed)
	for _, prompt := range before {
		_, found := listed.Find(prompt.Name, prompt.Upstream)
		if slices.Contains(unlisted, prompt.Upstream) || lists[prompt.Upstream].Partial && !found {
			all = append(all, prompt)
		}
	}
	return config.NewLock(all)
}

// show prints the changes, with the old definition against the new where there are both.
func (l *locking) show(changes []config.LockChange) error {
	var text strings.Builder
	for _, change := range changes {
		switch before, after := change.Before, change.After; {
		case before == nil:
			fmt.Fprintf(&text, "+ %s of upstream %s is not approved\n", oneLine(after.Name, maxReport), after.Upstream)
			for line := range strings.Lines(indented(after)) {
				text.WriteString("+" + manyLines(line))
			}
		case after == nil:
			fmt.Fprintf(&text, "- %s of upstream %s is not listed any more\n", oneLine(before.Name, maxReport), before.Upstream)
		default:
			fmt.Fprintf(&text, "! %s of upstream %s is defined otherwise\n", oneLine(after.Name, maxReport), after.Upstream)
			text.WriteString(manyLines(string(unified(before, after))))
		}
	}
	if _, err := l.out.Write([]byte(text.String())); err != nil {
		return err
	}
	if l.exitCode && len(changes) > 0 {
		return errReported
	}
	return nil
}

// unified is the difference between two definitions, a member a line, without the lines that name the files.
func unified(before, after *config.LockedPrompt) []byte {
	text := diff.Diff("approved", []byte(indented(before)), "listed", []byte(indented(after)))
	at := bytes.Index(text, []byte("\n@@"))
	return text[at+1:]
}

func indented(p *config.LockedPrompt) string {
	text := jsontext.Value(p.Definition).Clone()
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
		return p.Definition + "\n" // cannot be: it was canonical
	}
	return string(text) + "\n"
}

// counted says how many changes there are of each kind.
func counted(changes []config.LockChange) string {
	var fresh, gone, other int
	for _, change := range changes {
		switch {
		case change.Before == nil:
			fresh++
		case change.After == nil:
			gone++
		default:
			other++
		}
	}
	return fmt.Sprintf("%d of them new, %d changed; %d are gone", fresh, other, gone)
}
