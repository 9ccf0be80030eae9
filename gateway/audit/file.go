package audit

import (
	"fmt"
	"os"
	"syscall"

	"github.com/promptweir/promptweir/config"
)

// fileMode permits only the gateway's user to read the log.
const fileMode = 0o600

// file is a file to append to. Several processes may append to it.
type file struct {
	path string
	*os.File

	// torn is true while the file ends in another process's partial line.
	torn bool
}

// openFile opens the log at a path.
func openFile(path string) (*file, error) {
	if path == config.AuditToStdout {
		return &file{File: os.Stdout}, nil
	}
	// Opening a pipe without a reader would block; with O_NONBLOCK it is an error.
	opened, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return &file{path: path, File: opened, torn: isTorn(path)}, nil
}

// isTorn reports whether a file ends in a partial line, for example of a process that ended while the disk was
// full. It is false if the end cannot be read: some files only allow appending.
func isTorn(path string) bool {
	// The log is open for writing only: opened for both, a pipe would hide the lack of a reader.
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	opened, err := os.Open(path)
	if err != nil {
		return false
	}
	defer opened.Close()
	last := make([]byte, 1)
	_, err = opened.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write implements [output].
func (f *file) Write(line []byte) (int, error) {
	if f.torn { // separates the partial line from this one
		if _, err := f.File.WriteString("\n"); err != nil {
			return 0, err
		}
		f.torn = false
	}
	return f.File.Write(line)
}

// reopen implements [output].
func (f *file) reopen() error {
	if f.path == "" {
		return nil
	}
	// The old file stays in use if this fails.
	opened, err := openFile(f.path)
	if err != nil {
		return err
	}
	_ = f.File.Close() // each write was checked
	*f = *opened
	return nil
}

// Close implements [output].
func (f *file) Close() error {
	if f.path == "" { // standard output belongs to the process
		return nil
	}
	return f.File.Close()
}
