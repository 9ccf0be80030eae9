package hclread

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Steps computes what an evaluation of a condition takes before it begins, because servers and
// identity providers choose the facts that it reads. A step is about a byte that is read or copied,
// or an instruction of a regular expression for a byte.
//
// No function of a condition returns much more than its arguments. So a part of a condition is at
// most as large as the facts and the texts in it, and each of these costs its size once for each
// part around it; more often where a function looks at it for longer.
type Steps struct {
	fixed int // of everything except facts
	reads []read
}

// read is one mention of a fact, each byte of which takes some steps.
type read struct {
	traversal hcl.Traversal
	at        hcl.Range
	times     int
}

const (
	partSteps = 64 // of each part of an expression
	// MaxFact bounds the facts, in bytes.
	MaxFact = 64 << 10
	// digitSteps are the steps for a byte of a text that is read as a number: a step for each 256
	// digits before it.
	digitSteps = MaxFact / 256
	// compileSteps are those of a pattern that is compiled during the evaluation.
	compileSteps = 1 << 17
)

// NewSteps returns the steps of an expression. Programs has the patterns that are written out in it;
// any other counts as large as a pattern may be.
func NewSteps(expr hclsyntax.Expression, programs map[string]*Program) *Steps {
	c := stepCounter{Steps: &Steps{}, programs: programs, further: map[hclsyntax.Expression]int{}}
	_ = hclsyntax.Walk(expr, &c)
	return c.Steps
}

// Count returns how many steps an evaluation takes. If these are more than most, over is the fact
// with which they are, or the whole expression.
func (s *Steps) Count(ctx *hcl.EvalContext, most int) (steps int, over *hcl.Range) {
	steps = s.fixed
	for i := range s.reads {
		r := &s.reads[i]
		v, _ := r.traversal.TraverseAbs(ctx) // it is there already, so this makes nothing
		if steps = add(steps, multiply(sizeOf(v).bytes, r.times)); steps > most {
			return most, &r.at
		}
	}
	return steps, nil
}

// stepCounter walks an expression from the root to the leaves.
type stepCounter struct {
	*Steps

	programs map[string]*Program
	open     []part // from the root to the present one
	// further are the steps for each byte of an argument, besides one for each part around it.
	further map[hclsyntax.Expression]int
}

// part is a part of an expression: the steps for each byte in it, and how often it is evaluated.
type part struct{ times, factor int }

// Enter is called for a part on the way down.
func (c *stepCounter) Enter(n hclsyntax.Node) hcl.Diagnostics {
	p := part{factor: 1}
	if len(c.open) > 0 {
		p = c.open[len(c.open)-1]
	}
	if expr, ok := n.(hclsyntax.Expression); ok {
		p.times = add(p.times, multiply(p.factor, 1+c.further[expr]))
		c.fixed = add(c.fixed, multiply(partSteps, p.factor))
	}
	switch n := n.(type) {
	case *hclsyntax.LiteralValueExpr:
		c.fixed = add(c.fixed, multiply(sizeOf(n.Val).bytes, p.times))
	case *hclsyntax.ScopeTraversalExpr:
		c.reads = append(c.reads, read{n.Traversal, n.Range(), p.times})
	case *hclsyntax.IndexExpr:
		c.further[n.Key] = digitSteps
	case *hclsyntax.FunctionCallExpr:
		switch {
		case n.Name == "try": // cty evaluates its arguments for the type, and again for the value
			p.factor = multiply(p.factor, 2)
		case n.Name == "regex" && c.program(n) == nil:
			c.fixed = add(c.fixed, multiply(compileSteps, p.factor))
		}
		for i, arg := range n.Args {
			c.further[arg] = c.argument(n, i)
		}
	}
	c.open = append(c.open, p)
	return nil
}

// Exit is called for a part on the way up.
func (c *stepCounter) Exit(hclsyntax.Node) hcl.Diagnostics {
	c.open = c.open[:len(c.open)-1]
	return nil
}

// argument returns the steps that a function takes for each byte of an argument, besides one. The
// last argument may stand for several.
func (c *stepCounter) argument(n *hclsyntax.FunctionCallExpr, i int) int {
	isOrBefore := func(position int) bool { return i == position || n.ExpandFinal && i < position }
	switch {
	case n.Name == "regex" && isOrBefore(1):
		if program := c.program(n); program != nil {
			return program.instructions
		}
		return MaxInstructions
	case n.Name == "trim" && isOrBefore(0): // looks for each character of the second argument
		if set, ok := literal(n.Args[len(n.Args)-1]); ok {
			return len(set) / elementBytes
		}
		return MaxFact / elementBytes
	case (n.Name == "element" || n.Name == "substr") && (i > 0 || n.ExpandFinal):
		return digitSteps
	}
	return 0
}

// program returns the compiled pattern of a call of regex, nil if it is not written out.
func (c *stepCounter) program(n *hclsyntax.FunctionCallExpr) *Program {
	if len(n.Args) == 0 {
		return nil
	}
	if pattern, ok := literal(n.Args[0]); ok {
		return c.programs[pattern]
	}
	return nil
}

// literal returns a text that is written out.
func literal(expr hclsyntax.Expression) (string, bool) {
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}
