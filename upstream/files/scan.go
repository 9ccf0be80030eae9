package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
)

const (
	// maxEntries bounds the files and folders that are looked at for one upstream, and maxFolders how deeply they are nested.
	maxEntries = 100_000
	maxFolders = 32
	// tick and coarseTick are how long a file may change again without another time: on most file systems, and on those that
	// know seconds only.
	tick       = 100 * time.Millisecond
	coarseTick = 2 * time.Second
)

// stamp tells one state of a file from another, without reading it. The zero stamp is that of no file.
type stamp struct {
	info fs.FileInfo // of the file that links lead to
	// unsettled means that a later change may not show: the file was very new, or could not be read.
	unsettled bool
}

func newStamp(info fs.FileInfo) stamp {
	age, least := time.Since(info.ModTime()), tick
	if info.ModTime().Nanosecond() == 0 {
		least = coarseTick
	}
	return stamp{info, age < least}
}

func (s stamp) same(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	return !s.unsettled && os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() &&
		s.info.Mode() == other.info.Mode() && s.info.ModTime().Equal(other.info.ModTime())
}

// scan is one look at the paths of an upstream's files. It reads none of them.
type scan struct {
	files *config.Files
	// folder is the path of the patterns' folder from the root, with slashes.
	folder string
	// found are the files that match a pattern, in the order of their paths, and stamps what was looked at.
	found   []string
	stamps  map[string]stamp
	matched []bool // by the index of the pattern
	entries int
}

// look walks the folders that can have matches. An error means that what is there is not known.
func look(files *config.Files) (*scan, error) {
	relative, err := filepath.Rel(files.Root, files.Folder)
	if err != nil {
		return nil, err
	}
	s := &scan{files: files, folder: filepath.ToSlash(relative), stamps: map[string]stamp{}, matched: make([]bool, len(files.Patterns))}
	for _, p := range files.Patterns {
		folder := s.path(path.Join(s.folder, p.Folder()))
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("there is no folder %s; make it, or correct the pattern %q", folder, p)
		}
	}
	start := make([]config.PathPosition, len(files.Patterns))
	for i, p := range files.Patterns {
		start[i] = p.Start()
	}
	if err := s.walk(place{path: s.folder, positions: start}); err != nil {
		return nil, err
	}
	slices.Sort(s.found)
	return s, nil
}

// path returns where a path from the root is.
func (s *scan) path(file string) string { return filepath.Join(s.files.Root, filepath.FromSlash(file)) }

// place is a folder on the way of a walk.
type place struct {
	path string // from the root, with slashes
	// positions are those in the patterns, and above the folders around it.
	positions []config.PathPosition
	above     []fs.FileInfo
}

// walk looks at a folder.
func (s *scan) walk(at place) error {
	here := s.path(at.path)
	info, err := os.Stat(here)
	if err != nil {
		return goneOr(here, err)
	}
	if len(at.above) > maxFolders || slices.ContainsFunc(at.above, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return nil // a link that leads back up
	}
	entries, err := os.ReadDir(here)
	if err != nil {
		return goneOr(here, err)
	}
	if s.entries += len(entries); s.entries > maxEntries {
		return fmt.Errorf("there are more than %d files and folders in %s; narrow the patterns, or keep other files elsewhere", maxEntries, s.path(s.folder))
	}
	at.above = append(slices.Clip(at.above), info)
	for _, entry := range entries {
		if err := s.entry(at, entry); err != nil {
			return err
		}
	}
	return nil
}

// goneOr returns nil for what was there a moment ago.
func goneOr(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("cannot read %s: %w", path, cause(err))
}

func (s *scan) entry(at place, entry fs.DirEntry) error {
	isLink := entry.Type()&fs.ModeSymlink != 0
	matches, enters := false, false
	for i, p := range s.files.Patterns {
		position := p.Next(at.positions[i], entry.Name())
		enters = enters || p.Enters(position)
		if p.Ends(position) {
			matches, s.matched[i] = true, true
		}
	}
	if !matches && (!enters || !entry.IsDir() && !isLink) {
		return nil
	}
	file := at.path + "/" + entry.Name()
	if at.path == "." {
		file = entry.Name()
	}
	info, err := entry.Info()
	if isLink {
		info, err = os.Stat(s.path(file))
	}
	switch {
	case err != nil:
		if matches && isLink { // a dangling link is a mistake, a file that is gone is not
			s.add(file, stamp{})
		}
	case info.IsDir() && enters && (!isLink || s.isBeneath(file)):
		return s.walk(s.below(at, file, entry.Name()))
	case matches && !info.IsDir():
		s.add(file, newStamp(info))
	}
	return nil
}

// below returns the place of a folder in another one.
func (s *scan) below(at place, file, name string) place {
	positions := make([]config.PathPosition, len(at.positions))
	for i, p := range s.files.Patterns {
		positions[i] = p.Next(at.positions[i], name)
	}
	return place{file, positions, at.above}
}

func (s *scan) add(file string, at stamp) {
	s.found = append(s.found, file)
	s.stamps[file] = at
}

// isBeneath reports whether a link leads to something beneath the root. Nobody is told what is in other folders.
func (s *scan) isBeneath(file string) bool {
	root, err := filepath.EvalSymlinks(s.files.Root)
	if err != nil {
		return false
	}
	actual, err := filepath.EvalSymlinks(s.path(file))
	if err != nil {
		return false
	}
	relative, err := filepath.Rel(root, actual)
	return err == nil && filepath.IsLocal(relative)
}

// stamp returns the present stamp of a file.
func (s *scan) stamp(file string) stamp {
	if known, ok := s.stamps[file]; ok {
		return known
	}
	var at stamp
	if info, err := os.Stat(s.path(file)); err == nil {
		at = newStamp(info)
	}
	s.stamps[file] = at
	return at
}

// unmatched returns the patterns that match nothing.
func (s *scan) unmatched() (patterns []string) {
	for i, p := range s.files.Patterns {
		if !s.matched[i] {
			patterns = append(patterns, `"`+strings.ReplaceAll(p.String(), `"`, "")+`"`)
		}
	}
	return patterns
}
