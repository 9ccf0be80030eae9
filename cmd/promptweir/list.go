package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
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
			if q.url == "" && !q.given() {
				if q.as != "" { // typical of a review, on a machine where nothing must be started unasked
					return &usageError{"--as needs the upstreams' lists: " + chooseSource}
				}
				q.live = true
			}
			definitions, err := q.list(cmd.Context())
			if err != nil {
				return err
			}
			return q.printList(definitions)
		},
	}
	q.addTo(command)
	q.listSource.addTo(command)
	return command
}

// list returns the definitions under their exposed names.
func (q *query) list(ctx context.Context) (definitions []jsontext.Value, err error) {
	if q.url != "" {
		err = q.withSession(ctx, func(s *client.Session) error {
			list, err := s.List(ctx, maxListed)
			definitions = list.Definitions
			return err
		})
		return definitions, err
	}
	cfg, principal, err := q.loadConfig()
	if err != nil {
		return nil, err
	}
	err = q.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		for _, entry := range inspect.Entries(s, principal) {
			definitions = append(definitions, entry.JSON)
		}
		for _, report := range s.Reports() {
			fmt.Fprintln(q.err, "promptweir:", oneLine(report.Text, maxReport))
		}
		return nil
	})
	return definitions, err
}

// maxDescription is the length of a description in the table, in bytes.
const maxDescription = 70

func (q *query) printList(definitions []jsontext.Value) error {
	if q.output == "json" {
		raw := make([]json.RawMessage, 0, len(definitions)) // an empty list is [], not null
		for _, definition := range definitions {
			raw = append(raw, json.RawMessage(definition))
		}
		return printJSON(q.out, map[string][]json.RawMessage{"prompts": raw})
	}
	table := tabwriter.NewWriter(q.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tARGUMENTS\tDESCRIPTION")
	for _, definition := range definitions {
		fmt.Fprintln(table, row(definition))
	}
	return table.Flush()
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
