package audit

import (
	"fmt"
	"os"
	"syscall"

	"github.com/promptweir/promptweir/config"
)

// fileMode lets nobody but the gateway's user read the log.
const fileMode = 0o600

// file is a file that lines are appended to. Several processes may append to one.
type file struct {
	path string
	*os.File

	// torn is true while the file ends in a part of a line that another process left.
	torn bool
}

// openFile opens a log by its path.
func openFile(path string) (*file, error) {
	if path == config.AuditToStdout {
		return &file{File: os.Stdout}, nil
	}
	// Without O_NONBLOCK, a pipe that nobody reads would hang the start instead of being an error.
	opened, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return &file{path: path, File: opened, torn: isTorn(path)}, nil
}

// isTorn reports whether a file ends in a part of a line, as one does whose process ended while the
// disk was full. It is false if that cannot be read: some files may only be appended to.
func isTorn(path string) bool {
	// The log itself is open for writing only: opened for both, a pipe would not say that nobody
	// reads.
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
	if f.torn { // the part must not spoil this line
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
	// Before the old one is closed, which stays in use if this fails.
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
	if f.path == "" { // standard output is the process's own
		return nil
	}
	return f.File.Close()
}
