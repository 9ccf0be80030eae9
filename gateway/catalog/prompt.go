package catalog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Prompt is a parsed definition of a prompt or skill in an upstream's list. Make it with
// [ParsePrompt] or [ParseDefinition]. The zero value is not a prompt.
type Prompt struct {
	// Name is the upstream's own name.
	Name string
	// Definition is the JSON object as the upstream sent it, on a single line and without optional
	// members that are null.
	Definition jsontext.Value
	// Hash is the hash of the canonical definition (RFC 8785) without its name. It is equal for
	// definitions with the same meaning.
	Hash [sha256.Size]byte
	// Arguments are the declared arguments in the order of the definition.
	Arguments []Argument

	// Exposed is the exposed name that an override gives the prompt. If it is empty, the name is
	// made from the upstream's prefix.
	Exposed string
	// Overrides are the arguments that the gateway adds to a get. It is nil if the gateway adds none.
	Overrides *ArgumentOverrides
	// Skill is nil for a prompt.
	Skill *skills.Skill

	// The name's value is Definition[nameStart:nameEnd].
	nameStart, nameEnd uint32
}

// Argument is the part of an argument's declaration that matters for a get.
type Argument struct {
	Name     string
	Required bool
	// Schema is the JSON Schema of the argument's value as the upstream sent it. It is nil if the
	// argument has no schema, as usual.
	Schema *jsontext.Value
}

// ParsePrompt parses one element of an upstream's prompts/list result, strictly. Members in the
// protocol's schemas must have the right types: one bad definition would make a validating client
// refuse the whole list, including other teams' prompts. An optional member that is null counts as
// absent, because many serializers write it, but no schema allows it. Unknown members may have any
// value. The prompt aliases raw, which must not change afterwards.
func ParsePrompt(raw jsontext.Value) (Prompt, error) {
	// Remove line breaks here, once for all pages and views: stdio separates messages by lines.
	raw = wire.SingleLine(raw)
	object, err := wire.ParseObject(raw)
	if err != nil {
		return Prompt{}, fmt.Errorf("prompt: %w", err)
	}
	name, ok := object.Text("name")
	switch {
	case !ok:
		return Prompt{}, errors.New("prompt: name must be a string")
	case name == "":
		return Prompt{}, errors.New("prompt: name must not be empty")
	}
	if odd := object.Folded("name", "title", "description", "arguments", "icons", "_meta"); odd != "" {
		// A client that ignores case would read this member instead, and its name may belong to
		// another team.
		return Prompt{}, fmt.Errorf("prompt %q: member %q differs from a known member only in case", clip(name), odd)
	}
	object = dropNulls(object)
	arguments, err := checkMembers(object)
	if err != nil {
		return Prompt{}, fmt.Errorf("prompt %q: %w", clip(name), err)
	}
	hash, err := wire.Hash(nameless(object))
	if err != nil {
		return Prompt{}, fmt.Errorf("prompt %q: %w", clip(name), err)
	}
	// start and end are offsets in the output of object.JSON: raw may have white space between
	// members.
	start, end := locateName(object)
	definition := object.JSON()
	if len(definition) == len(raw) { // no white space between members, so one copy is enough
		definition = raw
	}
	return Prompt{
		Name:       name,
		Definition: definition,
		Hash:       hash,
		Arguments:  arguments,
		nameStart:  uint32(start), //nolint:gosec // a definition is much shorter
		nameEnd:    uint32(end),   //nolint:gosec // a definition is much shorter
	}, nil
}

// Nameless returns the definition without its name. [Prompt.Hash] is computed from it. A skill's
// definition includes the uri, which identifies the skill and is approved with it.
func (p *Prompt) Nameless() jsontext.Value { return nameless(wire.Members(p.Definition)) }

func nameless(object wire.Object) jsontext.Value {
	return object.Without(func(name string) bool { return name == "name" }).JSON()
}

// locateName returns the offsets of the name's value in object.JSON().
func locateName(object wire.Object) (start, end int) {
	for i, member := range object {
		if member.Name == "name" {
			end = len(object[:i+1].JSON()) - len("}")
			return end - len(member.Value), end
		}
	}
	return 0, 0
}

// under returns the definition under another name. All other bytes are unchanged.
func (p *Prompt) under(name string) jsontext.Value {
	if name == p.Name {
		return p.Definition
	}
	return slices.Concat(p.Definition[:p.nameStart], wire.Quote(name), p.Definition[p.nameEnd:])
}

// checkMembers checks the known members of a definition against the schema, and returns the
// arguments.
func checkMembers(object wire.Object) (arguments []Argument, err error) {
	for _, member := range object {
		switch member.Name {
		case "title", "description":
			err = mustBe('"', member)
		case "_meta":
			err = mustBe('{', member)
		case "icons":
			err = checkIcons(member)
		case "arguments":
			arguments, err = readArguments(member)
		}
		if err != nil {
			return nil, err
		}
	}
	return arguments, nil
}

func checkIcons(member wire.Member) error {
	icons, err := elements(member)
	if err != nil {
		return err
	}
	for i, icon := range icons {
		if err := checkIcon(icon); err != nil {
			return fmt.Errorf("icons[%d]: %w", i, err)
		}
	}
	return nil
}

func checkIcon(icon wire.Object) error {
	if _, ok := icon.Text("src"); !ok {
		return errors.New("src must be a string")
	}
	for _, member := range icon {
		var err error
		switch member.Name {
		case "mimeType":
			err = mustBe('"', member)
		case "sizes":
			err = mustBeStrings(member)
		case "theme":
			if theme, _ := wire.Text(member.Value); theme != "light" && theme != "dark" {
				err = errors.New(`theme must be "light" or "dark"`)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readArguments(member wire.Member) ([]Argument, error) {
	objects, err := elements(member)
	if err != nil {
		return nil, err
	}
	arguments := make([]Argument, len(objects))
	for i, object := range objects {
		if arguments[i], err = readArgument(object); err != nil {
			return nil, fmt.Errorf("arguments[%d]: %w", i, err)
		}
	}
	return arguments, nil
}

func readArgument(object wire.Object) (Argument, error) {
	name, ok := object.Text("name")
	if !ok {
		return Argument{}, errors.New("name must be a string")
	}
	argument := Argument{Name: name}
	for _, member := range object {
		var err error
		switch member.Name {
		case "title", "description":
			err = mustBe('"', member)
		case "required":
			argument.Required = member.Value.Kind() == 't'
			if !argument.Required {
				err = mustBe('f', member)
			}
		case "schema":
			if member.Value.Kind() != 'n' { // some serializers write null for absent members
				argument.Schema = new(member.Value)
			}
		}
		if err != nil {
			return Argument{}, err
		}
	}
	return argument, nil
}

// elements returns the objects in a member that must be an array of objects.
func elements(member wire.Member) ([]wire.Object, error) {
	if err := mustBe('[', member); err != nil {
		return nil, err
	}
	values, err := wire.ParseArray(member.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member.Name, err)
	}
	objects := make([]wire.Object, len(values))
	for i, value := range values {
		if objects[i], err = wire.ParseObject(value); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", member.Name, i, err)
		}
	}
	return objects, nil
}

func mustBe(want jsontext.Kind, member wire.Member) error {
	if got := member.Value.Kind(); got != want {
		return fmt.Errorf("%s must be %s, not %s", member.Name, noun(want), noun(got))
	}
	return nil
}

func mustBeStrings(member wire.Member) error {
	if err := mustBe('[', member); err != nil {
		return err
	}
	values, err := wire.ParseArray(member.Value)
	for i, value := range values {
		if value.Kind() != '"' {
			return fmt.Errorf("%s[%d] must be a string, not %s", member.Name, i, noun(value.Kind()))
		}
	}
	return err
}

func noun(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case '0':
		return "a number"
	default:
		return kind.String()
	}
}
