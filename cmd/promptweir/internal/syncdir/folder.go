package syncdir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/regular"
)

const (
	// maxFile bounds a file that is read, in bytes: more than any prompt has.
	maxFile = 32 << 20
	// maxEntries bounds the entries of a folder.
	maxEntries = 100_000
	// folderMode and fileMode are for this user only, as a prompt may be.
	folderMode = 0o700
	fileMode   = 0o600
	// temporary begins the name of a file that is being written.
	temporary = ".promptweir-"
)

// disk is what a run does to the disk, beneath one folder: an [os.Root], which no link leads out of.
type disk interface {
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Mkdir(name string, perm fs.FileMode) error
	Rename(before, after string) error
	Remove(name string) error
}

// Run brings a client's folder in line with the prompts of a source: [Run.Write] for each prompt, so
// that only one text is in memory, then [Run.Finish] and [Run.Close].
type Run struct {
	Target *Target
	Source string
	// DryRun changes nothing.
	DryRun bool

	disk disk // nil until the folder is there and open
	root *os.Root
	// have are the paths of files that were there, and want those of prompts so far.
	have, want map[string]bool
}

// Folder returns the client's folder.
func (r *Run) Folder() (string, error) {
	base, within, err := r.Target.folder()
	return filepath.Join(base, within), err
}

// open opens the folder, which may not be there, and lists it.
func (r *Run) open(create bool) error {
	if r.disk != nil {
		return nil
	}
	base, within, err := r.Target.folder()
	if err != nil {
		return err
	}
	r.root, err = openFolder(base, within, create)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil
	}
	if err != nil {
		return err
	}
	return r.use(r.root)
}

// use lists an open folder.
func (r *Run) use(d disk) (err error) {
	r.have, err = r.Target.scan(d, !r.DryRun)
	r.disk = d
	return err
}

// Close closes the folder.
func (r *Run) Close() {
	if r.root != nil {
		_ = r.root.Close() // everything is written
	}
}

// Write has the folder hold the file of a prompt, and returns what it did, or would have done.
func (r *Run) Write(p *Prompt) ([]Change, error) {
	path, w, reason := r.Target.file(p, r.Source)
	if r.want[path] {
		reason = errors.New("another prompt has the same file name")
	} else if reason == nil || w.unknown {
		if r.want == nil {
			r.want = map[string]bool{}
		}
		r.want[path] = true
	}
	if reason != nil {
		return []Change{{Action: Refuse, Prompt: p.Name, Reason: reason.Error()}}, nil //nolint:nilerr // a prompt that cannot be written is a change
	}
	// Without a prompt to write, a client that is not there gets no folder.
	if err := r.open(!r.DryRun); err != nil {
		return nil, err
	}
	return r.change(path, map[string]wanted{path: w}, false)
}

// Finish removes the files whose prompts are gone, if the prompts were all that the source has.
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

// change compares one path, and applies what that results in.
func (r *Run) change(path string, want map[string]wanted, isComplete bool) ([]Change, error) {
	have := map[string][]byte{}
	if r.have[path] {
		content, err := read(r.disk, path)
		if err == nil {
			have[path] = content
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	changes := plan(want, have, r.Source, isComplete)
	for i := range changes {
		if r.DryRun {
			break
		}
		if err := apply(r.disk, &changes[i]); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// openFolder opens a folder beneath another. It refuses links: what they lead to is often kept in a
// repository.
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
		// What is not there is no link; any other error shows when the folder is opened.
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

// scan returns the paths that files of the target's kind have or would have, and removes what a run left
// that was killed.
func (t *Target) scan(d disk, clean bool) (map[string]bool, error) {
	names, err := readDir(d, ".")
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, temporary):
			if clean {
				_ = d.Remove(name) // no client reads it, and the next run tries again
			}
		case strings.HasPrefix(t.suffix, "/"):
			have[name+t.suffix] = true
		case strings.HasSuffix(name, t.suffix):
			have[name] = true
		}
	}
	return have, nil
}

func readDir(d disk, name string) ([]string, error) {
	folder, err := d.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxEntries)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case len(names) == maxEntries:
		return nil, fmt.Errorf("the folder has %d entries or more", maxEntries)
	}
	return names, err
}

// read returns the content of a file, nil for what this package has not written: a link, one behind a
// link, something that is no file.
func read(d disk, file string) ([]byte, error) {
	if folder := path.Dir(file); folder != "." {
		info, err := d.Lstat(filepath.FromSlash(folder))
		if err != nil || !info.IsDir() {
			return nil, err
		}
	}
	info, err := d.Lstat(filepath.FromSlash(file))
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, err
	}
	return regular.Read(filepath.FromSlash(file), maxFile, d.OpenFile)
}

// apply makes a change, unless the file has changed since it was compared: then it keeps it.
func apply(d disk, c *Change) error {
	if c.Action == Keep {
		return nil
	}
	name := filepath.FromSlash(c.Path)
	if c.Action == Remove {
		if !unchanged(d, c) {
			return nil
		}
		if folder := filepath.Dir(name); folder != "." {
			defer func() { _ = d.Remove(folder) }() // fails if it holds anything else
		}
		return d.Remove(name)
	}
	if folder := filepath.Dir(name); folder != "." {
		if err := d.Mkdir(folder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	written := temporary + rand.Text() + ".tmp"
	if err := regular.WriteNew(written, c.after, fileMode, d.OpenFile); err != nil {
		return errors.Join(err, d.Remove(written))
	}
	// As late as possible: a rename replaces whatever is there.
	if !unchanged(d, c) {
		return d.Remove(written)
	}
	if err := d.Rename(written, name); err != nil {
		return errors.Join(err, d.Remove(written))
	}
	return nil
}

// unchanged reports whether a file is as it was compared. If it is not, it is kept.
func unchanged(d disk, c *Change) bool {
	now, err := read(d, c.Path)
	isSame := err == nil && now != nil && bytes.Equal(now, c.before)
	if c.before == nil { // on some systems, another file is found under a name that differs in case
		isSame = errors.Is(err, fs.ErrNotExist)
	}
	if !isSame {
		c.Action, c.Reason = Keep, "it is another file by now, or differs from one only in case"
	}
	return isSame
}
