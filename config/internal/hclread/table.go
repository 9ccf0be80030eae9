package hclread

import (
	"fmt"
	"reflect"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// Attribute is one row of a block's table. Checks, decoding and documentation of the attribute follow from
// the row.
type Attribute struct {
	Name string
	// Env is "no" if the value may not come from env or file, and "yes" if it may. It is "secret" if the
	// value is also sensitive when written out.
	Env string
	Field
	// Meaning is a text in Markdown.
	Meaning string
	// Default replaces the value of Target in the documentation.
	Default string
	// Files and Connection are set for attributes of an upstream; package config gives the values their meaning.
	Files, Connection int

	remedy string // set if the attribute is required
}

// The values of Attribute.Env.
const (
	plain    = "no"
	external = "yes"
	secret   = "secret"
)

// Plain returns an attribute whose value is logged, so it may not come from env or file.
func Plain(name string, f Field, meaning string) Attribute {
	return Attribute{Name: name, Env: plain, Field: f, Meaning: meaning}
}

// FromEnvironment returns an attribute whose value may come from env and file. If it does, diagnostics
// do not show it.
func FromEnvironment(name string, f Field, meaning string) Attribute {
	return Attribute{Name: name, Env: external, Field: f, Meaning: meaning}
}

// Secret returns an attribute whose value is sensitive even if it is written out. No diagnostic quotes
// the lines of an attribute of that name, in any block.
func Secret(name string, f Field, meaning string) Attribute {
	return Attribute{Name: name, Env: secret, Field: f, Meaning: meaning}
}

// Or returns the attribute with another Default.
func (a Attribute) Or(text string) Attribute {
	a.Default = text
	return a
}

// Required returns the attribute as a required one. The remedy explains how to set it.
func (a Attribute) Required(remedy string, args ...any) Attribute {
	a.Default, a.remedy = "required", fmt.Sprintf(remedy, args...)
	return a
}

// Field is the decoder of an attribute.
type Field struct {
	Type string // in the documentation
	// Target points to the default and, after decoding, to the value. It is nil if the attribute does
	// not set exactly one variable.
	Target any
	decode func(b *Block, name string)
}

// String returns a field that [Set] decodes.
func String[T any](dst *T, parse func(string) (T, error)) Field {
	kind := "string"
	if reflect.TypeFor[T]() == reflect.TypeFor[time.Duration]() {
		kind = "duration"
	}
	return Field{kind, dst, func(b *Block, name string) { Set(b, name, dst, parse) }}
}

// Flag returns a field that is true or false.
func Flag(dst *bool) Field {
	return Field{"true or false", dst, func(b *Block, name string) {
		if v, ok := eval(b, name, cty.Bool); ok {
			*dst = v.True()
		}
	}}
}

// Count returns a field for a whole number from 1 to maximum.
func Count(dst *int, maximum int) Field {
	return Field{"number", dst, func(b *Block, name string) { Int(b, name, maximum, dst) }}
}

// Number returns a field for a number within bounds.
func Number(dst *float64, least, most float64) Field {
	return Field{"number", dst, func(b *Block, name string) { number(b, name, "a number", least, most, dst) }}
}

// Strings returns a field that [List] decodes.
func Strings[T any](dst *[]T, parse func(string) (T, error)) Field {
	return Field{"list", dst, func(b *Block, name string) { *dst = List(b, name, parse) }}
}

// Filled is [Strings] for a list that may be absent but not empty. The detail explains why.
func Filled[T any](dst *[]T, parse func(string) (T, error), detail string) Field {
	return Field{"list", dst, func(b *Block, name string) {
		if !b.Has(name) {
			return
		}
		before := b.Reported() // a list of only wrong elements, which were reported, is not empty
		if *dst = List(b, name, parse); len(*dst) == 0 && b.Reported() == before {
			b.Error(b.ValueRange(name), "Invalid "+name, "%s", detail)
		}
	}}
}

// Custom returns a field with any decoder. kind is the type of the field in the documentation.
func Custom(kind string, target any, decode func(b *Block)) Field {
	return Field{kind, target, func(b *Block, _ string) { decode(b) }}
}

// Beside returns a field that the decoder of another attribute decodes.
func Beside(kind string, target any) Field { return Field{kind, target, func(*Block, string) {}} }

// Recorded returns a field that adds the variables and files of its expression to refs when it is
// decoded. HCL evaluates both results of a conditional, so refs gets the references of both.
func (f Field) Recorded(refs References) Field {
	decode := f.decode
	f.decode = func(b *Block, name string) {
		b.references = refs
		decode(b, name)
		b.references = NewReferences()
	}
	return f
}

// Decode reads the attributes of a table, and reports required attributes that are absent.
func (b *Block) Decode(table []Attribute) {
	for _, a := range table {
		if a.remedy != "" {
			b.Require(a.Name, "%s", a.remedy)
		}
		a.decode(b, a.Name)
	}
}
