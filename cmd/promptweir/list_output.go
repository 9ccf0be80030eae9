package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxDescription bounds a description in a list, in bytes. With -o wide there is no bound.
const maxDescription = 120

// printList prints a listing that filter has selected. Instead of an empty table, it prints a sentence.
func (q *query) printList(l listing, filter *listFilter) error {
	if q.output == formatJSON {
		return terminal.PrintJSON(q.app.out, l.json())
	}
	if len(l.prompts) == 0 {
		q.app.warn("no prompts%s", filter)
		return nil
	}
	isWide := q.output == formatWide
	rows := [][]string{{"NAME", "TITLE", "TEAM", "UPSTREAM", "ARGUMENTS", "DESCRIPTION"}}
	for _, prompt := range l.prompts {
		d := describe(prompt.definition)
		text := prompt.hidden + d.Description
		if !isWide {
			text = wire.Clip(terminal.Line(prompt.hidden+cmp.Or(d.Description, d.Title)), maxDescription)
		}
		rows = append(rows, []string{d.Name, d.Title, prompt.team, strings.Join(prompt.upstreams, ","), d.arguments(), text})
	}
	for i, row := range rows {
		switch {
		case q.output == formatName:
			rows[i] = row[:1]
		case !isWide:
			rows[i] = slices.Delete(row, 1, 4)
		case q.url != "": // teams and upstreams are known for a configuration only
			rows[i] = slices.Delete(row, 2, 4)
		}
	}
	if q.output == formatName {
		rows = rows[1:]
	}
	return terminal.WriteTable(q.app.out, rows)
}

// printChanges prints the names of new (+), changed (~) and removed (-) prompts.
func (q *query) printChanges(before, after []listedPrompt) error {
	var text strings.Builder
	was := map[string]string{}
	for _, p := range before {
		was[describe(p.definition).Name] = string(p.definition)
	}
	for _, p := range after {
		name := describe(p.definition).Name
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
	return q.app.printf("%s", text.String())
}

// json returns the listing in the form of prompts/list.
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

// description contains the parts of a definition that commands print.
type description struct {
	Name, Title, Description string
	Arguments                []argument
}

// argument is an argument that a prompt declares.
type argument struct {
	Name, Title, Description string
	Required                 bool
}

func describe(definition jsontext.Value) (d description) {
	if err := json.Unmarshal(definition, &d); err != nil {
		// A server may send any definition. Print the parts that can be decoded.
		d.Description = "(not a valid definition: " + err.Error() + ")"
	}
	return d
}

// arguments returns the names of the arguments, with * after required ones.
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
