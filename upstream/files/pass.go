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

// pass reads the changed files of a team. It is the [reader] of their prompts.
type pass struct {
	team   *Team
	opener *opener
	// ended returns the error of the pass's context: nil until the context ends.
	ended func() error
	// over is the error for too many files or bytes. It is nil while the pass is within the bounds.
	over    error
	entries int   // counts visited files and folders
	bytes   int64 // counts the bytes of all prompt files
	// infos maps a path from the root to the status of the file, or to nil for a missing file.
	infos map[string]fs.FileInfo
	// partials and images contain the partials, images and sounds of this pass by path. Each is
	// read once, and shared by all prompts that contain it.
	partials map[string]partial
	images   map[string]image
	// inputs are the files that were read for the current prompt.
	inputs []input
	// root is the absolute path of the root. manifests contains the formats that client manifests
	// determine, by folder.
	root      string
	manifests map[string]config.FileFormat
	// isForeign is true if the current prompt is in a client's format.
	isForeign bool
}

// partial is an included document, or the error of reading it.
type partial struct {
	*document

	err error
}

// image is an image or a sound, or the error of reading it.
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

// run returns the entries of all files of the blocks. Entries of unchanged files keep their pointers.
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
		if b.err == nil { // after an error the block keeps its skills
			p.addSkills(b)
		}
	}
	return entries, p.err()
}

// current returns the previous entry of a file if nothing has changed, and otherwise a new entry.
func (p *pass) current(key entryKey, before *entry) *entry {
	if before == nil || slices.ContainsFunc(before.inputs, func(in input) bool { return !in.isCurrent(p.info(in.path)) }) {
		return p.read(key, before)
	}
	for _, in := range before.inputs { // keep the media for the next pass
		if i, ok := p.team.images[in.path]; ok {
			p.images[in.path] = i
		}
	}
	return before
}

// read reads a file. If the file is broken, the entry keeps the previous prompt.
func (p *pass) read(key entryKey, before *entry) *entry {
	p.inputs, p.isForeign = nil, key.isForeign()
	prompt, problems := parse(key, p, func(file string) string { return onDisk(p.team.source, file) })
	next := &entry{prompt: prompt, problems: slices.Clip(problems), inputs: slices.Clip(p.inputs)}
	isBroken := slices.ContainsFunc(problems, Problem.IsBroken)
	if before != nil && before.prompt != nil && (isBroken || prompt != nil && before.prompt.same(prompt)) {
		// Keep the pointer of an equal prompt: the block compares pointers to recognise an
		// unchanged list.
		next.prompt = before.prompt
	}
	return next
}

// document implements [reader].
func (p *pass) document(file string) (*document, error) {
	// The first document of a prompt is its own file.
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
	if isPartial { // other prompts may include the same partial
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
			read.media = before.media // share the memory with unchanged prompts
		}
	}
	p.images[file] = read
	p.retry(file, read.err)
	return read.media, read.err
}

// note adds a file to the inputs before the file is read, so that a later change is noticed. After
// an error, the file must not be read.
func (p *pass) note(file string) error {
	if !slices.ContainsFunc(p.inputs, func(in input) bool { return in.path == file }) {
		p.inputs = append(p.inputs, newInput(file, p.info(file)))
	}
	return p.err()
}

// retry makes the next pass read a file again if reading failed, because the cause may go away without a change of the file.
func (p *pass) retry(file string, err error) {
	if number, ok := errors.AsType[syscall.Errno](err); ok && number != syscall.ENOENT {
		at := slices.IndexFunc(p.inputs, func(in input) bool { return in.path == file })
		p.inputs[at].isUncertain = true
	}
}

// info returns a file's status, or nil if the file is missing. It asks the file system once per
// pass.
func (p *pass) info(file string) fs.FileInfo {
	info, known := p.infos[file]
	if !known {
		// Ignore Stat's error: info is then nil, and differs once the file is readable.
		info, _ = p.opener.within.Stat(filepath.FromSlash(file))
		_ = p.learn(file, info) // note returns the error before the file is read
	}
	return info
}

// learn records a file's status, and counts the file's bytes against the team's bound. A file over maxMedia is not counted, because it will
// not be read.
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
