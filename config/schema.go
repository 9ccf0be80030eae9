package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// schema names what may stand in a block.
type schema struct {
	attributes []string
	// single blocks have no label and stand at most once; labelled ones have one label.
	single, labelled []string
	// later are names of the design that have no effect yet. They are refused and not ignored.
	later []string
	// elsewhere are names that stand in other blocks, and which.
	elsewhere map[string]string
}

func (s schema) names() []string { return slices.Concat(s.attributes, s.single, s.labelled) }

// items reports what may not stand in the block.
func (f fields) items(s schema) {
	f.checkAttributes(f.block.Body.Attributes, s, f.block.Type+".")
	f.checkBlocks(f.block.Body.Blocks, s, f.block.Type+".")
	for name := range f.block.Body.Attributes {
		f.meant[intent{f.block, nearest(name, s.names())}] = true
	}
	for _, b := range f.block.Body.Blocks {
		f.meant[intent{f.block, nearest(b.Type, s.names())}] = true
	}
}

// intent is a name that somebody meant to write into a block.
type intent struct {
	block *hclsyntax.Block
	name  string
}

// lacks reports whether an attribute is not there, under a misspelt name neither: that was reported, and is one mistake.
// To be called after items.
func (f fields) lacks(name string) bool { return !f.has(name) && !f.meant[intent{f.block, name}] }

func (l *loader) checkAttributes(attributes hclsyntax.Attributes, s schema, prefix string) {
	for name, a := range attributes {
		if slices.Contains(s.attributes, name) {
			continue
		}
		if !l.mayShow(a, s) {
			l.mask(a.Expr.Range())
		}
		l.misplaced(a.NameRange, name, "attribute", prefix, s)
	}
}

// mayShow reports whether the value of an attribute that does not exist is certain enough to be no secret under a
// misspelt name: its name is nearest to one whose value is shown, and it holds nothing that is masked everywhere.
func (l *loader) mayShow(a *hclsyntax.Attribute, s schema) bool {
	meant := nearest(a.Name, s.names())
	if slices.Contains(s.later, a.Name) || !slices.Contains(s.attributes, meant) || isSecret(meant) {
		return false
	}
	value := string(a.Expr.Range().SliceBytes(l.byPath[a.SrcRange.Filename].file.Bytes))
	password := strings.Contains(value, "@") && strings.Contains(value, "//")
	return !password && !strings.Contains(value, pemStart)
}

// isSecret reports whether an attribute is for a secret or for the path of one.
func isSecret(attribute string) bool {
	return secretValue(attribute) || strings.HasSuffix(attribute, "key_file")
}

func (l *loader) checkBlocks(blocks hclsyntax.Blocks, s schema, prefix string) {
	seen := map[string]Place{}
	for _, b := range blocks {
		at := b.DefRange()
		switch {
		case slices.Contains(s.labelled, b.Type):
			if len(b.Labels) != 1 {
				l.error(at, "One label needed", "Write %s \"NAME\" { … }.", b.Type)
			}
		case !slices.Contains(s.single, b.Type):
			l.misplaced(at, b.Type, "block", prefix, s)
		case len(b.Labels) > 0:
			l.error(at, "No label here", "Write %s { … } without a label.", b.Type)
		case seen[b.Type] != Place{}:
			l.error(at, "Duplicate block", "There is one %s block at %s already; merge the two.", b.Type, seen[b.Type])
		default:
			seen[b.Type] = placeOf(at)
		}
	}
}

// misplaced says why a name may not stand where it does.
func (l *loader) misplaced(at hcl.Range, name, kind, prefix string, s schema) {
	switch {
	case slices.Contains(s.later, name):
		l.error(at, prefix+name+" is not supported yet", "It would have no effect in this version, so it is refused; remove it.")
	case s.elsewhere[name] != "":
		l.error(at, "Not here", "%s belongs into %s; move it there.", name, s.elsewhere[name])
	case slices.Contains(s.attributes, name):
		l.error(at, "Unexpected block", "%s is an attribute: write %s = … with an equals sign.", name, name)
	case slices.Contains(s.single, name), slices.Contains(s.labelled, name):
		l.error(at, "Unexpected attribute", "%s is a block: write %s { … } without an equals sign.", name, name)
	default:
		l.error(at, "Unknown "+kind, "%s%s does not exist%s", prefix, name, suggest(name, s.names()))
	}
}

// suggest ends a sentence about a wrong name, with a question for the known one that is nearest to it.
func suggest(name string, known []string) string {
	best := nearest(name, known)
	if best == "" {
		return "."
	}
	return fmt.Sprintf(". Did you mean %q?", best)
}

// nearest returns the known name that a wrong one is most likely meant to be; empty when none is near.
func nearest(name string, known []string) string {
	best, limit := "", len(name)/3+1
	for _, k := range known {
		if d := levenshtein.Distance(name, k, nil); d <= limit && d < len(k) {
			best, limit = k, d-1
		}
	}
	return best
}

// unique reports a second use of a name and says where the first is.
func (l *loader) unique(kind, name string, at hcl.Range) {
	key := kind + " " + name
	if first, ok := l.taken[key]; ok {
		l.error(at, "Duplicate name", "The %s %q stands at %s already; choose another name or merge the two.", kind, name, first)
		return
	}
	l.taken[key] = placeOf(at)
}
