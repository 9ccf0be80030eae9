package hclread

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"go.mau.fi/util/exslices"
)

// Schema describes the contents of a block.
type Schema struct {
	Attributes []Attribute
	Blocks     []BlockSchema
	// Misplaced maps a name to the block or attribute where it belongs. Names of inner blocks need no entry.
	Misplaced map[string]string
	// Foreign maps a name from the configurations of other programs to the remedy, which is a sentence.
	Foreign map[string]string
}

// BlockSchema describes a nested block. Without a label, the block may appear once; with a label,
// any number of times.
type BlockSchema struct {
	Type     string
	Labelled bool
	Meaning  string // a text in Markdown
	Schema
}

// Attribute returns the row of an attribute, or an empty row if there is no such attribute.
func (s Schema) Attribute(name string) Attribute {
	for i := range s.Attributes {
		if s.Attributes[i].Name == name {
			return s.Attributes[i]
		}
	}
	return Attribute{}
}

func (s Schema) has(name string) bool {
	_, isBlock := s.block(name)
	return isBlock || s.hasAttribute(name)
}

func (s Schema) hasAttribute(name string) bool { return s.Attribute(name).Name != "" }
func (s Schema) isSecret(name string) bool     { return s.Attribute(name).Env == secret }

// Names returns the names of all attributes and blocks.
func (s Schema) Names() []string {
	return slices.Concat(
		exslices.CastFunc(s.Attributes, func(a Attribute) string { return a.Name }),
		exslices.CastFunc(s.Blocks, func(b BlockSchema) string { return b.Type }),
	)
}

func (s Schema) block(blockType string) (BlockSchema, bool) {
	i := slices.IndexFunc(s.Blocks, func(b BlockSchema) bool { return b.Type == blockType })
	if i < 0 {
		return BlockSchema{}, false
	}
	return s.Blocks[i], true
}

// inner returns the types of the inner blocks, at any depth, that allow a name.
func (s Schema) inner(name string) []string {
	var types []string
	for _, b := range s.Blocks {
		if b.has(name) && !slices.Contains(types, b.Type) {
			types = append(types, b.Type)
		}
		types = append(types, slices.DeleteFunc(b.inner(name), func(t string) bool { return slices.Contains(types, t) })...)
	}
	return types
}

// attributeNames contains the names of all attributes and blocks. The value is true if the name is
// a secret in any block.
type attributeNames map[string]bool

// collectNames collects the names at all depths: a secret in the wrong block is still a secret.
func (s Schema) collectNames(names attributeNames) {
	for _, name := range s.Names() {
		names[name] = names[name] || s.isSecret(name)
	}
	for _, b := range s.Blocks {
		b.collectNames(names)
	}
}

// guess is the name of an attribute or block that is written in a block, or was probably meant by a
// misspelt name.
type guess struct {
	block *hclsyntax.Block
	name  string
}

// checker reports names that a schema does not allow.
type checker struct{ *Reader }

// block checks the names in a block at all depths.
func (c checker) block(b *hclsyntax.Block, s Schema) {
	c.attributes(b.Body.Attributes, s, b.Type+".")
	c.blocks(b.Body.Blocks, s, b.Type+".")
	for name := range b.Body.Attributes {
		c.guess(b, name, s)
	}
	for _, inner := range b.Body.Blocks {
		c.guess(b, inner.Type, s)
	}
}

// guess records the probable meaning of a name. It compares only unknown names, because comparing
// is slow.
func (c checker) guess(b *hclsyntax.Block, name string, s Schema) {
	if !s.has(name) {
		name = nearest(name, s.Names())
	}
	c.guesses[guess{b, name}] = true
}

func (c checker) attributes(attributes hclsyntax.Attributes, s Schema, prefix string) {
	for name, a := range attributes {
		if s.hasAttribute(name) {
			c.warnForeign(name, a, s)
			continue
		}
		source := a.SrcRange.SliceBytes(c.byPath[a.SrcRange.Filename].Content)
		if c.mayBeSecret(name, s) || hasCredentials(string(source)) {
			c.hide(a.SrcRange)
		}
		c.misplaced(a.NameRange, name, "attribute", prefix, s)
	}
}

// leastMisspelt is the minimum length of a name at which mayBeSecret trusts a comparison. Shorter names may be
// similar by accident, like pat and rate.
const leastMisspelt = 5

// mayBeSecret reports whether an unknown attribute may be a misspelt secret.
func (c checker) mayBeSecret(name string, s Schema) bool {
	var secrets []string
	for other, isSecret := range c.Reader.attributes {
		if isSecret {
			secrets = append(secrets, other)
		}
	}
	return len(name) < leastMisspelt || strings.Contains(name, "key") || nearest(name, secrets) != "" || !s.hasAttribute(nearest(name, s.Names()))
}

func (c checker) blocks(blocks hclsyntax.Blocks, s Schema, prefix string) {
	first := map[string]hcl.Range{}
	for _, b := range blocks {
		at := b.DefRange()
		schema, ok := s.block(b.Type)
		if ok {
			c.block(b, schema.Schema)
		}
		earlier, isDuplicate := first[b.Type]
		switch {
		case !ok:
			c.hide(hcl.Range{Filename: at.Filename, Start: b.OpenBraceRange.End, End: b.CloseBraceRange.Start})
			c.misplaced(at, b.Type, "block", prefix, s)
		case schema.Labelled:
			if len(b.Labels) != 1 {
				c.Error(at, "One label needed", "Write %s \"NAME\" { … }.", b.Type)
			}
		case len(b.Labels) > 0:
			c.Error(at, "Unexpected label", "Write %s { … } without a label.", b.Type)
		case isDuplicate:
			c.Error(at, "Duplicate block", "There is already a %s block at %s; merge the two.", b.Type, location(earlier))
		default:
			first[b.Type] = at
		}
	}
}

// Summaries of diagnostics about unknown and misplaced blocks.
const (
	unknownBlock   = "Unknown block"
	misplacedBlock = "Misplaced block"
)

// misplaced reports a name that is not allowed in its block.
func (c checker) misplaced(at hcl.Range, name, kind, prefix string, s Schema) {
	block, isBlock := s.block(name)
	inner := s.inner(name)
	foreign := s.Foreign[nearest(name, slices.Sorted(maps.Keys(s.Foreign)))]
	switch {
	case s.Misplaced[name] != "":
		c.Error(at, "Misplaced "+kind, "%s belongs in %s; move it there.", name, s.Misplaced[name])
	case s.Foreign[name] != "":
		c.Error(at, "Unknown "+kind, "%s%s does not exist. %s", prefix, name, s.Foreign[name])
	case s.hasAttribute(name):
		c.Error(at, "Unexpected block", "%s is an attribute: write %s = … with an equals sign.", name, name)
	case isBlock:
		header := name
		if block.Labelled {
			header += ` "NAME"`
		}
		c.Error(at, "Unexpected attribute", "%s is a block: write %s { … } without an equals sign.", name, header)
	case len(inner) > 0:
		slices.Sort(inner)
		c.Error(at, "Misplaced "+kind, "%s belongs in the %s block; move it there.", name, OrList(inner))
	case prefix != "" && c.Knows(name):
		file := "a file"
		if c.IsFolder() && name != "team" {
			file += " without team blocks, such as gateway.hcl"
		}
		c.Error(at, "Misplaced "+kind, "%s belongs at the top level of %s; move it there.", name, file)
	case nearest(name, s.Names()) == "" && foreign != "":
		c.Error(at, "Unknown "+kind, "%s%s does not exist. %s", prefix, name, foreign)
	default:
		all := "there are " + strings.Join(slices.Sorted(slices.Values(s.Names())), ", ")
		c.Error(at, "Unknown "+kind, "%s%s does not exist%s", prefix, name, SuggestOr(name, s.Names(), all))
	}
}

// OrList returns alternatives as a list: a, b or c. words must not be empty.
func OrList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Suggest returns the end of a sentence about an unknown name: ". Did you mean …?" with the nearest known name, or "."
// if no known name is near.
func Suggest(name string, known []string) string {
	best := nearest(name, known)
	if best == "" {
		return "."
	}
	return fmt.Sprintf(". Did you mean %q?", best)
}

// SuggestOr is [Suggest], but ends with a remedy if no known name is near.
func SuggestOr(name string, known []string, remedy string) string {
	if nearest(name, known) == "" {
		return "; " + remedy + "."
	}
	return Suggest(name, known)
}

// Sentence returns the text of an error with a period, unless the text ends a sentence, as with [Suggest].
func Sentence(err error) string {
	text := err.Error()
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// nearest returns the known name that was probably meant by name, or "" if there is none.
func nearest(name string, known []string) string {
	best, limit := "", max(1, len(name)/3) // one typo for every three letters
	for _, k := range known {
		// A distance of len(k) means that no letter matches.
		if d := distance(name, k); d <= limit && d < len(k) {
			best, limit = k, d-1 // d-1: among equally near names, the first wins
		}
	}
	return best
}

// distance counts the typos in a name. Two swapped letters are one typo.
func distance(name, known string) int {
	at := 0
	for at < min(len(name), len(known)) && name[at] == known[at] {
		at++
	}
	if len(name) == len(known) && at+1 < len(name) && name[at] == known[at+1] && name[at+1] == known[at] && name[at+2:] == known[at+2:] {
		return 1
	}
	return levenshtein.Distance(name, known, nil)
}
