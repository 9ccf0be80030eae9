package syncdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/safefile"
)

const (
	// maxFile bounds a file that is read, in bytes. This package writes no larger files.
	maxFile = 32 << 20
	// folderMode and fileMode are for the owner only, because a prompt may be private.
	folderMode = 0o700
	fileMode   = 0o600
	// temporary is the prefix of the names of unfinished files.
	temporary = ".promptweir-"
)

// Run brings a client's folder in line with a source. Call [Run.Write] for one prompt after the other, so that
// only one text is in memory. Then call [Run.Finish] and [Run.Close].
type Run struct {
	Target *Target
	Source string
	// DryRun changes nothing.
	DryRun bool

	root *os.Root // nil until the folder exists and is open
	// have contains the paths of existing files, want the paths of the prompts that Write has received.
	have, want map[string]bool
}

// Folder returns the path of the client's folder, which may not exist.
func (r *Run) Folder() (string, error) {
	base, within, err := r.Target.folder()
	return filepath.Join(base, within), err
}

// open opens and lists the folder. With create, it makes a missing folder. Otherwise it leaves root nil if
// the folder is missing, and returns no error.
func (r *Run) open(create bool) error {
	if r.root != nil {
		return nil
	}
	base, within, err := r.Target.folder()
	if err != nil {
		return err
	}
	root, err := openFolder(base, within, create)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil
	}
	if err == nil {
		r.root = root
		r.have, err = r.Target.scan(root, !r.DryRun)
	}
	return err
}

// Close closes the folder. It does nothing if no folder is open.
func (r *Run) Close() {
	if r.root != nil {
		_ = r.root.Close() // all writes have finished
	}
}

// Write brings the file of a prompt up to date, and returns the change. With DryRun it only returns the change.
func (r *Run) Write(p *Prompt) ([]Change, error) {
	path, w, reason := r.Target.file(p, r.Source)
	if r.want[path] {
		reason = errors.New("another prompt has the same file name")
	} else if reason == nil || p.Absent != nil { // while the text is unknown, Finish keeps the file
		if r.want == nil {
			r.want = map[string]bool{}
		}
		r.want[path] = true
	}
	if reason != nil {
		return []Change{{Action: Refuse, Prompt: p.Name, Reason: reason.Error()}}, nil //nolint:nilerr // a prompt without a file is reported as a change
	}
	// Make the folder only for a prompt: without prompts, a client that is not installed gets no folder.
	if err := r.open(!r.DryRun); err != nil {
		return nil, err
	}
	return r.change(path, &w, false)
}

// Finish handles the files of this source whose prompts Write has not received: it removes the files if
// isComplete is true, because these prompts no longer exist, and otherwise keeps them.
func (r *Run) Finish(isComplete bool) (changes []Change, err error) {
	if err := r.open(false); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(r.have)) {
		if r.want[path] {
			continue
		}
		done, err := r.change(path, nil, isComplete)
		if changes = append(changes, done...); err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// change updates the file at a path, and returns the change, if any. want is the wanted file, or nil if no
// prompt has this path.
func (r *Run) change(path string, want *wanted, isComplete bool) ([]Change, error) {
	content, err := read(r.root, path)
	exists := !errors.Is(err, fs.ErrNotExist)
	if exists && err != nil {
		return nil, err
	}
	c, ok := plan(path, want, exists, content, r.Source, isComplete)
	if !ok {
		return nil, nil
	}
	if !r.DryRun {
		if err := apply(r.root, &c); err != nil {
			return nil, err
		}
	}
	return []Change{c}, nil
}

// openFolder opens the folder whose path relative to base is within. It refuses links in that path, because
// their targets are often in a repository.
func openFolder(base, within string, create bool) (*os.Root, error) {
	if create {
		if err := os.MkdirAll(base, folderMode); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for at := within; at != "."; at = filepath.Dir(at) {
		// Ignore other errors: OpenRoot below reports them.
		if info, err := root.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a link, and links are not followed", filepath.Join(base, at))
		}
	}
	if create {
		if err := root.MkdirAll(within, folderMode); err != nil {
			return nil, err
		}
	}
	return root.OpenRoot(within)
}

// scan returns the paths of the files that have the target's suffix. If clean is true, it removes the unfinished
// files that killed runs left behind.
func (t *Target) scan(root *os.Root, clean bool) (map[string]bool, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	have := map[string]bool{}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, temporary):
			if clean {
				_ = root.Remove(name) // clients ignore such files, and the next run tries again
			}
		case strings.HasPrefix(t.suffix, "/"):
			have[name+t.suffix] = true
		case strings.HasSuffix(name, t.suffix):
			have[name] = true
		}
	}
	return have, err
}

// read returns the content of a file. It returns nil for a path at which this package cannot have written: a
// link, a file in a linked folder, a file larger than maxFile, or another kind of file. If the file does not
// exist, the error is fs.ErrNotExist. A nil root has no files.
func read(root *os.Root, file string) ([]byte, error) {
	if root == nil {
		return nil, fs.ErrNotExist
	}
	if folder := path.Dir(file); folder != "." {
		info, err := root.Lstat(filepath.FromSlash(folder))
		if err != nil || !info.IsDir() {
			return nil, err
		}
	}
	info, err := root.Lstat(filepath.FromSlash(file))
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, err
	}
	return safefile.Read(filepath.FromSlash(file), maxFile, root.OpenFile)
}

// apply makes a change on the disk.
func apply(root *os.Root, c *Change) error {
	name := filepath.FromSlash(c.Path)
	folder := filepath.Dir(name)
	switch c.Action {
	case Keep:
		return nil
	case Remove:
		err := root.Remove(name)
		if folder != "." {
			_ = root.Remove(folder) // fails if the folder is not empty
		}
		return err
	}
	if folder != "." {
		if err := root.Mkdir(folder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	written := temporary + rand.Text() + ".tmp"
	err := safefile.WriteNew(written, c.content, fileMode, root.OpenFile)
	if err == nil {
		err = root.Rename(written, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(written))
	}
	return nil
}
