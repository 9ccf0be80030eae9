package hclread

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Bounds of a regular expression.
const (
	MaxExpression = 1024 // bytes
	// MaxInstructions bounds the compiled program: ".{0,999}" has two thousand instructions.
	MaxInstructions = 10_000
)

// Program is a regular expression that is compiled, with what it takes to match it.
type Program struct {
	regexp       *regexp.Regexp // nil for a program that is only measured
	instructions int
	resultType   cty.Type
}

// Compile compiles a regular expression whose program is within bounds. The error continues a
// sentence that begins with the pattern.
func Compile(pattern string) (*Program, error) {
	if len(pattern) > MaxExpression {
		return nil, fmt.Errorf("is longer than %d bytes", MaxExpression)
	}
	size, ok := programSize(pattern)
	if ok && size.instructions > MaxInstructions { // before it is compiled, which takes memory in proportion
		return nil, fmt.Errorf("compiles to more than %d instructions; use smaller repetitions", MaxInstructions)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, errors.New("is not a regular expression (RE2): " + err.Error())
	}
	result, err := stdlib.RegexFunc.ReturnTypeForValues([]cty.Value{cty.StringVal(pattern), cty.UnknownVal(cty.String)})
	if err != nil {
		return nil, errors.New("cannot mix named and unnamed groups")
	}
	return &Program{re, size.instructions, result}, nil
}

// size is what a regular expression will take when it is compiled: instructions, and memory in
// bytes.
type size struct{ instructions, memory int }

// programSize returns an upper bound of what a pattern takes; not ok if it is not a regular
// expression.
func programSize(pattern string) (size, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return size{}, false
	}
	n := instructions(re)
	n.instructions = add(n.instructions, 2) // fail and match
	return size{n.instructions, add(multiply(n.instructions, 40), n.memory)}, true
}

// instructions counts repetitions before they are expanded.
func instructions(re *syntax.Regexp) size {
	n := size{instructions: 1 + len(re.Sub)}
	switch re.Op {
	case syntax.OpLiteral:
		n.instructions += len(re.Rune)
	case syntax.OpCharClass:
		n.memory = 4 * len(re.Rune)
	case syntax.OpCapture:
		n.instructions++
	}
	times := 1
	if re.Op == syntax.OpRepeat {
		times = max(re.Min, re.Max, 1) + 1
	}
	for _, sub := range re.Sub {
		inner := instructions(sub)
		n.instructions = add(n.instructions, multiply(times, inner.instructions+1))
		n.memory = add(n.memory, inner.memory) // copies share their classes
	}
	return n
}

// Regexp returns the regular expression.
func (p *Program) Regexp() *regexp.Regexp { return p.regexp }

// Compile is [Compile] at the cost of the file of the block, so that many patterns do not take much
// memory, nor a load much time.
func (b *Block) Compile(pattern string) (*Program, error) {
	if size, ok := programSize(pattern[:min(len(pattern), MaxExpression)]); ok && size.instructions <= MaxInstructions {
		if b.scope.limit.left < size.memory {
			return nil, errors.New("would make the patterns of this file too large in all; remove or simplify some")
		}
		b.scope.limit.left -= size.memory
	}
	return Compile(pattern)
}

// RegexFunction returns the function regex of HCL, which takes the program of a pattern from those
// that were compiled beforehand.
func RegexFunction(programs map[string]*Program) Function {
	general := stdlib.RegexFunc
	known := func(pattern cty.Value) *Program {
		if !pattern.IsKnown() {
			return nil
		}
		return programs[pattern.AsString()]
	}
	return function.New(&function.Spec{
		Params: general.Params(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if p := known(args[0]); p != nil {
				return p.resultType, nil
			}
			return general.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if p := known(args[0]); p != nil {
				return p.find(args[1].AsString())
			}
			return general.Call(args)
		},
	})
}

// find returns the first match in the form that regex gives it: as a string without groups, else as
// a tuple of the groups or as an object of named ones.
func (p *Program) find(text string) (cty.Value, error) {
	at := p.regexp.FindStringSubmatchIndex(text)
	if at == nil {
		return cty.NilVal, errors.New("the pattern does not match")
	}
	if p.resultType == cty.String {
		return cty.StringVal(text[at[0]:at[1]]), nil
	}
	groups, named := []cty.Value{}, map[string]cty.Value{}
	for i, name := range p.regexp.SubexpNames()[1:] {
		group := cty.NullVal(cty.String) // of an alternative that was not taken
		if begin, end := at[2*i+2], at[2*i+3]; begin >= 0 {
			group = cty.StringVal(text[begin:end])
		}
		groups, named[name] = append(groups, group), group
	}
	if p.resultType.IsTupleType() {
		return cty.TupleVal(groups), nil
	}
	return cty.ObjectVal(named), nil
}
