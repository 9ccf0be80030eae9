package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxName bounds an exposed name, in bytes; a cursor has to hold one.
const MaxName = 256

// ExposedName returns the clients' name for a prompt of an upstream with a prefix; "" is none.
func ExposedName(prefix, separator, own string) string {
	if prefix == "" {
		return own
	}
	return prefix + separator + own
}

// fold returns the name as the least careful clients turn it into a command: in lower case, with
// "_" for each character outside A–Z a–z 0–9 _ and -. Even the dot, which most keep, becomes "_" in
// some.
func fold(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + ('a' - 'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		default:
			return '_'
		}
	}, name)
}

// clip shortens a name of any length for use in a sentence.
func clip(name string) string {
	if len(name) <= MaxName {
		return name
	}
	end := MaxName / 4
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", name[:end], len(name))
}

// namespaces says which source's team owns each prefix, including the empty one. A prefix belongs
// to the first source that claims it; a configuration in which another team claims it too does not
// load.
type namespaces struct {
	separator string
	owners    map[string]Source // without prompts, which would keep old lists in memory
}

func newNamespaces(sources []Source, separator string) namespaces {
	owners := make(map[string]Source, len(sources))
	for _, source := range sources {
		if _, taken := owners[source.Prefix]; !taken {
			source.Prompts = nil
			owners[source.Prefix] = source
		}
	}
	return namespaces{separator: separator, owners: owners}
}

// owner returns the source with the longest prefix that the name lies in. With a separator of one
// character there is only one; with "__", the name "a___x" lies in the prefixes "a" and "a_". A
// source's exposed name always has an owner: it lies in the source's own prefix. A name that an
// override gives may have none, which is the zero Source.
func (n namespaces) owner(name string) Source {
	owner := n.owners[""]
	for end := range name {
		if !strings.HasPrefix(name[end:], n.separator) {
			continue
		}
		if source, owned := n.owners[name[:end]]; owned {
			owner = source
		}
	}
	return owner
}

// Candidate is a source that may expose a name.
type Candidate struct {
	Source Source
	// Own is the source's own name for the prompt.
	Own string
}

// Candidates returns the sources that a name could come from, in configuration order, whatever they
// offer now.
func Candidates(sources []Source, separator, name string) []Candidate {
	owner := newNamespaces(sources, separator).owner(name)
	var all []Candidate
	for _, source := range sources {
		own, within := name, true
		if source.Prefix != "" {
			own, within = strings.CutPrefix(name, source.Prefix+separator)
		}
		if within && own != "" && source.Team == owner.Team && len(name) <= MaxName {
			all = append(all, Candidate{Source: source, Own: own})
		}
	}
	return all
}
