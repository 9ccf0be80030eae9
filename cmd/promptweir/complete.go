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
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// completionBound bounds the wait for a server after Tab. Tests raise it.
var completionBound = 2 * time.Second //nolint:gochecknoglobals // only tests change it

// The functions below complete a word of the command line. After an error, they print nothing and complete
// nothing. They may contact the server at --url, but no server of a configuration: pressing Tab must not
// start servers.

// completePrompts completes the names of prompts in the first words of a command line. arguments is the
// maximum number of these words.
func (q *query) completePrompts(arguments int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) >= arguments {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		onlySkills, _ := cmd.Flags().GetBool("skills")
		if q.isTokenGiven != nil && q.app.config == "" { // the command has --url
			q.chooseServer()
		}
		if !onlySkills {
			names = q.promptNames(cmd.Context())
		}
		if onlySkills || q.url == "" { // requesting both lists from a server takes too long
			names = append(names, q.skillNames(cmd.Context())...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (q *query) promptNames(ctx context.Context) (names []cobra.Completion) {
	q.withPrompts(ctx, func(ctx context.Context, source promptList) {
		prompts, _ := source.list(ctx)
		for _, d := range prompts {
			if terminal.Showable(d.Name) {
				names = append(names, cobra.CompletionWithDesc(d.Name,
					terminal.Line(cmp.Or(d.Title, d.Description))))
			}
		}
	})
	return names
}

// skillNames returns the names of a configuration's skills or, with --url, the URIs of the server's skills.
func (q *query) skillNames(ctx context.Context) []cobra.Completion {
	q.skills = config.SkillsOnly
	return q.promptNames(ctx)
}

// completeGet completes the words of get: the name of a prompt, then the names of its arguments and, after =,
// their values.
func (q *query) completeGet(
	cmd *cobra.Command, args []string, word string,
) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	if q.app.config == "" {
		q.chooseServer()
	}
	if onlySkills, _ := cmd.Flags().GetBool("skill"); onlySkills {
		if len(args) == 0 {
			words = q.skillNames(cmd.Context())
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) == 0 {
		return q.promptNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	name, given := args[0], args[1:]
	argument, value, isValue := strings.Cut(word, "=")
	directive := cobra.ShellCompDirectiveNoFileComp
	if !isValue {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	q.withPrompts(cmd.Context(), func(ctx context.Context, source promptList) {
		if isValue {
			for _, completed := range source.complete(ctx, completionParams(name, argument, value, given)) {
				words = append(words, argument+"="+completed)
			}
			return
		}
		prompts, _ := source.list(ctx)
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
	return words, directive
}

// argumentName returns the name from ARG=VALUE or ARG:=JSON.
func argumentName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return strings.TrimSuffix(name, ":")
}

// withPrompts calls use with the prompts of --url or, with a configuration, the prompts in files and in the
// lock file.
func (q *query) withPrompts(ctx context.Context, use func(context.Context, promptList)) {
	if q.url == "" {
		if s, principal := q.offlineSnapshot(ctx); s != nil {
			use(ctx, snapshotSource{s, principal, q.skills == config.SkillsOnly})
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completionBound)
	defer cancel()
	_ = q.withSession(ctx, client.SessionOptions{}, func(s *client.Session) error {
		use(ctx, sessionSource{s})
		return nil
	})
}

// offlineSnapshot evaluates the configuration with the prompts in files and in the lock file. On failure, the
// snapshot is nil. The principal is from --as; a nil principal sees everything.
func (q *query) offlineSnapshot(ctx context.Context) (*snapshot.Snapshot, *policy.Principal) {
	cfg := q.app.completionConfig()
	if cfg == nil {
		return nil, nil
	}
	principal, err := q.who.principal(cfg)
	if err != nil {
		return nil, nil
	}
	lock, _, _ := config.ReadLock(config.LockPath(q.app.config)) // completion prints no errors
	s, err := publish.Evaluate(ctx, cfg, snapshot.LockedLists(cfg, lock), publish.Options{})
	if err != nil {
		return nil, nil
	}
	return s, principal
}

// completionConfig loads the configuration of --config or of the working directory. It returns nil on failure.
func (a *app) completionConfig() *config.Config {
	if a.config = cmp.Or(a.config, configHere()); a.config == "" {
		return nil
	}
	cfg, _ := config.Load(a.config, config.Options{AllowUnsetEnv: true})
	return cfg
}

// completionParams returns the params of completion/complete for an argument. given are the other words of the
// command; the arguments among them become the context.
func completionParams(name, argument, value string, given []string) wire.Object {
	var arguments wire.Object
	for _, arg := range given {
		if key, text, ok := strings.Cut(arg, "="); ok && key != "" && !strings.HasSuffix(key, ":") {
			arguments = arguments.With(key, wire.Quote(text))
		}
	}
	return wire.CompleteParams(name, argument, value, arguments)
}

// completionValues returns the printable values of a result of completion/complete. A shell inserts values as
// they are, so other characters could control the terminal or start a new line.
func completionValues(result jsontext.Value) []string {
	var completed struct{ Completion struct{ Values []string } }
	_ = json.Unmarshal(result, &completed) // a malformed result has no values
	return slices.DeleteFunc(completed.Completion.Values, func(value string) bool { return !terminal.Showable(value) })
}

// completePrincipal completes the last of the comma-separated names in the value of --as, from the
// configuration.
func (a *app) completePrincipal(
	_ *cobra.Command, _ []string, word string,
) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	before := word[:strings.LastIndexByte(word, ',')+1]
	cfg := a.completionConfig()
	if cfg == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range cfg.Principals() {
		// A principal has at most one user.
		if user := strings.HasPrefix(name, "user:"); !user || !strings.Contains(before, "user:") {
			words = append(words, before+name)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeTeam completes the name of a team.
func (a *app) completeTeam(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if cfg := a.completionConfig(); cfg != nil {
		names = cfg.TeamNames()
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
