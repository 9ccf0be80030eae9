package hclread

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
	"go.mau.fi/util/exslices"
)

// Set decodes a string attribute into dst. If the attribute is absent or wrong, dst keeps its default. The
// error of parse continues a sentence that begins with the value. Set reports whether it set dst.
func Set[T any](b *Block, name string, dst *T, parse func(string) (T, error)) bool {
	t, ok := b.Text(name)
	if !ok || t.Unset { // warnUnset reports an unset variable
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

// Checked makes a parse function for [Set] and [List] that returns the text unchanged if check accepts it.
func Checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// AnyText is the parse function that accepts every text.
func AnyText(s string) (string, error) { return s, nil }

// OneOf makes a parse function that accepts only the given words. Its error suggests the nearest word.
func OneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		texts := exslices.CastFunc(words, func(w T) string { return string(w) })
		return "", fmt.Errorf("is not one of: %s%s", strings.Join(texts, ", "), Suggest(s, texts))
	}
}

// Int decodes a whole number from 1 to maximum.
func Int(b *Block, name string, maximum int, dst *int) {
	number(b, name, "a whole number", 1, maximum, dst)
}

func number[T int | float64](b *Block, name, kind string, least, most T, dst *T) {
	v, ok := eval(b, name, cty.Number)
	if !ok {
		return
	}
	var n T
	// For an int, the conversion fails for a fraction or an overflow.
	if err := gocty.FromCtyValue(v, &n); err != nil || n < least || n > most {
		decimal := func(n T) string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must be %s from %s to %s.", name, kind, decimal(least), decimal(most))
		return
	}
	*dst = n
}

// Text returns the value of a string attribute. ok is false if the attribute is absent, null or
// wrong. A wrong value was reported.
func (b *Block) Text(name string) (t Text, ok bool) {
	v, ok := eval(b, name, cty.String)
	if !ok {
		return Text{}, false
	}
	return newText(v, b.ValueRange(name), b.schema.isSecret(name)), true
}

// ReadFile returns the content of the file in an attribute, and the path as written. The path is relative to
// the folder of the block's file. The block's [Access] must allow it.
func (b *Block) ReadFile(name string) (content string, path Text, ok bool) {
	path, ok = b.Text(name)
	if !ok || path.Unset {
		return "", path, false
	}
	if strings.Contains(path.Value, PEMStart) {
		b.hide(path.At)
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

// List decodes each element of a list of strings with parse, as [Set] does. It reports wrong elements and leaves
// them out.
func List[T any](b *Block, name string, parse func(string) (T, error)) []T {
	var values []T
	for _, t := range b.Texts(name) {
		if t.Unset {
			continue
		}
		value, err := parse(t.Value)
		if err != nil {
			b.Invalid(name, t, err)
			continue
		}
		values = append(values, value)
	}
	return values
}

// Texts returns the elements of a list of strings, each with its own range if the list is written
// out.
func (b *Block) Texts(name string) []Text {
	v, ok := eval(b, name, cty.List(cty.String))
	if !ok {
		return nil
	}
	v, marks := v.Unmark() // a mark on the list covers all elements
	if !v.IsKnown() {
		return []Text{{At: b.ValueRange(name), Sensitive: true, Unset: true}}
	}
	var texts []Text
	for i, e := range v.AsValueSlice() {
		at := b.ElementRange(name, i)
		if e.IsNull() {
			b.Error(at, "Invalid "+name, "An element is null; remove it or write a string.")
			continue
		}
		texts = append(texts, newText(e, at, b.schema.isSecret(name) || len(marks) > 0))
	}
	return texts
}

// SecretMap decodes a map of strings. Two keys are duplicates if the function same returns the same text for
// both. The error of parse continues a sentence that begins with the key, and must not quote the value.
func SecretMap[T any](
	b *Block, name string, same func(key string) string, parse func(key, value string) (T, error),
) map[string]T {
	v, ok := eval(b, name, cty.Map(cty.String))
	if !ok {
		return nil
	}
	written := writtenKeys(b, name)
	if v.IsMarked() { // a mark on the map, for example from jsondecode(file("…")), covers its keys
		b.Error(b.ValueRange(name), "Sensitive "+name,
			"The names in %s are logged; write them out and take only the values from env or file.", name)
		return nil
	}
	if !v.IsKnown() {
		return nil
	}
	entries := v.AsValueMap()
	values, seen := map[string]T{}, map[string]string{} // seen maps results of the function same to keys
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		at := cmp.Or(written[key], b.ValueRange(name))
		if first, isDuplicate := seen[same(key)]; isDuplicate {
			duplicateKey(b, at, name, key, first)
		}
		seen[same(key)] = key
		if e.IsNull() {
			b.Error(at, "Invalid "+name, "%q is null; remove it or give it a value.", key)
			continue
		}
		t := newText(e, at, true)
		value, err := parse(key, t.Value)
		if err != nil && !t.Unset {
			b.Error(at, "Invalid "+name, "%q %s.", key, err)
			continue
		}
		values[key] = value
	}
	return values
}

// SameKey makes [SecretMap] treat only equal keys as duplicates.
func SameKey(key string) string { return key }

// Object returns the entries of a map with values of any type. For an empty map or
// another type, it reports an error and returns nil.
func Object(b *Block, name string) map[string]cty.Value {
	v, ok := eval(b, name, cty.DynamicPseudoType)
	if !ok {
		return nil
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() || v.LengthInt() == 0 {
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must have a value for each argument: write %s = { NAME = \"…\" }.", name, name)
		return nil
	}
	writtenKeys(b, name)
	return v.AsValueMap()
}

// writtenKeys returns the ranges of the entries of a map that is written out, by key. It reports duplicates, for
// which HCL would silently use the last value.
func writtenKeys(b *Block, name string) map[string]hcl.Range {
	ranges := map[string]hcl.Range{}
	object, ok := b.hcl.Body.Attributes[name].Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return ranges
	}
	for _, item := range object.Items {
		key, isWritten := Literal(item.KeyExpr)
		if !isWritten {
			continue
		}
		at := hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
		if _, isDuplicate := ranges[key]; isDuplicate {
			duplicateKey(b, at, name, key, key)
		}
		ranges[key] = at
	}
	return ranges
}

func duplicateKey(b *Block, at hcl.Range, name, key, first string) {
	b.Error(at, "Duplicate name in "+name, "%q is already in the map, as %q; remove one of the two.", key, first)
}
