package hclread

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Function is what an expression can call.
type Function = function.Function

// mark is what sensitive values carry through every expression.
type mark string

const sensitive mark = "sensitive"

// Functions returns the functions that expressions may call, except env and file.
func Functions() map[string]Function {
	return map[string]Function{
		"base64decode": stringFunction(base64Decode),
		"base64encode": stringFunction(base64Encode),
		"chomp":        stdlib.ChompFunc,
		"coalesce":     stdlib.CoalesceFunc,
		"coalescelist": stdlib.CoalesceListFunc,
		"compact":      stdlib.CompactFunc,
		"concat":       stdlib.ConcatFunc,
		"contains":     stdlib.ContainsFunc,
		"csvdecode":    stdlib.CSVDecodeFunc,
		"distinct":     stdlib.DistinctFunc,
		"element":      stdlib.ElementFunc,
		"flatten":      stdlib.FlattenFunc,
		"format":       stdlib.FormatFunc,
		"formatlist":   stdlib.FormatListFunc,
		"indent":       stdlib.IndentFunc,
		"join":         stdlib.JoinFunc,
		"jsondecode":   stdlib.JSONDecodeFunc,
		"jsonencode":   stdlib.JSONEncodeFunc,
		"keys":         stdlib.KeysFunc,
		"length":       stdlib.LengthFunc,
		"lookup":       stdlib.LookupFunc,
		"lower":        stdlib.LowerFunc,
		"max":          stdlib.MaxFunc,
		"merge":        stdlib.MergeFunc,
		"min":          stdlib.MinFunc,
		"regex":        stdlib.RegexFunc,
		"regexall":     stdlib.RegexAllFunc,
		"regexreplace": stdlib.RegexReplaceFunc,
		"replace":      stdlib.ReplaceFunc,
		"reverse":      stdlib.ReverseListFunc,
		"setunion":     stdlib.SetUnionFunc,
		"sha256":       stringFunction(sha256Sum),
		"slice":        stdlib.SliceFunc,
		"sort":         stdlib.SortFunc,
		"split":        stdlib.SplitFunc,
		"strlen":       stdlib.StrlenFunc,
		"substr":       stdlib.SubstrFunc,
		"title":        stdlib.TitleFunc,
		"tobool":       stdlib.MakeToFunc(cty.Bool),
		"tolist":       stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":        stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber":     stdlib.MakeToFunc(cty.Number),
		"toset":        stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring":     stdlib.MakeToFunc(cty.String),
		"trim":         stdlib.TrimFunc,
		"trimprefix":   stdlib.TrimPrefixFunc,
		"trimspace":    stdlib.TrimSpaceFunc,
		"trimsuffix":   stdlib.TrimSuffixFunc,
		"upper":        stdlib.UpperFunc,
		"urlencode":    stringFunction(urlEncode),
		"values":       stdlib.ValuesFunc,
		"zipmap":       stdlib.ZipmapFunc,
	}
}

// stringFunction makes a function of one string.
func stringFunction(f func(string) (string, error)) Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

func base64Decode(s string) (string, error) {
	b, err := DecodeBase64(s)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", errors.New("the decoded bytes are not UTF-8 text")
	}
	return string(b), nil
}

func base64Encode(s string) (string, error) {
	return base64.StdEncoding.EncodeToString([]byte(s)), nil
}

func sha256Sum(s string) (string, error) {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:]), nil
}

func urlEncode(s string) (string, error) { return url.QueryEscape(s), nil }

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
	cost, err := checkPattern(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, errors.New("is not a regular expression (RE2): " + err.Error())
	}
	result, err := stdlib.RegexFunc.ReturnTypeForValues([]cty.Value{cty.StringVal(pattern), cty.UnknownVal(cty.String)})
	if err != nil {
		return nil, errors.New("cannot mix named and unnamed groups")
	}
	return &Program{re, cost.instructions, result}, nil
}

// cost is what a regular expression takes when it is compiled: instructions, and memory in bytes.
type cost struct{ instructions, memory int }

// checkPattern returns an upper bound of what a pattern takes, or an error that continues a sentence
// which begins with the pattern. What is not a regular expression costs nothing.
func checkPattern(pattern string) (cost, error) {
	if len(pattern) > MaxExpression {
		return cost{}, fmt.Errorf("is longer than %d bytes", MaxExpression)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return cost{}, nil //nolint:nilerr // the function that uses it reports this error
	}
	c := instructions(re)
	c.instructions = add(c.instructions, 2) // fail and match
	if c.instructions > MaxInstructions {
		return cost{}, fmt.Errorf("compiles to more than %d instructions; use smaller repetitions", MaxInstructions)
	}
	c.memory += multiply(c.instructions, 40) // bytes of a syntax.Inst
	return c, nil
}

// instructions counts repetitions before they are expanded.
func instructions(re *syntax.Regexp) cost {
	n := cost{instructions: 1 + len(re.Sub)}
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
// memory.
func (b *Block) Compile(pattern string) (*Program, error) {
	cost, err := checkPattern(pattern)
	if err != nil {
		return nil, err
	}
	if b.scope.source.left < cost.memory {
		return nil, errPatterns
	}
	b.scope.source.left -= cost.memory
	return Compile(pattern)
}

// RegexFunction returns the function regex of a condition, which takes the program of a pattern from
// those that were compiled beforehand, and compiles others within bounds.
func RegexFunction(programs map[string]*Program) Function {
	general := stdlib.RegexFunc
	program := func(pattern string) (*Program, error) {
		if p := programs[pattern]; p != nil {
			return p, nil
		}
		return Compile(pattern)
	}
	return function.New(&function.Spec{
		Params: general.Params(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return general.ReturnTypeForValues(args)
			}
			p, err := program(args[0].AsString())
			if err != nil {
				return cty.NilType, err
			}
			return p.resultType, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := program(args[0].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			return p.find(args[1].AsString())
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
