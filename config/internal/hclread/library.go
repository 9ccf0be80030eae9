package hclread

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// library returns the functions of expressions, wrapped to charge their arguments and results to the budget of the
// file, and to refuse values beyond a bound.
func (r *Reader) library() map[string]Function {
	all := Functions()
	for name, f := range all {
		all[name] = function.New(&function.Spec{
			Params: f.Params(), VarParam: f.VarParam(),
			Type: func(args []cty.Value) (cty.Type, error) {
				if err := r.spend(args...); err != nil {
					return cty.NilType, err
				}
				if err := checkCall(name, args); err != nil {
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

// checkCall refuses calls whose result may be much larger than their arguments, and patterns and JSON
// beyond bounds.
func checkCall(name string, args []cty.Value) error {
	values := make([]cty.Value, len(args))
	for i, arg := range args {
		if values[i], _ = arg.UnmarkDeep(); !arg.IsWhollyKnown() {
			return nil // the function is not called with unknown arguments
		}
	}
	size, err := 0, error(nil)
	text := func(i int) string { // the argument if it is a string, or ""
		if values[i].IsNull() || values[i].Type() != cty.String {
			return ""
		}
		return values[i].AsString()
	}
	switch name {
	case "format":
		size = formatted(text(0), values[1:])
	case "formatlist":
		longest := 1
		for _, arg := range values {
			longest = max(longest, sizeOf(arg).longest)
		}
		size = longest * formatted(text(0), values[1:])
	case "indent":
		spaces, _ := values[0].AsBigFloat().Int64()
		size = int(min(max(spaces, 0), maxValue+1)) * strings.Count(text(1), "\n")
	case "join":
		for _, list := range values[1:] {
			size += len(text(0)) * list.LengthInt()
		}
	case "replace":
		size = strings.Count(text(0), text(1)) * len(text(2))
	case "split":
		size = strings.Count(text(1), text(0)) * elementBytes
	case "regex":
		err = checkPattern(text(0))
	case "regexall":
		err = checkPattern(text(0))
		size = (len(text(1)) + 1) * (strings.Count(text(0), "(") + 1) * elementBytes
	case "regexreplace":
		err = checkPattern(text(1))
		// Each $ of the replacement may insert the whole match of its group.
		size = (len(text(0))+1)*len(text(2)) + strings.Count(text(2), "$")*len(text(0))
	case "jsondecode": // cty's decoder recurses without a bound; package json bounds the depth
		err = json.Unmarshal([]byte(text(0)), new(json.RawMessage))
	}
	if err == nil && size > maxValue {
		err = tooLarge()
	}
	return err
}

// formatted estimates the size of format's result.
func formatted(layout string, args []cty.Value) int {
	bytes, times := len(layout), 1
	for _, width := range digitRuns().FindAllString(layout, -1) {
		n, _ := strconv.Atoi(width) // on overflow, Atoi returns the largest int
		bytes += min(n, maxValue+1)
	}
	if strings.Contains(layout, "[") { // a verb may refer to any argument
		times = strings.Count(layout, "%")
	}
	for _, arg := range args {
		bytes += times * sizeOf(arg).bytes
	}
	return bytes
}

// digitRuns matches the widths and argument numbers of a format.
var digitRuns = Lazily(`[0-9]+`)

func checkPattern(pattern string) error {
	if _, _, err := compile(pattern); err != nil {
		return &DiagnosticError{"Invalid pattern", "The pattern " + err.Error() + "."}
	}
	return nil
}
