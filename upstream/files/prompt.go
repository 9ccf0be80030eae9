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
	// maxResult bounds the result of one get, in bytes. An image of maxMedia as base64, and a text of maxText, fit in it.
	maxResult = 16 << 20
	// maxCompletions bounds the values of one completion (CompleteResult in the schema).
	maxCompletions = 100
)

// Prompt is the prompt of one file. It is immutable.
type Prompt struct {
	// Path is the file's path from the root, with slashes.
	Path string
	Name string
	// Definition is the prompt's element in a prompts/list result.
	Definition jsontext.Value
	// Text is a hash of the messages without the values of arguments, in hexadecimal digits.
	Text string

	arguments []argument
	sign      sign
	// body is a hash of the text without front matter. It is equal for equal files of several clients.
	body [sha256.Size]byte
	// isLine is true if the only argument is the whole command line.
	isLine   bool
	segments []segment
	// fixed is the total length of the segments' JSON, in bytes.
	fixed int
}

// argument is the part of an argument's declaration for rendering and completion.
type argument struct {
	name     string
	required bool
	// fallback is the default, as the content of a JSON string.
	fallback []byte
	values   []string
}

// segment is a piece of the result's JSON, and the gap after the piece. The gap is within a JSON
// string. The last segment has no gap.
type segment struct {
	json []byte
	gap  gap
}

// gap is the place of an argument's value or, if word is not 0, of a part of the command line. The zero value is not a gap.
type gap struct {
	argument, word int16
	isSet          bool
	// takesRest is true if the gap also gets the following words.
	takesRest bool
	// missing replaces a missing word. For [restOfLine] and [behindText], it precedes the value.
	missing string
}

// The special values of gap.word. A value above 0 is the number of a word, counted from 1.
const (
	// allWords stands for the whole command line.
	allWords = -1
	// restOfLine stands for the whole command line, if no other gap has received a part of it.
	restOfLine = -2
	// behindText stands for the value of an argument that follows the text, after missing. Without
	// a value, nothing follows.
	behindText = -3
)

// Render returns the result of a get. It ignores unknown arguments. The error is a [*wire.Error].
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
		// Check the size while it grows, because the values of many gaps may exceed the bound by
		// far.
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

// content returns a value as the content of a JSON string: a string unchanged, another value as its
// JSON, and the default for a missing value.
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

// Sample returns the given arguments, and a value for each missing argument without a default: the
// first of its declared values, or its name in angle brackets.
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

// Source returns the current text of the prompt's file, which may be newer than the prompt, and the file's path for people.
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

// Complete returns the result of a completion: the declared values of an argument that start with
// the given text, ignoring case.
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

// same reports whether two prompts have the same definition, rendering and completions.
func (p *Prompt) same(other *Prompt) bool {
	return p.Text == other.Text && p.isLine == other.isLine &&
		string(p.Definition) == string(other.Definition) &&
		slices.EqualFunc(p.arguments, other.arguments, func(a, b argument) bool {
			return a.name == b.name && slices.Equal(a.values, b.values) && string(a.fallback) == string(b.fallback)
		})
}
