package syncdir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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

// Run is one comparison of a client's folder with the prompts of a source.
type Run struct {
	Target *Target
	Source string
	// IsComplete says that the prompts are all that the source has: others' files may be removed.
	IsComplete bool
	// DryRun changes nothing.
	DryRun bool
}

// Do has the folder hold the prompts, and returns what it did, or would have done. An error does not
// undo what was done before.
func (r *Run) Do(prompts []Prompt) (folder string, changes []Change, err error) {
	base, within, err := r.Target.folder()
	if err != nil {
		return "", nil, err
	}
	folder = filepath.Join(base, within)
	want, changes := r.Target.files(prompts, r.Source)
	// Without a prompt to write, a client that is not there gets no folder.
	create := !r.DryRun && len(want) > 0
	root, err := openFolder(base, within, create)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return folder, append(changes, plan(want, nil, r.Source, r.IsComplete)...), nil
	}
	if err != nil {
		return folder, changes, err
	}
	defer root.Close()
	done, err := r.in(root, want)
	return folder, append(changes, done...), err
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

// in compares, and applies the changes.
func (r *Run) in(d disk, want map[string]wanted) ([]Change, error) {
	have, err := r.Target.scan(d, !r.DryRun)
	if err != nil {
		return nil, err
	}
	changes := plan(want, have, r.Source, r.IsComplete)
	if r.DryRun {
		return changes, nil
	}
	for i := range changes {
		if err := apply(d, &changes[i]); err != nil {
			return changes[:i], err
		}
	}
	return changes, nil
}

// scan returns the files of the target's kind, and removes what a run left that was killed.
func (t *Target) scan(d disk, clean bool) (map[string][]byte, error) {
	names, err := readDir(d, ".")
	if err != nil {
		return nil, err
	}
	have := map[string][]byte{}
	for _, name := range names {
		file := name
		switch {
		case strings.HasPrefix(name, temporary):
			if clean {
				_ = d.Remove(name) // no client reads it, and the next run tries again
			}
			continue
		case strings.HasPrefix(t.suffix, "/"):
			file += t.suffix
		case !strings.HasSuffix(name, t.suffix):
			continue
		}
		content, err := read(d, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			have[file] = content
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
