package config

import (
	"errors"
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

// problem is an error that brings its own summary; others get that of the attribute they are about.
type problem struct{ summary, detail string }

func (p *problem) Error() string { return p.detail }

// use says where a value goes, and so whether it may come from env and file.
type use int

const (
	shown  use = iota // it may be logged, so it may not
	public            // it may, because deployments need that, but diagnostics do not show it
	secret            // it is kept as a secret wherever it comes from
)

// fields reads one block.
type fields struct {
	*loader
	block *hclsyntax.Block
	scope *scope
}

// open returns the reader of a block at the top level. In a team block, env and file give what the team was
// granted.
func (l *loader) open(b *hclsyntax.Block) fields {
	var g *grants
	if b.Type == "team" && len(b.Labels) > 0 {
		g = l.grantsOf(b.Labels[0])
	}
	return fields{l, b, l.newScope(b.DefRange(), g)}
}

// inner returns the readers of the nested blocks of a type. Those with the wrong labels are among them, since
// there may be more mistakes in them.
func (f fields) inner(blockType string) []fields {
	var inner []fields
	for _, b := range f.block.Body.Blocks {
		if b.Type == blockType {
			inner = append(inner, fields{f.loader, b, f.scope})
		}
	}
	return inner
}

// labelled reports whether there is a label; that it is missing was reported.
func (f fields) labelled() bool { return len(f.block.Labels) > 0 }

func (f fields) label() string {
	if !f.labelled() {
		return ""
	}
	return f.block.Labels[0]
}

func (f fields) labelRange() hcl.Range {
	if !f.labelled() {
		return f.block.DefRange()
	}
	return f.block.LabelRanges[0]
}

func (f fields) place() Place         { return placeOf(f.block.DefRange()) }
func (f fields) has(name string) bool { return f.block.Body.Attributes[name] != nil }

// at is where an attribute's value stands, or the block's header when it is absent.
func (f fields) at(name string) hcl.Range {
	if attr := f.block.Body.Attributes[name]; attr != nil {
		return attr.Expr.Range()
	}
	return f.block.DefRange()
}

// text is one string of the configuration.
type text struct {
	value string
	at    hcl.Range
	// sensitive says that no message may show the value.
	sensitive bool
	// unset says that it depends on an unset variable: the value is empty and not to be checked.
	unset bool
}

func newText(v cty.Value, at hcl.Range, sensitive bool) text {
	v, marks := v.Unmark()
	t := text{at: at, sensitive: sensitive || len(marks) > 0}
	if !v.IsKnown() {
		t.unset = true
		return t
	}
	t.value = v.AsString()
	return t
}

// String is the value for a message.
func (t text) String() string {
	if t.sensitive {
		return masked
	}
	return strconv.Quote(t.value)
}

// invalid reports what is wrong with the value of an attribute.
func (f fields) invalid(name string, t text, err error) {
	if p, ok := errors.AsType[*problem](err); ok {
		f.error(t.at, p.summary, "%s", p.detail)
		return
	}
	f.error(t.at, "Invalid "+name, "%s %s", f.withoutPassword(t), sentence(err))
}

// withoutPassword returns a text as it may be shown: a URL with credentials in it may not.
func (f fields) withoutPassword(t text) text {
	if strings.Contains(t.value, "@") && strings.Contains(t.value, "//") {
		t.sensitive = true
		f.mask(t.at)
	}
	return t
}

// sentence ends what an error says, unless suggest did.
func sentence(err error) string {
	if text := err.Error(); strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return err.Error() + "."
}

// string returns the value of a string attribute; see eval for ok.
func (f fields) string(name string, u use) (t text, ok bool) {
	v, ok := f.eval(name, u, cty.String)
	if !ok {
		return text{}, false
	}
	return newText(v, f.at(name), u == secret), true
}

// field sets dst from a string attribute if it is there. The error of parse continues a sentence that
// starts with the value. It reports whether dst holds what was written.
func field[T any](f fields, name string, u use, dst *T, parse func(string) (T, error)) bool {
	t, ok := f.string(name, u)
	if !ok || t.unset {
		return false
	}
	parsed, err := parse(t.value)
	if err != nil {
		f.invalid(name, t, err)
		return false
	}
	*dst = parsed
	return true
}

// checked makes a parse function for [field] and [list] out of a check.
func checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// anything is the check of what may be any text.
func anything(string) error { return nil }

// oneOf makes a parse function that takes one of some words.
func oneOf[T ~string](words []T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		return "", fmt.Errorf("is not one of: %s%s", strings.Join(known, ", "), suggest(s, known))
	}
}

// flag sets dst from an attribute that is true or false.
func (f fields) flag(name string, dst *bool) {
	if v, ok := f.eval(name, shown, cty.Bool); ok {
		*dst = v.True()
	}
}

// count sets dst from a whole number within bounds.
func (f fields) count(name string, most int, dst *int) {
	v, ok := f.eval(name, shown, cty.Number)
	if !ok {
		return
	}
	var n int
	if err := gocty.FromCtyValue(v, &n); err != nil || n < 1 || n > most {
		f.error(f.at(name), "Invalid "+name, "%s must be a whole number from 1 to %d.", name, most)
		return
	}
	*dst = n
}

// number sets dst from a number within bounds.
func (f fields) number(name string, least, most float64, dst *float64) {
	v, ok := f.eval(name, shown, cty.Number)
	if !ok {
		return
	}
	var n float64
	if err := gocty.FromCtyValue(v, &n); err != nil || n < least || n > most {
		f.error(f.at(name), "Invalid "+name, "%s must be a number from %s to %s.", name, decimal(least), decimal(most))
		return
	}
	*dst = n
}

// decimal writes a number as people do, without an exponent.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// texts returns the elements of a list of strings, each with its own place where it is written out.
func (f fields) texts(name string, u use) []text {
	v, ok := f.eval(name, u, cty.List(cty.String))
	if !ok {
		return nil
	}
	v, marks := v.Unmark()
	if !v.IsKnown() {
		return []text{{at: f.at(name), sensitive: true, unset: true}}
	}
	var texts []text
	for i, e := range v.AsValueSlice() {
		at := f.elementRange(name, i)
		if e.IsNull() {
			f.error(at, "Invalid "+name, "An element is null; remove it or write a string.")
			continue
		}
		texts = append(texts, newText(e, at, u == secret || len(marks) > 0))
	}
	return texts
}

func (f fields) elementRange(name string, i int) hcl.Range {
	if tuple, ok := f.block.Body.Attributes[name].Expr.(*hclsyntax.TupleConsExpr); ok && i < len(tuple.Exprs) {
		return tuple.Exprs[i].Range()
	}
	return f.at(name)
}

// list parses each element of a list of strings; see field for parse.
func list[T any](f fields, name string, u use, parse func(string) (T, error)) []T {
	var values []T
	for _, t := range f.texts(name, u) {
		if t.unset {
			continue
		}
		value, err := parse(t.value)
		if err != nil {
			f.invalid(name, t, err)
			continue
		}
		values = append(values, value)
	}
	return values
}

// required is a list that must have an element.
func required[T any](f fields, name string, parse func(string) (T, error)) []T {
	before := len(f.diags)
	values := list(f, name, shown, parse)
	if len(values) == 0 && len(f.diags) == before && (f.has(name) || f.lacks(name)) {
		f.error(f.at(name), "Missing "+name, "A block %q without %s has no effect; write %s = [\"…\"].", f.block.Type, name, name)
	}
	return values
}

// secrets reads a map whose values are kept secret. The error of check continues a sentence about the entry.
func (f fields) secrets(name string, check func(key, value string) error) map[string]Secret {
	v, ok := f.eval(name, secret, cty.Map(cty.String))
	if !ok {
		return nil
	}
	f.checkWrittenKeys(name)
	if v.IsMarked() {
		f.error(f.at(name), "Sensitive "+name, "The names in %s would be shown in logs; write them out and take only the values from env or file.", name)
		return nil
	}
	if !v.IsKnown() {
		return nil
	}
	entries, places := v.AsValueMap(), map[string]hcl.Range{}
	f.writtenKeys(name, func(key string, at hcl.Range) { places[key] = at })
	f.checkComputedKeys(name, slices.Sorted(maps.Keys(entries)), places)
	values := map[string]Secret{}
	for key, e := range entries {
		at, ok := places[key]
		if !ok {
			at = f.at(name)
		}
		f.secretEntry(name, key, e, at, check, values)
	}
	return values
}

func (f fields) secretEntry(name, key string, v cty.Value, at hcl.Range, check func(key, value string) error, values map[string]Secret) {
	if v.IsNull() {
		f.error(at, "Invalid "+name, "%q is null; remove it or give it a value.", key)
		return
	}
	t := newText(v, at, true)
	err := check(key, t.value)
	if err != nil && !t.unset {
		f.error(at, "Invalid "+name, "%q %s.", key, err)
		return
	}
	values[key] = NewSecret(t.value)
}

// writtenKeys calls visit for the entries of an attribute that is written out as an object.
func (f fields) writtenKeys(name string, visit func(key string, at hcl.Range)) {
	object, ok := f.block.Body.Attributes[name].Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return
	}
	for _, item := range object.Items {
		if key, diags := item.KeyExpr.Value(nil); !diags.HasErrors() && key.Type() == cty.String && key.IsKnown() && !key.IsNull() {
			visit(key.AsString(), hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()))
		}
	}
}

// checkWrittenKeys reports names that stand twice; HCL alone would silently take the last.
func (f fields) checkWrittenKeys(name string) {
	seen := map[string]bool{}
	f.writtenKeys(name, func(key string, at hcl.Range) {
		if seen[folded(name, key)] {
			f.error(at, "Duplicate name in "+name, "%q stands here twice; remove one.", key)
		}
		seen[folded(name, key)] = true
	})
}

// checkComputedKeys reports names of the finished map that only differ in case, as merge() can give where one
// map has Authorization and the other authorization. Those at places are written out and were checked.
func (f fields) checkComputedKeys(name string, keys []string, places map[string]hcl.Range) {
	seen := map[string]string{}
	for key := range places {
		seen[folded(name, key)] = key
	}
	for _, key := range keys {
		if _, written := places[key]; written {
			continue
		}
		if first, ok := seen[folded(name, key)]; ok {
			f.error(f.at(name), "Duplicate name in "+name, "%q stands here already, as %q; remove one.", key, first)
			continue
		}
		seen[folded(name, key)] = key
	}
}

// folded is what two names in a map have in common when they are one: the case of headers means nothing.
func folded(name, key string) string {
	if name == "headers" {
		return strings.ToLower(key)
	}
	return key
}
