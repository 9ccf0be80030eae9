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

// maxExposed bounds an exposed name, in bytes.
const maxExposed = 256

// Override is a prompt block: a team's changes to the definition of one prompt.
type Override struct {
	Prompt             string  // the exposed name that the prompt would have without the block
	Name               string  // the new exposed name, or empty if the block does not rename the prompt
	Title, Description *string // nil if the block does not change them
	// Fixed and Defaults are sorted by name.
	Fixed, Defaults []ArgumentOverride
	Place           Place
}

// ArgumentOverride is the fixed or the default value of an argument, as JSON.
type ArgumentOverride struct {
	Name  string
	Value jsontext.Value
}

func (o *Override) table() []hclread.Attribute {
	return []hclread.Attribute{
		hclread.Plain("name", hclread.String(&o.Name, hclread.Checked(checkExposed)),
			"The new name, up to 256 bytes. `expose` and `hide` mean this name."),
		hclread.Plain("title", optionalText(&o.Title), "The new title; `\"\"` removes it."),
		hclread.Plain("description", optionalText(&o.Description), "The new description; `\"\"` removes it."),
		hclread.Plain("arguments", argumentMap(&o.Fixed, "arguments"), "Fixed arguments: not in the definition, and sent with every get. Any JSON value."),
		hclread.Plain("defaults", argumentMap(&o.Defaults, "defaults"), "Values for arguments that become optional."),
	}
}

// overrides contains all prompt blocks. Call check after all upstreams have claimed their prefixes.
type overrides []placedOverride

// placedOverride is a prompt block with the ranges for its diagnostics.
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
	b.Decode(o.table())
	for _, argument := range o.Defaults {
		if slices.ContainsFunc(o.Fixed, func(f ArgumentOverride) bool { return f.Name == argument.Name }) {
			b.Error(b.ValueRange("defaults"), "Fixed and default argument",
				"%q is in arguments, which fixes it for everyone, so a default has no effect; remove it "+
					"from one of the two.", argument.Name)
		}
	}
	if b.IsEmpty() {
		b.Error(b.Range(), "Nothing to change",
			"A prompt block without attributes has no effect; write name, title, description, arguments or defaults.")
	}
	if o.Name != "" {
		b.Unique("exposed name", o.Name, b.ValueRange("name"))
	}
	*all = append(*all, placedOverride{team, o, b.LabelRange(), b.ValueRange("name")})
	return o
}

// checkExposed checks the length and the characters of an exposed name.
func checkExposed(s string) error {
	if s == "" || len(s) > maxExposed || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("is not a name; use 1 to %d bytes without control characters", maxExposed)
	}
	return checkCharacters(s)
}

// optionalText returns the field of a text that "" removes. If the attribute is absent, dst stays nil.
func optionalText(dst **string) hclread.Field {
	return hclread.String(dst, func(s string) (*string, error) { return &s, nil })
}

// argumentMap returns the field of a map whose values may have any type.
func argumentMap(dst *[]ArgumentOverride, name string) hclread.Field {
	return hclread.Custom("map", dst, func(b *hclread.Block) {
		for key, value := range hclread.Object(b, name) {
			encoded, err := encodeArgument(value)
			if err != nil {
				b.Error(b.ValueRange(name), "Invalid "+name, "%q %s.", key, err)
				continue
			}
			*dst = append(*dst, ArgumentOverride{key, encoded})
		}
		slices.SortFunc(*dst, func(a, b ArgumentOverride) int { return strings.Compare(a.Name, b.Name) })
	})
}

// encodeArgument returns a value as JSON of its type: arguments may also be numbers, lists or objects.
func encodeArgument(v cty.Value) (jsontext.Value, error) {
	if v.IsNull() {
		return nil, errors.New("is null; remove it or give it a value")
	}
	return ctyjson.Marshal(v, v.Type())
}

// check reports prompt blocks for prompts of other teams, and new names that lack a grant or look like
// another team's.
func (all overrides) check(r *hclread.Reader, names namespace, a allowed) {
	// A file that does not parse may declare the prefix, so report nothing.
	if names.separator == "" || r.Broken() {
		return
	}
	shapes := names.shapes()
	for _, o := range all {
		prompt, name := o.override.Prompt, o.override.Name
		owner, isOwned := names.owner(prompt)
		switch {
		case prompt == "": // a missing label was reported
		case !isOwned:
			r.Error(o.labelAt, "No such prompt", "%q does not begin with the prefix of any "+
				"upstream; write the name as clients see it, which begins with %s.", prompt, names.startsOf(o.team))
		case owner.team != o.team:
			r.Error(o.labelAt, "Prompt of another team",
				"%q has a prefix of team %q (%s); a team can change its own prompts only.", prompt, owner.team, placeOf(owner.at))
		}
		if name != "" {
			if err, ok := errors.AsType[*hclread.DiagnosticError](a.team(o.team).allowPrefix(names.prefixOf(name))); ok {
				r.Error(o.nameAt, err.Summary, "%s", err.Detail)
				continue
			}
		}
		if others := names.lookalikes(shapes, name, o.team); len(others) > 0 {
			r.Error(o.nameAt, "Name looks like another team's",
				"People cannot tell the beginning of %+q from %+q, a prefix of team %q (%s); choose another name.",
				name, others[0], names.owners[others[0]].team, placeOf(names.owners[others[0]].at))
			continue
		}
		if owner, isOwned := names.owner(name); name != "" && isOwned && owner.team != o.team {
			r.Warning(o.nameAt, "Name in another team's prefix", "%q has a prefix of team %q "+
				"(%s), so the prompt will be left out; choose another name.", name, owner.team, placeOf(owner.at))
		}
	}
}
