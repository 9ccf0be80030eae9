package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/syncdir"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// syncer writes a server's prompts as client files.
type syncer struct {
	query                   *query
	source                  string
	to                      []string
	snapshot, watch, dryRun bool
}

func syncCommand(a *app) *cobra.Command {
	y := &syncer{query: newQuery(a)}
	command := &cobra.Command{
		Use: "sync", Short: "Write your prompts as files, for clients without support for prompts",
		Args: wantArgs(0, 0, ""),
		Long: `Write the prompts that a server shows you as files, in the folders of clients that do not support
prompts, or only in part. Each file names its origin. The next run updates changed prompts and
removes deleted ones, but leaves files alone that promptweir did not write or somebody has edited.

Each change is a line: + adds a file, ~ replaces it, - removes it; = keeps an outdated file, and
! names a prompt that gets no file.`,
		Example: "  promptweir sync --to claude,codex --url http://127.0.0.1:8080/mcp\n" +
			"  promptweir sync --to gemini --url https://prompts.example.com/mcp --watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := y.check(cmd.Context()); err != nil {
				return err
			}
			if y.watch {
				return newWatcher(y.query, y.run).follow(cmd.Context())
			}
			return y.query.withSession(cmd.Context(), client.SessionOptions{}, func(s *client.Session) error {
				return y.run(cmd.Context(), s)
			})
		},
	}
	y.query.addServerTo(command)
	flags := command.Flags()
	flags.StringSliceVar(&y.to, "to", nil, "write for these `CLIENTS`: "+strings.Join(syncdir.Names(), ","))
	completeFlag(command, "to", func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeNames(word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	flags.BoolVar(&y.snapshot, "snapshot", false, "also write prompts that are not templates: "+
		"their current text without arguments")
	flags.BoolVar(&y.watch, "watch", false, "keep running, and write again whenever the server's prompts change")
	flags.BoolVar(&y.dryRun, "dry-run", false, "print the changes, and change nothing")
	return command
}

// completeNames completes the last of the comma-separated client names in word.
func completeNames(word string) (words []string) {
	before := word[:strings.LastIndexByte(word, ',')+1]
	for _, name := range syncdir.Names() {
		if !slices.Contains(strings.Split(before, ","), name) && strings.HasPrefix(before+name, word) {
			words = append(words, before+name)
		}
	}
	return words
}

// check checks the flags. Without --to, it asks the user at a terminal for the clients.
func (y *syncer) check(ctx context.Context) error {
	if y.query.app.configGiven() {
		return &usageError{"sync writes the prompts of a running gateway: use --url URL instead of --config"}
	}
	y.query.chooseServer()
	u, err := parseURL("--url", y.query.url, config.DefaultListen+config.DefaultPath)
	if err != nil {
		return err
	}
	y.source = sourceOf(u)
	names := strings.Join(y.to, ",")
	if prompter := terminal.NewPrompter(y.query.app.in); names == "" && prompter != nil {
		if names, err = prompter.Choose(ctx, "Write for which clients ("+strings.Join(syncdir.Names(), ",")+")?"); err != nil {
			return err
		}
	}
	y.to = strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
	if len(y.to) == 0 {
		return &usageError{"sync needs the clients to write for: --to " + strings.Join(syncdir.Names(), ",")}
	}
	for _, name := range y.to {
		if !slices.Contains(syncdir.Names(), name) {
			return &usageError{fmt.Sprintf("--to %q: use %s", name, config.OrList(syncdir.Names()))}
		}
	}
	return nil
}

// sourceOf returns the text that identifies the server in files, without secrets.
func sourceOf(u *url.URL) string {
	source := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	if u.RawQuery != "" {
		// Another query may select other prompts, so the source depends on it. Add only a hash: the query may
		// contain a token.
		source += "?" + syncdir.Short(u.RawQuery)
	}
	return source
}

// run updates the folders of all clients once.
func (y *syncer) run(ctx context.Context, s *client.Session) error {
	list, err := s.List(ctx, maxListed)
	switch {
	case err != nil:
		return fmt.Errorf("nothing was changed: %w", err)
	// Otherwise the files of a server that declares no prompts, perhaps by mistake, would all be removed.
	case len(list.Pages) == 0:
		return errors.New("nothing was changed: the server lists no prompts at all")
	}
	partial := wire.Members(list.Meta).Get(gateway.MetaPartial)
	isIncomplete := partial != nil
	broken := map[string]string{} // the locations of errors, by the prompt's name
	if troubles := troublesIn(partial); len(troubles) > 0 {
		isIncomplete = slices.ContainsFunc(troubles, func(t trouble) bool { return !t.isFile })
		for _, t := range troubles {
			y.query.app.warn("%s", t.text)
			for _, f := range t.files {
				broken[f.Prompt] = f.Place
			}
		}
	}
	runs, failed := y.runs(), 0
	defer func() {
		for _, r := range runs {
			r.Close()
		}
	}()
	write := func(p *syncdir.Prompt) error {
		for _, r := range runs {
			if err := y.note(r, func() ([]syncdir.Change, error) { return r.Write(p) }); err != nil {
				return err
			}
		}
		return nil
	}
	for _, definition := range list.Definitions {
		p := y.prompt(ctx, s, definition)
		// Stop now: otherwise a line would be printed for each remaining prompt, because its get fails.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.Absent != nil {
			failed++
		}
		if err := write(&p); err != nil {
			return err
		}
		delete(broken, p.Name) // the gateway serves its last good text
	}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		absent := fmt.Errorf("its file has an error: %s", broken[name])
		if err := write(&syncdir.Prompt{Name: name, Absent: absent}); err != nil {
			return err
		}
	}
	for _, r := range runs {
		if err := y.note(r, func() ([]syncdir.Change, error) { return r.Finish(!isIncomplete) }); err != nil {
			return err
		}
		if err := y.conclude(r); err != nil {
			return err
		}
	}
	switch {
	case isIncomplete:
		return errors.New("the server's list is incomplete, so nothing was removed")
	case failed > 0:
		return fmt.Errorf("%s could not be got; their files stay as they are", terminal.Count(failed, "prompt"))
	}
	return nil
}

// clientRun is the run for one client, with the number of changes for each action.
type clientRun struct {
	syncdir.Run

	counts map[syncdir.Action]int
}

func (y *syncer) runs() (runs []*clientRun) {
	for _, target := range syncdir.Targets {
		if slices.Contains(y.to, target.Name) {
			run := syncdir.Run{Target: &target, Source: y.source, DryRun: y.dryRun}
			runs = append(runs, &clientRun{run, map[syncdir.Action]int{}})
		}
	}
	return runs
}

// note runs a step of a client's run, and prints a line for each change.
func (y *syncer) note(r *clientRun, step func() ([]syncdir.Change, error)) error {
	changes, err := step()
	for _, c := range changes {
		r.counts[c.Action]++
		about := c.Path + c.Prompt
		if c.Reason != "" {
			about += ": " + c.Reason
		}
		if _, err := fmt.Fprintf(y.query.app.out, "%c %s %s\n", c.Action, r.Target.Name, terminal.OneLine(about)); err != nil {
			return err
		}
	}
	if err != nil {
		folder, _ := r.Folder()
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// conclude prints a line with the counts of a client's run and the folder.
func (y *syncer) conclude(r *clientRun) error {
	// With --watch, a run without changes would repeat the previous line.
	if y.watch && len(r.counts) == 0 {
		return nil
	}
	folder, err := r.Folder()
	if err != nil {
		return err
	}
	return y.query.app.printf("%s: %d added, %d replaced, %d removed, %d kept, %d without a file; %s\n", r.Target.Name,
		r.counts[syncdir.Add], r.counts[syncdir.Replace], r.counts[syncdir.Remove], r.counts[syncdir.Keep], r.counts[syncdir.Refuse], folder)
}

// prompt returns the prompt of a definition, with its text or the reason why it has none.
func (y *syncer) prompt(ctx context.Context, s *client.Session, definition jsontext.Value) syncdir.Prompt {
	parsed, err := catalog.ParsePrompt(definition)
	d := describe(definition)
	p := syncdir.Prompt{Name: d.Name, Description: d.Description, Definition: parsed.Hash}
	isTemplate := string(wire.Members(definition).Object("_meta").Get(files.MetaTemplate)) == "true"
	var optional []int // the optional arguments by number, counted from 1 like marks
	for _, a := range d.Arguments {
		switch {
		case isTemplate:
			p.Arguments = append(p.Arguments, a.Name)
			if !a.Required {
				optional = append(optional, len(p.Arguments))
			}
		case a.Required:
			p.Refused = fmt.Errorf("it is not a template, and requires %s", a.Name)
		default:
			p.Without = append(p.Without, a.Name)
		}
	}
	switch {
	case err != nil:
		p.Refused = err
	case !isTemplate && !y.snapshot:
		p.Refused = errors.New("it is not a template; --snapshot writes its current text")
	case p.Refused == nil:
		p.Pieces, p.Absent = y.pieces(ctx, s, &p, optional)
		if !isTemplate {
			p.Taken = time.Now()
		}
	}
	return p
}

// pieces gets a prompt with a mark for each argument, and cuts the text at the marks. After a mark it inserts
// the argument's default as text, because no client's format has defaults. The default is found by a get
// without the argument.
func (y *syncer) pieces(ctx context.Context, s *client.Session, p *syncdir.Prompt, optional []int) ([]syncdir.Piece, error) {
	// Marks are random, so the prompt's own text does not contain them.
	secret := "promptweir" + rand.Text() + "_"
	text, err := y.text(ctx, s, p, secret, 0)
	if err != nil {
		return nil, err
	}
	var defaults []string // pairs of a mark and its replacement
	for _, i := range optional {
		without, err := y.text(ctx, s, p, secret, i)
		if err != nil {
			return nil, err
		}
		mark := syncdir.Mark(secret, i)
		if value := syncdir.Replacement(text, mark, without); value != "" {
			defaults = append(defaults, mark, mark+" (default: "+value+")")
		}
	}
	return syncdir.Cut(strings.NewReplacer(defaults...).Replace(text), secret, len(p.Arguments)), nil
}

// text gets a prompt with a mark for each argument except the argument with the number except, counted from 1.
// If except is 0, each argument gets a mark.
func (y *syncer) text(ctx context.Context, s *client.Session, p *syncdir.Prompt, secret string, except int) (string, error) {
	var arguments wire.Object
	for i, name := range p.Arguments {
		if i+1 != except {
			arguments = arguments.With(name, wire.Quote(syncdir.Mark(secret, i+1)))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, config.DefaultTimeout)
	defer cancel()
	result, err := sessionSource{s}.get(ctx, wire.GetParams(p.Name, arguments))
	if errors.Is(err, errInputRequired) {
		p.Refused = errors.New("its server asks for input")
		return "", nil
	}
	if err != nil {
		return "", err
	}
	messages := wire.Members(result).Get("messages")
	if _, err := wire.ParseArray(messages); err != nil {
		return "", errors.New("prompts/get result: messages is not an array")
	}
	text, _ := flat.Text(messages, false)
	return text, nil
}
