package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxListed bounds the prompts that list accepts from the server at --url.
const maxListed = 1_000_000

func (a *app) listCommand() *cobra.Command {
	q := &query{listSource: listSource{app: a}}
	var filter listFilter
	command := &cobra.Command{
		Use: "list [PATTERN]...", Short: "List the prompts of a configuration or a running gateway", Args: takes(cobra.ArbitraryArgs),
		Long: "List the prompts of a configuration or a running gateway: all, or those whose names match a PATTERN, in which * stands for any " +
			"characters. Required arguments are marked with *.\n\n" +
			"With --config alone, list connects to the upstreams and prints every prompt. With --as it prints the prompts that a " +
			"principal sees, and needs --state or --live.",
		Example: "  promptweir list --config promptweir\n" +
			"  promptweir list 'billing.*' --config promptweir --team payments\n" +
			"  promptweir list --url http://127.0.0.1:8080/mcp -o json\n" +
			"  promptweir list --config promptweir --as user:bob,group:support --live",
		SuggestFor: []string{"ls", "prompts"},
		RunE: func(cmd *cobra.Command, patterns []string) error {
			if err := filter.parse(patterns, q.url != ""); err != nil {
				return err
			}
			if err := q.check(); err != nil {
				return err
			}
			l, err := q.list(cmd.Context(), &filter)
			if err != nil {
				return err
			}
			return q.printList(filter.apply(l), &filter)
		},
	}
	q.addTo(command)
	q.listSource.addTo(command)
	filter.addTo(command)
	completeFlag(command, "team", a.completeTeam)
	command.ValidArgsFunction = q.completePrompts(maxListed)
	addOutput(command, &q.output, formatTable, formatWide, formatJSON)
	return command
}

// listing is what list prints.
type listing struct {
	prompts []listedPrompt
	// partial is what a gateway says about upstreams whose part of the list is not fresh, as it was sent; nil for nothing.
	partial jsontext.Value
}

// listedPrompt is a definition under its exposed name, with the team and the upstreams that own it, which a running gateway does
// not tell.
type listedPrompt struct {
	definition jsontext.Value
	team       string
	upstreams  []string
}

func (q *query) list(ctx context.Context, filter *listFilter) (l listing, err error) {
	if q.url != "" {
		err = q.withSession(ctx, func(s *client.Session) error {
			list, err := s.List(ctx, maxListed)
			for _, definition := range list.Definitions {
				l.prompts = append(l.prompts, listedPrompt{definition: definition})
			}
			l.partial = wire.Members(list.Meta).Get(gateway.MetaPartial)
			return err
		})
		q.reportPartial(l.partial)
		return l, err
	}
	cfg, principal, err := q.loadToList()
	if err != nil {
		return listing{}, err
	}
	if err := filter.check(cfg); err != nil {
		return listing{}, err
	}
	err = q.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		for _, entry := range inspect.Entries(s, principal) {
			prompt := listedPrompt{definition: entry.JSON, team: entry.Team}
			for _, owner := range entry.Owners {
				prompt.upstreams = append(prompt.upstreams, owner.Upstream)
			}
			l.prompts = append(l.prompts, prompt)
		}
		l.partial = partialOf(s.Troubles())
		for _, report := range s.Reports() {
			fmt.Fprintln(q.err, "promptweir:", terminal.OneLine(report.Text, terminal.MaxReport))
		}
		return nil
	})
	return l, err
}

// partialOf returns what a list says of upstreams in trouble, in the form in which a gateway says it to clients, with what operators
// may know beside; nil for none.
func partialOf(troubles []snapshot.Trouble) jsontext.Value {
	type partial struct {
		Upstream string          `json:"upstream"`
		Endpoint string          `json:"endpoint,omitempty"`
		Reason   upstream.Reason `json:"reason"`
		Since    *time.Time      `json:"since,omitempty"`
		Stale    bool            `json:"stale"`
		Place    string          `json:"place"`
		Cause    string          `json:"cause,omitempty"`
		Remedy   string          `json:"remedy,omitempty"`
	}
	var all []partial
	for _, t := range troubles {
		p := partial{t.Upstream, t.Endpoint, cmp.Or(t.Reason, snapshot.Starting), nil, t.Listed, t.Place, t.Cause.Problem, t.Cause.Remedy}
		if !t.Since.IsZero() {
			p.Since = &t.Since
		}
		all = append(all, p)
	}
	if all == nil {
		return nil
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return nil // impossible: it is text, times and truth values
	}
	return encoded
}

// reportPartial prints which upstreams' part of a gateway's list is not fresh.
func (q *query) reportPartial(partial jsontext.Value) {
	var upstreams []struct {
		Upstream, Reason, Since string
		Stale, Failing          bool
	}
	if json.Unmarshal(partial, &upstreams) != nil {
		return // none, or those of a server that is no gateway
	}
	for _, u := range upstreams {
		shown := "it has not been listed yet"
		switch {
		case u.Reason == string(upstream.Draining):
			shown = "an operator has drained it, and gets from it are refused"
		case u.Stale:
			shown = "its last list is shown"
		case u.Failing:
			shown = "its list is fresh, but gets fail"
		}
		line := fmt.Sprintf("upstream %s is degraded: %s since %s; %s", u.Upstream, u.Reason, u.Since, shown)
		fmt.Fprintln(q.err, "promptweir:", terminal.OneLine(line, terminal.MaxReport))
	}
}

// loadToList is loadConfig for a list. Unless all prompts are in files, it needs the upstreams' lists, and takes them from the
// upstreams if no flag says otherwise.
func (q *query) loadToList() (*config.Config, *policy.Principal, error) {
	if !q.given() && q.as == "" {
		q.live = true
	}
	cfg, principal, err := q.loadConfig()
	if err == nil && !q.suffices(cfg) { // typical of a review, on a machine where nothing must be started unasked
		err = &usageError{"--as needs the upstreams' lists: " + chooseSource}
	}
	return cfg, principal, err
}
