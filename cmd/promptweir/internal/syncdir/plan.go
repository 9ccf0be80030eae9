package syncdir

// Action is the change of a file.
type Action byte

// The actions, as sync prints them. [Keep] leaves unchanged a file that should be changed or removed. [Refuse]
// writes no file for a prompt.
const (
	Add     Action = '+'
	Replace Action = '~'
	Remove  Action = '-'
	Keep    Action = '='
	Refuse  Action = '!'
)

// Change is the change of a file, or reports a prompt that gets no file.
type Change struct {
	Action Action
	// Path is the file's path in the folder. For [Refuse] it is empty, and Prompt is the prompt's name; for
	// other actions Prompt is empty.
	Path, Prompt string
	// Reason explains Keep or Refuse, or names features of the prompt that the file lacks; it may be empty.
	Reason string

	content []byte
}

// wanted is a file that should exist. lacks names features of the prompt that its format lacks.
type wanted struct {
	content []byte
	lacks   string
}

// file renders the file of a prompt. If the prompt gets no file, it returns the reason.
func (t *Target) file(p *Prompt, source string) (path string, w wanted, reason error) {
	path = fileName(p.Name) + t.suffix
	switch {
	case p.Absent != nil:
		return path, wanted{}, p.Absent
	case p.Refused != nil:
		return path, wanted{}, p.Refused
	}
	w.content, w.lacks, reason = t.render(p, source)
	return path, w, reason
}

// plan returns the change of the file at a path; ok is false if there is nothing to change. want is nil if no
// prompt has this path. If the file exists, content is its content, or nil if this package cannot have written
// it. plan removes a file only if isComplete is true.
func plan(path string, want *wanted, exists bool, content []byte, source string, isComplete bool) (c Change, ok bool) {
	c.Path = path
	from, intact := origin(path, content)
	if want == nil {
		c.Action = Remove
		switch {
		case from != source:
			return c, false
		case !intact:
			c.Action, c.Reason = Keep, "its prompt is gone, but it was edited; remove it yourself"
		case !isComplete:
			c.Action, c.Reason = Keep, "its prompt is not listed, but the list is incomplete"
		}
		return c, true
	}
	c.Action, c.Reason, c.content = Replace, want.lacks, want.content
	switch {
	case intact && from == source && same(content, want.content):
		return c, false
	case !exists:
		c.Action = Add
	case from == "":
		c.Action, c.Reason = Keep, "promptweir did not write it; rename it, or the prompt"
	case from != source:
		c.Action, c.Reason = Keep, "it is from "+from
	case !intact:
		c.Action, c.Reason = Keep, "it was edited; remove it to get the new one"
	}
	return c, true
}
