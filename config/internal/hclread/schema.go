package hclread

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Schema says what may stand in a block. Each attribute is in one of three lists, by where its
// value goes.
type Schema struct {
	// Plain values are logged, so they may not come from env or file.
	Plain []string
	// External values may come from env and file, because deployments need that; diagnostics do not
	// show them then.
	External []string
	// Secret values are sensitive even if they are written out. No diagnostic quotes the lines of an
	// attribute of that name, whatever block it is in.
	Secret []string
	Blocks []BlockSchema
	// Misplaced says where a name belongs that may not stand here. Names of the blocks inside need
	// no entry.
	Misplaced map[string]string
	// Foreign maps names that people bring along from the configurations of other programs to what
	// they are to do instead, a sentence.
	Foreign map[string]string
}

// BlockSchema is a nested block: unlabelled and at most once, or with one label each and any number
// of times.
type BlockSchema struct {
	Type     string
	Labelled bool
	Schema
}

// Attributes returns the names of all attributes.
func (s Schema) Attributes() []string { return slices.Concat(s.Plain, s.External, s.Secret) }

// has reports whether an attribute or a block of that name may stand in the block.
func (s Schema) has(name string) bool {
	_, isBlock := s.block(name)
	return isBlock || s.hasAttribute(name)
}

func (s Schema) hasAttribute(name string) bool {
	return slices.Contains(s.Plain, name) || slices.Contains(s.External, name) || slices.Contains(s.Secret, name)
}

func (s Schema) isPlain(attribute string) bool  { return slices.Contains(s.Plain, attribute) }
func (s Schema) isSecret(attribute string) bool { return slices.Contains(s.Secret, attribute) }

// Names returns those of all attributes and blocks that may stand in the block.
func (s Schema) Names() []string {
	names := s.Attributes()
	for _, b := range s.Blocks {
		names = append(names, b.Type)
	}
	return names
}

func (s Schema) block(blockType string) (BlockSchema, bool) {
	i := slices.IndexFunc(s.Blocks, func(b BlockSchema) bool { return b.Type == blockType })
	if i < 0 {
		return BlockSchema{}, false
	}
	return s.Blocks[i], true
}

// inner returns the types of the blocks inside, at any depth, in which an attribute or a block of a
// name may stand.
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

// attributeNames are the names of all attributes and blocks, and whether an attribute of that name
// is a secret in some block.
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

// guess is an attribute or block that somebody most likely meant to write, under whatever name.
type guess struct {
	block *hclsyntax.Block
	name  string
}

// checker reports the names that a schema does not allow.
type checker struct{ *Reader }

// block reports what may not stand in a block, at any depth.
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

// guess notes what was most likely meant by a name in a block. Comparing names takes long, and most
// are right.
func (c checker) guess(b *hclsyntax.Block, name string, s Schema) {
	if !s.has(name) {
		name = nearest(name, s.Names())
	}
	c.guesses[guess{b, name}] = true
}

func (c checker) attributes(attributes hclsyntax.Attributes, s Schema, prefix string) {
	for name, a := range attributes {
		if s.hasAttribute(name) {
			continue
		}
		source := a.SrcRange.SliceBytes(c.byPath[a.SrcRange.Filename].file.Bytes)
		if c.mayBeSecret(name, s) || hasCredentials(string(source)) {
			c.hide(a.SrcRange)
		}
		c.misplaced(a.NameRange, name, "attribute", prefix, s)
	}
}

// leastMisspelt is the length from which a name is near another only if that was meant: pat is near rate.
const leastMisspelt = 5

// mayBeSecret reports whether an attribute that a block does not have may be a secret under a misspelt name.
func (c checker) mayBeSecret(name string, s Schema) bool {
	var secrets []string
	for known, isSecret := range c.Reader.attributes {
		if isSecret {
			secrets = append(secrets, known)
		}
	}
	return len(name) < leastMisspelt || strings.Contains(name, "key") || nearest(name, secrets) != "" || !s.hasAttribute(nearest(name, s.Names()))
}

func (c checker) blocks(blocks hclsyntax.Blocks, s Schema, prefix string) {
	first := map[string]hcl.Range{}
	for _, b := range blocks {
		at := b.DefRange()
		known, ok := s.block(b.Type)
		if ok {
			c.block(b, known.Schema)
		}
		earlier, isDuplicate := first[b.Type]
		switch {
		case !ok:
			c.hide(hcl.Range{Filename: at.Filename, Start: b.OpenBraceRange.End, End: b.CloseBraceRange.Start})
			c.misplaced(at, b.Type, "block", prefix, s)
		case known.Labelled:
			if len(b.Labels) != 1 {
				c.Error(at, "One label needed", "Write %s \"NAME\" { … }.", b.Type)
			}
		case len(b.Labels) > 0:
			c.Error(at, "Unexpected label", "Write %s { … } without a label.", b.Type)
		case isDuplicate:
			c.Error(at, "Duplicate block", "There is already a %s block at %s; merge the "+
				"two.", b.Type, location(earlier))
		default:
			first[b.Type] = at
		}
	}
}

// The summaries for a block that may not stand where it does.
const (
	unknownBlock   = "Unknown block"
	misplacedBlock = "Misplaced block"
)

// misplaced says why a name may not stand where it does.
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
		c.Error(at, "Misplaced "+kind, "%s belongs in %s; move it there.", name, aBlock(inner))
	case nearest(name, s.Names()) == "" && foreign != "":
		c.Error(at, "Unknown "+kind, "%s%s does not exist. %s", prefix, name, foreign)
	case nearest(name, s.Names()) == "":
		names := strings.Join(slices.Sorted(slices.Values(s.Names())), ", ")
		c.Error(at, "Unknown "+kind, "%s%s does not exist; there are %s.", prefix, name, names)
	default:
		c.Error(at, "Unknown "+kind, "%s%s does not exist%s", prefix, name, Suggest(name, s.Names()))
	}
}

// aBlock writes the types that a block may have, like "an admin or gateway block".
func aBlock(types []string) string {
	slices.Sort(types)
	text := "a "
	if strings.ContainsAny(types[0][:1], "aeiou") {
		text = "an "
	}
	last := len(types) - 1
	if last > 0 {
		text += strings.Join(types[:last], ", ") + " or "
	}
	return text + types[last] + " block"
}

// Suggest ends a sentence about a wrong name, with a question for the nearest known name if there
// is one.
func Suggest(name string, known []string) string {
	best := nearest(name, known)
	if best == "" {
		return "."
	}
	return fmt.Sprintf(". Did you mean %q?", best)
}

// Sentence ends the text of an error with a period, unless [Suggest] has ended it.
func Sentence(err error) string {
	text := err.Error()
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// nearest returns the known name that a wrong one most likely stands for, empty if none is near.
func nearest(name string, known []string) string {
	best, limit := "", len(name)/3+1 // one typo in three letters
	for _, k := range known {
		// A distance of the whole length has nothing in common.
		if d := distance(name, k); d <= limit && d < len(k) {
			// Only a nearer one takes its place, so that the first of several counts.
			best, limit = k, d-1
		}
	}
	return best
}

// distance counts the typos in a name. Two neighbours that are swapped are one of them.
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
