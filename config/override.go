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

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// maxExposed bounds a name that clients see, in bytes.
const maxExposed = 256

// Override is a prompt block: a team's changes to the definition of one prompt.
type Override struct {
	// Prompt is the exposed name without the block: prefix, separator and the upstream's own name.
	Prompt string
	// Name is the exposed name with the block; empty if it stays.
	Name string
	// Title and Description are nil if they stay.
	Title, Description *string
	// Fixed arguments disappear from the definition and are sent with every get. Arguments with a
	// default become optional; the default is sent if the client does not send the argument. Both
	// are sorted by name.
	Fixed, Defaults []ArgumentOverride
	Place           Place
}

// ArgumentOverride is the fixed or the default value of an argument, as JSON.
type ArgumentOverride struct {
	Name  string
	Value jsontext.Value
}

// Redefines reports whether the block changes more than the name.
func (o *Override) Redefines() bool {
	return o.Title != nil || o.Description != nil || len(o.Fixed)+len(o.Defaults) > 0
}

func overrideSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"name", "title", "description", "arguments", "defaults"}}
}

// overrides are all prompt blocks, to be checked once all prefixes are known.
type overrides []placedOverride

// placedOverride is a prompt block with what its check needs.
type placedOverride struct {
	team            string
	override        Override
	labelAt, nameAt hcl.Range
}

func (all *overrides) decode(b *hclread.Block, team string) Override {
	o := Override{Prompt: b.Label(), Place: placeOf(b.Range())}
	if b.Labelled() {
		b.Unique("prompt block", o.Prompt, b.LabelRange())
	}
	hclread.Set(b, "name", &o.Name, hclread.Checked(checkExposed))
	o.Title, o.Description = optionalText(b, "title"), optionalText(b, "description")
	o.Fixed, o.Defaults = decodeArguments(b, "arguments"), decodeArguments(b, "defaults")
	for _, argument := range o.Defaults {
		if slices.ContainsFunc(o.Fixed, func(f ArgumentOverride) bool { return f.Name == argument.Name }) {
			b.Error(b.ValueRange("defaults"), "Fixed and default argument", "%q is in "+
				"arguments, which fixes it for everyone, so a default has no effect; remove it "+
				"from one of the two.", argument.Name)
		}
	}
	if b.IsEmpty() {
		b.Error(b.Range(), "Nothing to change", "A prompt block without attributes has no "+
			"effect; write name, title, description, arguments or defaults.")
	}
	if o.Name != "" {
		b.Unique("exposed name", o.Name, b.ValueRange("name"))
	}
	*all = append(*all, placedOverride{team, o, b.LabelRange(), b.ValueRange("name")})
	return o
}

// checkExposed bounds a name that clients see.
func checkExposed(s string) error {
	if s == "" || len(s) > maxExposed || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("is not a name; use 1 to %d bytes without control characters", maxExposed)
	}
	return checkCharacters(s)
}

// optionalText decodes a text that may be set to nothing.
func optionalText(b *hclread.Block, name string) *string {
	var s string
	if !hclread.Set(b, name, &s, hclread.AnyText) { // nil keeps the text, "" removes it
		return nil
	}
	return &s
}

// decodeArguments decodes a map of arguments, each of which may have any value.
func decodeArguments(b *hclread.Block, name string) (arguments []ArgumentOverride) {
	for key, value := range hclread.Object(b, name) {
		encoded, err := encodeArgument(value)
		if err != nil {
			b.Error(b.ValueRange(name), "Invalid "+name, "%q %s.", key, err)
			continue
		}
		arguments = append(arguments, ArgumentOverride{key, encoded})
	}
	slices.SortFunc(arguments, func(a, b ArgumentOverride) int { return strings.Compare(a.Name, b.Name) })
	return arguments
}

// encodeArgument keeps the type of a value: a client may not have to send strings only.
func encodeArgument(v cty.Value) (jsontext.Value, error) {
	if v.IsNull() {
		return nil, errors.New("is null; remove it or give it a value")
	}
	if v.Type() == cty.Number && isHuge(v) { // JSON would have all its digits
		return nil, errors.New("is out of range; write a smaller number")
	}
	return ctyjson.Marshal(v, v.Type())
}

// check reports prompt blocks for prompts of other teams.
func (all overrides) check(r *hclread.Reader, names namespace, a allowed) {
	// A prefix may be declared in the file that does not parse.
	if names.separator == "" || r.Broken() {
		return
	}
	shapes := names.shapes()
	for _, o := range all {
		prompt, name := o.override.Prompt, o.override.Name
		owner, isOwned := names.owner(prompt)
		switch {
		case prompt == "": // the missing label was reported
		case !isOwned:
			r.Error(o.labelAt, "No such prompt", "%q does not begin with the prefix of any "+
				"upstream; write the name as clients see it, which begins with %s.", prompt, names.startsOf(o.team))
		case owner.team != o.team:
			r.Error(o.labelAt, "Prompt of another team", "%q has a prefix of team %q (%s); a "+
				"team can change its own prompts only.", prompt, owner.team, placeOf(owner.at))
		}
		if name != "" {
			if err, ok := errors.AsType[*hclread.DiagnosticError](a.team(o.team).allowPrefix(names.prefixOf(name))); ok {
				r.Error(o.nameAt, err.Summary, "%s", err.Detail)
				continue
			}
		}
		if others := names.lookalikes(shapes, name, o.team); len(others) > 0 {
			r.Error(o.nameAt, "Name looks like another team's", "People cannot tell the "+
				"beginning of %+q from %+q, a prefix of team %q (%s); choose another name.",
				name, others[0], names.owners[others[0]].team, placeOf(names.owners[others[0]].at))
			continue
		}
		if owner, isOwned := names.owner(name); name != "" && isOwned && owner.team != o.team {
			r.Warning(o.nameAt, "Name in another team's prefix", "%q has a prefix of team %q "+
				"(%s), so the prompt will be left out; choose another name.", name, owner.team, placeOf(owner.at))
		}
	}
}
