package catalog

import "strings"

// Candidate is a source that may expose a name.
type Candidate struct {
	Source Source
	// Own is the source's own name for the prompt.
	Own string
}

// Candidates returns the sources that a name could come from, in configuration order, whatever they offer now.
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
