package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Lists are upstreams' lists of prompts, by the upstreams' labels, from another time than now. They stand in for what the
// upstreams would say, so that nothing has to be contacted to know what a configuration makes of it.
type Lists map[string]List

// List is one upstream's.
type List struct {
	// Source says which server it is from; empty where that is not known, and any is believed to be it.
	Source string
	// Definitions are as the upstream listed them.
	Definitions []jsontext.Value
	// Partial means that the upstream listed more, of which the definitions are not known.
	Partial bool
}

// of returns the list of an upstream. A label alone may have moved to another server, whose list it is not.
func (l Lists) of(u config.Upstream) (List, bool) {
	list, ok := l[u.Name]
	return list, ok && (list.Source == "" || list.Source == source(u))
}

// ReadLists reads saved lists: a state_dir, or a file with the JSON that promptweir list prints, whose names are those of
// the configuration. What cannot be used is said in problems, and left out.
func ReadLists(cfg *config.Config, path string) (lists Lists, problems []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return readListed(cfg, path)
	}
	lists = Lists{}
	for _, u := range cfg.Upstreams() {
		definitions, err := loadKept(path, u)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = append(problems, err.Error())
		default:
			lists[u.Name] = List{Source: source(u), Definitions: definitions}
		}
	}
	return lists, problems, nil
}

// maxListed bounds the file that readListed reads, in bytes.
const maxListed = 256 << 20

// readListed reads prompts under their exposed names. Of each upstream that may have one, that is the list. What a prompt
// block made of a definition cannot be undone, so one that has a block with more than a name is left out.
func readListed(cfg *config.Config, path string) (lists Lists, problems []string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(content) > maxListed {
		return nil, nil, fmt.Errorf("%s is over %d bytes", path, maxListed)
	}
	object, err := wire.ParseObject(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	definitions, err := wire.ParseArray(object.Get("prompts"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: it has no array of prompts", path)
	}
	lists = Lists{}
	for i, definition := range definitions {
		prompt, err := wire.ParseObject(definition)
		name, ok := prompt.Text("name")
		if err != nil || !ok {
			problems = append(problems, fmt.Sprintf("%s: prompt %d has no name", path, i))
			continue
		}
		shape := shapeOf(cfg, name)
		candidates := catalog.Candidates(sourcesOf(cfg), cfg.Gateway.Separator, cmp.Or(shape.Prompt, name))
		if len(candidates) == 0 {
			problems = append(problems, fmt.Sprintf("%s: no upstream's prefix fits %q", path, name))
		}
		if shape.Redefines() {
			problems = append(problems, fmt.Sprintf(
				"%s: %q is what its prompt block (%s) makes of it, so its own definition is not known; take a state_dir, or --live", path, name, shape.Place))
		}
		for _, candidate := range candidates {
			list := lists[candidate.Source.Upstream]
			if shape.Redefines() {
				list.Partial = true
			} else {
				list.Definitions = append(list.Definitions, prompt.With("name", wire.Quote(candidate.Own)).JSON())
			}
			lists[candidate.Source.Upstream] = list
		}
	}
	return lists, problems, nil
}

// shapeOf is the prompt block of what is exposed under a name; the zero Shape where it has none.
func shapeOf(cfg *config.Config, name string) (none config.Override) {
	for i := range cfg.Teams {
		for _, shape := range cfg.Teams[i].Overrides {
			if cmp.Or(shape.Name, shape.Prompt) == name {
				return shape
			}
		}
	}
	return none
}

// Lists returns what is known of the upstreams' lists now.
func (g *Gateway) Lists() Lists {
	e, lists := g.edition.Load(), Lists{}
	for i, u := range e.upstreams {
		switch state := e.states[i]; {
		case state.Listed:
			lists[u.Name] = List{Source: source(u), Definitions: state.Definitions}
		default:
			if list, ok := g.opts.Lists.of(u); ok {
				lists[u.Name] = list
			}
		}
	}
	return lists
}

// Unlisted returns the labels of the upstreams of which no list is known, sorted.
func (g *Gateway) Unlisted() []string {
	e := g.edition.Load()
	var unlisted []string
	for i, u := range e.upstreams {
		if !e.listed(i, e.states[i]) {
			unlisted = append(unlisted, u.Name)
		}
	}
	slices.Sort(unlisted)
	return unlisted
}
