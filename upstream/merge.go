package upstream

import (
	"bytes"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// promptIndex finds the prompts of a list by name.
type promptIndex struct {
	// names are those of the definitions, in order; "" for a definition without one.
	names []string
	// at has the index of the first definition with a name.
	at map[string]int
}

func newPromptIndex(definitions []jsontext.Value) promptIndex {
	p := promptIndex{names: make([]string, len(definitions)), at: make(map[string]int, len(definitions))}
	for i, definition := range definitions {
		if object, err := wire.ParseObject(definition); err == nil {
			p.names[i], _ = object.Text("name")
		}
		if _, ok := p.at[p.names[i]]; !ok {
			p.at[p.names[i]] = i
		}
	}
	return p
}

func (p promptIndex) has(name string) bool {
	_, ok := p.at[name]
	return ok
}

// mergedLists is the union of the lists of several endpoints.
type mergedLists struct {
	definitions []jsontext.Value
	differences []string
}

// mergeLists returns the union of the endpoints' lists, in their order. Duplicates within one list
// stay: the catalog reports them to the upstream's owner.
func mergeLists(statuses []*status) mergedLists {
	if len(statuses) == 1 {
		return mergedLists{definitions: statuses[0].Definitions}
	}
	var (
		union   []jsontext.Value
		listed  = map[string]jsontext.Value{}
		differs = map[string]bool{}
	)
	for _, s := range statuses {
		for i, name := range s.prompts.names {
			first, known := listed[name]
			if !known {
				union = append(union, s.Definitions[i])
			} else if i == s.prompts.at[name] && !sameDefinition(first, s.Definitions[i]) {
				differs[name] = true
			}
		}
		// Only after the whole list, so that its own duplicates are not taken for known.
		for name, i := range s.prompts.at {
			if _, known := listed[name]; !known {
				listed[name] = s.Definitions[i]
			}
		}
	}
	delete(differs, "") // definitions without a name are not the same prompt
	return mergedLists{union, slices.Sorted(maps.Keys(differs))}
}

// equalLists reports whether two lists have the same bytes.
func equalLists(a, b []jsontext.Value) bool {
	return slices.EqualFunc(a, b, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) })
}

// shareDefinitions returns a later list in which a definition that the list before has is the same
// memory, and any other is a copy: pages that were received would otherwise stay in memory for
// single definitions, and whoever has read a definition would not see at once that it is the same.
func shareDefinitions(before, later []jsontext.Value) []jsontext.Value {
	shared := make([]jsontext.Value, len(later))
	seed := maphash.MakeSeed()
	var byHash map[uint64]jsontext.Value
	for i, definition := range later {
		if i < len(before) && bytes.Equal(before[i], definition) {
			shared[i] = before[i]
			continue
		}
		if byHash == nil { // many lists only change in place
			byHash = make(map[uint64]jsontext.Value, len(before))
			for _, d := range before {
				byHash[maphash.Bytes(seed, d)] = d
			}
		}
		if known := byHash[maphash.Bytes(seed, definition)]; known != nil && bytes.Equal(known, definition) {
			shared[i] = known
		} else {
			shared[i] = bytes.Clone(definition)
		}
	}
	return shared
}

// sameDefinition reports whether two definitions are equal in canonical form (RFC 8785, without its
// rounding of integers).
func sameDefinition(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	// Clones, because Canonicalize works in place and definitions are shared.
	a, b = a.Clone(), b.Clone()
	keepIntegers := jsontext.CanonicalizeRawInts(false)
	return a.Canonicalize(keepIntegers) == nil && b.Canonicalize(keepIntegers) == nil && bytes.Equal(a, b)
}

// countLists counts the lists that differed from the one before, of all endpoints.
func countLists(statuses []*status) (n uint64) {
	for _, s := range statuses {
		n += s.lists
	}
	return n
}
