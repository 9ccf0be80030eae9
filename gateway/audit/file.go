package audit

import (
	"bytes"
	"errors"
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
	f := &file{path: path, File: opened}
	f.mend()
	return f, nil
}

// maxTail bounds what mend takes for a part of a line, in bytes. No line is longer.
// The bounds in line.go come to 860 kB, with each byte written as \u00xx.
const maxTail = 1 << 20

// mend takes a part of a line off the end of the file. Such a part is left over by a process that
// ended while the disk was full, or that was killed between two parts of a write. What is no line
// of this log stays, and the next line begins on a line of its own.
func (f *file) mend() {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	tail, err := readTail(f.path, info)
	if err != nil || tail[len(tail)-1] == '\n' {
		return
	}
	// It is not completed later: a required log must not say that somebody got what was refused.
	part := tail[bytes.LastIndexByte(tail, '\n')+1:]
	n := min(len(part), len(beginning))
	f.torn = len(part) == maxTail || string(part[:n]) != beginning[:n] || f.Truncate(info.Size()-int64(len(part))) != nil
}

// readTail reads the end of a file.
func readTail(path string, info os.FileInfo) ([]byte, error) {
	// The log itself is open for writing only: opened for both, a pipe would not say that nobody
	// reads.
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if same, err := opened.Stat(); err != nil || !os.SameFile(info, same) { // renamed meanwhile
		return nil, errors.Join(err, os.ErrNotExist)
	}
	tail := make([]byte, min(info.Size(), maxTail))
	_, err = opened.ReadAt(tail, info.Size()-int64(len(tail)))
	return tail, err
}

// Write implements [output].
func (f *file) Write(lines []byte) (int, error) {
	// First, so that a part of a line that stays spoils no other line.
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
