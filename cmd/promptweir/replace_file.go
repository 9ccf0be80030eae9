package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// newFileMode is the mode of a file that did not exist, before the umask.
const newFileMode = 0o644

// replaceFile replaces the content of a file, or creates the file. It follows symbolic links, so that they stay links. An
// existing file is replaced by renaming: a gateway that watches it never reads half of it.
func replaceFile(path string, content []byte) error {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(path, content, newFileMode)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
