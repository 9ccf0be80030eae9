package hclread

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// Bounds of a configuration file, checked before it is parsed.
const (
	maxFileSize = 256 << 10 // bytes
	maxTokens   = 50_000
	// maxParts bounds the parts of one template, because HCL joins them in quadratic time. Each line of a
	// heredoc and each $ is a part.
	maxParts = 1_000
	// maxNesting bounds open brackets: HCL's parser recurses, and Go cannot recover from an exhausted stack.
	maxNesting = 100
)

// Bounds of the expressions in a file.
const (
	maxValue      = 1 << 20  // bytes of an argument, a result or an attribute's value
	maxFileValues = 16 << 20 // bytes of all arguments, results and values in a file
	maxElements   = 4_096    // in a list, an object or a map
	// maxDigits bounds the digits of a number that is written out, read from text, or computed, because the
	// number could be converted to text.
	maxDigits = 400
	// elementBytes is the minimum size that the bounds count for a value, in bytes.
	elementBytes = 16
)

// Summaries of diagnostics whose details quote no values.
const (
	summaryBudget = "Too much to evaluate"
	summaryResult = "Value too large"
	summaryNumber = "Number too long"
	summaryLoop   = "No loops here"
)

// tooMuch returns a diagnostic at the first token beyond a bound, or nil if there is none. A lock file may have any
// number of tokens and lines of text, but no expressions.
func tooMuch(tokens hclsyntax.Tokens, isLock bool) *hcl.Diagnostic {
	if len(tokens) > maxTokens && !isLock {
		return exceeds(&tokens[maxTokens], "Too many tokens", "A file may have at most %d words, signs and line ends; split it.", maxTokens)
	}
	depth, parts := 0, []int{} // parts of each open template
	for i := range tokens {
		t := &tokens[i]
		if depth += bracket(t.Type); depth > maxNesting {
			return exceeds(t, "Nested too deeply", "More than %d brackets are open here; simplify the expression.", maxNesting)
		}
		if isLock && !isOfText(t.Type) {
			return exceeds(t, "Not in a lock file", "A lock file has blocks and texts only; restore the file, or remove it and "+
				"approve all prompts again with: promptweir lock --config PATH --live")
		}
		switch t.Type {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			parts = append(parts, 0)
		case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			parts = parts[:max(0, len(parts)-1)]
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			if last := len(parts) - 1; last >= 0 {
				if parts[last]++; parts[last] > maxParts && !isLock {
					return exceeds(t, "Text too long",
						"A text may have at most %d parts, such as lines and ${…}; put it into a file, and read that with file.", maxParts)
				}
			}
		case hclsyntax.TokenNumberLit:
			if writtenDigits(string(t.Bytes)) > maxDigits {
				return exceeds(t, summaryNumber, "A number may have at most %d digits.", maxDigits)
			}
		}
	}
	return nil
}

// isOfText reports whether a token can occur in blocks that contain only texts without references.
func isOfText(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenIdent, hclsyntax.TokenEqual, hclsyntax.TokenOBrace, hclsyntax.TokenCBrace, hclsyntax.TokenNewline,
		hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenCQuote, hclsyntax.TokenOHeredoc,
		hclsyntax.TokenStringLit, hclsyntax.TokenCHeredoc, hclsyntax.TokenComment, hclsyntax.TokenEOF:
		return true
	}
	return false
}

func exceeds(t *hclsyntax.Token, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &t.Range}
}

// writtenDigits estimates the number of digits of a written-out number, which may have an exponent.
func writtenDigits(number string) int {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	n, _ := strconv.Atoi(strings.TrimLeft(exponent, "+-")) // on overflow, Atoi returns the largest int
	return max(len(mantissa), n)
}

// bracket returns 1 for an opening bracket, -1 for a closing bracket, 0 for other tokens. Quotes,
// heredocs and ${ also count as brackets.
func bracket(t hclsyntax.TokenType) int {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
		hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return 1
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
		hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
		return -1
	}
	return 0
}

// CheckLoops reports loops. Without loops, each written value is used once, so only functions can make a value
// large, and spend bounds their results. Call it before evaluating the expression.
func (r *Reader) CheckLoops(expr hclsyntax.Expression) (ok bool) {
	ok = true
	Visit(expr, func(loop *hclsyntax.ForExpr) {
		ok = false
		r.Error(loop.Range(), summaryLoop, "There is no for; write the values out, or LIST[*].NAME for an attribute of each element.")
	})
	return ok
}

// boundNumbers makes the operations of an expression refuse numbers that are too long. Call it before evaluating
// the expression: without it, "1e600000000" * 1 would become a text of that many digits.
func boundNumbers(expr hclsyntax.Expression) {
	Visit(expr, func(n *hclsyntax.BinaryOpExpr) { n.Op = bounded(n.Op) })
	Visit(expr, func(n *hclsyntax.UnaryOpExpr) { n.Op = bounded(n.Op) })
}

// bounded returns an operation that refuses numbers that are too long.
func bounded(op *hclsyntax.Operation) *hclsyntax.Operation {
	params := op.Impl.Params()
	if params[0].Type != cty.Number { // it takes no numbers, or is already bounded
		return op
	}
	for i := range params { // accept any type: HCL would convert a text to a number before Impl can refuse it
		params[i].Type = cty.DynamicPseudoType
	}
	return &hclsyntax.Operation{Type: op.Type, Impl: function.New(&function.Spec{
		Params: params,
		Type:   function.StaticReturnType(op.Type),
		Impl: func(args []cty.Value, _ cty.Type) (v cty.Value, err error) {
			numbers := make([]cty.Value, len(args))
			for i, arg := range args {
				if arg.Type() == cty.String && arg.IsKnown() && writtenDigits(arg.AsString()) > maxDigits {
					return cty.NilVal, errNumber
				}
				if numbers[i], err = convert.Convert(arg, cty.Number); err != nil {
					return cty.NilVal, err
				}
			}
			if v, err = op.Impl.Call(numbers); err == nil && sizeOf(v).digits > maxDigits {
				err = errNumber
			}
			return v, err
		},
	})}
}

var errNumber = &DiagnosticError{summaryNumber, fmt.Sprintf("A number may have at most %d digits.", maxDigits)}

// spend charges values to the budget of the file whose expression is evaluated. It returns an error for a value
// or a total beyond a bound.
func (r *Reader) spend(values ...cty.Value) error {
	for _, v := range values {
		s := sizeOf(v)
		switch {
		case s.digits > maxDigits:
			return errNumber
		case s.longest > maxElements:
			return &DiagnosticError{summaryResult, fmt.Sprintf("A list may have at most %d elements.", maxElements)}
		case s.bytes > maxValue:
			return tooLarge()
		}
		r.evaluating.left -= s.bytes
	}
	if r.evaluating.left < 0 {
		return &DiagnosticError{summaryBudget, fmt.Sprintf("The expressions of this file take and make more than %d "+
			"bytes; simplify or remove some.", maxFileValues)}
	}
	return nil
}

func tooLarge() error {
	return &DiagnosticError{summaryResult, fmt.Sprintf("An argument or a result may have at most %d bytes; each "+
		"element counts %d at least.", maxValue, elementBytes)}
}

// extent is the size of a value.
type extent struct {
	bytes int // of the value and all values in it, at least elementBytes each
	// longest is the length of the longest list, and digits the length of the longest number.
	longest, digits int
}

func sizeOf(v cty.Value) extent {
	v, _ = v.Unmark()
	s := extent{bytes: elementBytes}
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() {
		return s
	}
	switch t := v.Type(); {
	case t == cty.String:
		s.bytes = max(s.bytes, len(v.AsString()))
	case t == cty.Number:
		s.digits = digits(v)
		s.bytes = max(s.bytes, s.digits)
	case v.CanIterateElements():
		s.longest = v.LengthInt()
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			if t.IsMapType() || t.IsObjectType() {
				s.bytes += len(key.AsString())
			}
			e := sizeOf(element)
			s.bytes += e.bytes
			s.longest, s.digits = max(s.longest, e.longest), max(s.digits, e.digits)
		}
	}
	return s
}

// digits estimates the length of a number as text.
func digits(number cty.Value) int {
	n := number.AsBigFloat()
	if n.IsInf() {
		return math.MaxInt
	}
	exponent := n.MantExp(nil)
	return max(exponent, -exponent) * 3 / 10 // a bit is 0.301 decimal digits
}
