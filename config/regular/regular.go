// Package regular reads files that others may have put there: only regular ones, within a bound,
// and never waiting for a pipe. It walks through folders, and writes new files.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// TooLargeError says that a file is larger than its reader allows.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it is larger than %d bytes; make it smaller", e.Limit)
}

// Open is [os.OpenFile], or that of an [os.Root], which no link leads out of.
type Open func(path string, flag int, mode fs.FileMode) (*os.File, error)

// Read returns the content of a regular file of at most limit bytes. Each error is an
// [fs.PathError].
func Read(path string, limit int64, open Open) ([]byte, error) {
	return ReadActual(path, "", limit, open)
}

// ReadActual is Read where something was decided by the file's actual path, without links: what is
// opened must be that file, and not one to which a link leads that has taken the place of the file,
// or of a folder above it, since.
func ReadActual(path, actual string, limit int64, open Open) ([]byte, error) {
	// Not blocking, or a pipe that nobody writes to would keep the caller.
	file, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	failed := func(err error) ([]byte, error) { return nil, &fs.PathError{Op: "read", Path: path, Err: err} }
	// What was opened is examined, not what its path names: that may be another file by now.
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return failed(errors.New("it is not a regular file"))
	case info.Size() > limit:
		return failed(&TooLargeError{limit})
	case actual != "":
		again, err := filepath.EvalSymlinks(actual)
		if err != nil {
			return nil, err
		}
		if named, err := os.Lstat(actual); err != nil || again != actual || !os.SameFile(info, named) {
			return failed(errors.New("it was replaced while it was read; try again"))
		}
	}
	// With room for what is there: a buffer that grows takes several times as much.
	content := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := content.ReadFrom(io.LimitReader(file, limit+1)); err != nil {
		return nil, err
	}
	if int64(content.Len()) > limit { // it has grown
		return failed(&TooLargeError{limit})
	}
	return content.Bytes(), nil
}

// WriteNew writes a file that does not exist yet. It follows no link, not even one to nothing: O_EXCL
// says so.
func WriteNew(path string, content []byte, mode fs.FileMode, open Open) error {
	file, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	// Synced, or a rename that follows could survive a crash that the content does not.
	return errors.Join(err, file.Sync(), file.Close())
}

// IsBeneath reports whether a path without links is a folder, or leads to something in it.
func IsBeneath(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// Cause is an error without the path that it is about, for messages that name the path themselves.
func Cause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
