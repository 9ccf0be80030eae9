package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"go.mau.fi/util/exslices"
)

// Bounds of the facts that a condition reads. The cost of an evaluation is proportional to their size.
const (
	maxFacts    = 64 << 10 // bytes of JSON for a prompt or a principal
	maxElements = 256      // in a list
	maxGroups   = 1000     // for a principal
)

var (
	errTooMuch    = errors.New("its input is larger than a condition may read")
	errUnreadable = errors.New("the JSON cannot be read")
)

// PromptFacts are the facts about a prompt: name, upstream, team, title, description, arguments and meta.
type PromptFacts struct {
	value cty.Value
	err   error
}

// NewPromptFacts returns the facts about a prompt. The definition is JSON; members that it lacks become empty
// strings, lists or objects. If the definition is nil, only name, upstream and team are known.
func NewPromptFacts(name, upstream, team string, definition []byte) PromptFacts {
	facts := map[string]cty.Value{
		"name": cty.StringVal(name), "upstream": cty.StringVal(upstream), "team": cty.StringVal(team),
		"title": cty.UnknownVal(cty.String), "description": cty.UnknownVal(cty.String),
		"arguments": cty.UnknownVal(cty.List(argumentType())), "meta": cty.DynamicVal,
	}
	if definition == nil {
		// An unknown fact makes the result unknown rather than false.
		return PromptFacts{value: cty.ObjectVal(facts)}
	}
	var d struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Arguments   []argumentFacts `json:"arguments"`
		Meta        jsontext.Value  `json:"_meta"`
	}
	if len(definition) > maxFacts {
		return PromptFacts{err: errTooMuch}
	}
	if err := json.Unmarshal(definition, &d); err != nil {
		return PromptFacts{err: errUnreadable}
	}
	meta, err := valueOf(d.Meta)
	if err != nil {
		return PromptFacts{err: err}
	}
	if len(d.Arguments) > maxElements {
		return PromptFacts{err: errTooMuch}
	}
	facts["title"], facts["description"], facts["meta"] = cty.StringVal(d.Title), cty.StringVal(d.Description), meta
	facts["arguments"] = listOf(argumentType(), exslices.CastFunc(d.Arguments, argumentFacts.value))
	return PromptFacts{value: cty.ObjectVal(facts)}
}

type argumentFacts struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

func (a argumentFacts) value() cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(a.Name), "title": cty.StringVal(a.Title),
		"description": cty.StringVal(a.Description), "required": cty.BoolVal(a.Required),
	})
}

func argumentType() cty.Type { return argumentFacts{}.value().Type() }

// promptType and principalType are the types of a condition's variables.
func promptType() cty.Type    { return NewPromptFacts("", "", "", nil).value.Type() }
func principalType() cty.Type { return NewPrincipalFacts("", nil, "").WithoutClaims().value.Type() }

// PrincipalFacts are the facts about a principal: subject, groups and claims.
type PrincipalFacts struct {
	value cty.Value
	err   error
}

// NewPrincipalFacts returns the facts about a principal. Claims are a JSON object, or empty. Groups are sorted,
// so their order makes no difference.
func NewPrincipalFacts(subject string, groups []string, claims string) PrincipalFacts {
	object, err := valueOf([]byte(claims))
	if err != nil {
		return PrincipalFacts{err: err}
	}
	if len(groups) > maxGroups {
		return PrincipalFacts{err: errTooMuch}
	}
	sorted := exslices.CastFunc(slices.Compact(slices.Sorted(slices.Values(groups))), cty.StringVal)
	return PrincipalFacts{value: cty.ObjectVal(map[string]cty.Value{
		"subject": cty.StringVal(subject), "groups": listOf(cty.String, sorted), "claims": object,
	})}
}

// WithoutClaims returns f with its claims marked as unknown.
func (f PrincipalFacts) WithoutClaims() PrincipalFacts {
	if f.err != nil {
		return f
	}
	values := f.value.AsValueMap()
	values["claims"] = cty.DynamicVal
	return PrincipalFacts{value: cty.ObjectVal(values)}
}

// Value returns the value of one of the [Condition.PrincipalFields] as text. Two principals have
// equal texts exactly if their fields are equal.
func (f PrincipalFacts) Value(field string) string {
	if f.err != nil {
		return "error"
	}
	attribute, claim, hasClaim := strings.Cut(field, ".")
	v := f.value.GetAttr(attribute)
	if !v.IsKnown() {
		return "unknown"
	}
	if hasClaim {
		if !v.Type().HasAttribute(claim) {
			return "absent" // differs from every claim: the JSON of a string has quotes
		}
		v = v.GetAttr(claim)
	}
	text, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return "error"
	}
	return string(text)
}

// listOf makes a list; cty.ListVal panics on an empty slice.
func listOf(element cty.Type, values []cty.Value) cty.Value {
	if len(values) == 0 {
		return cty.ListValEmpty(element)
	}
	return cty.ListVal(values)
}

// valueOf decodes any JSON value. An empty text counts as an empty object.
func valueOf(raw []byte) (cty.Value, error) {
	if len(raw) == 0 {
		return cty.EmptyObjectVal, nil
	}
	if len(raw) > maxFacts {
		return cty.NilVal, errTooMuch
	}
	if err := checkBounds(raw); err != nil {
		return cty.NilVal, err
	}
	var v ctyjson.SimpleJSONValue
	if err := v.UnmarshalJSON(raw); err != nil {
		return cty.NilVal, errUnreadable
	}
	return v.Value, nil
}

// checkBounds refuses JSON with a number that would fill the memory, or with a list that is too long.
func checkBounds(raw []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil //nolint:nilerr // the end, or an error that the next reader reports
		}
		if token.Kind() == '0' && hasHugeExponent(token.String()) {
			return errors.New("a number is out of range")
		}
		// An object has two tokens for each member, so half as many fit.
		if kind, length := decoder.StackIndex(decoder.StackDepth()); length > maxElements && kind != 0 {
			return errTooMuch
		}
	}
}

// hasHugeExponent reports whether an exponent has more than three digits. It examines text, because cty writes
// out all digits of a number.
func hasHugeExponent(number string) bool {
	_, exponent, found := strings.Cut(strings.ToLower(number), "e")
	return found && len(strings.TrimLeft(exponent, "+-0")) > 3
}
