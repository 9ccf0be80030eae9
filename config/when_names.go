package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// warnNames warns of comparisons in a when expression that never hold, because they forget that
// subjects begin with "user:" and groups with "group:": contains(principal.groups, "payments").
func warnNames(b *hclread.Block, expr hclsyntax.Expression) {
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.BinaryOpExpr:
			if n.Op == hclsyntax.OpEqual || n.Op == hclsyntax.OpNotEqual {
				warnName(b, n.LHS, n.RHS)
				warnName(b, n.RHS, n.LHS)
			}
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "contains" && len(n.Args) == 2 {
				warnName(b, n.Args[0], n.Args[1])
				if written, ok := n.Args[0].(*hclsyntax.TupleConsExpr); ok {
					for _, name := range written.Exprs {
						warnName(b, n.Args[1], name)
					}
				}
			}
		}
		return nil
	})
}

// warnName warns if a value that is compared with names of principals is a text that is written out
// without the word that these begin with.
func warnName(b *hclread.Block, names, value hclsyntax.Expression) {
	written, isTemplate := value.(*hclsyntax.TemplateExpr)
	variable, isVariable := names.(*hclsyntax.ScopeTraversalExpr)
	if !isTemplate || !isVariable || !written.IsStringLiteral() || variable.Traversal.RootName() != "principal" {
		return
	}
	what, start := "principal.subject", "user:"
	switch stepName(variable.Traversal, 1) {
	case "groups":
		what, start = "each of principal.groups", "group:"
	case "subject":
	default:
		return
	}
	text, diags := written.Value(nil)
	if diags.HasErrors() || strings.HasPrefix(text.AsString(), start) {
		return
	}
	name := text.AsString()
	b.Warning(value.Range(), "Name without "+start, "%s begins with %q, so it is never %q; write %q.", what, start, name, start+name)
}
