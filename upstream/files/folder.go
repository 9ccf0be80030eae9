package files

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
)

// maxTotal bounds what the prompts of one upstream take in memory together, in bytes: as much as the list of a server may.
const maxTotal = 64 << 20

// maxOfList bounds the problems of one list.
const maxOfList = 1000

// List is the prompts of a folder at one moment. It is immutable.
type List struct {
	// Prompts are in the order of their paths, and Definitions are theirs.
	Prompts     []*Prompt
	Definitions []jsontext.Value
	// Problems are sorted by place.
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

// Folder reads the prompts of one upstream. Only one goroutine may use it.
type Folder struct {
	upstream config.Upstream
	entries  map[string]*entry
	list     *List
	idle     []string // the patterns that match nothing
}

// entry is what is known of one file.
type entry struct {
	// prompt is the last good one; nil if there never was one.
	prompt   *Prompt
	problems []Problem
	// inputs are the files that it was read from, as they were just before, its own included.
	inputs []input
}

type input struct {
	path string
	stamp
}

// NewFolder returns the folder of an upstream with files. Nothing is read yet.
func NewFolder(u config.Upstream) *Folder {
	return &Folder{upstream: u, entries: map[string]*entry{}, list: &List{}}
}

// Read reads the files of an upstream once.
func Read(u config.Upstream) (*List, error) { return NewFolder(u).Refresh() }

// Refresh reads the files that have changed since the last call, or that were not there, and returns the present list: the
// same one as before if nothing has changed. An error means that it is not known what there is, or that it is too much; it
// is a [Problem] at the upstream's block, and the list before stays good.
func (f *Folder) Refresh() (*List, error) {
	seen, err := look(f.upstream.Files)
	if err != nil {
		return f.list, f.problem(Broken, "Prompts not read", err.Error())
	}
	if most := f.upstream.MaxPrompts; len(seen.found) > most {
		return f.list, f.problem(Broken, "Too many prompts", fmt.Sprintf("there are %d files, more than max_prompts = %d; raise it, or narrow the patterns", len(seen.found), most))
	}
	entries, changed, err := f.read(seen)
	if err != nil {
		return f.list, err
	}
	idle := seen.unmatched()
	if changed || strings.Join(idle, " ") != strings.Join(f.idle, " ") || f.list.byName == nil {
		f.entries, f.idle = entries, idle
		f.list = f.newList(seen.found)
	}
	return f.list, nil
}

// problem returns a problem at the upstream's block.
func (f *Folder) problem(severity Severity, summary, detail string) Problem {
	return Problem{Severity: severity, Path: f.upstream.Place.File, Line: f.upstream.Place.Line, Summary: summary, Detail: sentence(detail)}
}

// read returns the entries of the files that were seen. Those that nothing has changed for are the present ones.
func (f *Folder) read(seen *scan) (entries map[string]*entry, changed bool, err error) {
	entries = make(map[string]*entry, len(seen.found))
	changed = len(seen.found) != len(f.entries)
	var pass *pass // most rounds read nothing
	total := 0
	for _, file := range seen.found {
		e := f.entries[file]
		if e == nil || !e.isCurrent(seen) {
			if pass == nil {
				if pass, err = newPass(f.upstream, seen); err != nil {
					return nil, false, f.problem(Broken, "Prompts not read", err.Error())
				}
				defer pass.close()
			}
			next := pass.entry(file, e)
			changed = changed || e == nil || !e.same(next)
			e = next
		}
		entries[file] = e
		if e.prompt != nil {
			total += e.prompt.size
		}
		if total > maxTotal {
			return nil, false, f.problem(Broken, "Prompts too large", fmt.Sprintf("all prompts together are larger than %d bytes; remove some, or use fewer and smaller images", maxTotal))
		}
	}
	return entries, changed, nil
}

func (e *entry) isCurrent(seen *scan) bool {
	for _, in := range e.inputs {
		if !in.same(seen.stamp(in.path)) {
			return false
		}
	}
	return true
}

// same reports whether two entries are served and reported alike.
func (e *entry) same(other *entry) bool {
	if (e.prompt == nil) != (other.prompt == nil) || len(e.problems) != len(other.problems) {
		return false
	}
	for i := range e.problems {
		if e.problems[i] != other.problems[i] {
			return false
		}
	}
	return e.prompt == nil || e.prompt.Text == other.prompt.Text && string(e.prompt.Definition) == string(other.prompt.Definition) && sameValues(e.prompt, other.prompt)
}

// newList returns the list of the entries. The first of several files with one name counts.
func (f *Folder) newList(found []string) *List {
	l := &List{byName: make(map[string]*Prompt, len(found)), Definitions: []jsontext.Value{}}
	for _, pattern := range f.idle {
		l.Problems = append(l.Problems, f.problem(Doubtful, "Pattern without a file", "no file matches "+pattern+" of files; correct or remove it"))
	}
	for _, file := range found {
		e := f.entries[file]
		l.Problems = append(l.Problems, e.problems...)
		switch {
		case e.prompt == nil:
		case l.byName[e.prompt.Name] != nil:
			l.Problems = append(l.Problems, Problem{
				Severity: Broken, Path: f.shown(file), Summary: "Duplicate name",
				Detail: fmt.Sprintf("The prompt %q is already in %s; set another name in the front matter.", e.prompt.Name, f.shown(l.byName[e.prompt.Name].Path)),
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
	return slices.Clip(problems[:maxOfList])
}

// shown returns a path from the root as problems show it.
func (f *Folder) shown(file string) string { return shownIn(f.upstream)(file) }

func shownIn(u config.Upstream) func(string) string {
	return func(file string) string { return filepath.Join(u.Files.Root, filepath.FromSlash(file)) }
}

// pass reads files during one refresh, those that several prompts include once.
type pass struct {
	upstream config.Upstream
	seen     *scan
	opener   *opener
	texts    map[string]readText
	inputs   []input // of the entry that is being read
}

type readText struct {
	text string
	err  error
}

func newPass(u config.Upstream, seen *scan) (*pass, error) {
	opener, err := open(u.Files)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", u.Files.Root, err)
	}
	return &pass{upstream: u, seen: seen, opener: opener, texts: map[string]readText{}}, nil
}

func (p *pass) close() { p.opener.close() }

// entry reads a file. If it is broken, the prompt of the entry before stays.
func (p *pass) entry(file string, before *entry) *entry {
	p.inputs = nil
	prompt, problems := parse(file, p.upstream.Texts, p, shownIn(p.upstream))
	if prompt == nil && before != nil {
		prompt = before.prompt
	}
	return &entry{prompt: prompt, problems: problems, inputs: p.inputs}
}

// text implements [reader].
func (p *pass) text(file string) (string, error) {
	p.note(file)
	read, known := p.texts[file]
	if !known {
		read.text, read.err = p.opener.text(file)
		p.retry(read.err)
		if len(p.inputs) > 1 { // a partial, which others may include, too
			p.texts[file] = read
		}
	}
	return read.text, read.err
}

// media implements [reader].
func (p *pass) media(file string) ([]byte, error) {
	p.note(file)
	content, err := p.opener.media(file)
	p.retry(err)
	return content, err
}

// note notes the state of a file before it is read, so that a later change shows.
func (p *pass) note(file string) { p.inputs = append(p.inputs, input{file, p.seen.stamp(file)}) }

// retry has the last file that was noted read again in the next round, if the system failed to read it: the reason may go
// without a trace on the file.
func (p *pass) retry(err error) {
	if number, ok := errors.AsType[syscall.Errno](err); ok && number != syscall.ENOENT {
		p.inputs[len(p.inputs)-1].unsettled = true
	}
}
