package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/promptweir/promptweir/config/safefile"
)

// newFileMode is the mode of new files before the umask.
const newFileMode = 0o644

// replaceFile replaces the content of a file, or creates the file. It follows links. If within is not empty, a
// link that leads out of that folder is an error. An existing file is replaced by renaming, so a gateway that
// watches the file never reads half of it.
func replaceFile(within, path string, content []byte) error {
	target, err := resolved(path)
	if errors.Is(err, fs.ErrNotExist) {
		return safefile.WriteNew(path, content, newFileMode, os.OpenFile)
	}
	if err == nil && within != "" {
		var folder string
		if folder, err = resolved(within); err == nil && !safefile.IsBeneath(folder, target) {
			err = fmt.Errorf("%s is a link that leads out of %s, and is not written; put a copy in its place", path, within)
		}
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer root.Close()
	return replaceWithin(root, filepath.Base(target), content)
}

// resolved returns the absolute path of a file, with all links followed.
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
	// The temporary file is in the same folder, because a rename cannot cross file systems.
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()+".tmp")
	err = safefile.WriteNew(temporary, content, fileMode, root.OpenFile)
	if err == nil {
		// WriteNew made the file readable for its owner only.
		err = root.Chmod(temporary, info.Mode().Perm())
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // the file may not exist
	}
	return err
}
