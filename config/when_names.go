package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// warnNames warns of comparisons in a when expression that never hold, because they forget that subjects begin with "user:" and
// groups with "group:": contains(principal.groups, "payments").
func warnNames(b *hclread.Block, expr hclsyntax.Expression) {
	_ = hclsyntax.Walk(expr, &nameWalker{Block: b})
}

// nameWalker finds texts that are compared with names of principals.
type nameWalker struct {
	*hclread.Block

	// group is what a for expression calls each of principal.groups. There are no nested ones in a when expression.
	group string
}

// Enter is called for a node on the way down.
func (w *nameWalker) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.ForExpr:
		if w.kindOf(n.CollExpr) == groups {
			w.group = n.ValVar
		}
	case *hclsyntax.BinaryOpExpr:
		if n.Op == hclsyntax.OpEqual || n.Op == hclsyntax.OpNotEqual {
			w.compare(n.LHS, n.RHS)
			w.compare(n.RHS, n.LHS)
		}
	case *hclsyntax.FunctionCallExpr:
		if n.Name == "contains" && len(n.Args) == 2 {
			w.contains(n.Args[0], n.Args[1])
		}
	}
	return nil
}

// Exit is called for a node on the way up.
func (w *nameWalker) Exit(node hclsyntax.Node) hcl.Diagnostics {
	if _, ok := node.(*hclsyntax.ForExpr); ok {
		w.group = ""
	}
	return nil
}

// contains looks at a list in which a value is looked for: principal.groups, or names that are written out.
func (w *nameWalker) contains(list, value hclsyntax.Expression) {
	if w.kindOf(list) == groups {
		w.check(Group, value)
		return
	}
	if written, ok := list.(*hclsyntax.TupleConsExpr); ok {
		for _, name := range written.Exprs {
			w.compare(value, name)
		}
	}
}

// compare looks at a name of a principal that is compared with a value.
func (w *nameWalker) compare(name, value hclsyntax.Expression) {
	if kind := w.kindOf(name); kind == User || kind == Group {
		w.check(kind, value)
	}
}

// groups is the kind of a list with all groups of a principal.
const groups SelectorKind = "groups"

// kindOf says what an expression is: [User] for a subject, [Group] for a group, groups, or empty for anything else.
func (w *nameWalker) kindOf(expr hclsyntax.Expression) SelectorKind {
	switch n := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return w.kindOf(n.Expression)
	case *hclsyntax.IndexExpr:
		if w.kindOf(n.Collection) == groups {
			return Group
		}
	case *hclsyntax.FunctionCallExpr:
		if n.Name == "element" && len(n.Args) > 0 && w.kindOf(n.Args[0]) == groups {
			return Group
		}
	case *hclsyntax.ScopeTraversalExpr:
		root, attribute := n.Traversal.RootName(), stepName(n.Traversal, 1)
		switch {
		case root == w.group && w.group != "" && len(n.Traversal) == 1:
			return Group
		case root == "principal" && attribute == "subject":
			return User
		case root == "principal" && attribute == "groups" && len(n.Traversal) == 2:
			return groups
		case root == "principal" && attribute == "groups":
			return Group
		}
	}
	return ""
}

// check warns if a value is a text that is written out without the word that names of the kind begin with.
func (w *nameWalker) check(kind SelectorKind, value hclsyntax.Expression) {
	written, ok := value.(*hclsyntax.TemplateExpr)
	if !ok || !written.IsStringLiteral() {
		return
	}
	text, diags := written.Value(nil)
	if diags.HasErrors() {
		return
	}
	name, start := text.AsString(), string(kind)+":"
	if strings.HasPrefix(name, start) {
		return
	}
	what := "principal.subject"
	if kind == Group {
		what = "each of principal.groups"
	}
	w.Warning(value.Range(), "Name without "+start, "%s begins with %q, so it is never %q; write %q.", what, start, name, start+name)
}
