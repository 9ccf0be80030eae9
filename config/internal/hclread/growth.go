package hclread

import (
	"math"
	"math/bits"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// admit spends what a function call costs beyond its arguments and its result, and reports whether it may be made. Those two
// are charged to the budget elsewhere; this is for functions whose result is much larger than their arguments, or that are slow.
func (b *Budget) admit(name string, args []cty.Value, at hcl.Range) bool {
	size := 0
	for _, v := range args {
		size = add(size, measure(v, b.maxResult))
	}
	if !b.spend(size, at) || !b.allow(growth(name, args), at) {
		return false
	}
	switch name {
	case "coalesce", "coalescelist", "concat", "distinct", "flatten", "merge", "reverse", "setunion", "slice", "tolist", "tomap", "toset":
		return b.unify(args, at)
	case "regex", "regexall", "regexreplace":
		return b.match(name, args, at)
	}
	return true
}

// unify spends what it takes to find one type for values of several. Doubled for each level: cty tries several types at
// each, and for each of them all types below.
func (b *Budget) unify(values []cty.Value, at hcl.Range) bool {
	if sameTypes(values) {
		return true
	}
	count, depth := shape(values)
	return b.spend(multiply(multiply(count, count), 1<<min(depth, 40)), at)
}

// sameTypes reports whether some values have one type, and the elements of each have one.
func sameTypes(values []cty.Value) bool {
	for _, v := range values {
		if !v.Type().Equals(values[0].Type()) {
			return false
		}
	}
	for _, v := range values {
		if t := v.Type(); (t.IsTupleType() || t.IsObjectType()) && !sameTypes(elements(v)) {
			return false
		}
	}
	return true
}

// match spends what a regular expression takes: each instruction may be carried out for each byte.
func (b *Budget) match(name string, args []cty.Value, at hcl.Range) bool {
	pattern, ok := textAt(args, 0)
	if name == "regexreplace" {
		pattern, ok = textAt(args, 1)
	}
	if !ok {
		return true // the function reports it, or its result is unknown
	}
	program := b.programs[pattern]
	if program == nil {
		// The function compiles it several times.
		size, ok := programSize(pattern)
		if !b.spend(multiply(len(pattern), nodeSteps), at) || !ok || !b.spend(multiply(size.memory, 4), at) {
			return b.exceeded == nil // a pattern with a mistake is reported by the function
		}
		program = &Program{instructions: size.instructions}
	}
	text, _ := textAt(args, 1)
	if name == "regexreplace" {
		text, _ = textAt(args, 0)
	}
	cost := multiply(len(text)+1, program.instructions)
	if name != "regex" { // after each match, the search for the next one may go to the end
		cost = multiply(cost, len(text)+1)
	}
	return b.spend(cost, at)
}

// growth returns an upper bound of a function's result, in bytes, for the functions whose result can be much larger than their
// arguments. It is 0 for the others and for arguments that they do not accept.
func growth(name string, args []cty.Value) int {
	switch name {
	case "indent":
		text, _ := textAt(args, 1)
		return add(len(text), multiply(numberAt(args, 0), strings.Count(text, "\n")))
	case "format", "formatlist":
		return formatGrowth(name, args)
	case "join":
		separator, _ := textAt(args, 0)
		total := 0
		for _, list := range args[min(1, len(args)):] {
			for _, e := range elements(list) {
				total = add(total, add(len(separator), measure(e, maxResult)))
			}
		}
		return total
	case "replace":
		text, _ := textAt(args, 0)
		old, _ := textAt(args, 1)
		replacement, _ := textAt(args, 2)
		return add(len(text), multiply(strings.Count(text, old), len(replacement)))
	case "regexreplace":
		text, _ := textAt(args, 0)
		replacement, _ := textAt(args, 2)
		// Every byte may be a match, and each reference stands for at most the whole text in all.
		return add(multiply(len(text)+1, len(replacement)+1), multiply(strings.Count(replacement, "$"), len(text)))
	case "split":
		separator, _ := textAt(args, 0)
		text, _ := textAt(args, 1)
		return add(len(text), multiply(strings.Count(text, separator)+1, elementSteps))
	case "csvdecode", "jsondecode":
		text, _ := textAt(args, 0)
		return decodeGrowth(text)
	}
	return 0
}

// formatGrowth counts each verb with its width and precision and the largest of the arguments, which any verb may name.
func formatGrowth(name string, args []cty.Value) int {
	format, _ := textAt(args, 0)
	largest, times := 0, 1
	for _, v := range args[min(1, len(args)):] {
		if all := elements(v); name == "formatlist" && all != nil {
			times = max(times, len(all))
			for _, e := range all {
				largest = max(largest, measure(e, maxResult))
			}
			continue
		}
		largest = max(largest, measure(v, maxResult))
	}
	total := len(format)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		number := 0
		for i++; i < len(format) && strings.IndexByte("0123456789.+-# []*", format[i]) >= 0; i++ {
			if c := format[i]; '0' <= c && c <= '9' {
				number = add(multiply(number, 10), int(c-'0'))
				continue
			}
			total, number = add(total, number), 0
		}
		total = add(add(total, number), largest)
	}
	return multiply(total, times)
}

// decodeGrowth counts what separates values. A text that is nested deeply would exhaust the stack, from which Go cannot recover.
func decodeGrowth(text string) int {
	values, depth := 1, 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			values++
			if depth++; depth > maxNesting {
				return math.MaxInt
			}
		case ']', '}':
			depth--
		case ',', '\n', ':':
			values++
		}
	}
	return add(len(text), multiply(values, elementSteps))
}

// textAt returns an argument that is a string. A number or a boolean, which HCL would convert, is short.
func textAt(args []cty.Value, i int) (string, bool) {
	if i >= len(args) {
		return "", false
	}
	v, _ := args[i].Unmark()
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// numberAt returns an argument that is a number, as HCL converts it; 0 if it is not a number.
func numberAt(args []cty.Value, i int) int {
	if text, ok := textAt(args, i); ok {
		n, err := cty.ParseNumberVal(text)
		if err != nil {
			return 0
		}
		return wholeNumber(n)
	}
	if i >= len(args) {
		return 0
	}
	v, _ := args[i].Unmark()
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() || v.Type() != cty.Number {
		return 0
	}
	return wholeNumber(v)
}

// wholeNumber returns a number that is not negative, or the nearest one that fits.
func wholeNumber(v cty.Value) int {
	n, _ := v.AsBigFloat().Int64()
	return int(max(0, n))
}

// add and multiply stop at the largest number, for counts that are not negative.
func add(a, b int) int {
	if sum, carry := bits.Add(uint(a), uint(b), 0); carry == 0 && sum <= math.MaxInt {
		return int(sum)
	}
	return math.MaxInt
}

func multiply(a, b int) int {
	if high, low := bits.Mul(uint(a), uint(b)); high == 0 && low <= math.MaxInt {
		return int(low)
	}
	return math.MaxInt
}
