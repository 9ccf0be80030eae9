package files

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/promptweir/promptweir/config"
)

// pass reads the files of a team that have changed. It is the [reader] of their prompts.
type pass struct {
	team   *Team
	opener *opener
	// ended returns why the pass has to end early; nil while it goes on.
	ended func() error
	// over is why the team's files are too much; nil while they are not.
	over    error
	entries int   // files and folders that were visited
	bytes   int64 // of all files that prompts are read from
	// infos are those of files by path from the root; nil for a file that is not there.
	infos map[string]fs.FileInfo
	// Each partial, image and sound is read once, and shared by all prompts that contain it.
	partials map[string]partial
	images   map[string]image
	// inputs are those of the prompt that is being read.
	inputs []input
	// digests are those of the files of skills, by path.
	digests map[string]fileDigest
	// root is absolute, and manifests are the formats that manifests name, by folder.
	root      string
	manifests map[string]config.FileFormat
	// isForeign means that the prompt that is being read is in a client's format.
	isForeign bool
}

// partial is a document that prompts include, or the error of reading it.
type partial struct {
	*document

	err error
}

// image is an image or a sound that prompts contain, or the error of reading it.
type image struct {
	*media

	input input
	err   error
}

func (p *pass) err() error {
	if err := p.ended(); err != nil {
		return err
	}
	return p.over
}

// run returns the entries of all files of the blocks. Entries of unchanged files stay the same.
func (p *pass) run(blocks []*block) (map[entryKey]*entry, error) {
	for _, b := range blocks {
		found, idle, err := p.find(b)
		switch {
		case p.err() != nil:
			return nil, p.err()
		case err != nil:
			b.err = b.problem(Broken, err)
		default:
			b.next, b.nextIdle = found, idle
		}
	}
	entries := make(map[entryKey]*entry, len(p.team.entries))
	for _, b := range blocks {
		for _, key := range b.next {
			if b.upstream.Skills == config.SkillsOnly && key.format == config.FormatSkill {
				continue
			}
			if entries[key] == nil {
				entries[key] = p.current(key, p.team.entries[key])
			}
			if err := p.err(); err != nil {
				return nil, err
			}
		}
		if b.err == nil { // otherwise the block keeps its skills
			p.addSkills(b)
		}
	}
	return entries, p.err()
}

// current returns the entry of a file: the one before, or a newer one.
func (p *pass) current(key entryKey, before *entry) *entry {
	if before == nil || slices.ContainsFunc(before.inputs, func(in input) bool { return !in.isCurrent(p.info(in.path)) }) {
		return p.read(key, before)
	}
	for _, in := range before.inputs { // the next pass shares them with prompts that it reads
		if i, ok := p.team.images[in.path]; ok {
			p.images[in.path] = i
		}
	}
	return before
}

// read reads a file. If it is broken, the prompt of the entry before stays.
func (p *pass) read(key entryKey, before *entry) *entry {
	p.inputs, p.isForeign = nil, key.isForeign()
	prompt, problems := parse(key, p, func(file string) string { return onDisk(p.team.source, file) })
	next := &entry{prompt: prompt, problems: slices.Clip(problems), inputs: slices.Clip(p.inputs)}
	isBroken := slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Broken })
	if before != nil && before.prompt != nil && (isBroken || prompt != nil && before.prompt.same(prompt)) {
		// The same pointer, by which a block sees that its list is the same.
		next.prompt = before.prompt
	}
	return next
}

// document implements [reader].
func (p *pass) document(file string) (*document, error) {
	// The first document that a prompt reads is its own file.
	isPartial := len(p.inputs) > 0
	if err := p.note(file); err != nil {
		return nil, err
	}
	read, known := p.partials[file]
	if !known {
		p.team.reads++
		var content string
		if content, read.err = p.opener.text(file, !isPartial && p.isForeign); read.err == nil {
			read.document = newDocument(content)
		}
	}
	if isPartial { // other prompts may include it, too
		p.partials[file] = read
	}
	p.retry(file, read.err)
	return read.document, read.err
}

// image implements [reader].
func (p *pass) image(file string) (*media, error) {
	if err := p.note(file); err != nil {
		return nil, err
	}
	read, known := p.images[file]
	before := p.team.images[file]
	switch {
	case known:
	case before.media != nil && before.input.isCurrent(p.info(file)):
		read = before
	default:
		p.team.reads++
		read.input = newInput(file, p.info(file))
		var content []byte
		if content, read.err = p.opener.media(file); read.err == nil {
			m, _ := mediaOf(file)
			m.base64 = base64.StdEncoding.AppendEncode(nil, content)
			read.media = &m
		}
		if read.media != nil && before.media != nil && bytes.Equal(read.base64, before.base64) {
			read.media = before.media // the one that unchanged prompts have
		}
	}
	p.images[file] = read
	p.retry(file, read.err)
	return read.media, read.err
}

// note adds a file to the inputs before it is read, so that a later change shows. The error is why
// it may not be read.
func (p *pass) note(file string) error {
	if !slices.ContainsFunc(p.inputs, func(in input) bool { return in.path == file }) {
		p.inputs = append(p.inputs, newInput(file, p.info(file)))
	}
	return p.err()
}

// retry has a file read again in the next pass, if the system failed to read it: the cause may go
// without a trace on the file.
func (p *pass) retry(file string, err error) {
	if number, ok := errors.AsType[syscall.Errno](err); ok && number != syscall.ENOENT {
		at := slices.IndexFunc(p.inputs, func(in input) bool { return in.path == file })
		p.inputs[at].isOpen = true
	}
}

// info returns what the system says about a file, once in a pass.
func (p *pass) info(file string) fs.FileInfo {
	info, known := p.infos[file]
	if !known {
		// The error does not matter: as soon as the file can be read, its info differs from nil.
		info, _ = p.opener.within.Stat(filepath.FromSlash(file))
		_ = p.learn(file, info) // note returns the error before the file is read
	}
	return info
}

// learn notes what the system says about a file, and counts its bytes against the team's bound. A
// file that is too large by itself is not read, and costs nothing.
func (p *pass) learn(file string, info fs.FileInfo) error {
	if _, known := p.infos[file]; known {
		return p.err()
	}
	if p.infos[file] = info; info == nil || info.Size() > maxMedia {
		return p.err()
	}
	if p.bytes += info.Size(); p.bytes > int64(p.team.source.Max) && p.over == nil {
		p.over = failed("Prompts too large", "the prompt files of the team, with their images and sounds, have more than %d bytes "+
			"together, so all prompts stay unchanged; remove some, or %s", p.team.source.Max, p.team.source.Raise())
	}
	return p.err()
}
