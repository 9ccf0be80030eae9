package snapshot

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Lists are known lists of prompts by upstream label. They replace the upstreams' responses, so
// that a configuration can be evaluated without contacting anything.
type Lists map[string]List

// List is one upstream's known list.
type List struct {
	// Server identifies the server that returned the list. If it is empty, any server of the
	// upstream's label fits.
	Server string
	// Definitions are in the upstream's form; nil if unknown.
	Definitions []jsontext.Value
}

// LockedLists returns the approved definitions in a lock file as lists under the upstreams' own
// names. A definition whose name lacks its upstream's prefix is left out, because it was approved
// before the prefix changed. Servers that share a prefix offer the same prompts, and the file has
// one definition for them.
func LockedLists(cfg *config.Config, lock config.Lock) Lists {
	lists, index := Lists{}, map[string]int{}
	sources, upstreams := sourcesOf(cfg), cfg.Upstreams()
	for i := range upstreams {
		index[upstreams[i].Name] = i
	}
	for _, prompt := range lock {
		i, known := index[prompt.Upstream]
		if !known {
			continue
		}
		isSkill, kind := sources[i].Skills && config.IsSkill(prompt.Name), ""
		if isSkill {
			kind = config.SkillPrefix
		}
		own, ok := strings.CutPrefix(prompt.Name, sources[i].Exposed(cfg.Gateway.Separator, kind))
		if !ok {
			continue
		}
		definition := jsontext.Value(prompt.Definition)
		if !isSkill { // a skill is named by its uri
			definition = wire.Members(definition).With("name", wire.Quote(own)).JSON()
		}
		isOnly := len(lock.Named(prompt.Name)) == 1
		for j := range upstreams {
			if u := &upstreams[j]; j == i || isOnly && areReplicas(u, &upstreams[i]) {
				list := lists[u.Name]
				list.Server, list.Definitions = ServerOf(*u), append(list.Definitions, definition)
				lists[u.Name] = list
			}
		}
	}
	return lists
}

// areReplicas reports whether two upstreams are servers with a prefix in common.
func areReplicas(a, b *config.Upstream) bool {
	return a.Prefix != "" && a.Prefix == b.Prefix && a.Skills == b.Skills && a.Files == nil && b.Files == nil
}

// For returns the list of an upstream. The label alone is not enough, because it may belong to
// another server now.
func (l Lists) For(u config.Upstream) (List, bool) {
	list, ok := l[u.Name]
	return list, ok && (list.Server == "" || list.Server == ServerOf(u))
}

// OrEmpty returns the list with non-nil definitions: an empty list is a known list.
func (l List) OrEmpty() List {
	if l.Definitions == nil {
		l.Definitions = []jsontext.Value{}
	}
	return l
}
