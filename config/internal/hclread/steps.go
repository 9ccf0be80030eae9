package hclread

import (
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Steps computes what an evaluation of a condition takes, before it begins: servers and identity
// providers choose the facts that it reads. A step is about a byte that is read or copied, or an
// instruction of a regular expression for a byte.
//
// No function of a condition returns much more than its arguments. So each part of a condition is at
// most as large as the facts and the texts in it, and each of these costs its size once for each
// part around it, besides the functions and operators that take longer.
type Steps struct {
	fixed    int // of what does not depend on facts
	texts    int // the size of all texts in it
	reads    []read
	computed []computed
}

// read is one mention of a fact.
type read struct {
	traversal hcl.Traversal
	at        hcl.Range
	way       way
}

// way is what the bytes of a fact or of a text pass through.
type way struct {
	// times is the number of parts around it, and factor how often each of these is evaluated.
	times, factor int
	// isUnified is true if values in it are compared with each other, isIndex if a text may be read as
	// a number, digit by digit.
	isUnified, isIndex bool
}

// computed is a pattern or a set of characters that is known only during the evaluation. Steps returns
// what it takes if the size of all facts and texts is known.
type computed struct {
	text   hclsyntax.Expression
	factor int
	steps  func(text string, all int) int
}

const (
	partSteps    = 64   // of each part of an expression
	patternSteps = 1024 // of each byte of a pattern that is compiled
	digitSteps   = 256  // so many digits are read in a step for each
)

// NewSteps returns the steps of an expression. The patterns that are written out in it are compiled
// in programs.
func NewSteps(expr hclsyntax.Expression, programs map[string]*Program) *Steps {
	c := stepCounter{Steps: &Steps{}, programs: programs, further: map[hclsyntax.Expression]int{}, keys: map[hclsyntax.Expression]bool{}}
	_ = hclsyntax.Walk(expr, &c)
	return c.Steps
}

// Count returns how many steps an evaluation takes. If these are more than most, over is the part
// with which they are.
func (s *Steps) Count(ctx *hcl.EvalContext, most int) (steps int, over *hcl.Range) {
	steps, all := s.fixed, s.texts
	for i := range s.reads {
		r := &s.reads[i]
		v, _ := r.traversal.TraverseAbs(ctx) // it is there already, so this makes nothing
		e := sizeOf(v)
		steps, all = add(steps, r.way.steps(e)), add(all, e.bytes)
		if steps > most {
			return most, &r.at
		}
	}
	for _, c := range s.computed {
		// Its own steps are counted already, so it may be evaluated.
		text, _ := evaluated(c.text, ctx)
		steps = add(steps, multiply(c.factor, c.steps(text, all)))
		if steps > most {
			at := c.text.Range()
			return most, &at
		}
	}
	return steps, nil
}

// steps returns what a value of a size takes.
func (w way) steps(e extent) int {
	n := multiply(e.bytes, w.times)
	if w.isUnified {
		n = add(n, multiply(w.factor, multiply(e.count, e.count)))
	}
	if w.isIndex {
		n = add(n, multiply(w.factor, multiply(e.bytes, e.bytes/digitSteps)))
	}
	return n
}

// evaluated returns an expression as text; not ok if it is none.
func evaluated(expr hclsyntax.Expression, ctx *hcl.EvalContext) (text string, ok bool) {
	v, diags := expr.Value(ctx)
	v, _ = v.Unmark()
	v, err := convert.Convert(v, cty.String)
	if err != nil || diags.HasErrors() || !v.IsKnown() || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}

// stepCounter walks an expression from the root to the leaves.
type stepCounter struct {
	*Steps

	programs map[string]*Program
	open     []way // from the root to the present part
	// further are the steps for each byte of an argument, keys the parts that may be read as numbers.
	further map[hclsyntax.Expression]int
	keys    map[hclsyntax.Expression]bool
}

// Enter is called for a part on the way down.
func (c *stepCounter) Enter(n hclsyntax.Node) hcl.Diagnostics {
	w := way{factor: 1}
	if len(c.open) > 0 {
		w = c.open[len(c.open)-1]
	}
	if expr, ok := n.(hclsyntax.Expression); ok {
		w.times = add(w.times, multiply(w.factor, 1+c.further[expr]))
		w.isIndex = w.isIndex || c.keys[expr]
		c.fixed = add(c.fixed, multiply(partSteps, w.factor))
	}
	switch n := n.(type) {
	case *hclsyntax.LiteralValueExpr:
		e := sizeOf(n.Val)
		c.fixed, c.texts = add(c.fixed, w.steps(e)), add(c.texts, e.bytes)
	case *hclsyntax.ScopeTraversalExpr:
		c.reads = append(c.reads, read{n.Traversal, n.Range(), w})
	case *hclsyntax.IndexExpr:
		c.keys[n.Key] = true
	case *hclsyntax.ConditionalExpr: // HCL looks for a type that fits both results
		w.isUnified = true
	case *hclsyntax.FunctionCallExpr:
		c.call(n, &w)
	}
	c.open = append(c.open, w)
	return nil
}

// Exit is called for a part on the way up.
func (c *stepCounter) Exit(hclsyntax.Node) hcl.Diagnostics {
	c.open = c.open[:len(c.open)-1]
	return nil
}

// call counts what functions take that is not in proportion to their arguments.
func (c *stepCounter) call(n *hclsyntax.FunctionCallExpr, w *way) {
	switch n.Name {
	case "coalesce", "tolist":
		w.isUnified = true
	case "element", "substr":
		for _, arg := range n.Args {
			c.keys[arg] = n.ExpandFinal || arg != n.Args[0]
		}
	case "try": // cty evaluates its arguments for the type, and again for the value
		w.factor = multiply(w.factor, 2)
	case "regex":
		c.pattern(n, w.factor)
	case "trim": // it looks for each character of the second argument in all of the first
		if len(n.Args) == 2 {
			c.computed = append(c.computed, computed{n.Args[1], w.factor, func(set string, all int) int {
				return multiply(all, len(set)/elementBytes)
			}})
		}
	}
}

func (c *stepCounter) pattern(n *hclsyntax.FunctionCallExpr, factor int) {
	if len(n.Args) == 0 { // a mistake, which the evaluation reports
		return
	}
	written, isWritten := evaluated(n.Args[0], nil)
	if program := c.programs[written]; isWritten && program != nil && len(n.Args) == 2 {
		c.further[n.Args[1]] = program.instructions
		return
	}
	c.computed = append(c.computed, computed{n.Args[0], factor, func(pattern string, all int) int {
		cost, err := checkPattern(pattern)
		if err != nil || n.ExpandFinal { // then the pattern is not known before the call
			return math.MaxInt
		}
		return add(multiply(cost.instructions, all), add(cost.memory, multiply(len(pattern), patternSteps)))
	}})
}
