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

// Function is a function that expressions can call.
type Function = function.Function

// mark is the type of the cty mark of sensitive values. cty also marks all values computed from them.
type mark string

const sensitive mark = "sensitive"

// Functions returns the functions of expressions, except env and file.
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

// stringFunction wraps a function of one string.
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
	// MaxSteps bounds the matches of one evaluation of a condition to a few milliseconds, because servers choose
	// the texts. The steps of a match are the bytes of its text times the instructions of its pattern.
	MaxSteps = 1 << 20
	// compileSteps is the cost of compiling a pattern. Each call compiles twice: for its type and for its value.
	compileSteps = 1 << 16
)

// ErrTooMuchToMatch is the error of an evaluation that exceeds [MaxSteps].
var ErrTooMuchToMatch = &DiagnosticError{"Too much to match", "The texts are too long for these patterns."}

// Program is a compiled regular expression with its cost.
type Program struct {
	*regexp.Regexp

	instructions int
	resultType   cty.Type
}

// Compile compiles a regular expression within bounds. The error continues a sentence that begins with the
// pattern.
func Compile(pattern string) (*Program, error) {
	re, instructions, err := compile(pattern)
	if err != nil {
		return nil, err
	}
	result, err := stdlib.RegexFunc.ReturnTypeForValues([]cty.Value{cty.StringVal(pattern), cty.UnknownVal(cty.String)})
	if err != nil {
		return nil, errors.New("cannot mix named and unnamed groups")
	}
	return &Program{re, instructions, result}, nil
}

// compile returns a regular expression and an estimate of its instructions. It has the errors of [Compile].
func compile(pattern string) (re *regexp.Regexp, count int, err error) {
	if len(pattern) > MaxExpression {
		return nil, 0, fmt.Errorf("is longer than %d bytes", MaxExpression)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("is not a regular expression (RE2): %w", err)
	}
	// Count before compiling: a kilobyte of pattern can compile to millions of instructions.
	if count = instructions(parsed); count > MaxInstructions {
		return nil, 0, fmt.Errorf("compiles to more than %d instructions; use smaller repetitions", MaxInstructions)
	}
	re, err = regexp.Compile(pattern)
	return re, count, err
}

// instructions estimates the number of instructions without expanding repetitions.
func instructions(re *syntax.Regexp) int {
	count := max(1, len(re.Rune))
	if re.Op == syntax.OpCharClass {
		count = 1
	}
	for _, sub := range re.Sub {
		count += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		count *= max(re.Min, re.Max, 1)
	}
	return count
}

// instructionBytes is the approximate memory of one instruction.
const instructionBytes = 40

// Compile is the function [Compile], but charges the program's memory to the budget of the block's file.
func (b *Block) Compile(pattern string) (*Program, error) {
	if b.scope.file.left <= 0 {
		return nil, errors.New("makes the patterns of this file too large together; remove or simplify some")
	}
	p, err := Compile(pattern)
	if err == nil {
		b.scope.file.left -= p.instructions * instructionBytes
	}
	return p, err
}

// RegexFunction returns the function regex for one evaluation of a condition. It uses the compiled programs, and
// compiles other patterns within bounds. Each match and each compilation reduces steps, and fails if steps becomes
// negative. The caller must check steps afterwards, because the HCL functions "can" and "try" hide the error.
func RegexFunction(programs map[string]*Program, steps *int) Function {
	general := stdlib.RegexFunc
	program := func(pattern string) (*Program, error) {
		if p := programs[pattern]; p != nil {
			return p, nil
		}
		if *steps -= compileSteps; *steps < 0 {
			return nil, ErrTooMuchToMatch
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
			text := args[1].AsString()
			if *steps -= len(text) * p.instructions; *steps < 0 {
				return cty.NilVal, ErrTooMuchToMatch
			}
			return p.find(text)
		},
	})
}

// find returns the first match as HCL's regex does: a string without groups, otherwise a tuple of
// the groups or an object of the named groups.
func (p *Program) find(text string) (cty.Value, error) {
	at := p.FindStringSubmatchIndex(text)
	if at == nil {
		return cty.NilVal, errors.New("the pattern does not match")
	}
	if p.resultType == cty.String {
		return cty.StringVal(text[at[0]:at[1]]), nil
	}
	groups, named := []cty.Value{}, map[string]cty.Value{}
	for i, name := range p.SubexpNames()[1:] {
		group := cty.NullVal(cty.String) // a group of an alternative that did not match
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
