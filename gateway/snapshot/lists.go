package snapshot

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Lists contains lists of prompts by upstream label. They stand in for the upstreams' responses, so
// that a configuration can be evaluated without contacting an upstream.
type Lists map[string]List

// List is the list of one upstream.
type List struct {
	// Server identifies the server that returned the list, see [ServerOf]. If it is empty, the list
	// fits any server with the label.
	Server string
	// Definitions are in the upstream's form. They are nil if the list is unknown.
	Definitions []jsontext.Value
}

// LockedLists returns the approved definitions in a lock file as lists under the upstreams' own
// names. A definition whose name lacks its upstream's prefix is left out: it was approved before
// the prefix changed. Servers that share a prefix offer the same prompts, so each of them gets the
// file's only definition of a prompt.
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
		if !isSkill { // a skill's definition has no name, but a uri
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

// areReplicas reports whether two upstreams are servers that share a prefix, and both or neither may
// have skills.
func areReplicas(a, b *config.Upstream) bool {
	return a.Prefix != "" && a.Prefix == b.Prefix && a.Skills == b.Skills && a.Files == nil && b.Files == nil
}

// For returns the list of an upstream. It compares the server too, because the label may have moved
// to another server.
func (l Lists) For(u config.Upstream) (List, bool) {
	list, ok := l[u.Name]
	return list, ok && (list.Server == "" || list.Server == ServerOf(u))
}

// OrEmpty returns the list with non-nil definitions, because nil definitions mean an unknown list.
func (l List) OrEmpty() List {
	if l.Definitions == nil {
		l.Definitions = []jsontext.Value{}
	}
	return l
}
