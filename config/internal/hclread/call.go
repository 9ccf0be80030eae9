package hclread

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// platformOnly are the functions that a team's file may not call, since their results cannot be
// bounded well from their arguments, and what to do instead.
var platformOnly = map[string]string{ //nolint:gochecknoglobals // a constant table
	"base64decode": "write the text itself, or read it with env or file",
	"coalescelist": "use a conditional: length(LIST) > 0 ? LIST : OTHER",
	"csvdecode":    "write the values out",
	"distinct":     "write each value once",
	"flatten":      "use concat",
	"formatlist":   "use format for each element",
	"indent":       "write the text with its spaces",
	"jsondecode":   "write the values out, or read each with env or file",
	"max":          "write the larger number",
	"min":          "write the smaller number",
	"regexall":     "use regex or split",
	"regexreplace": "use replace",
	"reverse":      "write the list in the other order",
	"setunion":     "use concat",
	"slice":        "use element for each value",
	"sort":         "write the list in order",
	"tomap":        "use { NAME = VALUE }",
	"tonumber":     "leave it out: text becomes a number where one is wanted",
	"toset":        "leave it out: a list will do",
	"tostring":     "leave it out: numbers become text where it is wanted",
	"zipmap":       "use { NAME = VALUE }",
}

// IsPlatformOnly reports whether a function of [Reader.Functions] is not for a team's file.
func IsPlatformOnly(function string) bool { return platformOnly[function] != "" }

// call returns what a function makes of its arguments at most. Functions that are not named here
// return no more than their arguments are together.
func (s *sizer) call(n *hclsyntax.FunctionCallExpr, parts []part) part {
	all := s.sum(parts)
	text := part{size: all.size, count: 1} // what a function makes that returns text
	switch n.Name {
	case "env", "file":
		v, _ := n.Value(s.ctx) // a mistake is reported when the whole expression is evaluated
		return measure(v)
	case "base64encode":
		text.size = add(multiply(all.size/3, 4), 4)
	case "urlencode":
		text.size = multiply(all.size, 3)
	case "jsonencode": // \u0000
		text.size = multiply(all.size, 6)
	case "sha256":
		text.size = hex.EncodedLen(sha256.Size)
	case "format":
		text.size = s.format(n, parts, all.size)
	case "join": // between all values
		text.size = add(all.size, multiply(argument(n, parts, 0).size, all.count))
	case "replace": // each byte, and what is between them
		replacement := argument(n, parts, 2).size
		if written, ok := s.text(n, 2); ok {
			replacement = len(written)
		}
		text.size = add(all.size, multiply(all.size, replacement))
	case "length", "strlen":
		text.number = true
	case "split":
		count := add(argument(n, parts, 1).size, 1)
		return part{size: add(all.size, multiply(count, elementBytes)), count: add(count, 1), depth: 1}
	case "regex":
		return s.regex(n, parts)
	case "element", "substr":
		s.readNumbers(parts[min(1, len(parts)):], n.Range())
		return all
	case "trim": // looks for each character of the one in all of the other
		s.spend(multiply(all.size, argument(n, parts, 1).size/elementBytes), n.Range())
		return all
	case "coalesce", "concat", "merge", "tolist":
		s.unify(parts, n.Range())
		return all
	default:
		return all
	}
	return text
}

// argument is what an argument becomes; the last one stands for several if it is expanded.
func argument(n *hclsyntax.FunctionCallExpr, parts []part, i int) part {
	if n.ExpandFinal {
		i = min(i, len(parts)-1)
	}
	if i >= len(parts) {
		return part{}
	}
	return parts[i]
}

// patternBytes is what a byte of a regular expression costs.
const patternBytes = 1024

// text returns an argument as text, if it is known. Evaluating it is within bounds, as they were
// found before those of the call.
func (s *sizer) text(n *hclsyntax.FunctionCallExpr, i int) (string, bool) {
	if i >= len(n.Args) || isExpanded(n, i) {
		return "", false
	}
	v, diags := n.Args[i].Value(s.ctx)
	v, _ = v.Unmark()
	v, err := convert.Convert(v, cty.String)
	if diags.HasErrors() || err != nil || !v.IsKnown() || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}

// isExpanded reports whether an argument stands for several.
func isExpanded(n *hclsyntax.FunctionCallExpr, i int) bool {
	return n.ExpandFinal && i >= len(n.Args)-1
}

// format returns how large the result of format can be: each verb can name the largest argument,
// and quote it.
func (s *sizer) format(n *hclsyntax.FunctionCallExpr, parts []part, arguments int) int {
	layout, _ := s.text(n, 0) // without one there is no result
	verbs := verb.FindAllString(layout, -1)
	if isExpanded(n, 0) || strings.Count(strings.Join(verbs, ""), "%") < strings.Count(layout, "%") {
		s.exceed(n.Range(), summaryGone, "In a team's file, format takes %%s, %%q, %%v, %%t and "+
			"%%d without widths; write spaces out.")
	}
	verbs = slices.DeleteFunc(verbs, func(v string) bool { return v == "%%" })
	for i, v := range verbs {
		if v == "%d" && !argument(n, parts, i+1).number { // it would read a number in a text
			s.exceed(n.Range(), summaryGone, "%%d takes a literal number; write %%s.")
		}
	}
	return add(len(layout), multiply(len(verbs), multiply(arguments, 6)))
}

var verb = regexp.MustCompile(`%[sqvtd%]`)

// regex spends what a regular expression takes: each instruction may be carried out for each byte.
func (s *sizer) regex(n *hclsyntax.FunctionCallExpr, parts []part) part {
	text, groups := argument(n, parts, 1), 1
	pattern, isKnown := s.text(n, 0)
	if !isKnown && isExpanded(n, 0) {
		s.exceed(n.Range(), summaryBudget, "The pattern could change each time; write it out.")
	}
	if isKnown {
		groups += strings.Count(pattern, "(")
		s.spend(multiply(add(text.size, 1), s.instructions(pattern, n.Range())), n.Range())
	}
	return part{size: multiply(add(text.size, elementBytes), groups), count: groups, depth: 1}
}

// instructions returns those of a pattern, after spending what it takes to compile it.
func (s *sizer) instructions(pattern string, at hcl.Range) int {
	if program := s.programs[pattern]; program != nil {
		return program.instructions
	}
	// Before it is parsed, which can take a thousand bytes for each: \pL is a class of 650 ranges.
	if s.spend(multiply(len(pattern), patternBytes), at); s.isOver() {
		return 0
	}
	size, ok := programSize(pattern)
	if !ok {
		return 0 // the function reports the mistake
	}
	s.spend(multiply(size.memory, 4), at) // the function compiles it several times
	return size.instructions
}
