package hclread

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// eval returns the value of an attribute, converted to a type. ok is false if the attribute is
// absent, null or wrong. A wrong value was reported.
func eval(b *Block, name string, want cty.Type) (v cty.Value, ok bool) {
	attribute := b.hcl.Body.Attributes[name]
	if attribute == nil {
		return cty.NilVal, false
	}
	isPlain := b.schema.Attribute(name).Env == plain
	v, ok = b.scope.eval(attribute.Expr, b.schema.isSecret(name))
	if !ok {
		return cty.NilVal, false
	}
	at := attribute.Expr.Range()
	// HCL converts leniently: 8080 is accepted as a string, and "50" as a number.
	v, err := convert.Convert(v, want)
	switch {
	case err != nil:
		b.Error(at, "Invalid "+name, "%s must be %s.", name, friendly(want, name))
		return cty.NilVal, false
	case isPlain && v.ContainsMarked():
		b.Error(at, "Sensitive "+name, "Values from env and file are sensitive, and %s is logged; write its value out.", name)
		return cty.NilVal, false
	case isPlain && !v.IsWhollyKnown():
		return cty.NilVal, false
	}
	return v, !v.IsNull() // null means the default, so a conditional can choose it
}

// eval evaluates an expression, and reports errors without sensitive values.
func (s *scope) eval(expr hclsyntax.Expression, isSecret bool) (cty.Value, bool) {
	if !s.CheckLoops(expr) {
		return cty.NilVal, false
	}
	boundNumbers(expr)
	s.unset, s.evaluating = nil, s.file // env appends to unset
	v, diags := expr.Value(s.context())
	isSensitive := isSecret || len(diags) > 0 && usesSensitive(expr)
	for _, d := range diags {
		s.Report(explainVariable(Redact(d, isSensitive), s.file.Content))
	}
	if s.options.AllowUnsetEnv {
		s.warnUnset(expr)
	}
	if diags.HasErrors() || s.options.IsLock { // a lock file has no budget
		return v, !diags.HasErrors()
	}
	if p, tooMuch := errors.AsType[*DiagnosticError](s.spend(v)); tooMuch {
		s.Error(expr.Range(), p.Summary, "%s", p.Detail)
		return v, false
	}
	return v, true
}

// warnUnset warns at each call of env for an unset variable.
func (s *scope) warnUnset(expr hclsyntax.Expression) {
	slices.Sort(s.unset)
	for _, name := range slices.Compact(s.unset) {
		for _, at := range envCalls(expr, name) {
			s.Report(&hcl.Diagnostic{
				Severity: hcl.DiagWarning, Summary: "Environment variable not set", Subject: &at, Extra: unsetVariable{},
				Detail: fmt.Sprintf("%s is not set and has no default; for serve, that is an error in this file. Set it, or write env(%q, \"DEFAULT\").", name, name),
			})
		}
	}
}

// unsetVariable marks warnings about unset environment variables.
type unsetVariable struct{}

// IsUnsetVariable reports whether a warning is about an unset environment variable. Such a warning
// is about the environment, not about an error in a file.
func IsUnsetVariable(d *hcl.Diagnostic) bool {
	_, ok := d.Extra.(unsetVariable)
	return ok
}

// envCalls returns the ranges of calls of env for a name, without a default. If the name is
// computed, it returns the range of the whole expression.
func envCalls(expr hclsyntax.Expression, name string) []hcl.Range {
	var calls []hcl.Range
	Visit(expr, func(call *hclsyntax.FunctionCallExpr) {
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
	Visit(expr, func(call *hclsyntax.FunctionCallExpr) { found = found || call.Name == "env" || call.Name == "file" })
	return found
}

// Visit visits the nodes of type T in an expression at all depths.
func Visit[T hclsyntax.Node](expr hclsyntax.Node, visit func(T)) {
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		if n, ok := node.(T); ok {
			visit(n)
		}
		return nil
	})
}

// Redact returns a diagnostic with a remedy and without the values that HCL attaches to it. If the expression is
// sensitive, it also replaces a detail that may quote a value.
func Redact(d *hcl.Diagnostic, isSensitive bool) *hcl.Diagnostic {
	return withRemedy(redact(d, isSensitive))
}

func redact(d *hcl.Diagnostic, isSensitive bool) *hcl.Diagnostic {
	redacted := &hcl.Diagnostic{Severity: d.Severity, Summary: d.Summary, Detail: d.Detail, Subject: d.Subject, Context: d.Context}
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok && call.FunctionCallError() != nil {
		if p, ok := errors.AsType[*DiagnosticError](call.FunctionCallError()); ok {
			redacted.Summary, redacted.Detail = p.Summary, p.Detail
		} else if isSensitive { // errors of functions often quote an argument
			redacted.Detail = fmt.Sprintf("The function %q does not accept one of its arguments, "+
				"which is sensitive and not shown; correct it.", call.CalledFunctionName())
		}
		return redacted
	}
	switch d.Summary {
	case "Operation failed": // HCL appends a period, also to an error with a period
		redacted.Detail = strings.Replace(strings.TrimPrefix(d.Detail, "Error during operation: "), "..", ".", 1)
	case "Call to unknown function", "Not enough function arguments", "Too many function arguments", summaryVariables:
		return redacted
	}
	if isSensitive {
		redacted.Detail = "The details are not shown because the expression contains a sensitive value; write text in " +
			`quotes, env("NAME") or file("PATH").`
	}
	return redacted
}

// friendly describes the type of an attribute for people, with an example for lists and maps.
func friendly(t cty.Type, name string) string {
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number; write it in digits"
	case t == cty.Bool:
		return "true or false"
	case t.IsListType():
		return "a list of strings; write " + name + ` = ["…", "…"], with quotes around each element`
	default:
		return "a map of strings; write " + name + ` = { NAME = "…" }`
	}
}
