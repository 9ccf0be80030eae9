package files

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/promptweir/promptweir/config"
)

// pass reads the files of a team that have changed. It is the [reader] of their prompts.
type pass struct {
	team *Team
	step func() error
	// ended is why the pass has ended early; nil while it goes on.
	ended error
	// over is why the team's files are too much; nil if they are not.
	over   error
	walk   *walk
	opener *opener
	held   account
	// fresh is what new entries hold, and isCut means that some files are left to the next pass:
	// what was held until now and what takes its place is in memory at once.
	fresh account
	isCut bool

	// Partials and media are read once, by path; media of the same content are one.
	partials map[string]outcome[document]
	images   map[string]outcome[media]
	contents map[mediaKey]*media
	included int // bytes of partials

	// size is that of the files that were read, scanned what was examined of it, and rested that at
	// the last step; in bytes.
	size, scanned, rested int64
	// inputs are those of the prompt that is being read, and noted their indexes by path.
	inputs []input
	noted  map[string]int
	// digests are those of the files of skills, by path.
	digests map[string]fileDigest
}

// outcome is a document or media, or why there is none.
type outcome[T any] struct {
	value *T
	err   error
}

func newPass(t *Team, step func() error) *pass {
	return &pass{
		team: t, step: step, held: newAccount(), fresh: newAccount(), noted: map[string]int{},
		digests: map[string]fileDigest{}, contents: map[mediaKey]*media{},
		partials: map[string]outcome[document]{}, images: map[string]outcome[media]{},
	}
}

func (p *pass) close() {
	if p.opener != nil {
		p.opener.close()
	}
}

// rest gives others a chance to run, and notices that the pass has to end.
func (p *pass) rest() error {
	if p.ended == nil {
		p.ended = p.step()
	}
	return p.ended
}

// run returns the entries of all files of the blocks: those that nothing has changed for are the
// present ones.
func (p *pass) run(blocks []*block) (map[entryKey]*entry, error) {
	p.walk = newWalk(p.team.source, blocks, p.rest, &p.team.cost)
	if err := p.walk.run(); err != nil {
		return nil, err
	}
	folders := map[string]error{}
	for i, b := range blocks {
		b.find(p.walk.found[i], p.walk.unmatched(i), p.walk.missing(b.upstream.Files, folders))
	}
	entries := make(map[entryKey]*entry, len(p.team.entries))
	for _, b := range blocks {
		for _, file := range b.next {
			if b.upstream.Skills == config.SkillsOnly && formatOf(file) == skill {
				continue
			}
			if err := p.add(entries, b, file); err != nil {
				return nil, err
			}
		}
		if b.err == nil { // else what it had stays
			if err := p.addSkills(b); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

// add adds the entry of one file of a block.
func (p *pass) add(entries map[entryKey]*entry, b *block, file string) (err error) {
	key := b.key(file)
	e, isAdded := entries[key]
	if !isAdded {
		if e, err = p.current(key, p.team.entries[key]); err != nil {
			return err
		}
		entries[key] = e
		if e != nil {
			p.held.add(e)
		}
	}
	if e != nil {
		p.held.total += e.listed()
	}
	return cmp.Or(p.checkHeld(b), p.over)
}

// checkHeld returns an error if the team's files hold too much.
func (p *pass) checkHeld(b *block) error {
	if most := p.team.source.Max; p.held.total > most {
		return failed("Prompts too large", "the prompt files of team %q together take more "+
			"than %d bytes of memory, so all stay unchanged; remove some, use fewer and smaller images, or %s", b.upstream.Team, most, p.team.source.Raise())
	}
	return nil
}

// current returns the present entry of a file, which may be nil, or a newer one.
func (p *pass) current(key entryKey, present *entry) (*entry, error) {
	if present != nil && p.isCurrent(present) {
		return present, p.ended
	}
	// The first pass is never cut: there is nothing yet whose place is taken.
	if before := p.team.held.total; before > 0 && before+p.fresh.total > p.team.source.Max/2*3 {
		p.isCut = true
	}
	if p.isCut {
		return present, nil
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	next := p.read(key, present)
	if p.ended != nil {
		return nil, p.ended
	}
	p.fresh.add(next)
	return next, nil
}

// open opens the team's folder, in which most passes read nothing.
func (p *pass) open() error {
	if p.opener != nil {
		return nil
	}
	opener, err := open(p.team.source)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", p.team.source.Root, err)
	}
	p.opener = opener
	return nil
}

func (p *pass) isCurrent(e *entry) bool {
	return !slices.ContainsFunc(e.inputs, func(in input) bool { return !in.same(p.walk.stamp(in.path)) })
}

// read reads a file. If it is broken, the prompt of the entry before stays.
func (p *pass) read(key entryKey, before *entry) *entry {
	p.inputs = nil
	clear(p.noted)
	prompt, problems := parse(key.path, key.texts, p, func(file string) string { return onDisk(p.team.source, file) })
	next := &entry{prompt: prompt, problems: slices.Clip(problems), inputs: slices.Clip(p.inputs)}
	if prompt == nil {
		p.forget()
	}
	if before != nil && before.prompt != nil && (prompt == nil || before.prompt.same(prompt)) {
		// The same pointer, by which a block sees that its list is the same.
		next.prompt = before.prompt
	}
	next.size = next.measure()
	return next
}

// forget forgets the media of a broken prompt, of which nobody counts what they hold.
func (p *pass) forget() {
	for _, in := range p.inputs {
		if m := p.images[in.path].value; m != nil && p.held.media[m.key] == nil && p.fresh.media[m.key] == nil {
			delete(p.images, in.path)
			delete(p.contents, m.key)
		}
	}
}

// document implements [reader].
func (p *pass) document(file string) (*document, error) {
	// The first document that a prompt reads is its own file.
	isPartial := len(p.inputs) > 0
	p.note(file)
	read, known := p.partials[file]
	if !known {
		read.value, read.err = p.readDocument(file)
	}
	if isPartial && !known { // which others may include, too
		if p.partials[file] = read; read.value != nil {
			p.included += len(read.value.content)
		}
		if p.included > maxIncluded {
			p.over = failed("Partials too large",
				"the partials of the team's prompts are larger than %d bytes together, so all "+
					"prompts stay unchanged; make them smaller", maxIncluded)
		}
	}
	p.retry(file, read.err)
	return read.value, read.err
}

func (p *pass) readDocument(file string) (*document, error) {
	content, err := p.opener.text(file)
	p.count(len(content))
	if err == nil {
		err = p.scan(len(content))
	}
	if err != nil {
		return nil, err
	}
	return newDocument(content)
}

// media implements [reader].
func (p *pass) media(file string) (*media, error) {
	p.note(file)
	read, known := p.images[file]
	if !known {
		var content []byte
		content, read.err = p.opener.media(file)
		if p.count(len(content)); read.err == nil {
			read.value = p.shared(file, content)
		}
		p.images[file] = read
	}
	p.retry(file, read.err)
	return read.value, read.err
}

// shared returns the media of a content: the one that another prompt of the team has, if there is
// one.
func (p *pass) shared(file string, content []byte) *media {
	m, _ := mediaOf(file)
	m.key = mediaKey{sha256.Sum256(content), m.mime}
	for _, known := range []map[mediaKey]*media{p.team.held.media, p.contents} {
		if same := known[m.key]; same != nil {
			return same
		}
	}
	m.base64 = make([]byte, base64.StdEncoding.EncodedLen(len(content)))
	base64.StdEncoding.Encode(m.base64, content)
	p.contents[m.key] = &m
	return &m
}

// note notes the state of a file before it is read, so that a later change shows.
func (p *pass) note(file string) {
	if _, known := p.noted[file]; !known {
		p.noted[file] = len(p.inputs)
		p.inputs = append(p.inputs, input{file, p.walk.stamp(file)})
	}
}

// retry has a file read again in the next pass, if the system failed to read it: the reason may go
// without a trace on the file.
func (p *pass) retry(file string, err error) {
	if number, ok := errors.AsType[syscall.Errno](err); ok && number != syscall.ENOENT {
		p.inputs[p.noted[file]].unsettled = true
	}
}

// count counts a file that was read.
func (p *pass) count(bytes int) {
	p.team.cost.Files++
	p.team.cost.Bytes += int64(bytes)
	p.size += int64(max(bytes, leastFile))
	_ = p.rest() // noticed by whoever looks at ended
}

// scan implements [reader].
func (p *pass) scan(bytes int) error {
	if p.scanned+int64(bytes) > maxScans*p.size {
		p.over = failed("Partials included too often",
			"the text of the team's prompts is more than %d times as large as their files, so "+
				"all prompts stay unchanged; include less by partials", maxScans)
		return p.over
	}
	p.team.cost.Scanned += int64(bytes)
	p.scanned += int64(bytes)
	if p.scanned-p.rested >= scansPerStep {
		p.rested = p.scanned
		return p.rest()
	}
	return p.ended
}
