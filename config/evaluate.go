package config

import (
	"errors"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// eval returns the value of an attribute in the wanted type. It is not ok when the attribute is absent,
// null, or wrong, which was reported then.
func (f fields) eval(name string, u use, want cty.Type) (v cty.Value, ok bool) {
	attr := f.block.Body.Attributes[name]
	if attr == nil {
		return cty.NilVal, false
	}
	v, ok = f.value(attr.Expr, u)
	if !ok {
		return cty.NilVal, false
	}
	at := attr.Expr.Range()
	v, err := convert.Convert(v, want)
	switch {
	case err != nil:
		f.error(at, "Invalid "+name, "%s must be %s.", name, friendly(want))
		return cty.NilVal, false
	case u == shown && v.ContainsMarked():
		f.error(at, "Sensitive "+name, "What comes from env or file is sensitive, and %s would be shown in logs; write the value out.", name)
		return cty.NilVal, false
	case u == shown && !v.IsWhollyKnown():
		return cty.NilVal, false
	}
	return v, !v.IsNull()
}

// value evaluates an expression and reports what went wrong without showing anything sensitive.
func (f fields) value(expr hclsyntax.Expression, u use) (cty.Value, bool) {
	context := f.scope.plain
	if u == secret {
		context = f.scope.hidden
	}
	f.unset = nil
	v, diags := expr.Value(context)
	for _, d := range diags {
		f.diags = append(f.diags, presentable(d, u == secret || usesSensitive(expr)))
	}
	if f.options.AllowUnsetEnv {
		f.warnUnset(expr)
	}
	return v, !diags.HasErrors()
}

// warnUnset notes at each env call of an expression that its variable is unset.
func (f fields) warnUnset(expr hclsyntax.Expression) {
	slices.Sort(f.unset)
	for _, name := range slices.Compact(f.unset) {
		for _, at := range envCalls(expr, name) {
			f.diags = append(f.diags, &hcl.Diagnostic{
				Severity: hcl.DiagWarning,
				Summary:  "Environment variable not set",
				Detail:   name + " is not set and has no default; serve will refuse to start without it.",
				Subject:  &at,
			})
		}
	}
}

// envCalls is where an expression asks for a variable without a default; all of it if the name is computed.
func envCalls(expr hclsyntax.Expression, name string) []hcl.Range {
	var places []hcl.Range
	walkCalls(expr, func(call *hclsyntax.FunctionCallExpr) {
		if call.Name != "env" || len(call.Args) != 1 {
			return
		}
		if v, diags := call.Args[0].Value(nil); !diags.HasErrors() && v.RawEquals(cty.StringVal(name)) {
			places = append(places, call.Range())
		}
	})
	if places == nil {
		return []hcl.Range{expr.Range()}
	}
	return places
}

// usesSensitive reports whether an expression calls env or file anywhere.
func usesSensitive(expr hclsyntax.Expression) bool {
	found := false
	walkCalls(expr, func(call *hclsyntax.FunctionCallExpr) { found = found || call.Name == "env" || call.Name == "file" })
	return found
}

func walkCalls(expr hclsyntax.Expression, visit func(*hclsyntax.FunctionCallExpr)) {
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, ok := node.(*hclsyntax.FunctionCallExpr); ok {
			visit(call)
		}
		return nil
	})
}

// presentable returns a diagnostic of an evaluation without the values it may have: those of variables
// always, and the detail where values are sensitive, unless it is one that is known to speak of names only.
func presentable(d *hcl.Diagnostic, sensitive bool) *hcl.Diagnostic {
	cleaned := &hcl.Diagnostic{Severity: d.Severity, Summary: d.Summary, Detail: d.Detail, Subject: d.Subject, Context: d.Context}
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
		if p, ok := errors.AsType[*problem](call.FunctionCallError()); ok {
			cleaned.Summary, cleaned.Detail = p.summary, p.detail
			return cleaned
		}
	}
	switch d.Summary {
	case "Call to unknown function", "Error in function call", "Not enough function arguments", "Too many function arguments",
		"Variables not allowed":
		return cleaned
	}
	if sensitive {
		cleaned.Detail = "The details are not shown because the expression holds a sensitive value."
	}
	return cleaned
}

func friendly(t cty.Type) string {
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t.IsListType():
		return "a list of strings"
	default:
		return "a map of strings"
	}
}
