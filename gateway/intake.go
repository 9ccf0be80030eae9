package gateway

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// intake is what the configuration does to a definition between an upstream's list and the catalog:
//
//	definition ─▶ approved by the lock file? ─▶ catalog
//
// What it leaves out, it reports. It is immutable.
type intake struct {
	cfg *config.Config
}

func newIntake(cfg *config.Config) *intake { return &intake{cfg} }

// take reads one upstream's definitions. What cannot be read or may not be listed is left out and reported.
func (in *intake) take(source *catalog.Source, definitions []jsontext.Value) (prompts []catalog.Prompt, reports []catalog.Report) {
	prompts = make([]catalog.Prompt, 0, len(definitions))
	for i, definition := range definitions {
		prompt, err := catalog.ParsePrompt(definition)
		if err != nil {
			reports = append(reports, unreadable(source, i, err))
			continue
		}
		drift, kept := in.checkLock(source, &prompt)
		reports = append(reports, drift...)
		if kept {
			prompts = append(prompts, prompt)
		}
	}
	return prompts, reports
}

func unreadable(source *catalog.Source, i int, err error) catalog.Report {
	return catalog.Report{
		Kind: catalog.Unreadable, Name: fmt.Sprintf("%s[%d]", source.Upstream, i),
		Owners: []catalog.Owner{{Upstream: source.Upstream, Place: source.Place}},
		Text: fmt.Sprintf("upstream %q (%s) lists what is no prompt, so it is left out; correct it there: %v",
			source.Upstream, source.Place, err),
	}
}

// exposed is what clients would call a prompt if no prompt block said otherwise.
func (in *intake) exposed(source *catalog.Source, own string) string {
	return catalog.ExposedName(source.Prefix, in.cfg.Gateway.Separator, own)
}

// about is a report of a prompt that is there and of what the configuration has to say to it.
func (in *intake) about(kind catalog.Kind, source *catalog.Source, prompt *catalog.Prompt, format string, args ...any) catalog.Report {
	name := in.exposed(source, prompt.Name)
	return catalog.Report{
		Kind: kind, Name: name,
		Owners: []catalog.Owner{{Upstream: source.Upstream, Name: prompt.Name, Place: source.Place}},
		Text: fmt.Sprintf("prompt %s of upstream %q (%s) ", wire.Quote(name), source.Upstream, source.Place) +
			fmt.Sprintf(format, args...),
	}
}

// checkLock reports a definition that is not the approved one, and whether it is listed all the same.
func (in *intake) checkLock(source *catalog.Source, prompt *catalog.Prompt) (drift []catalog.Report, kept bool) {
	lock := in.cfg.Locking(source.Team)
	if lock.Mode == config.LockOff {
		return nil, true
	}
	approved, known := in.cfg.Lock.Find(in.exposed(source, prompt.Name), source.Upstream)
	if known && approved.SHA256 == prompt.Hash {
		return nil, true
	}
	problem, outcome := "is not in "+config.LockFile, "it is left out"
	if known {
		problem = "has another definition than in " + config.LockFile
	}
	if lock.Mode == config.LockWarn {
		outcome = "it is listed all the same"
	}
	return []catalog.Report{in.about(catalog.Drift, source, prompt,
		"%s: %s (lock = %q at %s); look at it with promptweir lock --diff, and approve it with promptweir lock",
		problem, outcome, lock.Mode, lock.Place)}, lock.Mode != config.LockEnforce
}

// Lock returns the definitions that the upstreams list now, or listed last, for a lock file that approves them.
// Whatever the present lock file leaves out is in it.
func (g *Gateway) Lock() config.Lock {
	e := g.edition.Load()
	seen := map[[2]string]bool{}
	var prompts []config.LockedPrompt
	for i, source := range g.sources() {
		for _, definition := range g.definitions(i, e.states[i]) {
			prompt, err := catalog.ParsePrompt(definition)
			if err != nil {
				continue // reported, and never listed
			}
			name := g.intake.exposed(&source, prompt.Name)
			locked, err := config.NewLockedPrompt(name, source.Upstream, prompt.Nameless())
			if key := [2]string{name, source.Upstream}; err == nil && !seen[key] { // of a duplicate, the first counts
				seen[key] = true
				prompts = append(prompts, locked)
			}
		}
	}
	return config.NewLock(prompts)
}
