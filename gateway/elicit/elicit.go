// Package elicit answers: what does a server ask a person for, and which reply does what the person
// writes make?
//
// It reads the params of elicitation/create (2025-11-25 and 2026-07-28, Elicitation) for whoever
// shows them, at a terminal or on a page. It is pure, and trusts nothing in the params.
package elicit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxFields bounds the fields of a form, maxChoices the choices of a field, and maxAllChoices those
// of all.
const (
	maxFields     = 200
	maxChoices    = 2000
	maxAllChoices = 5000
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
	// Its address tells the kind, since the mode of a form may be absent and a form has no address.
	if r.URL, r.IsURL = object.Text("url"); r.IsURL {
		return r, nil
	}
	schema := object.Object("requestedSchema")
	var required []string
	_ = json.Unmarshal(schema.Get("required"), &required) // none, if it is malformed
	properties := schema.Object("properties")
	if len(properties) > maxFields {
		return nil, invalid("more than %d properties are requested", maxFields)
	}
	choices := 0
	for _, property := range properties {
		f := Field{Name: property.Name, Required: slices.Contains(required, property.Name)}
		if err := json.Unmarshal(property.Value, &f.schema); err != nil {
			return nil, invalid("the schema of %s cannot be read", property.Name)
		}
		f.Type, f.Format = f.schema.Type, f.schema.Format
		f.Title, f.Description = f.schema.Title, f.schema.Description
		if f.Default = jsontext.Value(f.schema.Default); f.Default.Kind() == 'n' {
			f.Default = nil
		}
		f.Choices = f.schema.choices()
		if choices += len(f.Choices); choices > maxAllChoices {
			return nil, invalid("more than %d choices are requested", maxAllChoices)
		}
		r.Fields = append(r.Fields, f)
	}
	return r, nil
}

func invalid(format string, args ...any) *wire.Error {
	return wire.NewError(wire.InvalidParams, "Invalid params: "+fmt.Sprintf(format, args...))
}

// Reply returns the result of elicitation/create: an action and, for a form that was filled in, its
// content.
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
	// Type is that of JSON Schema, and "array" for several of the choices. Format is one such as
	// "email", or empty.
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
func (f *Field) Label() string { return cmp.Or(f.Title, f.Name) }

// fieldSchema is the part of a PrimitiveSchemaDefinition that matters to a person (2025-11-25,
// Elicitation, "Requested Schema").
type fieldSchema struct {
	Type, Title, Description, Format string
	Default                          json.RawMessage
	choiceSchema

	Items choiceSchema // of a field with several values

	MinLength, MaxLength, Minimum, Maximum, MinItems, MaxItems *float64
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

// Value returns what a person's answers to the field stand for, or a sentence about what is wrong
// with them. Only a field of several values has more than one answer. The value is nil if the field
// is left out.
func (f *Field) Value(answers ...string) (value jsontext.Value, problem string) {
	text := ""
	if len(answers) > 0 {
		text = answers[0]
	}
	switch {
	// It is not checked: the server has chosen it.
	case text == "" && f.Default != nil:
		return f.Default, ""
	case text == "" && !f.Required:
		return nil, ""
	// A text that is required may still be empty, if its schema allows it.
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
		return f.number(text)
	case "array":
		return f.several(answers)
	}
	if len(f.Choices) == 0 {
		return f.text(text)
	}
	return f.choice(text)
}

func (f *Field) number(text string) (jsontext.Value, string) {
	number, err := strconv.ParseFloat(text, 64)
	value := jsontext.Value(text)
	switch {
	case err != nil || !value.IsValid(): // such as 0x10 or NaN
		return nil, fmt.Sprintf("%q is not a number.", text)
	case f.Type == "integer" && number != math.Trunc(number):
		return nil, fmt.Sprintf("%q is not a whole number.", text)
	case !within(number, f.schema.Minimum, f.schema.Maximum):
		return nil, fmt.Sprintf("Write a number: %s.", f.Limits())
	}
	return value, ""
}

// text reads what may be any text, as far as its format and length allow.
func (f *Field) text(text string) (jsontext.Value, string) {
	if format := formats[f.Format]; format.fits != nil && !format.fits(text) {
		return nil, fmt.Sprintf("Write %s.", format.example)
	}
	if !within(float64(utf8.RuneCountInString(text)), f.schema.MinLength, f.schema.MaxLength) {
		return nil, fmt.Sprintf("Write %s.", span(f.schema.MinLength, f.schema.MaxLength, "character"))
	}
	return wire.Quote(text), ""
}

// formats are those that a text may have to have (2025-11-25, Elicitation, "Requested Schema").
// Others are not checked.
var formats = map[string]struct { //nolint:gochecknoglobals // a constant table
	example string
	fits    func(text string) bool
}{
	"email": {"an e-mail address such as ann@example.com", func(text string) bool {
		address, err := mail.ParseAddress(text)
		// ParseAddress also accepts an address with a name: Ann <ann@example.com>.
		return err == nil && address.Address == text
	}},
	"uri": {"a whole address such as https://example.com/", func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.IsAbs()
	}},
	"date": {"a date such as 2026-11-22", func(text string) bool {
		_, err := time.Parse(time.DateOnly, text)
		return err == nil
	}},
	"date-time": {"a date and time such as 2026-11-22T15:04:05Z", func(text string) bool {
		_, err := time.Parse(time.RFC3339, text)
		return err == nil
	}},
}

// Limits says what an answer has to be like, beside its type and choices, such as "3 to 50
// characters"; empty for one that may be anything.
func (f *Field) Limits() string {
	switch {
	case f.Type == "array":
		return span(f.schema.MinItems, f.schema.MaxItems, "choice")
	case f.Type == "integer" || f.Type == "number":
		return span(f.schema.Minimum, f.schema.Maximum, "")
	case f.Type != "string" || len(f.Choices) > 0:
		return ""
	}
	limits := []string{formats[f.Format].example, span(f.schema.MinLength, f.schema.MaxLength, "character")}
	return strings.Join(slices.DeleteFunc(limits, func(limit string) bool { return limit == "" }), ", ")
}

// within reports whether a number is one between two bounds, each of which may be nil.
func within(number float64, least, most *float64) bool {
	return (least == nil || number >= *least) && (most == nil || number <= *most)
}

// span says between which bounds a number of things is to be.
func span(least, most *float64, thing string) string {
	number := func(bound *float64) string { return strconv.FormatFloat(*bound, 'f', -1, 64) }
	things := func(bound *float64) string {
		switch {
		case thing == "":
			return number(bound)
		case *bound == 1:
			return "1 " + thing
		}
		return number(bound) + " " + thing + "s"
	}
	switch {
	case least == nil && most == nil:
		return ""
	case most == nil:
		return "at least " + things(least)
	case least == nil:
		return "at most " + things(most)
	case *least == *most:
		return things(most)
	}
	return number(least) + " to " + things(most)
}

// choice reads a choice by its value or, where none has that, by what people call it.
func (f *Field) choice(text string) (jsontext.Value, string) {
	i := slices.IndexFunc(f.Choices, func(c Choice) bool { return c.Value == text })
	if i < 0 {
		i = slices.IndexFunc(f.Choices, func(c Choice) bool {
			return c.Title != "" && strings.EqualFold(c.Title, text)
		})
	}
	if i < 0 {
		return nil, fmt.Sprintf("%q is none of the choices.", text)
	}
	return wire.Quote(f.Choices[i].Value), ""
}

func (f *Field) several(answers []string) (jsontext.Value, string) {
	if !within(float64(len(answers)), f.schema.MinItems, f.schema.MaxItems) {
		return nil, fmt.Sprintf("Choose %s.", f.Limits())
	}
	var list []jsontext.Value
	for _, one := range answers {
		value, problem := f.choice(one)
		if problem != "" {
			return nil, problem
		}
		list = append(list, value)
	}
	return wire.Array(list), ""
}
