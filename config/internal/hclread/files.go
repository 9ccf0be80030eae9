package hclread

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFileSize bounds a file, in bytes. With maxNesting, it keeps a hostile file from exhausting the parser's stack.
const maxFileSize = 1 << 20

// finder finds the files of a configuration and hands them to the Reader.
type finder struct {
	*Reader
	// seen holds the real paths of what was read, so that a loop of links ends and no file is loaded twice.
	seen map[string]bool
}

func (f finder) read(path string) {
	f.root = path
	f.options.OnRead(path)
	info, err := os.Stat(path)
	if err != nil {
		f.unreadable(path, err)
		return
	}
	if !info.IsDir() {
		f.root = filepath.Dir(path)
		f.namedFile(path)
		return
	}
	f.isFolder = true
	before := f.Reported()
	f.folder(path)
	if len(f.sources) == 0 && f.Reported() == before {
		f.Unplaced("No configuration found", "The folder %s contains no .hcl file; put one there or correct --config.", path)
	}
}

// namedFile reads a file that the caller names, whatever its name ends in.
func (f finder) namedFile(path string) {
	if IsLockFile(path) {
		f.Unplaced("Not a configuration file", "%s is a lock file; name the configuration or its folder.", path)
		return
	}
	f.file(path)
}

// folder reads what is below a folder, in the order of the names, following links.
func (f finder) folder(path string) {
	if !f.first(path) {
		return
	}
	f.options.OnRead(path)
	entries, err := os.ReadDir(path)
	if err != nil {
		f.unreadable(path, err)
		return
	}
	for _, e := range entries {
		// ..data and its versions in a ConfigMap start with a dot, too: the links beside them are read.
		if !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			f.entry(filepath.Join(path, e.Name()), e)
		}
	}
}

func (f finder) entry(path string, entry fs.DirEntry) {
	isConfig := strings.HasSuffix(path, ".hcl") && !IsLockFile(path)
	if !isConfig && !entry.IsDir() && entry.Type()&fs.ModeSymlink == 0 {
		return
	}
	info, err := os.Stat(path) // follows the link
	switch {
	case err != nil && isConfig:
		f.unreadable(path, err)
	case err != nil:
		// A dangling link without .hcl at its end would not have been read anyway.
	case info.IsDir():
		f.folder(path)
	case isConfig && !info.Mode().IsRegular(): // reading a pipe would block
		f.Unplaced("Cannot read the configuration", "%s is not a regular file.", path)
	case isConfig && f.first(path):
		f.file(path)
	}
}

// first reports whether the file or folder at path has not been read yet, under this or another name.
func (f finder) first(path string) bool {
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		f.unreadable(path, err)
		return false
	}
	if f.seen[actual] { // a second name of the same file would make every block in it a duplicate
		return false
	}
	f.seen[actual] = true
	return true
}

func (f finder) file(path string) {
	f.options.OnRead(path)
	content, err := os.ReadFile(path)
	if err != nil {
		f.unreadable(path, err)
		return
	}
	if len(content) > maxFileSize {
		f.Unplaced("Configuration file too large", "%s is larger than %d bytes; split it.", path, maxFileSize)
		return
	}
	f.Parse(path, content)
}

func (f finder) unreadable(path string, err error) {
	f.Unplaced("Cannot read the configuration", "%s: %s.", path, Cause(err))
}

// IsLockFile reports whether a file is a lock file by its name, and so never configuration.
func IsLockFile(path string) bool { return strings.HasSuffix(path, ".lock.hcl") }

// Cause returns an error of the file system without its path, which the message around it already has.
func Cause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
