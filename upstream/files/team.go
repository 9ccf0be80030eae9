package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
)

// Team reads the prompt files of one team's upstreams, which total at most [config.Files.Max]
// bytes. Only one goroutine may use it. The zero value is ready.
type Team struct {
	source  *config.Files
	blocks  map[string]*block // by the upstream's label
	entries map[entryKey]*entry
	images  map[string]image // by path
	reads   int              // counts the reads of files in all passes, for tests
}

// block is the state of one upstream's files.
type block struct {
	upstream config.Upstream
	found    []entryKey // in the order of their paths
	idle     []string   // patterns without a match
	list     *List
	// next and nextIdle replace found and idle when a pass succeeds.
	next     []entryKey
	nextIdle []string
	// skills are the block's skills by the path of their SKILL.md. nextSkills replaces skills when
	// a pass succeeds.
	skills, nextSkills map[string]*skillFolder
	// err is a [Problem] of the upstream's block, or nil. If it is not nil, the block keeps its
	// list.
	err error
}

// entryKey identifies an entry. The prompt of an entry depends only on the key and on the contents
// of files.
type entryKey struct {
	path  string
	texts bool // the upstream's setting: definitions contain a hash of the text
	sign
}

// entry is the state of one file.
type entry struct {
	// prompt is the last good prompt, or nil if there has been no good prompt.
	prompt   *Prompt
	problems []Problem
	// inputs are the files that were read for the prompt, including its own file. Each has its
	// status from just before it was read.
	inputs []input
}

// Result is the result of a pass for one upstream.
type Result struct {
	// List is the previous List if nothing has changed.
	List *List
	// Err is nil, or a [Problem] of the upstream's block: its files cannot be listed, or are too
	// many. Then List is the last good List.
	Err error
}

// Read reads the files of upstreams once. The results have the order of the upstreams, and are zero for upstreams without files. If ctx
// ends early, each Err is ctx's error.
func Read(ctx context.Context, upstreams []config.Upstream) []Result {
	// Group by team and folder: in the command try, one team has several folders.
	results, teams := make([]Result, len(upstreams)), map[[2]string][]int{}
	for i, u := range upstreams {
		if u.Files != nil {
			folder := [2]string{u.Team, u.Files.Folder}
			teams[folder] = append(teams[folder], i)
		}
	}
	for _, indexes := range teams {
		blocks := exslices.CastFunc(indexes, func(at int) config.Upstream { return upstreams[at] })
		read, err := new(Team).Refresh(ctx, blocks)
		for i, at := range indexes {
			results[at] = Result{List: &List{}, Err: err}
			if err == nil {
				results[at] = read[i]
			}
		}
	}
	return results
}

// Refresh reads the changed files of the upstreams, and returns the current lists in their order. The upstreams must have the same source.
// If ctx ends, it returns the error and changes nothing.
func (t *Team) Refresh(ctx context.Context, upstreams []config.Upstream) ([]Result, error) {
	source := upstreams[0].Files
	if t.source == nil || !t.source.SameSource(source) {
		*t = Team{reads: t.reads} // read everything again, because grants may have been withdrawn
	}
	t.source = source // SameSource ignores changes of the reserved files
	blocks, next := t.present(upstreams), map[string]*block{}
	entries, err := t.pass(ctx, blocks)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var results []Result
	for _, b := range blocks {
		switch {
		case err != nil: // each block of the team keeps its list
			b.err = b.problem(Broken, err)
		case b.err == nil:
			b.complete(t.entries, entries)
		}
		next[b.upstream.Name] = b
		results = append(results, Result{b.list, b.err})
	}
	// Use the new blocks even after an error: they contain the state that the error leaves
	// unchanged.
	if t.blocks = next; err == nil {
		t.entries = entries
	}
	return results, nil
}

// pass reads the changed files of blocks once. After an error nothing has changed.
func (t *Team) pass(ctx context.Context, blocks []*block) (map[entryKey]*entry, error) {
	opener, err := open(t.source)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", t.source.Root, err)
	}
	defer opener.close()
	p := &pass{
		team: t, opener: opener, ended: ctx.Err, infos: map[string]fs.FileInfo{},
		partials: map[string]partial{}, images: map[string]image{}, manifests: map[string]config.FileFormat{},
	}
	if p.root, err = filepath.Abs(t.source.Root); err != nil {
		return nil, err
	}
	entries, err := p.run(blocks)
	if err == nil {
		t.images = p.images
	}
	return entries, err
}

// present returns the blocks of upstreams, with the state of their previous blocks.
func (t *Team) present(upstreams []config.Upstream) []*block {
	blocks := make([]*block, len(upstreams))
	for i, u := range upstreams {
		b := &block{upstream: u, list: &List{}}
		if before := t.blocks[u.Name]; before != nil {
			b.found, b.idle, b.list, b.skills = before.found, before.idle, before.list, before.skills
		}
		b.next, b.nextIdle, b.nextSkills = b.found, b.idle, b.skills // a block that fails keeps this state
		blocks[i] = b
	}
	return blocks
}

// failure is the reason why a team or a block keeps its state after a pass.
type failure struct{ summary, detail string }

func (f *failure) Error() string { return f.detail }

func failed(summary, format string, args ...any) error {
	return &failure{summary, fmt.Sprintf(format, args...)}
}

// problem returns a problem of the upstream's block.
func (b *block) problem(severity Severity, err error) Problem {
	summary := "Prompts not read"
	if f, ok := errors.AsType[*failure](err); ok {
		summary = f.summary
	}
	at := b.upstream.Place
	return Problem{Severity: severity, Path: at.File, Line: at.Line, Summary: summary, Detail: sentence(err.Error())}
}

// complete puts the results of a pass into use. It makes a new list unless the list would equal the
// current one.
func (b *block) complete(before, after map[entryKey]*entry) {
	same := b.list.byName != nil && slices.Equal(b.found, b.next) && slices.Equal(b.idle, b.nextIdle) && maps.Equal(b.skills, b.nextSkills)
	for i := 0; same && i < len(b.next); i++ {
		same = before[b.next[i]].servedLike(after[b.next[i]])
	}
	if b.found, b.idle, b.skills = b.next, b.nextIdle, b.nextSkills; !same {
		b.list = b.newList(after)
	}
}

// shown returns the path that problems show for a file. file is relative to the root.
func (b *block) shown(file string) string { return onDisk(b.upstream.Files, file) }

// onDisk converts a path from the root, with slashes, to a path on the disk.
func onDisk(source *config.Files, file string) string {
	return filepath.Join(source.Root, filepath.FromSlash(file))
}

// servedLike reports whether two entries have the same prompt and problems. Either may be nil.
func (e *entry) servedLike(other *entry) bool {
	return e == other || e != nil && other != nil && e.prompt == other.prompt && slices.Equal(e.problems, other.problems)
}
