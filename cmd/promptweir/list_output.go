package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxDescription bounds a description in a list, in bytes. With -o wide it has no bound.
const maxDescription = 120

// printList prints the prompts that the filter selected. For people, an empty list is a sentence
// and no empty table.
func (q *query) printList(l listing, filter *listFilter) error {
	if q.output == formatJSON {
		return terminal.PrintJSON(q.app.out, l.json())
	}
	if len(l.prompts) == 0 {
		q.app.warn("no prompts%s", filter)
		return nil
	}
	if q.output == formatWide {
		return q.printWide(l)
	}
	rows := [][]string{{"NAME", "ARGUMENTS", "DESCRIPTION"}}
	for _, prompt := range l.prompts {
		d := describe(prompt)
		text := wire.Clip(terminal.Line(prompt.hidden+cmp.Or(d.Description, d.Title)), maxDescription)
		rows = append(rows, []string{d.Name, d.arguments(), text})
	}
	if q.output == formatName {
		rows = rows[1:]
		for i := range rows {
			rows[i] = rows[i][:1]
		}
	}
	return terminal.WriteTable(q.app.out, rows)
}

// printChanges prints the names of prompts that are new, have changed or are gone.
func (q *query) printChanges(before, after []listedPrompt) error {
	var text strings.Builder
	was := map[string]string{}
	for _, p := range before {
		was[describe(p).Name] = string(p.definition)
	}
	for _, p := range after {
		name := describe(p).Name
		switch definition, known := was[name]; {
		case !known:
			fmt.Fprintln(&text, "+", terminal.Line(name))
		case definition != string(p.definition):
			fmt.Fprintln(&text, "~", terminal.Line(name))
		}
		delete(was, name)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		fmt.Fprintln(&text, "-", terminal.Line(name))
	}
	_, err := io.WriteString(q.app.out, text.String())
	return err
}

// printWide prints all there is to see, on lines of any length. Teams and upstreams are known with
// a configuration only.
func (q *query) printWide(l listing) error {
	rows := [][]string{{"NAME", "TITLE", "ARGUMENTS", "DESCRIPTION"}}
	if q.url == "" {
		rows[0] = slices.Insert(rows[0], 2, "TEAM", "UPSTREAM")
	}
	for _, prompt := range l.prompts {
		d := describe(prompt)
		cells := []string{d.Name, d.Title, d.arguments(), prompt.hidden + d.Description}
		if q.url == "" {
			cells = slices.Insert(cells, 2, prompt.team, strings.Join(prompt.upstreams, ","))
		}
		rows = append(rows, cells)
	}
	return terminal.WriteTable(q.app.out, rows)
}

// json returns the listing in the form of a result of prompts/list.
func (l *listing) json() any {
	result := struct {
		Prompts []json.RawMessage          `json:"prompts"`
		Meta    map[string]json.RawMessage `json:"_meta,omitempty"`
	}{Prompts: make([]json.RawMessage, 0, len(l.prompts))} // an empty list is [], not null
	for _, prompt := range l.prompts {
		result.Prompts = append(result.Prompts, json.RawMessage(prompt.definition))
	}
	if l.partial != nil {
		result.Meta = map[string]json.RawMessage{gateway.MetaPartial: json.RawMessage(l.partial)}
	}
	return result
}

// description is what people see of a definition.
type description struct {
	Name, Title, Description string
	Arguments                []argument
}

// argument is an argument that a prompt declares.
type argument struct {
	Name, Title, Description string
	Required                 bool
}

func describe(prompt listedPrompt) description {
	d, err := parseDefinition(prompt.definition)
	if err != nil {
		// A server at --url may list anything. The row has whatever could be decoded.
		d.Description = "(not a valid definition: " + err.Error() + ")"
	}
	return d
}

func parseDefinition(definition jsontext.Value) (d description, err error) {
	err = json.Unmarshal(definition, &d)
	return d, err
}

// arguments returns the names of the arguments; those that are required are marked with *.
func (d *description) arguments() string {
	names := make([]string, 0, len(d.Arguments))
	for _, a := range d.Arguments {
		if a.Required {
			a.Name += "*"
		}
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}
