package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// syncer writes the prompts of a server as files of clients.
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
				return (&watcher{y.query, y.run}).follow(cmd.Context())
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

// completeNames completes the last name of a list of clients.
func completeNames(word string) (words []string) {
	before := word[:strings.LastIndexByte(word, ',')+1]
	for _, name := range syncdir.Names() {
		if !slices.Contains(strings.Split(before, ","), name) && strings.HasPrefix(before+name, word) {
			words = append(words, before+name)
		}
	}
	return words
}

// check checks the flags, and asks a person for the clients.
func (y *syncer) check(ctx context.Context) error {
	y.query.chooseServer()
	u, err := parseURL("--url", y.query.url, config.DefaultListen+config.DefaultPath)
	if err != nil {
		return err
	}
	y.source = sourceOf(u)
	if prompter := terminal.NewPrompter(y.query.app.in); len(y.to) == 0 && prompter != nil {
		answer, err := prompter.Choose(ctx, "Write for which clients ("+strings.Join(syncdir.Names(), ",")+")?")
		if err != nil {
			return err
		}
		y.to = strings.FieldsFunc(answer, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(y.to) == 0 {
		return &usageError{"sync needs the clients to write for: --to " + strings.Join(syncdir.Names(), ",")}
	}
	for _, name := range y.to {
		if !slices.Contains(syncdir.Names(), name) {
			return &usageError{fmt.Sprintf("--to %q: use %s", name, terminal.OrList(syncdir.Names()))}
		}
	}
	return nil
}

// sourceOf returns what the files say of the server, without what may be secret.
func sourceOf(u *url.URL) string {
	source := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	if u.RawQuery != "" {
		// A hash, since a query may have a token, and another query may show other prompts.
		source += "?" + syncdir.Short(u.RawQuery)
	}
	return source
}

// run compares all folders with the server once.
func (y *syncer) run(ctx context.Context, s *client.Session) error {
	list, err := s.List(ctx, maxListed)
	switch {
	case err != nil:
		return fmt.Errorf("nothing was changed: %w", err)
	// A server that declares no prompts, by mistake perhaps, would have all files removed.
	case len(list.Pages) == 0:
		return errors.New("nothing was changed: the server lists no prompts at all")
	}
	partial := wire.Members(list.Meta).Get(gateway.MetaPartial)
	isIncomplete := partial != nil
	if troubles := troublesIn(partial); len(troubles) > 0 {
		isIncomplete = slices.ContainsFunc(troubles, func(t trouble) bool { return !t.isFile })
		for _, t := range troubles {
			y.query.app.warn("%s", t.text)
		}
	}
	runs, failed := y.runs(), 0
	defer func() {
		for _, r := range runs {
			r.Close()
		}
	}()
	for _, definition := range list.Definitions {
		p := y.prompt(ctx, s, definition)
		// Prompts that were cut off count as absent, which would print a line for each.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.Absent != nil {
			failed++
		}
		for _, r := range runs {
			if err := y.note(r, func() ([]syncdir.Change, error) { return r.Write(&p) }); err != nil {
				return err
			}
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

// clientRun is the run for one client, and how often it did what.
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

// note prints a line for each change that a step of a run makes.
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

// conclude prints a line for the folder.
func (y *syncer) conclude(r *clientRun) error {
	// An announced change may concern no file here, and would print the same line again.
	if y.watch && len(r.counts) == 0 {
		return nil
	}
	folder, err := r.Folder()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(y.query.app.out, "%s: %d added, %d replaced, %d removed, %d kept, %d without a file; %s\n", r.Target.Name,
		r.counts[syncdir.Add], r.counts[syncdir.Replace], r.counts[syncdir.Remove], r.counts[syncdir.Keep], r.counts[syncdir.Refuse], folder)
	return err
}

// prompt gets the text of a prompt.
func (y *syncer) prompt(ctx context.Context, s *client.Session, definition jsontext.Value) syncdir.Prompt {
	parsed, err := catalog.ParsePrompt(definition)
	d, _ := parseDefinition(definition) // which has been parsed
	p := syncdir.Prompt{Name: d.Name, Description: d.Description, Definition: parsed.Hash}
	isTemplate := string(wire.Members(definition).Object("_meta").Get(files.MetaTemplate)) == "true"
	for _, a := range d.Arguments {
		switch {
		case isTemplate:
			p.Arguments = append(p.Arguments, a.Name)
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
		p.Pieces, p.Absent = y.text(ctx, s, &p)
		if !isTemplate {
			p.Taken = time.Now()
		}
	}
	return p
}

// text gets a prompt with a mark for each argument, and cuts its text there.
func (y *syncer) text(ctx context.Context, s *client.Session, p *syncdir.Prompt) ([]syncdir.Piece, error) {
	// Nobody can guess a mark, and so none is in the text otherwise.
	var arguments wire.Object
	secret := "promptweir" + rand.Text() + "_"
	for i, name := range p.Arguments {
		arguments = arguments.With(name, wire.Quote(syncdir.Mark(secret, i+1)))
	}
	ctx, cancel := context.WithTimeout(ctx, config.DefaultTimeout)
	defer cancel()
	result, err := (&sessionSource{session: s}).get(ctx, wire.GetParams(p.Name, arguments))
	if errors.Is(err, errInputRequired) {
		p.Refused = errors.New("its server asks for input")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	messages := wire.Members(result).Get("messages")
	if _, err := wire.ParseArray(messages); err != nil {
		return nil, errors.New("prompts/get result: messages is not an array")
	}
	text, _ := flat.Text(messages, false)
	return syncdir.Cut(text, secret, len(p.Arguments)), nil
}
