package hclread

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Evaluate returns the value of an expression, or the one diagnostic of the budget that it exceeds.
func Evaluate(expr hclsyntax.Expression, ctx *hcl.EvalContext, b *Budget) (cty.Value, hcl.Diagnostics) {
	b.exceeded = nil
	v, diags := metered{expr, b}.Value(ctx)
	if b.exceeded != nil {
		return cty.DynamicVal, hcl.Diagnostics{b.exceeded}
	}
	return v, diags
}

// metered is an expression whose evaluation, part by part, is charged to a budget. HCL evaluates parts through the interface
// that it implements, so the language stays HCL's own.
type metered struct {
	hclsyntax.Expression

	budget *Budget
}

// Value returns an unknown value once the budget is exceeded: HCL takes it everywhere, and does no work for it.
func (e metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	at := e.Range()
	if !e.budget.spend(nodeSteps, at) {
		return cty.DynamicVal, nil
	}
	v, diags := e.inner(ctx).Value(ctx)
	if !e.budget.charge(v, at) {
		return cty.DynamicVal, nil
	}
	return v, diags
}

// inner returns the expression with its parts metered. Names and literals have none.
func (e metered) inner(ctx *hcl.EvalContext) hclsyntax.Expression { //nolint:ireturn // one of many types of HCL
	switch n := e.Expression.(type) {
	case *hclsyntax.ParenthesesExpr:
		return &hclsyntax.ParenthesesExpr{Expression: e.part(n.Expression), SrcRange: n.SrcRange}
	case *hclsyntax.RelativeTraversalExpr:
		return &hclsyntax.RelativeTraversalExpr{Source: e.part(n.Source), Traversal: n.Traversal, SrcRange: n.SrcRange}
	case *hclsyntax.FunctionCallExpr:
		return e.call(n, ctx)
	case *hclsyntax.ConditionalExpr:
		return e.conditional(n, ctx)
	case *hclsyntax.IndexExpr:
		c := *n
		c.Collection, c.Key = e.part(n.Collection), e.part(n.Key)
		return &c
	case *hclsyntax.TupleConsExpr:
		c := *n
		c.Exprs = e.parts(n.Exprs)
		return &c
	case *hclsyntax.ObjectConsExpr:
		c := *n
		c.Items = make([]hclsyntax.ObjectConsItem, len(n.Items))
		for i, item := range n.Items {
			c.Items[i] = hclsyntax.ObjectConsItem{KeyExpr: e.part(item.KeyExpr), ValueExpr: e.part(item.ValueExpr)}
		}
		return &c
	case *hclsyntax.ObjectConsKeyExpr:
		if _, isName := n.Wrapped.(*hclsyntax.ScopeTraversalExpr); isName || hcl.ExprAsKeyword(n.Wrapped) != "" {
			return n // HCL may take it literally
		}
		return &hclsyntax.ObjectConsKeyExpr{Wrapped: e.part(n.Wrapped), ForceNonLiteral: n.ForceNonLiteral}
	case *hclsyntax.ForExpr:
		c := *n
		c.CollExpr, c.KeyExpr, c.ValExpr, c.CondExpr = e.part(n.CollExpr), e.part(n.KeyExpr), e.part(n.ValExpr), e.part(n.CondExpr)
		return &c
	case *hclsyntax.SplatExpr:
		c := *n
		c.Source, c.Each = e.part(n.Source), e.part(n.Each)
		return &c
	case *hclsyntax.BinaryOpExpr:
		c := *n
		c.LHS, c.RHS = e.part(n.LHS), e.part(n.RHS)
		return &c
	case *hclsyntax.UnaryOpExpr:
		c := *n
		c.Val = e.part(n.Val)
		return &c
	case *hclsyntax.TemplateExpr:
		return &hclsyntax.TemplateExpr{Parts: e.parts(n.Parts), SrcRange: n.SrcRange}
	case *hclsyntax.TemplateJoinExpr:
		return &hclsyntax.TemplateJoinExpr{Tuple: e.part(n.Tuple)}
	case *hclsyntax.TemplateWrapExpr:
		return &hclsyntax.TemplateWrapExpr{Wrapped: e.part(n.Wrapped), SrcRange: n.SrcRange}
	}
	return e.Expression
}

// part meters a part; nil stays nil, which HCL takes for a part that is not written.
func (e metered) part(expr hclsyntax.Expression) hclsyntax.Expression { //nolint:ireturn // as inner
	if expr == nil {
		return nil
	}
	return metered{expr, e.budget}
}

func (e metered) parts(exprs []hclsyntax.Expression) []hclsyntax.Expression {
	all := make([]hclsyntax.Expression, len(exprs))
	for i, expr := range exprs {
		all[i] = e.part(expr)
	}
	return all
}

// evaluated is an expression whose value is known already.
type evaluated struct {
	hclsyntax.Expression

	value cty.Value
	diags hcl.Diagnostics
}

// Value returns what was found before.
func (e evaluated) Value(*hcl.EvalContext) (cty.Value, hcl.Diagnostics) { return e.value, e.diags }

func (e metered) evaluate(expr hclsyntax.Expression, ctx *hcl.EvalContext) evaluated {
	v, diags := e.part(expr).Value(ctx)
	return evaluated{expr, v, diags}
}

// refused is an expression that the budget does not allow to be evaluated.
func (e metered) refused() evaluated { return evaluated{e.Expression, cty.DynamicVal, nil} }

// call returns a function call whose arguments are evaluated, so that its cost and the size of its result are checked before it
// is made.
func (e metered) call(n *hclsyntax.FunctionCallExpr, ctx *hcl.EvalContext) hclsyntax.Expression { //nolint:ireturn // as inner
	c := *n
	if n.Name == "try" || n.Name == "can" { // they evaluate their arguments themselves
		c.Args = e.parts(n.Args)
		return &c
	}
	c.Args = make([]hclsyntax.Expression, len(n.Args))
	values := make([]cty.Value, len(n.Args))
	isKnown := true
	for i, arg := range n.Args {
		a := e.evaluate(arg, ctx)
		c.Args[i], values[i] = a, a.value
		isKnown = isKnown && !a.diags.HasErrors()
	}
	if !isKnown { // HCL reports the argument's mistake and does not call the function
		return &c
	}
	if n.ExpandFinal && len(values) > 0 {
		values = slices.Concat(values[:len(values)-1], elements(values[len(values)-1]))
	}
	if !e.budget.admit(n.Name, values, n.Range()) {
		return e.refused()
	}
	return &c
}

// conditional returns a conditional whose results are evaluated, since HCL takes both and looks for a type that fits both.
func (e metered) conditional(n *hclsyntax.ConditionalExpr, ctx *hcl.EvalContext) hclsyntax.Expression { //nolint:ireturn // as inner
	c := *n
	yes, no := e.evaluate(n.TrueResult, ctx), e.evaluate(n.FalseResult, ctx)
	if !e.budget.unify([]cty.Value{yes.value, no.value}, n.Range()) {
		return e.refused()
	}
	c.Condition, c.TrueResult, c.FalseResult = e.part(n.Condition), yes, no
	return &c
}

// nestedLoop returns a for that is inside another one, nil if there is none.
func nestedLoop(expr hclsyntax.Expression) *hclsyntax.ForExpr {
	w := loopWalker{}
	_ = hclsyntax.Walk(expr, &w)
	return w.nested
}

type loopWalker struct {
	depth  int
	nested *hclsyntax.ForExpr
}

// Enter is called for a node on the way down.
func (w *loopWalker) Enter(node hclsyntax.Node) hcl.Diagnostics {
	if loop, ok := node.(*hclsyntax.ForExpr); ok {
		if w.depth++; w.depth > 1 && w.nested == nil {
			w.nested = loop
		}
	}
	return nil
}

// Exit is called for a node on the way up.
func (w *loopWalker) Exit(node hclsyntax.Node) hcl.Diagnostics {
	if _, ok := node.(*hclsyntax.ForExpr); ok {
		w.depth--
	}
	return nil
}
