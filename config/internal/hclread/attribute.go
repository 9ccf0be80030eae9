package hclread

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Set decodes a string attribute into dst, which keeps its default if the attribute is absent or
// wrong. The error of parse continues a sentence that begins with the value. Set reports whether
// dst holds what is written.
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
func Int(b *Block, name string, most int, dst *int) { number(b, name, "a whole number", 1, most, dst) }

// Float decodes a number within bounds.
func Float(b *Block, name string, least, most float64, dst *float64) {
	number(b, name, "a number", least, most, dst)
}

func number[T int | float64](b *Block, name, kind string, least, most T, dst *T) {
	v, ok := eval(b, name, cty.Number)
	if !ok {
		return
	}
	var n T
	// For an int, an error is a fraction, or too large for it.
	if err := gocty.FromCtyValue(v, &n); err != nil || n < least || n > most {
		decimal := func(n T) string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must be %s from %s to "+
			"%s.", name, kind, decimal(least), decimal(most))
		return
	}
	*dst = n
}

// Text returns the value of a string attribute. It is not ok if the attribute is absent, null or
// wrong; a wrong one was reported.
func (b *Block) Text(name string) (t Text, ok bool) {
	v, ok := eval(b, name, cty.String)
	if !ok {
		return Text{}, false
	}
	return newText(v, b.ValueRange(name), b.schema.isSecret(name)), true
}

// ReadFile returns the content of the file that an attribute names, and the path as it is written.
// The path is relative to the folder of the block's file, and the block's [Access] must allow it.
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

// List decodes each element of a list of strings; see [Set] for parse. Elements that are wrong are
// reported and left out.
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

// RequiredList is [List] for an attribute without which the block has no effect.
func RequiredList[T any](b *Block, name string, parse func(string) (T, error)) []T {
	before := b.Reported()
	values := List(b, name, parse)
	if len(values) == 0 && b.Reported() == before && (b.Has(name) || b.Lacks(name)) {
		b.Error(b.ValueRange(name), "Missing "+name, "The %s block has no effect without %s; "+
			"write %s = [\"…\"].", b.Type(), name, name)
	}
	return values
}

// NonEmptyList is [List] for an attribute that may be absent, but not empty: the detail says why.
func NonEmptyList[T any](b *Block, name string, parse func(string) (T, error), detail string) []T {
	before := b.Reported()
	values := List(b, name, parse)
	if len(values) == 0 && b.Has(name) && b.Reported() == before {
		b.Error(b.ValueRange(name), "Invalid "+name, "%s", detail)
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

// SecretMap decodes a map of strings, whose keys are the same if same returns the same text for
// them; nil stands for those that are equal. The error of check continues a sentence that begins
// with the key, and must not show the value.
func SecretMap(
	b *Block, name string, same func(key string) string, check func(key, value string) error,
) map[string]string {
	v, ok := eval(b, name, cty.Map(cty.String))
	if !ok {
		return nil
	}
	written := checkWrittenKeys(b, name, same)
	if v.IsMarked() { // a mark on the map, as jsondecode(file("…")) leaves it, covers its keys
		b.Error(b.ValueRange(name), "Sensitive "+name, "The names in %s are logged; write them "+
			"out and take only the values from env or file.", name)
		return nil
	}
	if !v.IsKnown() {
		return nil
	}
	entries := v.AsValueMap()
	values := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e, at := entries[key], written.add(b, name, key, b.ValueRange(name))
		if e.IsNull() {
			b.Error(at, "Invalid "+name, "%q is null; remove it or give it a value.", key)
			continue
		}
		t := newText(e, at, true)
		if err := check(key, t.Value); err != nil && !t.Unset {
			b.Error(at, "Invalid "+name, "%q %s.", key, err)
			continue
		}
		values[key] = t.Value
	}
	return values
}

// Object returns the entries of a map whose values may be of any type.
func Object(b *Block, name string) map[string]cty.Value {
	v, ok := eval(b, name, cty.DynamicPseudoType)
	if !ok {
		return nil
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() || v.LengthInt() == 0 {
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must have a value for each argument: "+
			"write %s = { NAME = \"…\" }.", name, name)
		return nil
	}
	checkWrittenKeys(b, name, nil)
	return v.AsValueMap()
}

// keyRanges knows where the keys of a map stand.
type keyRanges struct {
	same   func(key string) string
	ranges map[string]hcl.Range
	seen   map[string]string // keys as they are written, by what is the same for the same ones
}

// add returns where a key stands, and reports one that is the same as another: HCL alone would
// silently take the last one, and merge() takes both if one map has Authorization and the other
// authorization.
func (k keyRanges) add(b *Block, name, key string, at hcl.Range) hcl.Range {
	if written, isKnown := k.ranges[key]; isKnown && at == b.ValueRange(name) {
		return written
	}
	same := key
	if k.same != nil {
		same = k.same(key)
	}
	if first, ok := k.seen[same]; ok {
		b.Error(at, "Duplicate name in "+name, "%q is already in the map, as %q; remove one of the two.", key, first)
	}
	k.seen[same], k.ranges[key] = key, at
	return at
}

// checkWrittenKeys adds the keys of a map that is written out.
func checkWrittenKeys(b *Block, name string, same func(key string) string) keyRanges {
	written := keyRanges{same, map[string]hcl.Range{}, map[string]string{}}
	object, ok := b.hcl.Body.Attributes[name].Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return written
	}
	for _, item := range object.Items {
		k, diags := item.KeyExpr.Value(nil)
		if !diags.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsNull() {
			written.add(b, name, k.AsString(), hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()))
		}
	}
	return written
}
