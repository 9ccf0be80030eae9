package safefile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// File is a file or a folder that [Walk] visits. Paths are relative to the root, with slashes.
type File struct {
	Path string
	// Actual is the path without links.
	Actual string
	// Link is the actual path of the link if Path is itself a link, otherwise empty.
	Link string
	// Info describes the target of the links. It is nil if Err is set.
	Info fs.FileInfo
	Err  error
}

// IsDir reports whether the file is a folder.
func (f File) IsDir() bool { return f.Info != nil && f.Info.IsDir() }

// LeadsOut reports whether the file is a link that [os.Root] refuses to follow: an absolute link,
// or a link out of the root.
func (f File) LeadsOut() bool {
	_, isOfSystem := errors.AsType[syscall.Errno](f.Err)
	return f.Link != "" && f.Err != nil && !isOfSystem
}

// Walk visits a folder of root, and each file and folder below it, once. It prefers paths without
// links. A file without such a path, because skip excludes its folder, is visited through a link inside
// the root: so Walk finds the files of a mounted ConfigMap. It ends even if links form a loop. If it
// cannot read a folder that it has visited, it visits the folder again with Err set.
//
// Walk does not visit entries for which skip returns true. An error that visit returns ends the walk.
// [fs.SkipDir] skips the visited path, but Walk may still visit the file through a link. [fs.SkipAll]
// ends the walk without an error.
func Walk(root *os.Root, folder string, skip func(path string) bool, visit func(File) error) error {
	actual, err := filepath.EvalSymlinks(root.Name())
	if err != nil {
		return err
	}
	w := walker{root: root, actual: actual, skip: skip, visit: visit, seen: map[string]bool{}}
	w.links = []File{{Path: folder, Actual: folder}}
	for err == nil && len(w.links) > 0 {
		next := w.links[0]
		w.links = w.links[1:]
		err = w.walk(w.resolve(next))
	}
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

type walker struct {
	root   *os.Root
	actual string // the root without links
	skip   func(path string) bool
	visit  func(File) error
	seen   map[string]bool // actual paths
	links  []File          // visited last, because paths without links come first
}

// walk visits a file, and the contents of a folder.
func (w *walker) walk(f File) error {
	if f.Err == nil && w.seen[f.Actual] {
		return nil
	}
	if err := w.visit(f); err != nil {
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		return err
	}
	if w.seen[f.Actual] = true; !f.IsDir() {
		return nil
	}
	entries, err := w.entries(f.Actual)
	if err != nil {
		return w.visit(File{Path: f.Path, Actual: f.Actual, Err: err})
	}
	for _, e := range entries {
		inner := File{Path: path.Join(f.Path, e.Name()), Actual: path.Join(f.Actual, e.Name())}
		switch {
		case w.skip(inner.Path):
		case e.Type()&fs.ModeSymlink != 0:
			inner.Link = inner.Actual
			w.links = append(w.links, inner)
		default:
			// Use e.Info rather than os.Root, which would look up each folder above again.
			inner.Info, inner.Err = e.Info()
			if err := w.walk(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns the entries of a folder by name.
func (w *walker) entries(folder string) ([]fs.DirEntry, error) {
	// Without O_NONBLOCK, a pipe that replaced the folder would block.
	opened, err := w.root.OpenFile(filepath.FromSlash(folder), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	entries, err := opened.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// resolve sets Actual and Info to the target of a link inside the root, or sets Err.
func (w *walker) resolve(f File) File {
	path := filepath.FromSlash(f.Actual)
	if f.Info, f.Err = w.root.Stat(path); f.Err != nil {
		return f
	}
	actual, err := filepath.EvalSymlinks(filepath.Join(w.actual, path))
	if err == nil {
		actual, err = filepath.Rel(w.actual, actual)
	}
	if f.Actual = filepath.ToSlash(actual); err != nil || !filepath.IsLocal(actual) {
		f.Info, f.Err = nil, errors.Join(err, errors.New("the link was replaced while it was followed"))
	}
	return f
}
