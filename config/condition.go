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

// Condition is a when expression about a prompt and a principal. It is immutable and safe for concurrent use.
type Condition struct {
	text      string
	expr      hclsyntax.Expression
	functions map[string]hclread.Function // the method context replaces regex in each evaluation
	programs  map[string]*hclread.Program

	// ReadsPrompt is true if the condition depends on any fact about the prompt. ReadsDefinition is true if it
	// depends on other facts than name, upstream and team. ReadsUpstream is true if it depends on the upstream.
	ReadsPrompt, ReadsDefinition, ReadsUpstream bool
	// PrincipalFields are the fields of a principal that the condition depends on, sorted: "subject", "groups",
	// "claims", or "claims.NAME" for a single claim. Principals with the same [PrincipalFacts.Value] for all these
	// fields get the same answer.
	PrincipalFields []string
}

// ErrUnknown is the error of a condition that depends on unknown facts.
var ErrUnknown = errors.New("it depends on values unknown here")

// Holds evaluates the condition. The result depends only on the expression and the facts, so it is the same on
// every machine and under any load. An error describes the failed part of the condition, and quotes no value.
func (c *Condition) Holds(prompt PromptFacts, who PrincipalFacts) (bool, error) {
	// Invalid facts are an error only if the condition reads them.
	if c.ReadsPrompt && prompt.err != nil {
		return false, prompt.err
	}
	if len(c.PrincipalFields) > 0 && who.err != nil {
		return false, who.err
	}
	steps := hclread.MaxSteps
	v, diags := c.expr.Value(c.context(prompt.value, who.value, &steps))
	if diags.HasErrors() {
		// The detail may quote a value, such as a claim; the summary never does.
		first := hclread.Redact(diags[0], true)
		return false, fmt.Errorf("%s in column %d", strings.ToLower(first.Summary), first.Subject.Start.Column)
	}
	// Check the steps here too: "can" and "try" hide the error of a match, so without this check a server could
	// choose the result by sending a long text.
	if steps < 0 {
		return false, errTooMuchToMatch
	}
	return truth(v)
}

var errTooMuchToMatch = errors.New(strings.ToLower(hclread.ErrTooMuchToMatch.Summary))

// context returns the variables and functions of one evaluation. All its calls of regex share the budget steps.
func (c *Condition) context(prompt, principal cty.Value, steps *int) *hcl.EvalContext {
	all := &hcl.EvalContext{Variables: map[string]cty.Value{"prompt": prompt, "principal": principal}, Functions: c.functions}
	all = all.NewChild()
	all.Functions = map[string]hclread.Function{"regex": hclread.RegexFunction(c.programs, steps)}
	return all
}

// truth converts a result to a boolean as HCL does: the text "true" is true.
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

// String returns the expression on one line.
func (c *Condition) String() string { return c.text }

// MarshalText makes a condition readable in JSON.
func (c *Condition) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// ReadsClaims reports whether the condition depends on the claims of the principal's token.
func (c *Condition) ReadsClaims() bool {
	return slices.ContainsFunc(c.PrincipalFields, func(field string) bool { return field == "claims" || strings.HasPrefix(field, "claims.") })
}

// ReadsClaims reports whether any rule depends on the claims of a principal's token.
func (c *Config) ReadsClaims() bool {
	return slices.ContainsFunc(c.rules(), func(r *Rule) bool { return r.When != nil && r.When.ReadsClaims() })
}

// findReads sets the fields that tell which facts the condition reads. A claim is recorded by its top-level name.
func (c *Condition) findReads() {
	for _, traversal := range c.expr.Variables() {
		switch traversal.RootName() {
		case "prompt":
			c.ReadsPrompt = true
			field := stepName(traversal, 1)
			// An empty field means the whole prompt, or a computed attribute.
			c.ReadsUpstream = c.ReadsUpstream || field == "upstream" || field == ""
			configured := field == "name" || field == "upstream" || field == "team"
			c.ReadsDefinition = c.ReadsDefinition || !configured
		case "principal":
			c.PrincipalFields = append(c.PrincipalFields, fieldsOf(traversal)...)
		}
	}
	// The fields are sorted because they become part of a key.
	slices.Sort(c.PrincipalFields)
	c.PrincipalFields = slices.Compact(c.PrincipalFields)
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

// stepName returns the name at one step of a traversal, or "" if the step does not exist or has no name.
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
