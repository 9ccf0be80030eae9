package syncdir

import (
	"bytes"
	"maps"
	"slices"
)

// Action is what a run does about a file.
type Action byte

// The actions, as they are printed. [Keep] leaves a file that is not as it should be, and [Refuse] a
// prompt without one.
const (
	Add     Action = '+'
	Replace Action = '~'
	Remove  Action = '-'
	Keep    Action = '='
	Refuse  Action = '!'
)

// Change is about one file, or about a prompt that gets none.
type Change struct {
	Action Action
	// Path is that of the file in the folder; of a prompt without one, Prompt is its name.
	Path, Prompt string
	// Reason is why a file is kept or refused, or what its format lacks; it may be empty.
	Reason string

	before, after []byte
}

// wanted is a file that should be there.
type wanted struct {
	content []byte
	lacks   string
	// unknown means that the prompt's text is unknown: a file that is there stays.
	unknown bool
}

// file renders the file of a prompt. The reason says why it gets none.
func (t *Target) file(p *Prompt, source string) (path string, w wanted, reason error) {
	path = fileName(p.Name) + t.suffix
	switch {
	case p.Absent != nil:
		return path, wanted{unknown: true}, p.Absent
	case p.Refused != nil:
		return path, wanted{}, p.Refused
	}
	w.content, w.lacks, reason = t.render(p, source)
	return path, w, reason
}

// plan compares what should be there with the content of what is: nil for what is no regular file, or
// too large for one of this package. Only with isComplete is a file removed.
func plan(want map[string]wanted, have map[string][]byte, source string, isComplete bool) (changes []Change) {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		w, change := want[path], Change{Path: path, Reason: want[path].lacks, after: want[path].content}
		content, isThere := have[path]
		from, intact := origin(path, content)
		switch {
		case w.unknown:
			continue
		case !isThere:
			change.Action = Add
		case from == "":
			change.Action, change.Reason = Keep, "promptweir did not write it; rename it, or the prompt"
		case from != source:
			change.Action, change.Reason = Keep, "it is from "+from
		case bytes.Equal(content, w.content) || intact && same(content, w.content):
			continue
		case !intact:
			change.Action, change.Reason = Keep, "it was edited; remove it to get the new one"
		default:
			change.Action, change.before = Replace, content
		}
		changes = append(changes, change)
	}
	for _, path := range slices.Sorted(maps.Keys(have)) {
		from, intact := origin(path, have[path])
		if _, isWanted := want[path]; isWanted || from != source {
			continue
		}
		change := Change{Action: Remove, Path: path, before: have[path]}
		switch {
		case !intact:
			change.Action, change.Reason = Keep, "its prompt is gone, but it was edited; remove it yourself"
		case !isComplete:
			change.Action, change.Reason = Keep, "its prompt is not listed, but the list is incomplete"
		}
		changes = append(changes, change)
	}
	return changes
}
