package files

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxResult bounds the result of one get, in bytes: an image of maxMedia as base64, and a text
	// of maxText.
	maxResult = 16 << 20
	// maxCompletions bounds the values of one completion (CompleteResult in the schema).
	maxCompletions = 100
)

// Prompt is one file's prompt. It is immutable.
type Prompt struct {
	// Path is the file's path from the root, with slashes.
	Path string
	Name string
	// Definition is the element of a list.
	Definition jsontext.Value
	// Text is a hash of the messages that a get returns, whatever its arguments are.
	Text string

	arguments []argument
	sign      sign
	// body is a hash of the file's text without front matter. It is equal for the files that a project
	// has for several clients.
	body [sha256.Size]byte
	// isLine means that the one argument is a whole command line.
	isLine   bool
	segments []segment
	media    []*media // those in segments
	// fixed is the length of all segments' JSON, in bytes.
	fixed int
}

// argument is what rendering and completing need of an argument's declaration.
type argument struct {
	name     string
	required bool
	// fallback is the default, as the content of a JSON string.
	fallback []byte
	values   []string
}

// segment is a piece of the result's JSON, and the gap that follows it within a JSON string; the
// last has none.
type segment struct {
	json []byte
	gap  gap
}

// gap is where the value of an argument goes or, where word is not 0, a part of the command line that
// all arguments make up. The zero gap is none.
type gap struct {
	argument, word int16
	isSet          bool
	// takesRest means that the words after it go there as well.
	takesRest bool
	// missing takes the place of a word that is not given, and stands before a [restOfLine] or
	// [behindText].
	missing string
}

// What a gap's word says. Above 0, it is the number of a word, counted from 1.
const (
	// allWords is the command line.
	allWords = -1
	// restOfLine is the command line where no other gap has got anything of it.
	restOfLine = -2
	// behindText is the value of an argument that follows the text, if it is given.
	behindText = -3
)

// Render returns the result of a get. Arguments that the prompt does not declare are ignored, as
// they have no place in the text. The error is a [*wire.Error].
func (p *Prompt) Render(arguments wire.Object) (jsontext.Value, error) {
	values := make([][]byte, len(p.arguments))
	for i := range p.arguments {
		a := &p.arguments[i]
		value := arguments.Get(a.name)
		if value == nil && a.required {
			return nil, wire.NewError(wire.InvalidParams, "Missing required argument: "+a.name)
		}
		values[i] = a.content(value)
	}
	var l *line
	value := func(g gap) []byte {
		switch {
		case !g.isSet:
			return nil
		case g.word == behindText && len(values[g.argument]) > 0:
			return append(content(g.missing), values[g.argument]...)
		case g.word == 0 || g.word == behindText:
			return values[g.argument]
		case l == nil:
			l = p.line(values)
		}
		return l.fill(g)
	}
	size := p.fixed
	for _, s := range p.segments {
		// checked as it grows, since many gaps may overflow it
		if size += len(value(s.gap)); size > maxResult {
			return nil, wire.NewError(wire.InvalidParams, "The arguments are too long: the prompt would be larger than "+
				strconv.Itoa(maxResult)+" bytes")
		}
	}
	result := make([]byte, 0, size)
	for _, s := range p.segments {
		result = append(append(result, s.json...), value(s.gap)...)
	}
	return result, nil
}

// content returns a value as the content of a JSON string: a text as it was sent, another value as
// its JSON, and the default in the place of none.
func (a *argument) content(value jsontext.Value) []byte {
	switch {
	case value == nil:
		return a.fallback
	case value.Kind() == '"':
		return value[1 : len(value)-1]
	}
	return content(string(value))
}

// content returns a text as the content of a JSON string.
func content(text string) []byte {
	quoted := wire.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// isTemplate reports whether each value goes into the text as it was sent. A command line in one
// argument is cut into words.
func (p *Prompt) isTemplate() bool {
	return !p.isLine || !slices.ContainsFunc(p.segments, func(s segment) bool { return s.gap.word > 0 })
}

// Sample returns arguments with something in the place of each that is missing and has no default:
// the first of its values, or its name in angle brackets.
func (p *Prompt) Sample(given wire.Object) wire.Object {
	for i := range p.arguments {
		a := &p.arguments[i]
		if given.Get(a.name) != nil || len(a.fallback) > 0 {
			continue
		}
		value := "⟨" + a.name + "⟩"
		if len(a.values) > 0 {
			value = a.values[0]
		}
		given = given.With(a.name, wire.Quote(value))
	}
	return given
}

// Source returns the text of the prompt's file as it is now, which may be newer than the prompt, and
// its path as problems show it.
func (p *Prompt) Source(from *config.Files) (path, text string, err error) {
	path = onDisk(from, p.Path)
	o, err := open(from)
	if err != nil {
		return path, "", err
	}
	defer o.close()
	text, err = o.text(p.Path, p.sign.isForeign())
	return path, strings.ToValidUTF8(text, "\ufffd"), err
}

// Complete returns the result of a completion: the values of an argument that start with a text, in
// any case.
func (p *Prompt) Complete(name, start string) jsontext.Value {
	var matching []jsontext.Value
	for i := range p.arguments {
		if p.arguments[i].name != name {
			continue
		}
		for _, value := range p.arguments[i].values {
			if len(value) >= len(start) && strings.EqualFold(value[:len(start)], start) {
				matching = append(matching, wire.Quote(value))
			}
		}
	}
	shown := matching[:min(len(matching), maxCompletions)]
	completion := wire.Object{}.With("values", wire.Array(shown)).
		With("total", jsontext.Value(strconv.Itoa(len(matching)))).
		With("hasMore", jsontext.Value(strconv.FormatBool(len(shown) < len(matching))))
	return wire.Object{}.With("completion", completion.JSON()).JSON()
}

// same reports whether two prompts are listed, rendered and completed alike.
func (p *Prompt) same(other *Prompt) bool {
	return p.Text == other.Text && p.isLine == other.isLine &&
		string(p.Definition) == string(other.Definition) &&
		slices.EqualFunc(p.arguments, other.arguments, func(a, b argument) bool {
			return a.name == b.name && slices.Equal(a.values, b.values) && string(a.fallback) == string(b.fallback)
		})
}
