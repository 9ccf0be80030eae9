package hclread

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// Bounds of a configuration file, which are counted before it is parsed.
const (
	maxFileSize = 256 << 10 // bytes
	maxTokens   = 50_000
	// maxParts bounds the parts of one template: HCL joins them in quadratic time, and each line of a
	// heredoc and each $ is one.
	maxParts = 1_000
	// maxNesting bounds the brackets that are open at one point: HCL's parser recurses, and Go cannot
	// recover from an exhausted stack.
	maxNesting = 100
)

// Bounds of the expressions in a file.
const (
	maxValue      = 1 << 20  // bytes of an argument, of a result, and of an attribute's value
	maxFileValues = 16 << 20 // bytes of all of these in a file
	maxElements   = 4_096    // of a list, an object or a map
	// maxDigits bounds a number as it is written, read from a text, or computed: it becomes text with
	// all its digits.
	maxDigits = 400
	// elementBytes is what a value counts at least.
	elementBytes = 16
)

// These summaries stand above details that show no values.
const (
	summaryBudget = "Too much to evaluate"
	summaryResult = "Value too large"
	summaryNumber = "Number too long"
	summaryLoop   = "No loops here"
)

// tooMuch returns where the tokens of a file exceed a bound, and what to do about it; nil if they do
// not.
func tooMuch(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	if len(tokens) > maxTokens {
		return exceeds(&tokens[maxTokens], "Too many tokens", "A file may have at most %d words, signs and line "+
			"ends; split it.", maxTokens)
	}
	depth, parts := 0, []int{} // of the templates that are open
	for i := range tokens {
		t := &tokens[i]
		if depth += bracket(t.Type); depth > maxNesting {
			return exceeds(t, "Nested too deeply", "More than %d brackets are open here; simplify the expression.", maxNesting)
		}
		switch t.Type {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			parts = append(parts, 0)
		case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			parts = parts[:max(0, len(parts)-1)]
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			if last := len(parts) - 1; last >= 0 {
				if parts[last]++; parts[last] > maxParts {
					return exceeds(t, "Text too long", "A text may have at most %d parts, such as lines and ${…}; put "+
						"it into a file, and read that with file.", maxParts)
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

func exceeds(t *hclsyntax.Token, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &t.Range}
}

// noText returns the first token of a lock file that may not be in one. A lock file has blocks and
// texts only, so it needs no bound except its size.
func noText(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	depth := 0
	for i := range tokens {
		t := &tokens[i]
		depth += bracket(t.Type)
		switch t.Type {
		case hclsyntax.TokenIdent, hclsyntax.TokenEqual, hclsyntax.TokenOBrace, hclsyntax.TokenCBrace, hclsyntax.TokenNewline,
			hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenCQuote, hclsyntax.TokenOHeredoc,
			hclsyntax.TokenStringLit, hclsyntax.TokenCHeredoc, hclsyntax.TokenComment, hclsyntax.TokenEOF:
			if depth <= maxNesting {
				continue
			}
		}
		return exceeds(t, "Not in a lock file", "A lock file has blocks and texts only; restore the file, or remove it and "+
			"approve all prompts again with: promptweir lock --config PATH --live")
	}
	return nil
}

// writtenDigits returns about how many digits a number has when it is written without an exponent.
func writtenDigits(number string) int {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	n, err := strconv.Atoi(exponent)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt
	}
	return add(len(mantissa), max(n, -n))
}

// bracket is 1 for an opening bracket, -1 for a closing one, and 0 for anything else. Templates and
// heredocs have brackets, too.
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

// Prepare makes the operations of an expression refuse numbers that are too long. It reports loops,
// without which each value of an expression is used once: then a result is as large as what its
// functions have made together. Call it before the expression is evaluated.
func (r *Reader) Prepare(expr hclsyntax.Expression) (ok bool) {
	ok = true
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			ok = false
			r.Error(n.Range(), summaryLoop, "There is no for; write the values out, or LIST[*].NAME for an attribute of each element.")
		case *hclsyntax.BinaryOpExpr:
			n.Op = bounded(n.Op)
		case *hclsyntax.UnaryOpExpr:
			n.Op = bounded(n.Op)
		}
		return nil
	})
	return ok
}

// bounded returns an operation on numbers that refuses those that are too long, and any other as it
// is.
func bounded(op *hclsyntax.Operation) *hclsyntax.Operation {
	params := op.Impl.Params()
	if params[0].Type != cty.Number { // or it is bounded already
		return op
	}
	for i := range params { // else HCL would read a text as a number before the operation can refuse it
		params[i].Type = cty.DynamicPseudoType
	}
	return &hclsyntax.Operation{Type: op.Type, Impl: function.New(&function.Spec{
		Params: params,
		Type:   function.StaticReturnType(op.Type),
		Impl: func(args []cty.Value, _ cty.Type) (v cty.Value, err error) {
			numbers := make([]cty.Value, len(args))
			for i, arg := range args {
				if arg.Type() == cty.String && writtenDigits(arg.AsString()) > maxDigits {
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

// spend counts values against what the expressions of a file may take and make. The expression that
// is being evaluated says which file that is.
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

// extent is how large a value is.
type extent struct {
	bytes int // of all values in it, elementBytes for each at least
	count int // of values at all depths
	// longest is the number of elements of the longest list in it, and digits that of the longest
	// number.
	longest, digits int
}

func sizeOf(v cty.Value) extent {
	v, _ = v.Unmark()
	s := extent{bytes: elementBytes, count: 1}
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
				s.bytes = add(s.bytes, len(key.AsString()))
			}
			e := sizeOf(element)
			s.bytes, s.count = add(s.bytes, e.bytes), add(s.count, e.count)
			s.longest, s.digits = max(s.longest, e.longest), max(s.digits, e.digits)
		}
	}
	return s
}

// digits is about how many digits a number has as text.
func digits(number cty.Value) int {
	n := number.AsBigFloat()
	if n.IsInf() {
		return math.MaxInt
	}
	exponent := n.MantExp(nil)
	return max(exponent, -exponent) * 3 / 10 // a bit is 0.301 decimal digits
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
