package schema

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.mau.fi/util/exslices"
)

const (
	// maxProblems bounds the reported problems of a value.
	maxProblems = 5
	// maxText bounds the path and the text of a problem, in bytes: they may repeat a large value or
	// constant.
	maxText = 200
)

// Invalid is the error of a value that does not satisfy its schema.
type Invalid struct{ Problems []Problem } //nolint:errname // schema.Invalid reads better than schema.InvalidError

// Problem is one problem of a value.
type Problem struct {
	// At is the path in the value, as a JSON Pointer, or "" for the value itself.
	At string
	// Text describes the problem in a few words.
	Text string
}

func (p Problem) String() string {
	if p.At == "" {
		return p.Text
	}
	return "at " + p.At + ": " + p.Text
}

func (e *Invalid) Error() string {
	return strings.Join(exslices.CastFunc(e.Problems, Problem.String), "; ")
}

// newInvalid returns the first maxProblems innermost errors of the validator, sorted by their paths
// in the value.
func newInvalid(err *jsonschema.ValidationError) *Invalid {
	leaves := innermost(nil, err)
	// The validator iterates over maps in random order. Sort, so that equal requests get equal
	// responses.
	slices.SortStableFunc(leaves, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation),
			slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()),
			cmp.Compare(a.SchemaURL, b.SchemaURL))
	})
	invalid := &Invalid{}
	for _, leaf := range leaves {
		p := Problem{At: clip(pointer(leaf.InstanceLocation)), Text: clip(text(leaf))}
		// The branches of an anyOf often fail with the same error.
		if slices.Contains(invalid.Problems, p) {
			continue
		}
		invalid.Problems = append(invalid.Problems, p)
		if len(invalid.Problems) == maxProblems {
			break
		}
	}
	return invalid
}

// innermost appends to leaves the errors in a tree of causes that have no causes themselves.
func innermost(leaves []*jsonschema.ValidationError, err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(err.Causes) == 0 {
		return append(leaves, err)
	}
	for _, cause := range err.Causes {
		leaves = innermost(leaves, cause)
	}
	return leaves
}

// text returns the text of an error with exact numbers. The validator's text has rounded numbers: a
// number just beyond a bound looks like the bound.
func text(err *jsonschema.ValidationError) string {
	bound := func(keyword string, got, want *big.Rat) string {
		return keyword + ": got " + decimal(got) + ", want " + decimal(want)
	}
	switch k := err.ErrorKind.(type) {
	case *kind.Minimum:
		return bound("minimum", k.Got, k.Want)
	case *kind.Maximum:
		return bound("maximum", k.Got, k.Want)
	case *kind.ExclusiveMinimum:
		return bound("exclusiveMinimum", k.Got, k.Want)
	case *kind.ExclusiveMaximum:
		return bound("exclusiveMaximum", k.Got, k.Want)
	case *kind.MultipleOf:
		return bound("multipleOf", k.Got, k.Want)
	}
	return err.BasicOutput().Error.String()
}

// decimal returns a number with all its digits. A number from JSON has finitely many digits.
func decimal(n *big.Rat) string {
	digits, _ := n.FloatPrec()
	return n.FloatString(digits)
}

// pointer returns a JSON Pointer (RFC 6901).
func pointer(tokens []string) string {
	var p jsontext.Pointer
	for _, token := range tokens {
		p = p.AppendToken(token)
	}
	return string(p)
}

// clip shortens a text to maxText bytes and an ellipsis.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
