package files

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Severity is the effect of a problem.
type Severity int

const (
	// Broken means that the file cannot be served. Its last good prompt is served, if there is one.
	Broken Severity = iota
	// Unserved means that the file has a part that a prompt cannot have. The prompt is served
	// without it.
	Unserved
	// Doubtful means that the prompt is served, but probably not as the author meant it.
	Doubtful
)

// Problem is a finding about a file that a person should know or correct.
type Problem struct { //nolint:errname // most problems are reported, not returned
	Severity Severity
	// Path is the file's path from the working directory. Line is the line of the problem, or 0 if
	// the problem concerns the whole file.
	Path string
	Line int
	// Source is the text of the line, or its beginning. It is empty if Line is 0.
	Source string
	// Summary is a short sentence without a full stop. Detail is one or two sentences with the
	// remedy.
	Summary, Detail string
	// Prompt is the name of a broken file's prompt. If that name cannot be read, it is the name of
	// the file.
	Prompt string
}

// String returns a problem in one line.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Place(), p.Summary, p.Detail) }

// IsBroken reports whether the file cannot be served.
func (p Problem) IsBroken() bool { return p.Severity == Broken }

// Place returns the location of a problem as PATH:LINE, or PATH for the whole file.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s:%d", p.Path, p.Line)
}

// Error implements the interface error.
func (p Problem) Error() string { return p.String() }

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
}

// sentence makes a sentence of a clause: it adds a capital and, unless it ends with a question, a full stop.
func sentence(clause string) string {
	// The first character may have several bytes, because a clause may begin with text in any
	// script.
	first, size := utf8.DecodeRuneInString(clause)
	end := "."
	if strings.HasSuffix(clause, "?") {
		end = ""
	}
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(clause[size:], ".") + end
}

// fieldError is an error in a line of a file.
type fieldError struct {
	line int
	text string
}

func (e *fieldError) Error() string { return e.text }

func wrong(line int, format string, args ...any) error {
	return &fieldError{line, fmt.Sprintf(format, args...)}
}

// lineOf returns the line of an error, or 0 if the error concerns the whole file.
func lineOf(err error) int {
	if at, ok := errors.AsType[*fieldError](err); ok {
		return at.line
	}
	return 0
}

const (
	// maxProblems bounds the problems of one file.
	maxProblems = 20
	// maxSource bounds the quoted line of a problem, and maxDetail bounds its text, both in bytes.
	maxSource = 200
	maxDetail = 1000
	// maxQuoted bounds a quotation in a problem, in bytes.
	maxQuoted = 60
)

// report collects the problems of one prompt.
type report struct {
	shown    func(file string) string // returns the path of a file for problems
	problems []Problem
	// contents are the texts of the files that were read, by path, for quotations in problems.
	contents map[string]string
	// doubted contains the locations and details of the reported doubtful problems.
	doubted map[string]bool
}

// problem returns a problem in a line of a file. The file may be a partial. The detail is a clause.
func (r *report) problem(severity Severity, file string, line int, summary, detail string) Problem {
	source, rest := "", r.contents[file]
	for range line {
		source, rest, _ = strings.Cut(rest, "\n")
	}
	source = strings.TrimRight(strings.ToValidUTF8(source[:min(len(source), maxSource)], ""), "\r")
	return Problem{
		Severity: severity, Path: r.shown(file), Line: line, Summary: summary, Detail: sentence(wire.Clip(detail, maxDetail)),
		Source: strings.Clone(source), // a substring would hold the whole file in memory
	}
}

// broken reports the error that makes a prompt's file broken.
func (r *report) broken(file, prompt string, err error) {
	problem, ok := errors.AsType[Problem](err)
	if !ok {
		problem = r.problem(Broken, file, lineOf(err), "Broken prompt", err.Error())
	}
	problem.Prompt = prompt
	r.problems = append(r.problems, problem)
}

// at returns an error as a [Problem] in a line of a file.
func (r *report) at(file string, line int, err error) error {
	return r.problem(Broken, file, line, "Broken prompt", err.Error())
}

// keysWithoutEffect is the summary of problems whose detail is a single key. [joinKeys] joins them
// per folder.
const keysWithoutEffect = "Keys without effect"

// harmless reports a key that has no effect on prompts.
func (r *report) harmless(file string, line int, key string) {
	if len(r.problems) < maxProblems {
		problem := r.problem(Doubtful, file, line, keysWithoutEffect, "")
		problem.Detail = wire.Clip(key, maxQuoted)
		r.problems = append(r.problems, problem)
	}
}

// joinKeys joins the problems about keys without effect: one problem for each folder, at the
// position of the first.
func joinKeys(problems []Problem) (joined []Problem) {
	type folder struct {
		at          int
		keys, files []string
	}
	folders := map[string]*folder{}
	for _, p := range problems {
		if p.Summary != keysWithoutEffect {
			joined = append(joined, p)
			continue
		}
		f := folders[filepath.Dir(p.Path)]
		if f == nil {
			f = &folder{at: len(joined)}
			folders[filepath.Dir(p.Path)] = f
			joined = append(joined, p)
		}
		if !slices.Contains(f.keys, p.Detail) && len(f.keys) < maxProblems {
			f.keys = append(f.keys, p.Detail)
		}
		if n := len(f.files); n == 0 || f.files[n-1] != p.Path {
			f.files = append(f.files, p.Path)
		}
		joined[f.at].Detail = fmt.Sprintf("These keys have no effect in a prompt: %s (files of this folder that have any: %d).",
			strings.Join(f.keys, ", "), len(f.files))
	}
	return joined
}

// BracesAreText and MisspeltKey are the summaries of problems that are probably mistakes.
const (
	BracesAreText = "Braces are text"
	MisspeltKey   = "Misspelt key"
)

// doubtful reports a part of a file that has another effect than its author probably meant.
func (r *report) doubtful(file string, line int, summary, format string, args ...any) {
	if len(r.problems) >= maxProblems {
		return
	}
	detail := fmt.Sprintf(format, args...)
	key := fmt.Sprintf("%s:%d: %s", file, line, detail)
	if !r.doubted[key] { // a partial that is included again has the same problem
		r.doubted[key] = true
		r.problems = append(r.problems, r.problem(Doubtful, file, line, summary, detail))
	}
}
