package hclread

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// eval returns the value of an attribute, converted to a type. It is not ok if the attribute is
// absent, null or wrong; a wrong one was reported.
func eval(b *Block, name string, want cty.Type) (v cty.Value, ok bool) {
	attribute := b.hcl.Body.Attributes[name]
	if attribute == nil {
		return cty.NilVal, false
	}
	isPlain := b.schema.isPlain(name)
	v, ok = b.scope.eval(attribute.Expr, b.schema.isSecret(name))
	if !ok {
		return cty.NilVal, false
	}
	at := attribute.Expr.Range()
	// Converting is lenient, as HCL is: 8080 is a string where one is wanted, and "50" a number.
	if want == cty.Number && sizeOf(v).bytes > maxDigits {
		b.Error(at, "Invalid "+name, "%s must be a number of at most %d digits.", name, maxDigits)
		return cty.NilVal, false
	}
	v, err := convert.Convert(v, want)
	switch {
	case err != nil:
		remedy := ""
		if want.IsListType() {
			remedy = "; write " + name + ` = ["…"], with an element for each`
		}
		b.Error(at, "Invalid "+name, "%s must be %s%s.", name, friendly(want), remedy)
		return cty.NilVal, false
	case isPlain && v.ContainsMarked():
		b.Error(at, "Sensitive "+name, "Values from env and file are sensitive, and %s is "+
			"logged; write its value out.", name)
		return cty.NilVal, false
	case isPlain && !v.IsWhollyKnown():
		return cty.NilVal, false
	}
	return v, !v.IsNull() // null means the default, so that conditionals can choose it
}

// eval reports what goes wrong without showing anything sensitive.
func (s *scope) eval(expr hclsyntax.Expression, isSecret bool) (cty.Value, bool) {
	if !s.Prepare(expr) {
		return cty.NilVal, false
	}
	s.unset, s.evaluating = nil, s.source // env appends to unset during the evaluation
	v, diags := expr.Value(s.context())
	isSensitive := isSecret || len(diags) > 0 && usesSensitive(expr)
	for _, d := range diags {
		s.Report(explainVariable(Redact(d, isSensitive), s.source.file.Bytes))
	}
	if s.options.AllowUnsetEnv {
		s.warnUnset(expr)
	}
	if diags.HasErrors() {
		return v, false
	}
	if s.options.TextsOnly {
		return v, true
	}
	if p, tooMuch := errors.AsType[*DiagnosticError](s.spend(v)); tooMuch {
		s.Error(expr.Range(), p.Summary, "%s", p.Detail)
		return v, false
	}
	return v, true
}

// warnUnset points at each call of env in an expression whose variable is unset.
func (s *scope) warnUnset(expr hclsyntax.Expression) {
	slices.Sort(s.unset)
	for _, name := range slices.Compact(s.unset) {
		for _, at := range envCalls(expr, name) {
			s.Report(&hcl.Diagnostic{
				Severity: hcl.DiagWarning, Summary: "Environment variable not set", Subject: &at, Extra: unsetVariable{},
				Detail: name + " is not set and has no default; serve will refuse to start without it.",
			})
		}
	}
}

// unsetVariable marks warnings about environment variables.
type unsetVariable struct{}

// IsUnsetVariable reports whether a warning is about an environment variable that is not set here.
// That is no mistake in a file.
func IsUnsetVariable(d *hcl.Diagnostic) bool {
	_, ok := d.Extra.(unsetVariable)
	return ok
}

// envCalls returns where an expression asks for a variable without a default: the whole expression
// if the name is computed.
func envCalls(expr hclsyntax.Expression, name string) []hcl.Range {
	var calls []hcl.Range
	walkCalls(expr, func(call *hclsyntax.FunctionCallExpr) {
		if call.Name != "env" || len(call.Args) != 1 {
			return
		}
		if v, diags := call.Args[0].Value(nil); !diags.HasErrors() && v.RawEquals(cty.StringVal(name)) {
			calls = append(calls, call.Range())
		}
	})
	if calls == nil {
		return []hcl.Range{expr.Range()}
	}
	return calls
}

// usesSensitive reports whether an expression calls env or file anywhere.
func usesSensitive(expr hclsyntax.Expression) bool {
	found := false
	walkCalls(expr, func(call *hclsyntax.FunctionCallExpr) { found = found || call.Name == "env" || call.Name == "file" })
	return found
}

// walkCalls visits the function calls of an expression at all depths.
func walkCalls(expr hclsyntax.Expression, visit func(*hclsyntax.FunctionCallExpr)) {
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, ok := node.(*hclsyntax.FunctionCallExpr); ok {
			visit(call)
		}
		return nil
	})
}

// Redact returns a diagnostic of an evaluation without the values that HCL adds to it. If the
// expression is sensitive, the detail goes too, unless it is known to contain names only.
func Redact(d *hcl.Diagnostic, isSensitive bool) *hcl.Diagnostic {
	redacted := &hcl.Diagnostic{Severity: d.Severity, Summary: d.Summary, Detail: d.Detail, Subject: d.Subject, Context: d.Context}
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok && call.FunctionCallError() != nil {
		if p, ok := errors.AsType[*DiagnosticError](call.FunctionCallError()); ok {
			redacted.Summary, redacted.Detail = p.Summary, p.Detail
		} else if isSensitive { // the error of a function often quotes an argument
			redacted.Detail = fmt.Sprintf("Call to function %q failed: it does not accept one of its arguments, "+
				"which is sensitive and not shown.", call.CalledFunctionName())
		}
		return redacted
	}
	switch d.Summary {
	case "Call to unknown function", "Not enough function arguments", "Too many function arguments", summaryVariables:
		return redacted
	}
	if isSensitive {
		redacted.Detail = "The details are not shown because the expression contains a sensitive value."
	}
	return redacted
}

// friendly names a type as the README does.
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
