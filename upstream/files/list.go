package files

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxListProblems bounds the problems of one list.
const maxListProblems = 1000

// List contains the prompts of one upstream at one moment. It is immutable.
type List struct {
	// Prompts are in the order of their paths. Definitions contains the prompts' definitions in the
	// same order, and then the entries of skills.
	Prompts     []*Prompt
	Definitions []jsontext.Value
	// Problems are sorted by source location.
	Problems []Problem

	byName map[string]*Prompt
	// skillFiles are the files of skills, by URI.
	skillFiles map[string]skillSource
}

// Prompt returns the prompt with a name, or nil.
func (l *List) Prompt(name string) *Prompt { return l.byName[name] }

// Broken returns the problems of files that cannot be served in their current form.
func (l *List) Broken() []Problem {
	return slices.DeleteFunc(slices.Clone(l.Problems), func(p Problem) bool { return !p.IsBroken() })
}

// DuplicateName is the summary for a file whose prompt has the same name as another file's prompt.
const DuplicateName = "Duplicate name"

// newList returns the list of the files that were found. If several files have the same name, the
// first one is served. A skill precedes a command, as in Claude Code.
func (b *block) newList(entries map[entryKey]*entry) *List {
	l := &List{byName: make(map[string]*Prompt, len(b.found)), Definitions: []jsontext.Value{}}
	for _, pattern := range b.idle {
		l.Problems = append(l.Problems, b.problem(Doubtful,
			failed("Pattern without a file", "no file matches %s of files; correct or remove it", pattern)))
	}
	skills := map[string]*Prompt{}
	for _, key := range b.found {
		if e := entries[key]; e != nil && e.prompt != nil && key.format == config.FormatSkill && skills[e.prompt.Name] == nil {
			skills[e.prompt.Name] = e.prompt
		}
	}
	for _, key := range b.found {
		e := entries[key]
		if e == nil { // the file is served only as a skill
			continue
		}
		l.Problems = append(l.Problems, e.problems...)
		if e.prompt == nil {
			continue
		}
		other := l.byName[e.prompt.Name]
		if skills[e.prompt.Name] != nil && e.prompt.sign.format == config.FormatClaude {
			other = skills[e.prompt.Name]
		}
		switch {
		case other != nil && other.body == e.prompt.body: // an equal file for another client is normal
		case other != nil:
			l.Problems = append(l.Problems, b.duplicate(e.prompt, other))
		default:
			l.Prompts, l.Definitions = append(l.Prompts, e.prompt), append(l.Definitions, e.prompt.Definition)
			l.byName[e.prompt.Name] = e.prompt
		}
	}
	b.addSkills(l)
	l.Problems = worst(joinKeys(l.Problems))
	sortProblems(l.Problems)
	return l
}

// duplicate returns the problem of a prompt whose name a served prompt already has.
func (b *block) duplicate(p, served *Prompt) Problem {
	severity, remedy := Broken, p.sign.rename()
	switch {
	case p.sign.format == config.FormatClaude && served.sign.format == config.FormatSkill:
		severity, remedy = Unserved, "Claude Code prefers the skill, too"
	case p.sign.format != served.sign.format:
		remedy += ", or give each client's files an upstream of its own"
	}
	// Clip the name, so that the problem stays short.
	return Problem{
		Severity: severity, Path: b.shown(p.Path), Summary: DuplicateName, Prompt: p.Name,
		Detail: fmt.Sprintf("The prompt %q is already in %s; %s.", wire.Clip(p.Name, maxQuoted), b.shown(served.Path), remedy),
	}
}

// worst returns the worst maxListProblems of the problems, or all problems if there are fewer.
func worst(problems []Problem) []Problem {
	if len(problems) <= maxListProblems {
		return problems
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Severity, b.Severity) })
	// Clone: a subslice would keep all problems in memory.
	return slices.Clone(problems[:maxListProblems])
}
