package hclread

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of the expressions in a team's file, in bytes. They count what an evaluation makes rather
// than time, so that the same file gets the same answer on every machine and under any load.
const (
	maxValue      = 1 << 20  // of one value
	maxFileValues = 16 << 20 // of all values of a file, those in between included
	maxCallDepth  = 16       // of calls inside one another
	elementBytes  = 16       // of each value, a text of fewer bytes included
	// maxNumberBits bounds the exponent of a number, which becomes text with all its digits.
	maxNumberBits = 4096

	// maxDigits bounds a text that becomes a number where an attribute wants one, and a number as
	// it is written: reading digits takes time in proportion to their square.
	maxDigits = 4096
	// A text of so many bytes is read as a number in a step for each of them.
	digitsBytes = 256

	conditionNode = 64 // steps of each part of a condition, besides a step for each byte
	// maxFileSteps bounds what all conditions of a file take while it is loaded, in steps.
	maxFileSteps = 16 << 20
)

// These summaries stand above details that show no values.
const (
	summaryBudget = "Too much to evaluate"
	summaryResult = "Result too large"
	summaryDepth  = "Nested too deeply"
	summaryGone   = "Not in a team's file"
)

// Limit is what evaluations may still make. It is for one goroutine.
type Limit struct {
	all, left, value int
	// node is what each part of an expression costs besides its size.
	node int
	// inFile refuses what only the platform's files may use.
	inFile bool
	// programs are the regular expressions that were compiled beforehand.
	programs map[string]*Program
	// conditions are the steps that a file has left for conditions.
	conditions int
}

// fileLimit is the limit of a file. What is written out was read, too: only a lock file is larger
// than a value may be.
func fileLimit(content []byte) *Limit {
	// As much for each byte of a lock file as for a configuration of the largest size.
	all := max(maxFileValues, 16*len(content))
	return &Limit{all: all, left: all, value: max(maxValue, len(content)), inFile: true, conditions: maxFileSteps}
}

// ConditionLimit is the limit of one evaluation of a condition, in steps: a step is about one byte
// that is read or made, or one instruction of a regular expression for one byte.
func ConditionLimit(steps int, programs map[string]*Program) *Limit {
	return &Limit{all: steps, left: steps, value: math.MaxInt, node: conditionNode, programs: programs}
}

// Spent returns how much was taken.
func (l *Limit) Spent() int { return l.all - l.left }

// Evaluate returns the value of an expression, or the one diagnostic that says why nothing of it
// was evaluated: it could exceed the limit.
func Evaluate(expr hclsyntax.Expression, ctx *hcl.EvalContext, l *Limit) (cty.Value, hcl.Diagnostics) {
	s := sizer{Limit: l, ctx: ctx, open: make([]node, 0, 16), parts: make([]part, 0, 16)}
	if s.spend(1, expr.Range()); s.refusal == nil { // what is over its limit reads no more files, either
		_ = hclsyntax.Walk(expr, &s)
	}
	if s.refusal != nil {
		return cty.DynamicVal, hcl.Diagnostics{s.refusal}
	}
	return expr.Value(ctx)
}

// TryCondition is [Evaluate] within the limit of one evaluation of a condition, and at the cost of
// the file of the block, so that many conditions do not take a load much time.
func (b *Block) TryCondition(
	expr hclsyntax.Expression, ctx *hcl.EvalContext, steps int, programs map[string]*Program,
) (cty.Value, hcl.Diagnostics) {
	file := b.scope.limit
	if file.conditions == 0 { // which was reported
		return cty.DynamicVal, nil
	}
	l := ConditionLimit(min(steps, file.conditions), programs)
	v, diags := Evaluate(expr, ctx, l)
	if file.conditions -= l.Spent(); file.conditions == 0 { // later ones are not read
		b.Error(expr.Range(), summaryBudget, "The conditions of this file could take more than %d bytes "+
			"or steps in all; simplify or remove some.", maxFileSteps)
		return cty.DynamicVal, nil
	}
	return v, diags
}

// part is an upper bound of what one part of an expression becomes.
type part struct {
	size   int // bytes, elementBytes for each value at least
	count  int // values at all depths
	depth  int // of lists and objects inside one another
	number bool
}

// sizer walks an expression from the leaves to the root and finds how large each part can become
// before it is evaluated. HCL then evaluates the expression by itself, so the language stays HCL's
// own. No part is evaluated several times, but for the arguments of try.
type sizer struct {
	*Limit

	ctx  *hcl.EvalContext
	open []node // from the root to the present part
	// parts are those that were left, whose parents were not.
	parts   []part
	calls   int // that are open
	refusal *hcl.Diagnostic
}

// node is a part of an expression that was entered: where its parts begin in sizer.parts, and what
// was left of the limit.
type node struct{ first, left int }

// isOver reports whether the rest need not be checked.
func (s *sizer) isOver() bool { return s.refusal != nil }

func (s *sizer) exceed(at hcl.Range, summary, detail string, args ...any) {
	if s.refusal == nil {
		s.refusal = &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at}
	}
}

// spend takes what a part costs.
func (s *sizer) spend(cost int, at hcl.Range) {
	if cost > s.left {
		s.exceed(at, summaryBudget, "Evaluating it could take more than the %d bytes or steps "+
			"allowed here; simplify it.", s.all)
		cost = s.left
	}
	s.left -= cost
}

// Enter is called for a part on the way down.
func (s *sizer) Enter(n hclsyntax.Node) hcl.Diagnostics {
	if s.isOver() {
		return nil
	}
	s.open = append(s.open, node{len(s.parts), s.left})
	switch n := n.(type) {
	case *hclsyntax.FunctionCallExpr:
		if s.calls++; s.calls > maxCallDepth {
			s.exceed(n.Range(), summaryDepth, "More than %d calls are nested here; simplify the "+
				"expression.", maxCallDepth)
		}
		if instead := platformOnly[n.Name]; s.inFile && instead != "" {
			s.exceed(n.NameRange, summaryGone, "Only the platform's files may use %s; %s.", n.Name, instead)
		}
	case *hclsyntax.ForExpr:
		s.exceed(n.Range(), summaryGone, "Only the platform's files may use for; write the values out.")
	case *hclsyntax.SplatExpr:
		s.checkSplat(n)
	}
	return nil
}

// checkSplat refuses what takes long for each element.
func (s *sizer) checkSplat(splat *hclsyntax.SplatExpr) {
	_ = hclsyntax.VisitAll(splat.Each, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.AnonSymbolExpr:
			return nil
		case *hclsyntax.RelativeTraversalExpr:
			isIndex := func(step hcl.Traverser) bool { _, ok := step.(hcl.TraverseIndex); return ok }
			if !slices.ContainsFunc(n.Traversal, isIndex) {
				return nil
			}
		}
		s.exceed(splat.Range(), summaryGone, "Only attribute names may follow [*] here; write the values out.")
		return nil
	})
}

// Exit is called for a part on the way up.
func (s *sizer) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if s.isOver() {
		return nil
	}
	// The parts of the expression that is left are the last of parts.
	present := s.open[len(s.open)-1]
	p := s.part(n, s.parts[present.first:])
	if p.size > s.value {
		s.exceed(n.Range(), summaryResult, "The result could be larger than %d bytes; an element "+
			"counts as %d bytes.", s.value, elementBytes)
	}
	s.spend(add(p.size, s.node), n.Range())
	if call, isCall := n.(*hclsyntax.FunctionCallExpr); isCall {
		s.calls--
		if call.Name == "try" { // cty evaluates its arguments for the type, and again for the value
			s.spend(present.left-s.left, n.Range())
		}
	}
	s.open, s.parts = s.open[:len(s.open)-1], append(s.parts[:present.first], p)
	return nil
}

// part returns what a part can become, from what its own parts can.
func (s *sizer) part(n hclsyntax.Node, parts []part) part {
	switch n := n.(type) {
	case *hclsyntax.LiteralValueExpr:
		return measure(n.Val)
	case *hclsyntax.ScopeTraversalExpr:
		v, _ := n.Value(s.ctx) // it is there already, so this makes nothing
		return measure(v)
	case *hclsyntax.ParenthesesExpr:
		return parts[0]
	case *hclsyntax.FunctionCallExpr:
		return s.call(n, parts)
	case *hclsyntax.BinaryOpExpr:
		return s.operation(n.Op, parts, n.Range())
	case *hclsyntax.UnaryOpExpr:
		return s.operation(n.Op, parts, n.Range())
	case *hclsyntax.ConditionalExpr:
		s.unify(parts[1:], n.Range()) // HCL evaluates both results, and looks for a type that fits both
	case *hclsyntax.IndexExpr:
		// HCL reads an index that is a text as a number.
		s.readNumbers(parts[1:], n.Range())
	case *hclsyntax.RelativeTraversalExpr:
		for _, step := range n.Traversal {
			if index, ok := step.(hcl.TraverseIndex); ok {
				s.readNumbers([]part{measure(index.Key)}, n.Range())
			}
		}
	case *hclsyntax.SplatExpr: // which takes what is not a list for the one element of a list
		p := parts[0]
		p.size, p.count, p.depth = add(p.size, multiply(elementBytes, p.count+1)), add(p.count, p.count+1), p.depth+1
		return p
	case *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr:
		p := s.sum(parts)
		p.depth++
		return p
	}
	return s.sum(parts)
}

// operation refuses text in a calculation: as a number, a text of a few bytes can have a thousand
// million digits.
func (s *sizer) operation(op *hclsyntax.Operation, parts []part, at hcl.Range) part {
	isText := func(p part) bool { return !p.number }
	if s.inFile && op.Type == cty.Number && slices.ContainsFunc(parts, isText) {
		s.exceed(at, summaryGone, "A team's file calculates with literal numbers only; write the result.")
	}
	if op != hclsyntax.OpEqual && op != hclsyntax.OpNotEqual && op.Type == cty.Bool {
		s.readNumbers(parts, at)
	}
	p := s.sum(parts)
	p.number = op.Type == cty.Number
	return p
}

// readNumbers spends what it takes to read texts as numbers.
func (s *sizer) readNumbers(parts []part, at hcl.Range) {
	for _, p := range parts {
		if !p.number {
			s.spend(multiply(p.size, p.size/digitsBytes), at)
		}
	}
}

// sum is what all parts become together.
func (s *sizer) sum(parts []part) part {
	all := part{size: elementBytes, count: 1}
	for _, p := range parts {
		all.size, all.count, all.depth = add(all.size, p.size), add(all.count, p.count), max(all.depth, p.depth)
	}
	return all
}

// unify spends what it takes to find one type for values of several. Doubled for each level: cty
// tries several types at each, and for each of them all types below.
func (s *sizer) unify(parts []part, at hcl.Range) {
	all := s.sum(parts)
	// 40 is beyond every limit, and does not overflow.
	s.spend(multiply(multiply(all.count, all.count), 1<<min(all.depth, 40)), at)
}

// measure returns what a value is.
func measure(v cty.Value) part {
	v, _ = v.Unmark()
	p := part{size: elementBytes, count: 1}
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() {
		return p
	}
	switch t := v.Type(); {
	case t == cty.String:
		p.size = max(p.size, len(v.AsString()))
	case t == cty.Number:
		p.size, p.number = add(p.size, digits(v)), true
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			if t.IsMapType() || t.IsObjectType() {
				p.size = add(p.size, len(key.AsString()))
			}
			e := measure(element)
			p.size, p.count, p.depth = add(p.size, e.size), add(p.count, e.count), max(p.depth, e.depth)
		}
		p.depth++
	}
	return p
}

// digits is about the digits that a number has as text.
func digits(number cty.Value) int {
	n := number.AsBigFloat()
	exponent := n.MantExp(nil)
	if n.IsInf() || exponent > maxNumberBits || exponent < -maxNumberBits {
		return math.MaxInt
	}
	// A decimal digit has more than three bits.
	return max(exponent, -exponent) / 3
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
