package schema

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxPattern bounds one pattern, in bytes, and maxProgram what all patterns of a schema become, in instructions.
	maxPattern = 2 << 10
	maxProgram = 20_000
	// maxMatch bounds a match, in bytes times instructions: RE2 takes no longer than in proportion to that.
	maxMatch = 1 << 26
)

// patterns compiles the regular expressions of one schema.
type patterns struct {
	meter *meter
	// size is that of all together, in instructions, or unlimited once the schema is compiled: the patterns that come
	// after that are values.
	size int
}

const unlimited = -1

// compile is a [jsonschema.RegexpEngine].
func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	if len(expression) > maxPattern {
		return nil, errors.New("it is too long")
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if p.size != unlimited {
		p.size += len(program.Inst)
	}
	if max(p.size, len(program.Inst)) > maxProgram {
		return nil, errors.New("the patterns are too large together")
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, len(program.Inst), p.meter}, nil
}

// pattern is a compiled regular expression that knows what a match costs.
type pattern struct {
	*regexp.Regexp

	size  int
	meter *meter
}

func (p *pattern) MatchString(text string) bool {
	p.meter.spend()
	if len(text)*p.size > maxMatch {
		panic(ErrTooCostly)
	}
	return p.Regexp.MatchString(text)
}
