package files

import (
	"io/fs"
	"os"
	"time"
)

// settling is how long a file may change once more with the same size and time: file systems count
// in ticks of up to two seconds.
const settling = 2 * time.Second

// input is a file that a prompt or the manifest of a skill was read from.
type input struct {
	path string // from the root, with slashes
	// info was true just before the file was read; nil means that there was no file.
	info fs.FileInfo
	// isOpen means that a later change may not show in info: the file was very new, or the system
	// failed to read it.
	isOpen bool
}

func newInput(path string, info fs.FileInfo) input {
	return input{path, info, info != nil && time.Since(info.ModTime()).Abs() < settling}
}

// isCurrent reports whether the file has not changed since, by what the system says about it now.
func (in input) isCurrent(now fs.FileInfo) bool {
	if in.isOpen || in.info == nil || now == nil {
		return !in.isOpen && in.info == nil && now == nil
	}
	return os.SameFile(in.info, now) && in.info.Size() == now.Size() && in.info.ModTime().Equal(now.ModTime()) && in.info.Mode() == now.Mode()
}
