// Package elicit answers: what does a server ask a person for, and which reply does what the person writes make?
//
// It reads the params of elicitation/create (2025-11-25 and 2026-07-28, Elicitation) for whoever shows them, at a terminal or on a
// page. It is pure, and trusts nothing in the params.
package elicit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxFields bounds the fields of a form, and maxChoices the choices of a field.
const (
	maxFields  = 200
	maxChoices = 2000
)

// Action is what a person does with an elicitation.
type Action string

// The actions.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// Request is what a server asks for: a form to fill in, or an address to open.
type Request struct {
	Message string
	// URL is the address; IsURL tells an empty one from a form.
	URL    string
	IsURL  bool
	Fields []Field
}

// Read reads the params of elicitation/create. The error is a [*wire.Error] for the server.
func Read(params jsontext.Value) (*Request, error) {
	object := wire.Members(params)
	r := &Request{}
	r.Message, _ = object.Text("message")
	if r.URL, r.IsURL = object.Text("url"); r.IsURL {
		return r, nil
	}
	schema := object.Object("requestedSchema")
	var required []string
	_ = json.Unmarshal(schema.Get("required"), &required) // none, if it is malformed
	properties := schema.Object("properties")
	if len(properties) > maxFields {
		return nil, wire.NewError(wire.InvalidParams, fmt.Sprintf("Invalid params: more than %d properties are requested", maxFields))
	}
	for _, property := range properties {
		f := Field{Name: property.Name, Required: slices.Contains(required, property.Name)}
		if err := json.Unmarshal(property.Value, &f.schema); err != nil {
			return nil, wire.NewError(wire.InvalidParams, "Invalid params: the schema of "+property.Name+" cannot be read")
		}
		f.Type, f.Title, f.Description, f.Format = f.schema.Type, f.schema.Title, f.schema.Description, f.schema.Format
		f.Default = jsontext.Value(f.schema.Default)
		f.Choices = f.schema.choices()
		r.Fields = append(r.Fields, f)
	}
	return r, nil
}

// Reply returns the result of elicitation/create: an action and, for a form that was filled in, its content.
func Reply(action Action, content wire.Object) jsontext.Value {
	reply := wire.Object{}.With("action", wire.Quote(string(action)))
	if content != nil {
		reply = reply.With("content", content.JSON())
	}
	return reply.JSON()
}

// Field is a field of a form.
type Field struct {
	Name, Title, Description string
	Required                 bool
	// Type is that of JSON Schema, and "array" for several of the choices. Format is one such as "email", or empty.
	Type, Format string
	// Default is nil where there is none.
	Default jsontext.Value
	// Choices are the values to choose from; none where anything may be written.
	Choices []Choice

	schema fieldSchema
}

// Choice is a value, and what people call it.
type Choice struct{ Value, Title string }

// Several reports whether several values may be chosen.
func (f *Field) Several() bool { return f.Type == "array" }

// Label returns what people call the field.
func (f *Field) Label() string {
	if f.Title != "" {
		return f.Title
	}
	return f.Name
}

// fieldSchema is the part of a PrimitiveSchemaDefinition that matters to a person (2025-11-25, Elicitation, "Requested Schema").
type fieldSchema struct {
	Type, Title, Description, Format string
	Default                          json.RawMessage
	choiceSchema

	Items choiceSchema // of a field with several values
}

// choiceSchema is the ways to write down choices.
type choiceSchema struct {
	Enum, EnumNames []string
	OneOf, AnyOf    []struct{ Const, Title string }
}

func (s *fieldSchema) choices() (choices []Choice) {
	from := s.choiceSchema
	if s.Type == "array" {
		from = s.Items
	}
	for i, value := range from.Enum {
		title := ""
		if i < len(from.EnumNames) {
			title = from.EnumNames[i]
		}
		choices = append(choices, Choice{value, title})
	}
	for _, c := range slices.Concat(from.OneOf, from.AnyOf) {
		choices = append(choices, Choice{c.Const, c.Title})
	}
	return choices[:min(len(choices), maxChoices)]
}

// Value returns what a person's answers to the field stand for, or a sentence about what is wrong with them. Only a field of several
// values has more than one answer. The value is nil if the field is left out.
func (f *Field) Value(answers ...string) (value jsontext.Value, problem string) {
	text := ""
	if len(answers) > 0 {
		text = answers[0]
	}
	switch {
	case text == "" && f.Default != nil:
		return f.Default, ""
	case text == "" && !f.Required:
		return nil, ""
	case text == "" && (f.Type != "string" || len(f.Choices) > 0):
		return nil, "A value is required."
	}
	switch f.Type {
	case "boolean":
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			return jsontext.Value("true"), ""
		case "n", "no", "false":
			return jsontext.Value("false"), ""
		}
		return nil, "Write yes or no."
	case "integer", "number":
		return readNumber(f.Type, text)
	case "array":
		return f.several(answers)
	}
	if len(f.Choices) == 0 {
		return wire.Quote(text), ""
	}
	return f.choice(text)
}

func readNumber(kind, text string) (jsontext.Value, string) {
	number, err := strconv.ParseFloat(text, 64)
	value := jsontext.Value(text)
	switch {
	case err != nil || !value.IsValid(): // such as 0x10 or NaN
		return nil, fmt.Sprintf("%q is not a number.", text)
	case kind == "integer" && number != math.Trunc(number):
		return nil, fmt.Sprintf("%q is not a whole number.", text)
	}
	return value, ""
}

// choice reads a choice by its value or what people call it.
func (f *Field) choice(text string) (jsontext.Value, string) {
	for _, c := range f.Choices {
		if text == c.Value || c.Title != "" && strings.EqualFold(text, c.Title) {
			return wire.Quote(c.Value), ""
		}
	}
	return nil, fmt.Sprintf("%q is none of the choices.", text)
}

func (f *Field) several(answers []string) (jsontext.Value, string) {
	list := []byte{'['}
	for i, one := range answers {
		value, problem := f.choice(one)
		if problem != "" {
			return nil, problem
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, value...)
	}
	return append(list, ']'), ""
}
