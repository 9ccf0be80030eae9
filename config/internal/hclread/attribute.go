package hclread

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Set decodes a string attribute into dst, which keeps its default if the attribute is absent or wrong. The error of parse
// continues a sentence that begins with the value. Set reports whether dst holds what is written.
func Set[T any](b *Block, name string, dst *T, parse func(string) (T, error)) bool {
	t, ok := b.Text(name)
	if !ok || t.Unset { // of an unset variable, only the warning is due
		return false
	}
	parsed, err := parse(t.Value)
	if err != nil {
		b.Invalid(name, t, err)
		return false
	}
	*dst = parsed
	return true
}

// Checked makes a parse function for [Set] and [List] out of a check.
func Checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// AnyText is the parse function for what may be any text.
func AnyText(s string) (string, error) { return s, nil }

// OneOf makes a parse function that accepts some words only.
func OneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		return "", fmt.Errorf("is not one of: %s%s", strings.Join(known, ", "), Suggest(s, known))
	}
}

// Bool decodes an attribute that is true or false.
func Bool(b *Block, name string, dst *bool) {
	if v, ok := eval(b, name, cty.Bool); ok {
		*dst = v.True()
	}
}

// Int decodes a whole number from 1 to most.
func Int(b *Block, name string, most int, dst *int) {
	v, ok := eval(b, name, cty.Number)
	if !ok {
		return
	}
	var n int
	if err := gocty.FromCtyValue(v, &n); err != nil || n < 1 || n > most { // an error is a fraction, or too large for an int
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must be a whole number from 1 to %d.", name, most)
		return
	}
	*dst = n
}

// Float decodes a number within bounds.
func Float(b *Block, name string, least, most float64, dst *float64) {
	v, ok := eval(b, name, cty.Number)
	if !ok {
		return
	}
	var n float64
	if err := gocty.FromCtyValue(v, &n); err != nil || n < least || n > most {
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must be a number from %s to %s.", name, decimal(least), decimal(most))
		return
	}
	*dst = n
}

// decimal writes a number without an exponent.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Text returns the value of a string attribute. It is not ok if the attribute is absent, null or wrong; a wrong one was
// reported.
func (b *Block) Text(name string) (t Text, ok bool) {
	v, ok := eval(b, name, cty.String)
	if !ok {
		return Text{}, false
	}
	t = newText(v, b.ValueRange(name), b.schema.isSecret(name))
	b.remember(t)
	return t, true
}

// ReadFile returns the content of the file that an attribute names, and the path as it is written. The path is relative to
// the folder of the block's file, and the block's [Access] must allow it.
func (b *Block) ReadFile(name string) (content string, path Text, ok bool) {
	path, ok = b.Text(name)
	if !ok || path.Unset {
		return "", path, false
	}
	if strings.Contains(path.Value, PEMStart) {
		b.mask(path.At)
		path.Sensitive = true
		b.Invalid(name, path, errPEM)
		return "", path, false
	}
	content, err := b.scope.read(path)
	if err != nil {
		b.Invalid(name, path, err)
		return "", path, false
	}
	return content, path, true
}
