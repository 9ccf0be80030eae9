package files

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// maxOfList bounds the problems of one list.
const maxOfList = 1000

// List is the prompts of one upstream at one moment. It is immutable.
type List struct {
	// Prompts are in the order of their paths, and Definitions are theirs.
	Prompts     []*Prompt
	Definitions []jsontext.Value
	// Problems are sorted by source location.
	Problems []Problem

	byName map[string]*Prompt
}

// Prompt returns the prompt with a name, or nil.
func (l *List) Prompt(name string) *Prompt { return l.byName[name] }

// Broken returns the problems of files that are not served as they are.
func (l *List) Broken() (broken []Problem) {
	for _, p := range l.Problems {
		if p.Severity == Broken {
			broken = append(broken, p)
		}
	}
	return broken
}

// newList returns the list of the files that were found. The first of several files with one name
// counts.
func (b *block) newList(entries map[entryKey]*entry) *List {
	l := &List{byName: make(map[string]*Prompt, len(b.found)), Definitions: []jsontext.Value{}}
	for _, pattern := range b.idle {
		l.Problems = append(l.Problems, b.problem(Doubtful,
			failed("Pattern without a file", "no file matches %s of files; correct or remove it", pattern)))
	}
	for _, file := range b.found {
		e := entries[b.key(file)]
		if e == nil { // for the next pass
			continue
		}
		l.Problems = append(l.Problems, e.problems...)
		switch {
		case e.prompt == nil:
		case l.byName[e.prompt.Name] != nil:
			l.Problems = append(l.Problems, Problem{
				Severity: Broken, Path: b.shown(file), Summary: "Duplicate name",
				// Clipped: nobody counts what the problems of a list hold.
				Detail: fmt.Sprintf("The prompt %q is already in %s; set another name in the front matter.",
					clip(e.prompt.Name), b.shown(l.byName[e.prompt.Name].Path)),
			})
		default:
			l.Prompts, l.Definitions = append(l.Prompts, e.prompt), append(l.Definitions, e.prompt.Definition)
			l.byName[e.prompt.Name] = e.prompt
		}
	}
	l.Problems = worst(l.Problems)
	sortProblems(l.Problems)
	return l
}

// worst returns the worst problems, if there are too many.
func worst(problems []Problem) []Problem {
	if len(problems) <= maxOfList {
		return problems
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Severity, b.Severity) })
	return slices.Clone(problems[:maxOfList])
}
