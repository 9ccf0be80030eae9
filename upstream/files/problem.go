package files

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says what a problem costs.
type Severity int

const (
	// Broken means that the file is not served as it is: its last good prompt is, if there is one.
	Broken Severity = iota
	// Unserved means that the prompt is served without a part that its format has and a prompt cannot have.
	Unserved
	// Doubtful means that the prompt is served, and most likely not as it was meant.
	Doubtful
)

// Problem is something that a person should correct, or know of, in a file.
type Problem struct { //nolint:errname // most problems are reported, not returned
	Severity Severity
	// Path is that of the file from the working directory, and Line a line in it; 0 for the whole file.
	Path string
	Line int
	// Source is the line itself, or its start; empty where Line is 0.
	Source string
	// Summary is a short sentence without a full stop, Detail one or two sentences that say what to do.
	Summary, Detail string
}

// String writes a problem in one line.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Place(), p.Summary, p.Detail) }

// Place writes the place of a problem as PATH:LINE, or PATH for the whole file.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s:%d", p.Path, p.Line)
}

// Error makes a problem an error.
func (p Problem) Error() string { return p.String() }

// sortProblems orders problems by place.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
}
