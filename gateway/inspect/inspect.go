package inspect

import (
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Entries returns what a principal sees or, if it is nil, all entries.
func Entries(s *snapshot.Snapshot, principal *policy.Principal) []*catalog.Entry {
	if principal == nil {
		return s.Catalog.Entries()
	}
	return s.View(s.Policy.Audience(*principal)).Entries()
}

// Lock returns a lock file that approves every definition in the upstreams' lists, including those that the present lock file
// leaves out.
func Lock(s *snapshot.Snapshot) config.Lock {
	seen := map[[2]string]bool{}
	var prompts []config.LockedPrompt
	for i, source := range s.Sources() {
		for _, definition := range s.Definitions(i) {
			prompt, err := catalog.ParsePrompt(definition)
			if err != nil {
				continue // it is reported, and never listed
			}
			name := s.ExposedName(&source, prompt.Name)
			locked, err := config.NewLockedPrompt(name, source.Upstream, prompt.Nameless())
			if key := [2]string{name, source.Upstream}; err == nil && !seen[key] { // the first of duplicates counts
				seen[key] = true
				prompts = append(prompts, locked)
			}
		}
	}
	return config.NewLock(prompts)
}
