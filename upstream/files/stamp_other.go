//go:build !linux && !darwin

package files

import (
	"io/fs"
	"path/filepath"
)

// fileID tells a file or folder from others, whatever names it has: by its path without links.
type fileID struct{ path string }

// identify returns which file that is; when the system last changed it is not known.
func identify(_ fs.FileInfo, path string) (id fileID, changed int64) {
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		actual = path
	}
	return fileID{path: actual}, 0
}
