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

// files renders the files of prompts, by their paths, and says which prompts get none.
func (t *Target) files(prompts []Prompt, source string) (want map[string]wanted, refused []Change) {
	want = map[string]wanted{}
	refuse := func(p *Prompt, reason string) {
		refused = append(refused, Change{Action: Refuse, Prompt: p.Name, Reason: reason})
	}
	for i := range prompts {
		p := &prompts[i]
		path := fileName(p.Name) + t.suffix
		if _, isTaken := want[path]; isTaken {
			refuse(p, "another prompt has the same file name")
			continue
		}
		if p.Absent != nil {
			want[path] = wanted{unknown: true}
			refuse(p, p.Absent.Error())
			continue
		}
		content, lacks, err := []byte(nil), "", p.Refused
		if err == nil {
			content, lacks, err = t.render(p, source)
		}
		if err != nil {
			refuse(p, err.Error())
			continue
		}
		want[path] = wanted{content: content, lacks: lacks}
	}
	return want, refused
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
