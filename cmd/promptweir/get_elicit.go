package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// The actions with which a person replies to an elicitation.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
)

// elicit asks the user what a server wants to know for the get, and returns the reply (elicitation/create).
func (p *person) elicit(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
	if method != wire.Elicit {
		return nil, wire.NewError(wire.MethodNotFound, "Method not found: only elicitations are answered")
	}
	object := wire.Members(params)
	message, _ := object.Text("message")
	var content wire.Object
	var err error
	if url, isURL := object.Text("url"); isURL {
		err = p.openURL(ctx, message, url)
	} else {
		content, err = p.fillIn(ctx, message, object.Object("requestedSchema"))
	}
	reply := wire.Object{}
	switch {
	case errors.Is(err, errNoAnswer):
		return reply.With("action", wire.Quote(actionDecline)).JSON(), nil
	case err != nil:
		return nil, err
	}
	reply = reply.With("action", wire.Quote(actionAccept))
	if content != nil {
		reply = reply.With("content", content.JSON())
	}
	return reply.JSON(), nil
}

// openURL asks the user to open an address. It is not opened here, because the server is not to be trusted that far.
func (p *person) openURL(ctx context.Context, message, url string) error {
	if err := p.tell("The server asks you to open an address: " + message); err != nil {
		return err
	}
	if err := p.tell(url); err != nil {
		return err
	}
	_, err := p.ask(ctx, "Open it if you trust it, then press Enter; Ctrl-D declines:", nil)
	return err
}

// fillIn asks for each field of a form, and returns its content.
func (p *person) fillIn(ctx context.Context, message string, schema wire.Object) (wire.Object, error) {
	if err := p.tell("The server asks: " + message + " (Ctrl-D declines)"); err != nil {
		return nil, err
	}
	var required []string
	_ = json.Unmarshal(schema.Get("required"), &required) // none, if it is malformed
	content := wire.Object{}
	for _, property := range schema.Object("properties") {
		f := field{name: property.Name, required: slices.Contains(required, property.Name)}
		if err := json.Unmarshal(property.Value, &f.schema); err != nil {
			return nil, wire.NewError(wire.InvalidParams, "Invalid params: the schema of "+property.Name+" cannot be read")
		}
		value, err := p.fillInField(ctx, &f)
		if err != nil {
			return nil, err
		}
		if value != nil {
			content = content.With(f.name, value)
		}
	}
	return content, nil
}

// fillInField asks until the answer fits the field. It returns nil for a field that the user leaves out.
func (p *person) fillInField(ctx context.Context, f *field) (jsontext.Value, error) {
	complete := func(start string) (values []string) {
		for _, c := range f.choices() {
			if strings.HasPrefix(c.value, start) {
				values = append(values, c.value)
			}
		}
		return values
	}
	for {
		text, err := p.ask(ctx, f.question(), complete)
		if err != nil {
			return nil, err
		}
		value, problem := f.read(strings.TrimSpace(text))
		if problem == "" {
			return value, nil
		}
		if err := p.tell(problem); err != nil {
			return nil, err
		}
	}
}

// field is a field of a form.
type field struct {
	name     string
	required bool
	schema   fieldSchema
}

// fieldSchema is the part of a PrimitiveSchemaDefinition that matters to a person (2025-11-25, Elicitation, "Requested Schema").
type fieldSchema struct {
	Type, Title, Description string
	Default                  json.RawMessage
	choiceSchema

	Items choiceSchema // of a field with several values
}

// choiceSchema is the ways to write down choices.
type choiceSchema struct {
	Enum, EnumNames []string
	OneOf, AnyOf    []struct{ Const, Title string }
}

// choice is a value, and what people call it.
type choice struct{ value, title string }

func (f *field) choices() (choices []choice) {
	s := f.schema.choiceSchema
	if f.schema.Type == "array" {
		s = f.schema.Items
	}
	for i, value := range s.Enum {
		title := ""
		if i < len(s.EnumNames) {
			title = s.EnumNames[i]
		}
		choices = append(choices, choice{value, title})
	}
	for _, c := range slices.Concat(s.OneOf, s.AnyOf) {
		choices = append(choices, choice{c.Const, c.Title})
	}
	return choices
}

// question says what to type.
func (f *field) question() string {
	name := f.name
	if f.schema.Title != "" {
		name = f.schema.Title
	}
	var hints []string
	if text := strings.TrimSuffix(f.schema.Description, "."); text != "" {
		hints = append(hints, text)
	}
	var choices []string
	for _, c := range f.choices() {
		if c.title != "" && c.title != c.value {
			c.value += " = " + c.title
		}
		choices = append(choices, c.value)
	}
	switch {
	case f.schema.Type == "array":
		hints = append(hints, "several of, with commas: "+strings.Join(choices, ", "))
	case len(choices) > 0:
		hints = append(hints, "one of: "+strings.Join(choices, ", "))
	case f.schema.Type == "boolean":
		hints = append(hints, "yes or no")
	case f.schema.Type == "number" || f.schema.Type == "integer":
		hints = append(hints, f.schema.Type)
	}
	switch {
	case f.schema.Default != nil:
		hints = append(hints, "Enter for "+string(f.schema.Default))
	case !f.required:
		hints = append(hints, "Enter for none")
	}
	return oneLine(name, maxReport) + inBrackets(oneLine(strings.Join(hints, "; "), maxReport)) + ":"
}

// read returns the value that a text stands for, or what is wrong with it. The value is nil if the field is left out.
func (f *field) read(text string) (value jsontext.Value, problem string) {
	switch {
	case text == "" && f.schema.Default != nil:
		return jsontext.Value(f.schema.Default), ""
	case text == "" && !f.required:
		return nil, ""
	case text == "" && (f.schema.Type != "string" || len(f.choices()) > 0):
		return nil, "A value is required."
	}
	switch f.schema.Type {
	case "boolean":
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			return jsontext.Value("true"), ""
		case "n", "no", "false":
			return jsontext.Value("false"), ""
		}
		return nil, "Write yes or no."
	case "integer", "number":
		return readNumber(f.schema.Type, text)
	case "array":
		return f.readSeveral(text)
	}
	if len(f.choices()) == 0 {
		return wire.Quote(text), ""
	}
	return f.readChoice(text)
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

// readChoice reads a choice by its value or what people call it.
func (f *field) readChoice(text string) (jsontext.Value, string) {
	for _, c := range f.choices() {
		if text == c.value || c.title != "" && strings.EqualFold(text, c.title) {
			return wire.Quote(c.value), ""
		}
	}
	return nil, fmt.Sprintf("%q is none of the choices.", text)
}

// readSeveral reads choices between commas.
func (f *field) readSeveral(text string) (jsontext.Value, string) {
	list := []byte{'['}
	for i, one := range strings.Split(text, ",") {
		value, problem := f.readChoice(strings.TrimSpace(one))
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
