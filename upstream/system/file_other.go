//go:build !linux && !darwin

package system

import (
	"io/fs"
	"path/filepath"
)

// FileID tells a file or folder from others, whatever names it has: by its path without links.
type FileID struct{ path string }

// Identify returns which file that is; when the system last changed it is not known.
func Identify(_ fs.FileInfo, path string) (id FileID, changed int64) {
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		actual = path
	}
	return FileID{path: actual}, 0
}
