package schema

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxPattern bounds one pattern, in bytes, and maxProgram all compiled patterns of a schema, in
	// instructions.
	maxPattern = 2 << 10
	maxProgram = 20_000
	// maxMatch bounds a match, in bytes times instructions, to which RE2's running time is
	// proportional.
	maxMatch = 1 << 26
)

// patterns compiles the regular expressions of one schema.
type patterns struct {
	meter *meter
	// size is the size of all patterns so far, in instructions, or unlimited once the schema is
	// compiled: patterns that come later are values, checked for being patterns.
	size int
}

const unlimited = -1

// compile is a [jsonschema.RegexpEngine].
func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	if len(expression) > maxPattern {
		return nil, errors.New("the pattern is too long")
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// regexp.Compile does the same again below, but does not say how large the program is.
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if p.size != unlimited {
		p.size += len(program.Inst)
	}
	if max(p.size, len(program.Inst)) > maxProgram {
		return nil, errors.New("the schema's patterns are too large together")
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, len(program.Inst), p.meter}, nil
}

// pattern is a compiled regular expression that refuses a match that would take too long.
type pattern struct {
	*regexp.Regexp

	size  int
	meter *meter
}

// MatchString implements [jsonschema.Regexp].
func (p *pattern) MatchString(text string) bool {
	p.meter.spend()
	// A match cannot be interrupted, so the clock alone would not bound it.
	if len(text)*p.size > maxMatch {
		panic(errTooCostly)
	}
	return p.Regexp.MatchString(text)
}
