package catalog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Prompt is one definition as an upstream listed it. Make it with [ParsePrompt]; the zero value is
// not a prompt.
type Prompt struct {
	// Name is the upstream's own.
	Name string
	// Definition is the JSON object as it was sent, on a single line, but for [Prompt.Nulls].
	Definition jsontext.Value
	// Hash is that of the canonical definition (RFC 8785) without its name: equal for two
	// definitions that mean the same.
	Hash [sha256.Size]byte
	// Arguments are those that the definition declares, in its order.
	Arguments []Argument
	// Nulls are the places of optional members that were null as sent, such as
	// "arguments[0].title". Definition and Hash are without them.
	Nulls []string

	// Exposed is the exposed name that an override gives; if it is empty, the name follows from the
	// upstream's prefix.
	Exposed string
	// Overrides are the arguments that the gateway adds to a get; nil without any.
	Overrides *ArgumentOverrides
	// Skill is nil for a prompt.
	Skill *Skill

	// The name's value is Definition[nameStart:nameEnd].
	nameStart, nameEnd uint32
}

// Argument is the part of an argument's declaration that decides what a get may send.
type Argument struct {
	Name     string
	Required bool
	// Schema is the JSON Schema of the argument's value as it was sent; nil where there is none, as
	// nearly everywhere.
	Schema *jsontext.Value
}

// ParsePrompt reads one element of an upstream's prompts/list result, strictly. Members that the
// protocol's schemas define must have the types that the schemas give them: a client that validates
// would refuse the whole list, other teams' prompts included, for one bad definition. For the same
// reason an optional member that is null counts as absent: many serializers write it for a member
// without a value, and no schema allows it. Unknown members may be anything. The prompt aliases
// raw, which must not change afterwards.
func ParsePrompt(raw jsontext.Value) (Prompt, error) {
	// Here, once for all pages and views: stdio frames messages by line.
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
		// A client that ignores case would read this member instead, which might be another team's
		// name.
		return Prompt{}, fmt.Errorf("prompt %q: member %q differs from a known member only in case", clip(name), odd)
	}
	object, nulls := dropNulls(object)
	arguments, err := checkMembers(object)
	if err != nil {
		return Prompt{}, fmt.Errorf("prompt %q: %w", clip(name), err)
	}
	hash, err := hashDefinition(object)
	if err != nil {
		return Prompt{}, fmt.Errorf("prompt %q: %w", clip(name), err)
	}
	// Of what object.JSON writes, not of raw, which may have white space between its members.
	start, end := locateName(object)
	definition := object.JSON()
	if len(definition) == len(raw) { // there was no white space between members, so one copy is enough
		definition = raw
	}
	return Prompt{
		Name:       name,
		Definition: definition,
		Hash:       hash,
		Arguments:  arguments,
		Nulls:      nulls,
		nameStart:  uint32(start), //nolint:gosec // a definition is much shorter
		nameEnd:    uint32(end),   //nolint:gosec // like start
	}, nil
}

// Nameless returns the definition without its name, which is what [Prompt.Hash] is of. That of a
// skill has none: its uri, which names it, is approved with it.
func (p *Prompt) Nameless() jsontext.Value { return nameless(wire.Members(p.Definition)) }

func nameless(object wire.Object) jsontext.Value {
	return object.Without(func(name string) bool { return name == "name" }).JSON()
}

// hashDefinition keeps integers as they are written. RFC 8785 would round those beyond 2⁵³, and two
// definitions that differ only there would have the same hash.
func hashDefinition(object wire.Object) ([sha256.Size]byte, error) {
	canonical := nameless(object)
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(canonical), nil
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

// under returns the definition under another name, with all other bytes as they were.
func (p *Prompt) under(name string) jsontext.Value {
	if name == p.Name {
		return p.Definition
	}
	return slices.Concat(p.Definition[:p.nameStart], wire.Quote(name), p.Definition[p.nameEnd:])
}

// checkMembers checks the known members of a definition against the schema and returns the
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
			if member.Value.Kind() != 'n' { // some serializers write null for an absent member
				argument.Schema = new(member.Value)
			}
		}
		if err != nil {
			return Argument{}, err
		}
	}
	return argument, nil
}

// elements returns the members of each object in an array of objects.
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
