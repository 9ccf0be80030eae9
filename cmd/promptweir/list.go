package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxListed bounds the prompts that list accepts from the server at --url.
const maxListed = 1_000_000

func (a *app) listCommand() *cobra.Command {
	q := &query{listSource: listSource{app: a}}
	command := &cobra.Command{
		Use: "list", Short: "List the prompts of a configuration or a running gateway", Args: takes(cobra.NoArgs),
		Long: "List the prompts of a configuration or a running gateway.\n\n" +
			"With --config alone, list connects to the upstreams and prints every prompt. With --as it prints the prompts that a " +
			"principal sees, and needs --state or --live.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(); err != nil {
				return err
			}
			l, err := q.list(cmd.Context())
			if err != nil {
				return err
			}
			return q.printList(l)
		},
	}
	q.addTo(command)
	q.listSource.addTo(command)
	return command
}

// listing is what list prints.
type listing struct {
	// definitions are under their exposed names.
	definitions []jsontext.Value
	// partial is what a gateway says about upstreams whose part of the list is not fresh, as it was sent; nil for nothing.
	partial jsontext.Value
}

func (q *query) list(ctx context.Context) (l listing, err error) {
	if q.url != "" {
		err = q.withSession(ctx, func(s *client.Session) error {
			list, err := s.List(ctx, maxListed)
			l = listing{list.Definitions, wire.Members(list.Meta).Get(gateway.MetaPartial)}
			return err
		})
		q.reportPartial(l.partial)
		return l, err
	}
	cfg, principal, err := q.loadToList()
	if err != nil {
		return listing{}, err
	}
	err = q.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		for _, entry := range inspect.Entries(s, principal) {
			l.definitions = append(l.definitions, entry.JSON)
		}
		for _, report := range s.Reports() {
			fmt.Fprintln(q.err, "promptweir:", oneLine(report.Text, maxReport))
		}
		return nil
	})
	return l, err
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
		case u.Stale:
			shown = "its last list is shown"
		case u.Failing:
			shown = "its list is fresh, but gets fail"
		}
		line := fmt.Sprintf("upstream %s is degraded: %s since %s; %s", u.Upstream, u.Reason, u.Since, shown)
		fmt.Fprintln(q.err, "promptweir:", oneLine(line, maxReport))
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

// maxDescription is the length of a description in the table, in bytes.
const maxDescription = 70

func (q *query) printList(l listing) error {
	if q.output == "json" {
		return printJSON(q.out, l.json())
	}
	table := tabwriter.NewWriter(q.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tARGUMENTS\tDESCRIPTION")
	for _, definition := range l.definitions {
		fmt.Fprintln(table, row(definition))
	}
	return table.Flush()
}

// json returns the listing in the form of a result of prompts/list.
func (l *listing) json() any {
	result := struct {
		Prompts []json.RawMessage          `json:"prompts"`
		Meta    map[string]json.RawMessage `json:"_meta,omitempty"`
	}{Prompts: make([]json.RawMessage, 0, len(l.definitions))} // an empty list is [], not null
	for _, definition := range l.definitions {
		result.Prompts = append(result.Prompts, json.RawMessage(definition))
	}
	if l.partial != nil {
		result.Meta = map[string]json.RawMessage{gateway.MetaPartial: json.RawMessage(l.partial)}
	}
	return result
}

// row returns a definition as a row of the table. Required arguments are marked with *.
func row(definition jsontext.Value) string {
	var p struct {
		Name, Title, Description string
		Arguments                []struct {
			Name     string
			Required bool
		}
	}
	if err := json.Unmarshal(definition, &p); err != nil {
		// A server at --url may list anything. The row has whatever could be decoded.
		p.Description = "(not a valid definition: " + err.Error() + ")"
	}
	var arguments []string
	for _, argument := range p.Arguments {
		name := argument.Name
		if argument.Required {
			name += "*"
		}
		arguments = append(arguments, oneLine(name, maxDescription))
	}
	text := p.Description
	if text == "" {
		text = p.Title
	}
	return oneLine(p.Name, len(p.Name)) + "\t" + strings.Join(arguments, " ") + "\t" + oneLine(text, maxDescription)
}
