package snapshot

import (
	"cmp"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
)

// Text returns a hash of the text of a prompt that an upstream has in a file. It is empty for prompts
// of servers, and if the generation has connectors.
func (g *Generation) Text(label, own string) string {
	if prompt := g.FilePrompt(label, own); prompt != nil {
		return prompt.Text
	}
	return ""
}

// FilePrompt returns a prompt that an upstream has in a file. It is nil for prompts of servers, and if
// the generation has connectors.
func (g *Generation) FilePrompt(label, own string) *files.Prompt {
	if list := g.Folders[label]; list != nil {
		return list.Prompt(own)
	}
	return nil
}

// Files returns the list from which the gets of an upstream with files are answered. It returns nil
// for other upstreams.
func (s *Snapshot) Files(label string) *files.List {
	if i, known := s.index[label]; known {
		return s.States[i].Files
	}
	return nil
}

// FileProblems returns the findings in the files of all upstreams with files.
func (s *Snapshot) FileProblems() (all []files.Problem) {
	for i, state := range s.States {
		all = append(all, s.ProblemsOf(i, state)...)
	}
	return all
}

// ProblemsOf returns the findings in the files of the upstream at index i, in the given state.
func (g *Generation) ProblemsOf(i int, state *upstream.State) []files.Problem {
	if len(g.Connectors) > 0 {
		return state.FileProblems
	}
	return g.FolderProblems[g.Upstreams[i].Name]
}

// maxBrokenNamed bounds the broken files of one upstream that a client's list names.
const maxBrokenNamed = 20

// BrokenFile is a prompt file with an error. The gateway may still serve an earlier version of the
// file.
type BrokenFile struct {
	// Place is the location of the error, relative to the configuration's folder.
	Place string
	// Prompt is the exposed name of the file's prompt.
	Prompt string

	visibility *policy.Visibility
}

// findBroken returns the broken files by the index of their upstream.
func (s *Snapshot) findBroken() map[int][]BrokenFile {
	all := map[int][]BrokenFile{}
	for _, i := range s.unhealthy {
		u, source := &s.Upstreams[i], &s.Sources[i]
		for _, p := range s.ProblemsOf(i, s.States[i]) {
			if p.Prompt == "" || p.Severity != files.Broken || len(all[i]) == maxBrokenNamed {
				continue
			}
			name := s.ExposedName(source, p.Prompt)
			if o := s.PromptBlock(source, p.Prompt); o != nil {
				name = cmp.Or(o.Name, name)
			}
			var definition []byte // if nil, conditions that read the definition do not show the prompt
			if entry := s.Catalog.Lookup(name); entry != nil {
				definition = entry.Facts()
			}
			all[i] = append(all[i], BrokenFile{s.Config.Relative(p.Place()), name, s.Policy.Visibility(u.Team, u.Name, name, definition)})
		}
	}
	return all
}
