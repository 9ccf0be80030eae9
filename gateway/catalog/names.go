package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/promptweir/promptweir/config"
)

// MaxName bounds an exposed name, in bytes, because each cursor contains a name.
const MaxName = 256

// ExposedName returns the exposed name for an upstream's prompt. The prefix may be empty.
func ExposedName(prefix, separator, own string) string {
	if prefix == "" {
		return own
	}
	return prefix + separator + own
}

// Exposed returns the exposed name for a prompt or skill of the source. For a skill it is "skill:"
// and the name that a prompt would have, so that skills have their own namespace.
func (s *Source) Exposed(separator, own string) string {
	if path, ok := strings.CutPrefix(own, config.SkillPrefix); ok && s.Skills {
		return config.SkillPrefix + ExposedName(s.Prefix, separator, path)
	}
	return ExposedName(s.Prefix, separator, own)
}

// fold returns a name as the least careful clients change it: in lower case, with "_" for each
// character outside A–Z a–z 0–9 _ and -. Some clients even replace the dot. Names that differ only
// in invisible characters become equal.
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

// clip shortens a name over [MaxName] for use in a sentence.
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

// namespaces maps each prefix, including the empty one, to the source whose team owns it. A prefix
// belongs to the first source that claims it. If a second team claims it, the configuration does
// not load.
type namespaces struct {
	separator string
	// owners maps a bare prefix to its source. The sources have no prompts, which would keep old
	// lists in memory.
	owners map[string]Source
	// skills is true if any source may have skills. Then names that begin with "skill:" are
	// reserved for skills.
	skills bool
}

func newNamespaces(sources []Source, separator string) namespaces {
	n := namespaces{separator: separator, owners: make(map[string]Source, len(sources))}
	for _, source := range sources {
		n.skills = n.skills || source.Skills
		if _, owned := n.owners[config.Bare(source.Prefix)]; !owned {
			source.Prompts = nil
			n.owners[config.Bare(source.Prefix)] = source
		}
	}
	return n
}

// owner returns the source with the longest prefix of the name. If the separator is one character,
// at most one prefix matches; with "__", the name "a___x" has the prefixes "a" and "a_". An exposed
// name always has an owner, because it begins with its source's prefix. A name from an override may
// have no owner, and owner then returns the zero Source.
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
		// The last match is the longest prefix.
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

// Candidates returns the sources that may expose a name, in configuration order, whether or not
// their current lists contain the prompt.
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
