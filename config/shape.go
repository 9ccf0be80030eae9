package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// maxExposed bounds a name that clients see, in bytes.
const maxExposed = 256

// Override is a prompt block: what clients see of one prompt otherwise than its server says it.
type Override struct {
	// Prompt is the exposed name without the block: prefix, separator and the upstream's own name.
	Prompt string
	// Name is the exposed name with the block; empty where it stays.
	Name string
	// Title and Description are nil where they stay.
	Title, Description *string
	// Fixed arguments disappear from the definition and are sent with every get. Defaults become optional, and are sent
	// where a client does not send the argument itself. Both are sorted by name.
	Fixed, Defaults []ArgumentOverride
	Place           Place
}

// Redefines reports whether the block changes more than the name.
func (s *Override) Redefines() bool {
	return s.Title != nil || s.Description != nil || len(s.Fixed)+len(s.Defaults) > 0
}

// ArgumentOverride is an argument's value as JSON.
type ArgumentOverride struct {
	Name  string
	Value jsontext.Value
}

// shaped is a prompt block until all prefixes are known.
type shaped struct {
	team            string
	shape           Override
	labelAt, nameAt hcl.Range
}

func (l *loader) shape(f fields, team string) Override {
	f.items(schema{attributes: []string{"name", "title", "description", "arguments", "defaults"}})
	s := Override{Prompt: f.label(), Place: f.place()}
	if f.labelled() {
		l.unique("prompt block", s.Prompt, f.labelRange())
	}
	field(f, "name", shown, &s.Name, checked(checkExposed))
	s.Title, s.Description = f.optional("title"), f.optional("description")
	s.Fixed, s.Defaults = f.values("arguments"), f.values("defaults")
	for _, d := range s.Defaults {
		if slices.ContainsFunc(s.Fixed, func(v ArgumentOverride) bool { return v.Name == d.Name }) {
			f.error(f.at("defaults"), "Fixed and defaulted", "%q stands in arguments, which fixes it for everybody, so a default has no effect; remove it from one.", d.Name)
		}
	}
	if len(f.block.Body.Attributes) == 0 {
		f.error(f.block.DefRange(), "Nothing to change", "A block \"prompt\" without attributes has no effect; write name, title, description, arguments or defaults.")
	}
	if s.Name != "" {
		l.unique("exposed name", s.Name, f.at("name"))
	}
	l.shapes = append(l.shapes, shaped{team, s, f.labelRange(), f.at("name")})
	return s
}

func checkExposed(s string) error {
	if s == "" || len(s) > maxExposed || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("is not a name; use 1 to %d bytes without control characters", maxExposed)
	}
	return nil
}

// optional is a text that may be set to nothing.
func (f fields) optional(name string) *string {
	var s string
	if !field(f, name, shown, &s, checked(anything)) {
		return nil
	}
	return &s
}

// values reads a map of arguments, each of which may have any value.
func (f fields) values(name string) (values []ArgumentOverride) {
	v, ok := f.eval(name, shown, cty.DynamicPseudoType)
	if !ok {
		return nil
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() || v.LengthInt() == 0 {
		f.error(f.at(name), "Invalid "+name, "%s must have a value for each argument: write %s = { NAME = \"…\" }.", name, name)
		return nil
	}
	f.checkWrittenKeys(name)
	for key, value := range v.AsValueMap() {
		encoded, err := encode(value)
		if err != nil {
			f.error(f.at(name), "Invalid "+name, "%q %s.", key, err)
			continue
		}
		values = append(values, ArgumentOverride{key, encoded})
	}
	slices.SortFunc(values, func(a, b ArgumentOverride) int { return strings.Compare(a.Name, b.Name) })
	return values
}

func encode(v cty.Value) (jsontext.Value, error) {
	if v.IsNull() {
		return nil, errors.New("is null; remove it or give it a value")
	}
	if v.Type() == cty.Number {
		if exponent := v.AsBigFloat().MantExp(nil); exponent > maxExponent || exponent < -maxExponent {
			return nil, errors.New("is out of range; write a smaller number")
		}
	}
	return ctyjson.Marshal(v, v.Type())
}

// checkShapes reports prompt blocks for what is not the team's, once all prefixes are known.
func (l *loader) checkShapes() {
	if l.separator == "" || l.broken() {
		return
	}
	for _, s := range l.shapes {
		owner, owned := l.owner(s.shape.Prompt)
		switch {
		case s.shape.Prompt == "":
		case !owned:
			l.error(s.labelAt, "No such prompt", "No upstream has a prefix that %q begins with; write the name as clients see it, like \"billing.review\".", s.shape.Prompt)
		case owner.team != s.team:
			l.error(s.labelAt, "Prompt of another team", "%q lies in a prefix of team %q (%s); a team changes its own prompts only.", s.shape.Prompt, owner.team, owner.place)
		}
		if owner, owned := l.owner(s.shape.Name); s.shape.Name != "" && owned && owner.team != s.team {
			l.warning(s.nameAt, "Name in another team's prefix", "%q lies in a prefix of team %q (%s), so the prompt will be left out; choose another name.", s.shape.Name, owner.team, owner.place)
		}
	}
}

// owner returns who claims the longest prefix that a name lies in.
func (l *loader) owner(name string) (claim, bool) {
	best, owned := l.prefixes[""]
	longest := -1
	for prefix, c := range l.prefixes {
		if prefix != "" && strings.HasPrefix(name, prefix+l.separator) && len(prefix) > longest {
			best, owned, longest = c, true, len(prefix)
		}
	}
	return best, owned
}
