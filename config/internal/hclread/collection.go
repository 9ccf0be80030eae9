package hclread

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// List decodes each element of a list of strings; see [Set] for parse. Elements that are wrong are reported and left out.
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
		b.Error(b.ValueRange(name), "Missing "+name, "A block %q without %s has no effect; write %s = [\"…\"].", b.Type(), name, name)
	}
	return values
}

// Texts returns the elements of a list of strings, each with its own place if the list is written out.
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
		t := newText(e, at, b.schema.isSecret(name) || len(marks) > 0)
		b.remember(t)
		texts = append(texts, t)
	}
	return texts
}

// Keys says which keys of a map are the same: those for which it returns the same text. See [ExactKeys] and [FoldedKeys].
type Keys func(key string) string

// SecretMap decodes a map of strings. The error of check continues a sentence that begins with the key, and must not show
// the value.
func SecretMap(b *Block, name string, keys Keys, check func(key, value string) error) map[string]string {
	v, ok := eval(b, name, cty.Map(cty.String))
	if !ok {
		return nil
	}
	places := checkWrittenKeys(b, name, keys)
	if v.IsMarked() { // a mark on the map, as jsondecode(file("…")) leaves it, covers its keys
		b.Error(b.ValueRange(name), "Sensitive "+name, "The names in %s are logged; write them out and take only the values from env or file.", name)
		return nil
	}
	if !v.IsKnown() {
		return nil
	}
	entries := v.AsValueMap()
	checkComputedKeys(b, name, keys, slices.Sorted(maps.Keys(entries)), places)
	values := map[string]string{}
	for key, e := range entries {
		at, ok := places[key]
		if !ok {
			at = b.ValueRange(name)
		}
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
		b.Error(b.ValueRange(name), "Invalid "+name, "%s must have a value for each argument: write %s = { NAME = \"…\" }.", name, name)
		return nil
	}
	checkWrittenKeys(b, name, ExactKeys)
	return v.AsValueMap()
}

// checkWrittenKeys returns where the keys of a map stand that is written out, and reports those that stand twice; HCL alone
// would silently take the last one.
func checkWrittenKeys(b *Block, name string, keys Keys) map[string]hcl.Range {
	object, ok := b.hcl.Body.Attributes[name].Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	places, seen := map[string]hcl.Range{}, map[string]bool{}
	for _, item := range object.Items {
		k, diags := item.KeyExpr.Value(nil)
		if diags.HasErrors() || k.Type() != cty.String || !k.IsKnown() || k.IsNull() {
			continue
		}
		key, at := k.AsString(), hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
		if seen[keys(key)] {
			b.Error(at, "Duplicate name in "+name, "%q is already in the map; remove one of the two.", key)
		}
		places[key], seen[keys(key)] = at, true
	}
	return places
}

// checkComputedKeys reports keys of the finished map that only differ in case, as merge() gives them if one map has
// Authorization and the other authorization. The keys at places are written out and were checked.
func checkComputedKeys(b *Block, name string, keys Keys, all []string, places map[string]hcl.Range) {
	seen := map[string]string{}
	for key := range places {
		seen[keys(key)] = key
	}
	for _, key := range all {
		if _, isWritten := places[key]; isWritten {
			continue
		}
		if first, ok := seen[keys(key)]; ok {
			b.Error(b.ValueRange(name), "Duplicate name in "+name, "%q is already in the map, as %q; remove one of the two.", key, first)
			continue
		}
		seen[keys(key)] = key
	}
}
