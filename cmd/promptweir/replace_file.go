package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/promptweir/promptweir/config/regular"
)

// newFileMode is the mode of a file that did not exist, before the umask.
const newFileMode = 0o644

// replaceFile replaces the content of a file, or creates the file. It follows symbolic links to
// what lies beneath the folder within, so that they stay links; if within is empty, to anything. An
// existing file is replaced by renaming: a gateway that watches it never reads half of it.
func replaceFile(within, path string, content []byte) error {
	target, err := resolved(path)
	exists := err == nil
	if errors.Is(err, fs.ErrNotExist) { // the links in the folder of a new file are followed, too
		target, err = resolved(filepath.Dir(path))
		target = filepath.Join(target, filepath.Base(path))
	}
	if err != nil {
		return err
	}
	if within == "" {
		within = filepath.Dir(target)
	}
	// What takes the place of a folder meanwhile does not lead out: all happens within the root.
	root, err := os.OpenRoot(within)
	if err != nil {
		return err
	}
	defer root.Close()
	folder, err := resolved(within) // which may be a link
	if err != nil {
		return err
	}
	name, err := filepath.Rel(folder, target)
	switch {
	case err != nil:
		return err
	case !filepath.IsLocal(name):
		return fmt.Errorf("%s is a link that leads out of %s, and is not written; put a copy in "+
			"its place", path, within)
	case !exists:
		return root.WriteFile(name, content, newFileMode)
	}
	return replaceWithin(root, name, content)
}

// resolved returns the absolute path to which a path leads.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

func replaceWithin(root *os.Root, name string, content []byte) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	// In the same folder, since a rename does not leave a file system.
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()+".tmp")
	err = regular.WriteNew(temporary, content, fileMode, root.OpenFile)
	if err == nil {
		// Until now it was for its owner only, as secrets may be in it.
		err = root.Chmod(temporary, info.Mode().Perm())
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // it may not be there
	}
	return err
}
