package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/safefile"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxEntries bounds the files and folders that one pass visits for a team.
const maxEntries = 100_000

// find returns the files that match a block's patterns, in the order of their paths, and the patterns without a file. It reads no file.
func (p *pass) find(b *block) (found []entryKey, idle []string, err error) {
	source := b.upstream.Files
	for _, pattern := range source.Patterns {
		if err := p.checkFolder(source, pattern.Folder()); err != nil {
			return nil, nil, err
		}
	}
	folder, err := filepath.Rel(source.Root, source.Folder)
	if err != nil {
		return nil, nil, err
	}
	folder = filepath.ToSlash(folder)
	// Patterns are relative to the folder of the team's file, and paths are relative to the root.
	relative := func(file string) string { return strings.TrimPrefix(file, folder+"/") }
	isMatched := make([]bool, len(source.Patterns))
	matches := func(key entryKey) (some bool) {
		for i, pattern := range source.Patterns {
			if pattern.Match(relative(key.path)) || key.isForeign() && pattern.MatchHidden(relative(key.path)) {
				some, isMatched[i] = true, true
			}
		}
		return some
	}
	skip := func(file string) bool {
		return !slices.ContainsFunc(source.Patterns, func(pattern config.PathPattern) bool {
			return pattern.MatchHidden(relative(file)) || pattern.Enters(relative(file))
		})
	}
	err = safefile.Walk(p.opener.within, folder, skip, func(f safefile.File) error {
		p.entries++
		key := p.key(b, f.Path)
		if f.LeadsOut() && !matches(key) && isSkillFolder(source, relative(f.Path)) { // add its SKILL.md, so that reading it reports the link
			key = p.key(b, path.Join(f.Path, wire.SkillFile))
		}
		switch {
		case p.err() != nil:
			return p.err()
		case p.entries > maxEntries:
			p.over = failed("Prompts not read", "there are more than %d files and folders in %s; narrow the patterns, or keep "+
				"other files elsewhere", maxEntries, source.Folder)
			return p.over
		case f.Err != nil && f.Link == "":
			if errors.Is(f.Err, fs.ErrNotExist) { // the file was removed during the walk
				return nil
			}
			return fmt.Errorf("cannot read %s: %w", onDisk(source, f.Path), safefile.Cause(f.Err))
		case f.IsDir():
			return nil
		case !matches(key):
			return fs.SkipDir // skip only this path: a link with a matching name may lead to the same file
		case len(found) == b.upstream.MaxPrompts:
			return failed("Too many prompts", "there are more files than max_prompts = %d; raise it, or narrow the patterns", len(found))
		}
		found = append(found, key) // add a dangling link, too: reading it reports the reason
		return p.learn(key.path, f.Info)
	})
	for i, pattern := range source.Patterns {
		if !isMatched[i] {
			idle = append(idle, `"`+strings.ReplaceAll(pattern.String(), `"`, "")+`"`)
		}
	}
	slices.SortFunc(found, func(a, b entryKey) int { return strings.Compare(a.path, b.path) })
	return found, idle, err
}

// isSkillFolder reports whether a folder is a skill's, judging by its place in a folder "skills" or
// by a pattern for its SKILL.md.
func isSkillFolder(source *config.Files, folder string) bool {
	file := path.Join(folder, wire.SkillFile)
	return path.Base(path.Dir(folder)) == "skills" || slices.ContainsFunc(source.Patterns, func(pattern config.PathPattern) bool {
		return path.Base(pattern.String()) == wire.SkillFile && pattern.MatchHidden(file)
	})
}

// checkFolder returns an error for the first part of a path that is not a folder. The text is the same for all patterns, so that equal
// errors can be merged.
func (p *pass) checkFolder(source *config.Files, folder string) error {
	at := source.Folder
	for name := range strings.SplitSeq(folder, "/") {
		at = filepath.Join(at, name)
		relative, err := filepath.Rel(source.Root, at)
		if err != nil {
			return err
		}
		switch info, err := p.opener.within.Stat(relative); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("there is no folder %s; make it, or correct files", at)
		case err != nil && !isOfSystem(err): // the same error for all links that lead out of the root, so that it reveals nothing
			return fmt.Errorf("the link %s leads to nothing inside of %s; put a folder in its place, or correct files", at, source.Root)
		case err != nil:
			return fmt.Errorf("cannot read %s: %w", at, safefile.Cause(err))
		case !info.IsDir():
			return fmt.Errorf("the path %s is not a folder; put one in its place, or correct files", at)
		}
	}
	return nil
}
