package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/promptweir/promptweir/config"
)

// Team reads the files of all upstreams of one team that have any: each file once, up to
// [config.Files.Max] bytes together. Only one goroutine may use it. The zero Team has read nothing.
type Team struct {
	source  *config.Files
	blocks  map[string]*block // by the upstream's label
	entries map[entryKey]*entry
	images  map[string]image      // by path
	digests map[string]fileDigest // of the files of skills, by path
	reads   int                   // of files, in all passes
}

// block is what is known of one upstream's files.
type block struct {
	upstream config.Upstream
	found    []entryKey // in the order of their paths
	idle     []string   // the patterns that match nothing
	list     *List
	// next and nextIdle replace found and idle when the pass is complete.
	next     []entryKey
	nextIdle []string
	// skills are those of the block by the path of SKILL.md, and nextSkills replaces them.
	skills, nextSkills map[string]*skillFolder
	// err is a [Problem] at the upstream's block, for which the list stays as it is; nil for none.
	err error
}

// entryKey is what the prompt of a file depends on, beside files.
type entryKey struct {
	path  string
	texts bool
	sign
}

// entry is what is known of one file.
type entry struct {
	// prompt is the last good one; nil if there never was one.
	prompt   *Prompt
	problems []Problem
	// inputs are the files that it was read from, as they were just before, its own included.
	inputs []input
}

// Result is what a pass makes of one upstream's files.
type Result struct {
	// List is the same as that of the pass before if nothing has changed.
	List *List
	// Err is nil, or a [Problem] at the upstream's block: it is not known what there is, or it is
	// too much. List stays good.
	Err error
}

// Read reads the files of upstreams once. The results are in their order; those of upstreams
// without files are zero. Where ctx ends early, they say so.
func Read(ctx context.Context, upstreams []config.Upstream) []Result {
	results, teams := make([]Result, len(upstreams)), map[string][]int{}
	for i := range upstreams {
		if upstreams[i].Files != nil {
			teams[upstreams[i].Team] = append(teams[upstreams[i].Team], i)
		}
	}
	for _, indexes := range teams {
		blocks := make([]config.Upstream, len(indexes))
		for i, at := range indexes {
			blocks[i] = upstreams[at]
		}
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

// Refresh reads the files of the upstreams that have changed since the last call, and returns the
// current lists in the order of the upstreams, which have the same source. The error is that of
// ctx: nothing has changed then.
func (t *Team) Refresh(ctx context.Context, upstreams []config.Upstream) ([]Result, error) {
	source := upstreams[0].Files
	if t.source == nil || !t.source.SameSource(source) {
		*t = Team{reads: t.reads} // what was granted may no longer be
	}
	t.source = source // another team may read other files as values now
	blocks, next := t.present(upstreams), map[string]*block{}
	entries, err := t.pass(ctx, blocks)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var results []Result
	for _, b := range blocks {
		switch {
		case err != nil: // each list of the team stays
			b.err = b.problem(Broken, err)
		case b.err == nil:
			b.complete(t.entries, entries)
		}
		next[b.upstream.Name] = b
		results = append(results, Result{b.list, b.err})
	}
	// The blocks in any case: they keep what the error leaves as it was.
	if t.blocks = next; err == nil {
		t.entries = entries
	}
	return results, nil
}

// pass reads the files of blocks once. An error changes nothing.
func (t *Team) pass(ctx context.Context, blocks []*block) (map[entryKey]*entry, error) {
	opener, err := open(t.source)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", t.source.Root, err)
	}
	defer opener.close()
	p := &pass{
		team: t, opener: opener, ended: ctx.Err, infos: map[string]fs.FileInfo{},
		partials: map[string]partial{}, images: map[string]image{}, digests: map[string]fileDigest{},
		manifests: map[string]config.FileFormat{},
	}
	if p.root, err = filepath.Abs(t.source.Root); err != nil {
		return nil, err
	}
	entries, err := p.run(blocks)
	if err == nil {
		t.images, t.digests = p.images, p.digests
	}
	return entries, err
}

// present returns the blocks of upstreams, with what was known of those that were there before.
func (t *Team) present(upstreams []config.Upstream) []*block {
	blocks := make([]*block, len(upstreams))
	for i, u := range upstreams {
		b := &block{upstream: u, list: &List{}}
		if before := t.blocks[u.Name]; before != nil {
			b.found, b.idle, b.list, b.skills = before.found, before.idle, before.list, before.skills
		}
		b.next, b.nextIdle, b.nextSkills = b.found, b.idle, b.skills // of a block that fails, what it had stays
		blocks[i] = b
	}
	return blocks
}

// failure is why a team or a block keeps what it had.
type failure struct{ summary, detail string }

func (f *failure) Error() string { return f.detail }

func failed(summary, format string, args ...any) error {
	return &failure{summary, fmt.Sprintf(format, args...)}
}

// problem returns a problem at the upstream's block.
func (b *block) problem(severity Severity, err error) Problem {
	summary := "Prompts not read"
	if f, ok := errors.AsType[*failure](err); ok {
		summary = f.summary
	}
	at := b.upstream.Place
	return Problem{Severity: severity, Path: at.File, Line: at.Line, Summary: summary, Detail: sentence(err.Error())}
}

// complete makes the list of what a pass has found, unless it is the present one.
func (b *block) complete(before, after map[entryKey]*entry) {
	same := b.list.byName != nil && slices.Equal(b.found, b.next) && slices.Equal(b.idle, b.nextIdle) && maps.Equal(b.skills, b.nextSkills)
	for i := 0; same && i < len(b.next); i++ {
		same = before[b.next[i]].servedLike(after[b.next[i]])
	}
	if b.found, b.idle, b.skills = b.next, b.nextIdle, b.nextSkills; !same {
		b.list = b.newList(after)
	}
}

// shown returns a path from the root as problems show it.
func (b *block) shown(file string) string { return onDisk(b.upstream.Files, file) }

// onDisk returns the path of a file by its path from the root, with slashes.
func onDisk(source *config.Files, file string) string {
	return filepath.Join(source.Root, filepath.FromSlash(file))
}

// servedLike reports whether two entries are served and reported alike. Each may be nil.
func (e *entry) servedLike(other *entry) bool {
	return e == other || e != nil && other != nil && e.prompt == other.prompt && slices.Equal(e.problems, other.problems)
}
