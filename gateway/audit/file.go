package audit

import (
	"fmt"
	"os"
	"syscall"

	"github.com/promptweir/promptweir/config"
)

// fileMode permits only the gateway's user to read the log.
const fileMode = 0o600

// file is a log file or standard output. Several processes may append to the same file.
type file struct {
	path string // empty for standard output
	*os.File

	// torn is true until the first write, if the file ends in a partial line of another process.
	torn bool
}

// openFile opens the log at a path for appending, and creates it if necessary.
func openFile(path string) (*file, error) {
	if path == config.AuditToStdout {
		return &file{File: os.Stdout}, nil
	}
	// O_NONBLOCK makes the opening of a pipe without a reader fail. Without the flag it would block.
	opened, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return &file{path: path, File: opened, torn: isTorn(path)}, nil
}

// isTorn reports whether a file ends in a partial line, for example because a process ended while the
// disk was full. It returns false if the file cannot be read: permissions may allow only writing.
func isTorn(path string) bool {
	// Open the file again for reading. Opening the log itself for reading and writing would succeed
	// even for a pipe without a reader, and must not.
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
	if f.torn { // end the partial line of the other process
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
	opened, err := openFile(f.path)
	if err != nil {
		return err // the old file stays open
	}
	_ = f.File.Close() // errors of writes were handled in Write
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
