package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Condition is a when expression: it decides from the facts about a prompt and a principal. It is
// immutable and safe for concurrent use.
type Condition struct {
	text      string
	expr      hclsyntax.Expression
	functions map[string]hclread.Function
	steps     *hclread.Steps

	readsPrompt, readsDefinition, readsUpstream bool
	principalFields                             []string
}

// ErrUnknown means that a condition depends on facts that are not known.
var ErrUnknown = errors.New("it depends on values unknown here")

// Holds evaluates the condition within a budget of steps, which depends on nothing but the
// expression and the facts: the answer is the same on every machine and under any load. The error
// says where the evaluation failed, without any value that it read.
func (c *Condition) Holds(prompt PromptFacts, who PrincipalFacts) (bool, error) {
	holds, _, err := c.Measure(prompt, who)
	return holds, err
}

// Measure is [Condition.Holds], and also returns how many steps the evaluation took.
func (c *Condition) Measure(prompt PromptFacts, who PrincipalFacts) (holds bool, steps int, err error) {
	// Facts that the condition does not read may be broken.
	if c.readsPrompt && prompt.err != nil {
		return false, 0, prompt.err
	}
	if len(c.principalFields) > 0 && who.err != nil {
		return false, 0, who.err
	}
	ctx := &hcl.EvalContext{
		Variables: map[string]cty.Value{"prompt": prompt.value, "principal": who.value},
		Functions: c.functions,
	}
	steps, over := c.steps.Count(ctx, maxConditionSteps)
	if over != nil {
		return false, steps, fmt.Errorf("%s in column %d", strings.ToLower(summaryTooMuch), over.Start.Column)
	}
	v, diags := c.expr.Value(ctx)
	if diags.HasErrors() {
		if diag, ok := errors.AsType[*hcl.Diagnostic](diags.Errs()[0]); ok {
			// The detail may quote a value, such as a claim; the summary never does.
			return false, steps, fmt.Errorf("%s in column %d", strings.ToLower(diag.Summary), diag.Subject.Start.Column)
		}
		return false, steps, errors.New("the evaluation failed")
	}
	holds, err = truth(v)
	return holds, steps, err
}

// truth converts a result as HCL does, so that "true" is true.
func truth(v cty.Value) (bool, error) {
	v, err := convert.Convert(v, cty.Bool)
	switch {
	case err != nil:
		return false, errors.New("the result is neither true nor false")
	case !v.IsKnown():
		return false, ErrUnknown
	case v.IsNull():
		return false, errors.New("the result is null")
	}
	return v.True(), nil
}

// String is the expression as it is written, on one line.
func (c *Condition) String() string { return c.text }

// MarshalText makes a condition readable in JSON.
func (c *Condition) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// ReadsPrompt reports whether the condition depends on the prompt.
func (c *Condition) ReadsPrompt() bool { return c.readsPrompt }

// ReadsDefinition reports whether the condition depends on the prompt's definition, rather than on
// its name, upstream and team alone.
func (c *Condition) ReadsDefinition() bool { return c.readsDefinition }

// ReadsUpstream reports whether the condition depends on which upstream offers the prompt.
func (c *Condition) ReadsUpstream() bool { return c.readsUpstream }

// PrincipalFields returns the fields of a principal that the condition depends on, sorted:
// "subject", "groups", "claims", or "claims.NAME" for a single claim. Principals with the same
// [PrincipalFacts.Value] for all of them get the same answer.
func (c *Condition) PrincipalFields() []string { return c.principalFields }

// ReadsClaims reports whether the condition depends on the claims of the principal's token.
func (c *Condition) ReadsClaims() bool {
	return slices.ContainsFunc(c.principalFields, func(field string) bool { return field == "claims" || strings.HasPrefix(field, "claims.") })
}

// ReadsClaims reports whether some rule depends on the claims of a principal's token.
func (c *Config) ReadsClaims() bool {
	reads := func(r Rule) bool { return r.When != nil && r.When.ReadsClaims() }
	return slices.ContainsFunc(c.Hides, reads) || slices.ContainsFunc(c.Teams, func(t Team) bool {
		return slices.ContainsFunc(t.Hides, reads) || slices.ContainsFunc(t.Exposes, reads)
	})
}

// findReads sets what the condition depends on. Claims are distinguished by name, not by what is
// inside them.
func (c *Condition) findReads() {
	for _, traversal := range c.expr.Variables() {
		switch traversal.RootName() {
		case "prompt":
			c.readsPrompt = true
			field := stepName(traversal, 1)
			// An empty field is the whole prompt, or a computed attribute.
			c.readsUpstream = c.readsUpstream || field == "upstream" || field == ""
			configured := field == "name" || field == "upstream" || field == "team"
			c.readsDefinition = c.readsDefinition || !configured
		case "principal":
			c.principalFields = append(c.principalFields, fieldsOf(traversal)...)
		}
	}
	// Sorted, so that the fields can be part of a key.
	slices.Sort(c.principalFields)
	c.principalFields = slices.Compact(c.principalFields)
}

// fieldsOf returns the fields that one reference to principal reads.
func fieldsOf(traversal hcl.Traversal) []string {
	attribute, claim := stepName(traversal, 1), stepName(traversal, 2)
	switch {
	case attribute == "": // the whole principal, or a computed attribute
		return []string{"claims", "groups", "subject"}
	case attribute == "claims" && claim != "":
		return []string{"claims." + claim}
	}
	return []string{attribute}
}

// stepName is the name at one step of a traversal; empty if there is no such step or it is not a
// name.
func stepName(traversal hcl.Traversal, at int) string {
	if at >= len(traversal) {
		return ""
	}
	switch s := traversal[at].(type) {
	case hcl.TraverseAttr:
		return s.Name
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString()
		}
	}
	return ""
}
