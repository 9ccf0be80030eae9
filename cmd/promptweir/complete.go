package main

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// completionBound is how long somebody who presses Tab waits for a server. Tests wait for longer.
var completionBound = 2 * time.Second //nolint:gochecknoglobals // as good as constant

// The functions below complete a word of the command line. They print nothing, and whatever goes
// wrong completes nothing. Only a server at --url is contacted: pressing Tab must not start what a
// configuration names.

// completePrompts completes the names of prompts, for the first so many arguments.
func (q *query) completePrompts(arguments int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) >= arguments {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		asked, _ := cmd.Flags().GetBool("skills")
		if q.isTokenGiven != nil && q.app.config == "" { // it has --url
			q.chooseServer()
		}
		if !asked {
			names = q.promptNames(cmd.Context())
		}
		if asked || q.url == "" { // asking a server for both lists takes too long
			names = append(names, q.skillNames(cmd.Context())...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (q *query) promptNames(ctx context.Context) (names []cobra.Completion) {
	q.withKnown(ctx, func(ctx context.Context, known promptList) {
		prompts, _ := known.list(ctx)
		for _, d := range prompts {
			if terminal.Showable(d.Name) {
				names = append(names, cobra.CompletionWithDesc(d.Name,
					terminal.Line(cmp.Or(d.Title, d.Description))))
			}
		}
	})
	return names
}

// skillNames are the names of a configuration's skills, or the URIs of a server's.
func (q *query) skillNames(ctx context.Context) (names []cobra.Completion) {
	if q.url != "" {
		q.skills = config.SkillsOnly
		return q.promptNames(ctx)
	}
	if s, principal := q.knownSnapshot(ctx); s != nil {
		for _, entry := range inspect.Entries(s, principal) {
			if entry.Skill != nil && terminal.Showable(entry.Name) {
				description, _ := entry.Skill.Frontmatter.Text("description")
				names = append(names, cobra.CompletionWithDesc(entry.Name, terminal.Line(description)))
			}
		}
	}
	return names
}

// completeGet completes the name of a prompt, then the names of its arguments and, after =, their
// values.
func (q *query) completeGet(
	cmd *cobra.Command, args []string, word string,
) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	if q.app.config == "" {
		q.chooseServer()
	}
	if asked, _ := cmd.Flags().GetBool("skill"); asked {
		if len(args) == 0 {
			words = q.skillNames(cmd.Context())
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) == 0 {
		return q.promptNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	name, given := args[0], args[1:]
	if argument, value, ok := strings.Cut(word, "="); ok {
		q.withKnown(cmd.Context(), func(ctx context.Context, known promptList) {
			for _, completed := range known.complete(ctx, completionParams(name, argument, value, given)) {
				words = append(words, argument+"="+completed)
			}
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	q.withKnown(cmd.Context(), func(ctx context.Context, known promptList) {
		prompts, _ := known.list(ctx)
		at := slices.IndexFunc(prompts, func(d description) bool { return d.Name == name })
		if at < 0 {
			return
		}
		for _, a := range prompts[at].Arguments {
			isGiven := slices.ContainsFunc(given, func(arg string) bool { return argumentName(arg) == a.Name })
			if terminal.Showable(a.Name) && !isGiven {
				words = append(words, cobra.CompletionWithDesc(a.Name+"=",
					terminal.Line(cmp.Or(a.Description, a.Title))))
			}
		}
	})
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// argumentName returns the name in ARG=VALUE or ARG:=JSON.
func argumentName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return strings.TrimSuffix(name, ":")
}

// withKnown has the prompts of --url used or, with a configuration, those that are known without
// contacting anybody.
func (q *query) withKnown(ctx context.Context, use func(context.Context, promptList)) {
	if q.url == "" {
		if s, principal := q.knownSnapshot(ctx); s != nil {
			use(ctx, snapshotSource{s, principal})
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completionBound)
	defer cancel()
	_ = q.withSession(ctx, client.SessionOptions{}, func(s *client.Session) error {
		use(ctx, &sessionSource{session: s})
		return nil
	})
}

// knownSnapshot evaluates the configuration with the prompts in files and the lock file. The principal
// is the one of --as; nil sees everything.
func (q *query) knownSnapshot(ctx context.Context) (*snapshot.Snapshot, *policy.Principal) {
	cfg := q.app.completionConfig()
	if cfg == nil {
		return nil, nil
	}
	principal, err := q.who.principal(cfg)
	if err != nil {
		return nil, nil
	}
	lock, _, _ := config.ReadLock(config.LockPath(q.app.config)) // completion prints no errors
	s, err := snapshot.Evaluate(ctx, cfg, snapshot.LockedLists(cfg, lock), snapshot.Options{})
	if err != nil {
		return nil, nil
	}
	return s, principal
}

// completionConfig loads the configuration of --config, or the one here; nil where it cannot.
func (a *app) completionConfig() *config.Config {
	if a.config = cmp.Or(a.config, configHere()); a.config == "" {
		return nil
	}
	cfg, _ := config.Load(a.config, config.Options{AllowUnsetEnv: true})
	return cfg
}

// completionParams returns the params of completion/complete. The arguments that are given already
// are its context.
func completionParams(name, argument, value string, given []string) wire.Object {
	var arguments wire.Object
	for _, arg := range given {
		if key, text, ok := strings.Cut(arg, "="); ok && key != "" && !strings.HasSuffix(key, ":") {
			arguments = arguments.With(key, wire.Quote(text))
		}
	}
	return wire.CompleteParams(name, argument, value, arguments)
}

// completionValues returns the values of a result of completion/complete that can be shown.
func completionValues(result jsontext.Value) []string {
	// A shell would type them as they are, so that another could act on the terminal, or be a
	// further line of the command's result.
	var completed struct{ Completion struct{ Values []string } }
	_ = json.Unmarshal(result, &completed) // nothing, if it is no such result
	return slices.DeleteFunc(completed.Completion.Values, func(value string) bool { return !terminal.Showable(value) })
}

// completePrincipal completes the last of the principal's names, with those in the configuration.
func (a *app) completePrincipal(
	_ *cobra.Command, _ []string, word string,
) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	before := word[:strings.LastIndexByte(word, ',')+1]
	cfg := a.completionConfig()
	if cfg == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range cfg.Principals() {
		// A principal has one user at most.
		if user := strings.HasPrefix(name, "user:"); !user || !strings.Contains(before, "user:") {
			words = append(words, before+name)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeTeam completes the name of a team.
func (a *app) completeTeam(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if cfg := a.completionConfig(); cfg != nil {
		for _, team := range cfg.Teams {
			names = append(names, team.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
