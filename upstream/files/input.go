package files

import (
	"io/fs"
	"os"
	"time"
)

// settling is the time in which a second change of a file may leave its size and time unchanged:
// file systems count time in ticks of up to two seconds.
const settling = 2 * time.Second

// input is a file that was read for a prompt or a skill's manifest.
type input struct {
	path string // from the root, with slashes
	// info is the file's status just before it was read, or nil if the file did not exist.
	info fs.FileInfo
	// isUncertain is true if info may not show a later change: the file was very new, or reading it
	// failed.
	isUncertain bool
}

func newInput(path string, info fs.FileInfo) input {
	return input{path, info, info != nil && time.Since(info.ModTime()).Abs() < settling}
}

// isCurrent reports whether the file is unchanged, judging by its status now, which is nil if the
// file does not exist.
func (in input) isCurrent(now fs.FileInfo) bool {
	if in.isUncertain || in.info == nil || now == nil {
		return !in.isUncertain && in.info == nil && now == nil
	}
	return os.SameFile(in.info, now) && in.info.Size() == now.Size() && in.info.ModTime().Equal(now.ModTime()) && in.info.Mode() == now.Mode()
}
