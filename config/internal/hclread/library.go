package hclread

import (
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// library returns the functions with bounds: what they take and make is counted for the file whose
// expression is being evaluated, and refused if it is too large.
func (r *Reader) library() map[string]Function {
	all := Functions()
	for name, f := range all {
		all[name] = function.New(&function.Spec{
			Params: f.Params(), VarParam: f.VarParam(),
			Type: func(args []cty.Value) (cty.Type, error) {
				if err := r.spend(args...); err != nil {
					return cty.NilType, err
				}
				if err := r.check(name, args); err != nil {
					return cty.NilType, err
				}
				return f.ReturnTypeForValues(args)
			},
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				v, err := f.Call(args)
				if err != nil {
					return v, err
				}
				return v, r.spend(v)
			},
		})
	}
	return all
}

// check refuses a call of a function that can make much more than it takes, before it does.
func (r *Reader) check(name string, args []cty.Value) error {
	known := make([]cty.Value, len(args))
	for i, arg := range args {
		if known[i], _ = arg.UnmarkDeep(); !arg.IsWhollyKnown() {
			return nil // nothing is made of it
		}
	}
	makes, err := 0, error(nil)
	switch text := func(i int) string { return textOf(known[i]) }; name {
	case "format":
		makes = formatted(text(0), known[1:])
	case "formatlist":
		longest := 1
		for _, arg := range known {
			longest = max(longest, sizeOf(arg).longest)
		}
		makes = multiply(longest, formatted(text(0), known[1:]))
	case "indent":
		spaces, _ := known[0].AsBigFloat().Int64()
		makes = multiply(int(max(spaces, 0)), strings.Count(text(1), "\n"))
	case "join":
		for _, list := range known[1:] {
			makes = add(makes, multiply(len(text(0)), list.LengthInt()))
		}
	case "replace":
		makes = multiply(strings.Count(text(0), text(1)), len(text(2)))
	case "split":
		makes = multiply(strings.Count(text(1), text(0)), elementBytes)
	case "regex":
		_, err = r.compile(text(0))
	case "regexall":
		makes, err = r.matched(text(0), text(1), elementBytes)
	case "regexreplace":
		// Each $ of the replacement can stand for all that its group has matched.
		groups := multiply(strings.Count(text(2), "$"), len(text(0)))
		makes, err = r.matched(text(1), text(0), len(text(2)))
		makes = add(makes, groups)
	case "jsondecode": // cty's decoder recurses, and this one has a bound for that
		err = json.Unmarshal([]byte(text(0)), new(json.RawMessage))
	}
	if err == nil && makes > maxValue {
		err = tooLarge()
	}
	return err
}

// textOf returns a known string, empty for anything else.
func textOf(v cty.Value) string {
	if v.IsNull() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

// formatted returns about how many bytes format makes.
func formatted(layout string, args []cty.Value) int {
	bytes, times := len(layout), 1
	for _, width := range digitRuns().FindAllString(layout, -1) {
		n, err := strconv.Atoi(width)
		if err != nil { // it is beyond an int
			n = math.MaxInt
		}
		bytes = add(bytes, n)
	}
	if strings.Contains(layout, "[") { // a verb may name any argument
		times = strings.Count(layout, "%")
	}
	for _, arg := range args {
		bytes = add(bytes, multiply(times, sizeOf(arg).bytes))
	}
	return bytes
}

// digitRuns matches the widths and the argument numbers of a format.
var digitRuns = Lazily(`[0-9]+`)

// matched returns how many bytes are made if each match of a pattern in a text makes some for each
// group.
func (r *Reader) matched(pattern, text string, bytes int) (int, error) {
	compiled, err := r.compile(pattern)
	if compiled == nil {
		return 0, err
	}
	matches := len(compiled.FindAllStringIndex(text, maxValue/elementBytes+1))
	return multiply(matches, multiply(bytes, compiled.NumSubexp()+1)), nil
}

// compile returns nil for what is not a regular expression, which the function reports.
func (r *Reader) compile(pattern string) (*regexp.Regexp, error) {
	cost, err := checkPattern(pattern)
	if err == nil && r.evaluating.left < cost.memory {
		err = errPatterns
	}
	if err != nil {
		return nil, &DiagnosticError{"Invalid pattern", "The pattern " + err.Error() + "."}
	}
	r.evaluating.left -= cost.memory
	compiled, _ := regexp.Compile(pattern)
	return compiled, nil
}

var errPatterns = errors.New("makes the patterns of this file too large together; remove or simplify some")
