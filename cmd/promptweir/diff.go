package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

type diffFlags struct {
	app   *app
	lists listSource

	output   string
	exitCode bool
	usage    []string
	// copied is the folder with a copy of the old configuration, if that configuration is in a git revision.
	// Messages contain original instead of copied.
	copied, original string
}

func diffCommand(a *app) *cobra.Command {
	d := &diffFlags{app: a, lists: listSource{app: a}}
	command := &cobra.Command{
		Use:   "diff OLD [NEW]",
		Short: "Print the prompts that a change exposes, hides or renames, and for whom",
		Args:  wantArgs(1, 2, "an old and a new configuration"),
		Long: `Print the rules that a change of the configuration adds (+), removes (-) or changes (!), and the
prompts that it exposes (+), hides (-), renames (!) or, in files, changes (~), and for whom.
NEW is a file or a folder (` + whichConfig + `);
OLD is another, or a git revision of NEW.

The prompts of servers are those in the lock files or, with --live, those that the servers list.
With --usage, diff also prints who used the prompts that they lose by the change.`,
		Example: "  promptweir diff origin/main\n" +
			"  promptweir diff ./main ./pull-request --exit-code",
		SuggestFor: []string{"compare", "plan"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || a.configGiven() {
				if err := a.setConfig("diff OLD", args[1:]); err != nil {
					return err
				}
				args = append(args[:1], a.config)
			}
			return d.diff(cmd.Context(), args[0], args[1])
		},
	}
	command.ValidArgsFunction = aFile
	d.lists.addTo(command)
	addOutput(command, &d.output, formatText, formatJSON, formatMarkdown)
	command.Flags().StringArrayVar(&d.usage, "usage", nil, "audit `LOG` with the users of the prompts; - is standard input, repeat the flag for more logs")
	completeFlag(command, "usage", aFile)
	command.Flags().BoolVar(&d.exitCode, "exit-code", false, "exit with 1 if there are differences")
	return command
}

func (d *diffFlags) diff(ctx context.Context, oldPath, newPath string) error {
	if _, err := os.Stat(newPath); errors.Is(err, fs.ErrNotExist) {
		return &usageError{fmt.Sprintf("%q is not a file or a folder; only OLD can be a git revision. To compare two, check out the "+
			"new one: git worktree add ../new %[1]s", newPath)}
	}
	oldPath, remove, err := d.atRevision(ctx, oldPath, newPath)
	if err != nil {
		return err
	}
	defer remove()
	before, err := d.loadBefore(oldPath)
	if err != nil {
		return err
	}
	after, fallbacks, err := d.loadAfter(before, newPath)
	if err != nil {
		return err
	}
	listsBefore, listsAfter, err := d.listsOfBoth(ctx, before, after, oldPath, newPath)
	if err != nil {
		return err
	}
	evaluatedBefore, err := publish.Evaluate(ctx, before, listsBefore, publish.Options{})
	if err != nil {
		return err
	}
	evaluatedAfter, err := publish.Evaluate(ctx, after, listsAfter, publish.Options{})
	if err != nil {
		return err
	}
	comparison := inspect.Compare(evaluatedBefore, evaluatedAfter)
	if len(d.usage) > 0 {
		usage, err := d.app.readUsage(d.usage)
		if err != nil {
			return err
		}
		addUsers(comparison.Prompts, usage, evaluatedAfter)
	}
	for i := range comparison.Changes {
		comparison.Changes[i].Rule = d.withoutCopy(comparison.Changes[i].Rule)
	}
	for i := range comparison.Prompts {
		comparison.Prompts[i].Rule = d.withoutCopy(comparison.Prompts[i].Rule)
	}
	if err := d.print(comparison, fallbacks); err != nil {
		return err
	}
	if len(fallbacks) > 0 || d.exitCode && isDifferent(comparison) {
		return errReported
	}
	return nil
}

// atRevision returns the path of the old configuration. If old is a git revision rather than a path, atRevision
// copies the configuration from that revision, and returns the path of the copy. Call remove when the copy is
// no longer needed.
func (d *diffFlags) atRevision(ctx context.Context, old, path string) (at string, remove func(), err error) {
	remove = func() {}
	// git would read a revision that begins with a hyphen as an option.
	if old == "" || strings.ContainsAny(old[:1], "-./") {
		return old, remove, nil // a path: loading reports errors
	}
	folder, name := path, ""
	if isKind(path, 0) {
		folder, name = filepath.Dir(path), filepath.Base(path)
	}
	repository, err := repositoryOf(folder)
	var commit, tree string
	if err == nil {
		commit, tree, err = repository.find(ctx, old)
	}
	if _, notFound := os.Stat(old); !errors.Is(notFound, fs.ErrNotExist) {
		if err == nil {
			return "", nil, &usageError{fmt.Sprintf("%q is both a path and a git revision: write ./%s for the path, or %.12s for "+
				"the revision", old, old, commit)}
		}
		return old, remove, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("%q is not a file, a folder or a git revision of %s: %w", old, path, err)
	}
	if at, err = os.MkdirTemp("", "promptweir-diff-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(at) }
	d.copied, d.original = filepath.Join(at, commit[:12]), old+":"+filepath.Clean(folder)
	if err := repository.write(ctx, tree, d.copied); err != nil {
		remove()
		return "", nil, fmt.Errorf("read %s of %s: %w", old, folder, err)
	}
	return filepath.Join(d.copied, name), remove, nil
}

// withoutCopy replaces the path of the copy in a text by the revision.
func (d *diffFlags) withoutCopy(text string) string {
	if d.copied == "" {
		return text
	}
	return strings.ReplaceAll(text, d.copied, d.original)
}

// loadBefore loads the old configuration. Its diagnostics and locations name the revision, not the copy.
func (d *diffFlags) loadBefore(path string) (*config.Config, error) {
	cfg, diagnostics := config.Load(path, d.lists.options())
	var text strings.Builder
	width, color := terminal.Style(d.app.raw.err)
	if err := diagnostics.Write(&text, width, color); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(d.app.raw.err, d.withoutCopy(text.String())); err != nil {
		return nil, err
	}
	if diagnostics.HasErrors() {
		return nil, errReported
	}
	for i := range cfg.Teams {
		for j := range cfg.Teams[i].Upstreams {
			place := &cfg.Teams[i].Upstreams[j].Place
			place.File = d.withoutCopy(place.File)
		}
	}
	return cfg, nil
}

// loadAfter loads the new configuration like a gateway that has used the old one. For a team file with
// errors, such a gateway falls back to the old version, so diff compares with that version.
func (d *diffFlags) loadAfter(
	before *config.Config, path string,
) (after *config.Config, fallbacks []config.Kept, err error) {
	after, fallbacks, diagnostics := config.LoadTolerant(path, d.lists.options(), before.TeamFiles)
	if err = d.app.printDiagnostics(diagnostics); err == nil && after == nil {
		err = errReported
	}
	return after, fallbacks, err
}

func isDifferent(c inspect.Comparison) bool { return len(c.Changes)+len(c.Prompts) > 0 }

// listsOfBoth returns the upstreams' lists for both configurations.
func (d *diffFlags) listsOfBoth(
	ctx context.Context, before, after *config.Config, oldPath, newPath string,
) (listsBefore, listsAfter snapshot.Lists, err error) {
	if listsBefore, err = d.listsOf(ctx, before, oldPath); err != nil {
		return nil, nil, err
	}
	if listsAfter, err = d.listsOf(ctx, after, newPath); err != nil {
		return nil, nil, err
	}
	for name, list := range listsBefore {
		// With --live, a server in both configurations has one list, so that only the configurations
		// make a difference. Without --live, the lists differ if the lock files do: a lock file is
		// part of its configuration.
		if other, ok := listsAfter[name]; !ok || d.lists.live && other.Server == list.Server {
			listsAfter[name] = list
		}
	}
	lists := maps.Clone(listsAfter) // the server may have answered only for the new configuration
	maps.Copy(lists, listsBefore)
	return lists, listsAfter, nil
}

func (d *diffFlags) listsOf(ctx context.Context, cfg *config.Config, path string) (lists snapshot.Lists, err error) {
	if !d.lists.live {
		return d.app.lockedLists(cfg, path)
	}
	err = d.app.withUpstreams(ctx, cfg, func(g *gateway.Gateway) error {
		lists = g.Snapshot().Lists()
		return nil
	})
	return lists, err
}

func (d *diffFlags) print(c inspect.Comparison, fallbacks []config.Kept) error {
	if d.output == formatJSON {
		return terminal.PrintJSON(d.app.out, struct {
			inspect.Comparison
			Kept []config.Kept `json:"kept,omitempty"`
		}{c, fallbacks})
	}
	var text strings.Builder
	for _, k := range fallbacks {
		fmt.Fprintf(&text, "# %s\n", terminal.OneLine(k.String()))
	}
	if !isDifferent(c) {
		fmt.Fprintln(&text, "# No prompt changes its name, its upstream or its visibility.")
	}
	for _, change := range c.Changes {
		fmt.Fprintf(&text, "%s %s%s\n", change.Sign,
			terminal.OneLine(change.Text), terminal.InBrackets(change.Rule))
	}
	if !d.lists.live && len(c.Unknown) > 0 {
		fmt.Fprintf(&text, "# The affected prompts of %s are not known: %s.\n", strings.Join(c.Unknown, ", "), chooseSource)
	}
	if len(c.Prompts) > 0 {
		fmt.Fprintln(&text, "# Affected prompts:")
	}
	for _, change := range c.Prompts {
		fmt.Fprintln(&text, promptLine(change))
	}
	if d.lists.live && len(c.Unknown) > 0 {
		fmt.Fprintf(&text, "# The prompts of %s are not known.\n", strings.Join(c.Unknown, ", "))
	}
	if d.output == formatMarkdown { // each line begins with a sign, so no line can end the block
		return d.app.printf("```diff\n%s```\n", text.String())
	}
	return terminal.WriteDiff(d.app.raw.out, text.String())
}

func promptLine(p inspect.PromptChange) string {
	name := terminal.Line(p.Name)
	switch p.Kind {
	case inspect.Renamed:
		return fmt.Sprintf("! %s was called %s", name, terminal.Line(p.Before)) + usedBy(p)
	case inspect.Changed:
		return fmt.Sprintf("~ %s has %s", name, p.Reason)
	case inspect.Exposed:
		return fmt.Sprintf("+ %s is exposed to %s%s", name, readers(p), terminal.InBrackets(p.Rule))
	}
	why := strings.Trim(p.Rule+", "+terminal.OneLine(p.Reason), ", ")
	return fmt.Sprintf("- %s is hidden from %s%s", name, readers(p), terminal.InBrackets(why)) + usedBy(p)
}

// usedBy returns the end of a line that names the users who lose the prompt, or "" if there are none.
func usedBy(p inspect.PromptChange) string {
	if len(p.UsedBy) == 0 {
		return ""
	}
	return "; used by " + terminal.OneLine(strings.Join(p.UsedBy, ", "))
}

// readers names the principals who gain or lose a prompt, and the principals for whom nothing changes.
func readers(p inspect.PromptChange) string {
	to := strings.Join(p.To, ", ")
	if to == string(config.Anybody) {
		to = "everybody"
	}
	if len(p.But) == 0 {
		return to
	}
	but := strings.Join(p.But, ", ")
	if p.Kind == inspect.Exposed {
		return to + "; it was already visible to " + but
	}
	return to + " except " + but
}
