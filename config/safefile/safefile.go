// Package safefile reads files that others may have written. It reads only regular files, up to a
// limit, and never blocks on a pipe. It also walks through folders and writes new files.
package safefile

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

// TooLargeError is the error for a file above the limit.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it is larger than %d bytes; make it smaller", e.Limit)
}

// Open is [os.OpenFile] or [os.Root.OpenFile], which follows no link out of its root.
type Open func(path string, flag int, mode fs.FileMode) (*os.File, error)

// Read returns the content of a regular file of at most limit bytes. Each error is an
// [fs.PathError].
func Read(path string, limit int64, open Open) ([]byte, error) {
	return ReadActual(path, "", limit, open)
}

// ReadActual is [Read] for a file that the caller has checked. actual is the checked path without links. ReadActual
// fails if the file was replaced after that check, or if a folder above it was replaced by a link. If actual is
// empty, it does not compare.
func ReadActual(path, actual string, limit int64, open Open) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe without a writer would block.
	file, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	failed := func(err error) ([]byte, error) { return nil, &fs.PathError{Op: "read", Path: path, Err: err} }
	// Check the opened file rather than its path, which may lead to another file now.
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
	// Allocate the right size at once: growing the buffer would take several times the memory.
	content := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := content.ReadFrom(io.LimitReader(file, limit+1)); err != nil {
		return nil, err
	}
	if int64(content.Len()) > limit { // the file has grown
		return failed(&TooLargeError{limit})
	}
	return content.Bytes(), nil
}

// WriteNew creates a file that must not exist. O_EXCL follows no link, not even a dangling one.
func WriteNew(path string, content []byte, mode fs.FileMode, open Open) error {
	file, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	// Without Sync, a crash could lose the content although a later rename survives.
	return errors.Join(err, file.Sync(), file.Close())
}

// IsBeneath reports whether a path is a folder or lies below it. Both must be paths without links.
func IsBeneath(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// Cause returns an error without its path, for messages that name the path themselves.
func Cause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
