package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxListed bounds the prompts from the server at --url.
const maxListed = 1_000_000

func listCommand(a *app) *cobra.Command {
	q := newQuery(a)
	var filter listFilter
	var watch bool
	command := &cobra.Command{
		Use: "list [PATTERN]...", Short: "List the prompts of a configuration or a running gateway",
		Args: cobra.ArbitraryArgs,
		Long: `List the prompts of a configuration or a running gateway: all, or those that match a PATTERN, where
* stands for any characters. In the result, * marks required arguments.

With --watch, list keeps running, and prints each change of the list: + is a new prompt, - one that
is gone, and ~ one whose definition changed. With -o json it prints the whole list again.

With --config alone, list connects to the upstreams and prints every prompt; of a hidden one, the
rule that hides it. With --as, it prints
the prompts of a principal: those in files and in the lock file or, with --live, those that the
upstreams list.`,
		Example: "  promptweir list --watch\n" +
			"  promptweir list --config promptweir\n" +
			"  promptweir list 'billing.*' --config promptweir --team payments\n" +
			"  promptweir list --url http://127.0.0.1:8080/mcp -o json\n" +
			"  promptweir list --config promptweir --as user:bob,group:support --live",
		SuggestFor: []string{"ls", "prompts"},
		RunE: func(cmd *cobra.Command, patterns []string) error {
			if err := q.check(); err != nil {
				return err
			}
			if err := filter.parse(patterns, q.url != ""); err != nil {
				return err
			}
			if filter.skills {
				q.skills = config.SkillsOnly
			}
			if watch {
				return q.watchList(cmd.Context(), &filter)
			}
			l, err := q.list(cmd.Context(), &filter)
			if err != nil {
				return err
			}
			err = filter.check(exslices.CastFunc(l.prompts, func(p listedPrompt) string { return describe(p.definition).Name }))
			if err == nil || q.output == formatJSON {
				err = cmp.Or(q.printList(filter.selected(l), &filter), err)
			}
			return err
		},
	}
	q.addTo(command)
	q.lists.addTo(command)
	filter.addTo(command)
	command.Flags().BoolVar(&watch, "watch", false, "keep running, and print each change of the list")
	completeFlag(command, "team", a.completeTeam)
	command.ValidArgsFunction = q.completePrompts(maxListed)
	addOutput(command, &q.output, formatTable, formatWide, formatName, formatJSON)
	addEnvFile(command)
	return command
}

// listing is the list of a server or a configuration.
type listing struct {
	prompts []listedPrompt
	// partial is the _meta value in which a gateway reports upstreams whose part of the list is stale or
	// missing. It is nil if there are no such upstreams.
	partial jsontext.Value
}

// listedPrompt is a definition with the exposed name. Its team and upstreams are known for a configuration
// only: a running gateway does not reveal them.
type listedPrompt struct {
	definition jsontext.Value
	team       string
	upstreams  []string
	// hidden names the rule that hides the prompt from everyone, as text before the description. It is "" if no
	// rule hides the prompt.
	hidden string
}

// list lists the prompts of the server at --url or of the configuration.
func (q *query) list(ctx context.Context, filter *listFilter) (l listing, err error) {
	if q.url != "" {
		err = q.withSession(ctx, client.SessionOptions{}, func(s *client.Session) error {
			l, err = listSession(ctx, s)
			return err
		})
		q.warnOfTroubles(l)
		return l, err
	}
	cfg, principal, err := q.loadToList()
	if err != nil {
		return listing{}, err
	}
	if err := filter.checkTeam(cfg); err != nil {
		return listing{}, err
	}
	err = q.lists.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		for _, entry := range inspect.Entries(s, principal) {
			if (entry.Skill != nil) != filter.skills {
				continue
			}
			prompt := listedPrompt{definition: definitionOf(entry), team: entry.Team}
			for _, owner := range entry.Owners {
				prompt.upstreams = append(prompt.upstreams, owner.Upstream)
			}
			if hide := s.Policy.HiddenBy(entry.Team, entry.Owners[0].Upstream, entry.Name, entry.Facts()); hide.Decides {
				prompt.hidden = "(hidden by " + hide.Rule + ") "
			}
			l.prompts = append(l.prompts, prompt)
		}
		troubles := s.Troubles()
		l.partial = partialOf(troubles)
		for _, report := range catalog.Summarized(append(s.Reports(), publish.Unmatched(s)...)) {
			isPrinted := func(t snapshot.Trouble) bool {
				return t.Problem != nil && strings.Contains(report.Text, t.Problem.Cause().Problem)
			}
			if q.lists.live && report.Kind == catalog.BrokenFile && slices.ContainsFunc(troubles, isPrinted) {
				continue // withUpstreams printed the troubles
			}
			q.app.warn("%s", report.Text)
		}
		return nil
	})
	return l, err
}

func (q *query) warnOfTroubles(l listing) {
	for _, t := range troublesIn(l.partial) {
		q.app.warn("%s", t.text)
	}
}

// watchList prints the list, then each change of it, until ctx ends.
func (q *query) watchList(ctx context.Context, filter *listFilter) error {
	if q.url == "" {
		return &usageError{"--watch requires --url: only a running gateway announces changes"}
	}
	var before *listing
	return newWatcher(q, func(ctx context.Context, s *client.Session) error {
		l, err := listSession(ctx, s)
		if err != nil {
			return err
		}
		q.warnOfTroubles(l)
		l = filter.selected(l)
		if before == nil || q.output == formatJSON {
			err = q.printList(l, filter)
		} else {
			err = q.printChanges(before.prompts, l.prompts)
		}
		before = &l
		return err
	}).follow(ctx)
}

func listSession(ctx context.Context, s *client.Session) (l listing, err error) {
	list, err := s.List(ctx, maxListed)
	for _, definition := range list.Definitions {
		if skill, err := catalog.ParseDefinition(definition, true); err == nil && skill.Skill != nil {
			uri, _ := wire.Members(definition).Text("uri") // listed skills have no exposed name
			definition = listedSkill(definition, uri, skill.Skill)
		}
		l.prompts = append(l.prompts, listedPrompt{definition: definition})
	}
	l.partial = wire.Members(list.Meta).Get(gateway.MetaPartial)
	return l, err
}

// partialUpstream is an upstream with a problem, in the format of [gateway.MetaPartial]. Only list with a
// configuration sets Place, Cause and Remedy.
type partialUpstream struct {
	Upstream string          `json:"upstream"`
	Reason   upstream.Reason `json:"reason"`
	Since    time.Time       `json:"since,omitzero"`
	Stale    bool            `json:"stale"`
	Failing  bool            `json:"failing,omitempty"`
	Files    []brokenFile    `json:"files,omitempty"`
	Place    string          `json:"place"`
	Cause    string          `json:"cause,omitempty"`
	Remedy   string          `json:"remedy,omitempty"`
}

// partialOf returns the upstreams with problems, like a gateway's _meta value, or nil if there are none.
func partialOf(troubles []snapshot.Trouble) jsontext.Value {
	var all []partialUpstream
	for _, t := range troubles {
		p := partialUpstream{Upstream: t.Upstream, Reason: snapshot.Starting, Stale: t.Listed, Place: t.Place}
		if t.Problem != nil {
			cause := t.Problem.Cause()
			p.Reason, p.Since, p.Cause, p.Remedy = t.Problem.Reason, t.Problem.Since, cause.Problem, cause.Remedy
		}
		all = append(all, p)
	}
	if all == nil {
		return nil
	}
	encoded, _ := json.Marshal(all) // strings, times and booleans encode without error
	return encoded
}

// troublesIn decodes the problems of upstreams from the _meta value of a gateway's list.
func troublesIn(partial jsontext.Value) (troubles []trouble) {
	var upstreams []partialUpstream
	if json.Unmarshal(partial, &upstreams) != nil {
		return nil // there is no value, or the server is not promptweir
	}
	for _, u := range upstreams {
		since := ""
		if !u.Since.IsZero() {
			since = terminal.InBrackets(terminal.Duration(time.Since(u.Since)))
		}
		text := u.Upstream + " is down" + since
		isFile := u.Reason == upstream.InvalidFile
		switch {
		case isFile:
			text = u.Upstream + " has broken files" + since
			if len(u.Files) > 0 {
				text += ": " + strings.Join(exslices.CastFunc(u.Files, func(f brokenFile) string { return f.Place }), ", ")
			}
			text += "; their last good prompts are served, and the log of the gateway has the errors"
		case u.Failing && !u.Stale:
			text = u.Upstream + " is listed, but gets fail" + since + ": " + string(u.Reason)
		case u.Stale:
			text += ": its last list is shown"
		default:
			text += ": its prompts are missing here"
		}
		troubles = append(troubles, trouble{u.Upstream, text, isFile, u.Files})
	}
	return troubles
}

// loadToList is loadConfig for list. Without --as, list connects to the upstreams. With --as, it connects
// only with --live; otherwise the upstreams' lists must be in files or in the lock file.
func (q *query) loadToList() (*config.Config, *policy.Principal, error) {
	if q.who.as == "" {
		q.lists.live = true
	}
	cfg, principal, err := q.loadConfig()
	if err != nil || q.lists.live {
		return cfg, principal, err
	}
	locked, err := q.app.lockedLists(cfg, q.app.config)
	// Do not imply --live: --as is used in reviews, which must not start servers unasked.
	if err == nil && !q.lists.suffices(cfg, locked) {
		err = &usageError{"--as needs the upstreams' lists: " + chooseSource}
	}
	return cfg, principal, err
}

// listFilter selects prompts of a list. The zero value selects all.
type listFilter struct {
	patterns []config.Pattern
	team     string
	skills   bool
}

func (f *listFilter) addTo(command *cobra.Command) {
	command.Flags().StringVar(&f.team, "team", "", "with --config, only the prompts of the `TEAM`")
	command.Flags().BoolVar(&f.skills, "skills", false, "list skills instead of prompts; with --url, by their uri")
}

// parse reads the PATTERN arguments. isRunning is true for the list of a running gateway, which does not
// reveal teams.
func (f *listFilter) parse(patterns []string, isRunning bool) error {
	if f.team != "" && isRunning {
		return &usageError{"--team requires --config: a running gateway does not say which team owns a prompt"}
	}
	for _, text := range patterns {
		if inside, _ := filepath.Glob(filepath.Join(text, "*.hcl")); strings.HasSuffix(text, ".hcl") || isKind(text, fs.ModeDir) && len(inside) > 0 {
			return &usageError{fmt.Sprintf("%q is a configuration, not a prompt: use --config %[1]q", text)}
		}
		pattern, err := config.ParsePattern(text)
		if err != nil {
			return &usageError{err.Error()}
		}
		f.patterns = append(f.patterns, pattern)
	}
	return nil
}

// checkTeam returns a usage error if the configuration does not have the team.
func (f *listFilter) checkTeam(cfg *config.Config) error {
	teams := cfg.TeamNames()
	if f.team == "" || slices.Contains(teams, f.team) {
		return nil
	}
	return &usageError{fmt.Sprintf("--team %q: the configuration has no such team%s", f.team,
		config.Suggest(f.team, teams))}
}

// check returns an error if none of the names matches a pattern. It suggests a name.
func (f *listFilter) check(names []string) error {
	if len(f.patterns) == 0 || slices.ContainsFunc(names, func(name string) bool { return f.includes(name, f.team) }) {
		return nil
	}
	return fmt.Errorf("no prompts%s%s", f, inspect.Suggest(f.patterns[0].String(), config.DefaultSeparator, names))
}

// selected returns the listing with only the selected prompts.
func (f *listFilter) selected(l listing) listing {
	l.prompts = slices.DeleteFunc(l.prompts, func(p listedPrompt) bool {
		name, _ := wire.Members(p.definition).Text("name")
		return !f.includes(name, p.team)
	})
	return l
}

// includes reports whether a prompt belongs to the filter's team and matches one of its patterns. An empty
// filter includes all prompts.
func (f *listFilter) includes(name, team string) bool {
	matches := func(pattern config.Pattern) bool { return pattern.Match(name) }
	return (f.team == "" || team == f.team) &&
		(len(f.patterns) == 0 || slices.ContainsFunc(f.patterns, matches))
}

// String describes the selection, to follow the word "prompts" in a sentence. It is empty if all
// prompts are selected.
func (f *listFilter) String() string {
	text := ""
	if f.team != "" {
		text = " of team " + f.team
	}
	if len(f.patterns) > 0 {
		text += " named " + strings.Join(exslices.CastFunc(f.patterns, config.Pattern.String), " or ")
	}
	return text
}
