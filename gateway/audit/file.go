package audit

import (
	"fmt"
	"io"
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

	// torn is set while the file may end in a part of a line.
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
	return &file{path: path, File: opened}, nil
}

// Write implements [output].
func (f *file) Write(lines []byte) (int, error) {
	if f.torn {
		if _, err := f.File.WriteString("\n"); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := f.File.Write(lines)
	f.torn = n > 0 && lines[n-1] != '\n'
	return n, err
}

// cut implements [output]. It changes no file to whose end another process has written meanwhile.
func (f *file) cut(n int) bool {
	if n == 0 {
		return true
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	end, err := f.Seek(0, io.SeekCurrent) // where the last write ended
	if err != nil || end != info.Size() || f.Truncate(end-int64(n)) != nil {
		return false
	}
	f.torn = false
	return true
}

// reopen implements [output].
func (f *file) reopen() error {
	if f.path == "" {
		return nil
	}
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
