package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Lists are saved lists of prompts by upstream label. They stand in for what the upstreams would
// list, so that a configuration can be evaluated without contacting anything.
type Lists map[string]List

// List is one upstream's saved list.
type List struct {
	// Server identifies the server that the list is from; empty where it is unknown, and then the
	// label decides.
	Server string
	// Definitions are as the upstream listed them; nil where they are unknown.
	Definitions []jsontext.Value
	// Partial means that the upstream listed further prompts whose definitions are unknown.
	Partial bool
}

// of returns the list of an upstream. The label alone is not enough: it may have moved to another
// server.
func (l Lists) of(u config.Upstream) (List, bool) {
	list, ok := l[u.Name]
	return list, ok && (list.Server == "" || list.Server == serverOf(u))
}

// known returns the list with definitions that are not nil: a list that is empty is known all the
// same.
func (l List) known() List {
	if l.Definitions == nil {
		l.Definitions = []jsontext.Value{}
	}
	return l
}

// maxListFile bounds a file with a saved list, and one with the output of promptweir list, in
// bytes.
const maxListFile = 256 << 20

// ReadLists reads saved lists: a state_dir, or a file with the JSON that promptweir list prints,
// whose names are those of the configuration. It leaves out what cannot be used and says why in
// problems.
func ReadLists(cfg *config.Config, path string) (lists Lists, problems []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return readListFile(cfg, path)
	}
	lists = Lists{}
	for _, u := range cfg.Upstreams() {
		list, err := loadList(path, u)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = append(problems, err.Error())
		default:
			lists[u.Name] = list
		}
	}
	return lists, problems, nil
}

// readListFile reads prompts under their exposed names. Each becomes part of the list of every
// upstream that could offer it. What a prompt block does to a definition cannot be undone, so a
// prompt whose block changes more than the name is left out.
func readListFile(cfg *config.Config, path string) (lists Lists, problems []string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(content) > maxListFile {
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", path, maxListFile)
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
		for _, problem := range lists.add(cfg, prompt, name) {
			problems = append(problems, path+": "+problem)
		}
	}
	return lists, problems, nil
}

// add adds a prompt under its exposed name to the lists of the upstreams that could offer it.
func (l Lists) add(cfg *config.Config, prompt wire.Object, name string) (problems []string) {
	block := promptBlock(cfg, name)
	// By the name without the block, which begins with the upstream's prefix.
	candidates := catalog.Candidates(sourcesOf(cfg), cfg.Gateway.Separator, cmp.Or(block.Prompt, name))
	if len(candidates) == 0 {
		problems = append(problems, fmt.Sprintf("no upstream has a prefix that matches %q", name))
	}
	if block.Redefines() {
		problems = append(problems, fmt.Sprintf(
			"%q is changed by its prompt block (%s), so the upstream's own definition is unknown; use a state_dir, or --live", name, block.Place))
	}
	for _, candidate := range candidates {
		list := l[candidate.Source.Upstream]
		if block.Redefines() {
			list.Partial = true
		} else {
			list.Definitions = append(list.Definitions, prompt.With("name", wire.Quote(candidate.Own)).JSON())
		}
		l[candidate.Source.Upstream] = list
	}
	return problems
}

// promptBlock returns the prompt block that exposes a name; the zero value where there is none.
func promptBlock(cfg *config.Config, name string) (none config.Override) {
	for i := range cfg.Teams {
		for _, block := range cfg.Teams[i].Overrides {
			if cmp.Or(block.Name, block.Prompt) == name {
				return block
			}
		}
	}
	return none
}
