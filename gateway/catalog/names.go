package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/promptweir/promptweir/config"
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

// Exposed returns the clients' name for a prompt or a skill of the source. That of a skill is
// "skill:", the name that a prompt would have, and so on in a namespace of its own.
func (s *Source) Exposed(separator, own string) string {
	if path, ok := strings.CutPrefix(own, config.SkillPrefix); ok && s.Skills {
		return config.SkillPrefix + ExposedName(s.Prefix, separator, path)
	}
	return ExposedName(s.Prefix, separator, own)
}

// fold returns the name as the least careful clients turn it into a command: in lower case, with
// "_" for each character outside A–Z a–z 0–9 _ and -. Even the dot, which most keep, becomes "_" in
// some. Names that differ only by characters that nobody sees are one.
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
	}, config.Bare(name))
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
	// owners are by the bare prefix, and without prompts, which would keep old lists in memory.
	owners map[string]Source
	// skills is set if any source may have skills, so that their names are no prompt's.
	skills bool
}

func newNamespaces(sources []Source, separator string) namespaces {
	n := namespaces{separator: separator, owners: make(map[string]Source, len(sources))}
	for _, source := range sources {
		n.skills = n.skills || source.Skills
		if _, taken := n.owners[config.Bare(source.Prefix)]; !taken {
			source.Prompts = nil
			n.owners[config.Bare(source.Prefix)] = source
		}
	}
	return n
}

// owner returns the source with the longest prefix that the name lies in. With a separator of one
// character there is only one; with "__", the name "a___x" lies in the prefixes "a" and "a_". A
// source's exposed name always has an owner: it lies in the source's own prefix. A name that an
// override gives may have none, which is the zero Source.
func (n namespaces) owner(name string) Source {
	owner := n.owners[""]
	name = config.Bare(name)
	if n.skills {
		name = strings.TrimPrefix(name, config.SkillPrefix)
	}
	for end := range name {
		if !strings.HasPrefix(name[end:], n.separator) {
			continue
		}
		// The last one is the longest.
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
	spaces := newNamespaces(sources, separator)
	owner, kind := spaces.owner(name), ""
	if spaces.skills && config.IsSkill(name) {
		kind = config.SkillPrefix
	}
	var all []Candidate
	for _, source := range sources {
		own, within := strings.CutPrefix(name, source.Exposed(separator, kind))
		within = within && (kind == "" || source.Skills)
		if within && own != "" && source.Team == owner.Team && len(name) <= MaxName {
			all = append(all, Candidate{Source: source, Own: kind + own})
		}
	}
	return all
}
