package hclread

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/regular"
)

// Bounds of a folder, far above what people write: each load reads all names in it.
const (
	MaxFiles   = 10_000 // with configuration
	maxEntries = 100_000
	// fileEntries is how many entries a file with configuration counts as.
	fileEntries = maxEntries / MaxFiles
)

// found is a file that was read.
type found struct {
	path    string
	content []byte
}

// finder finds the files of a configuration and reads them.
type finder struct {
	*Reader
	// seen holds the real paths of what was read, so that a loop of links ends and no file is
	// loaded twice.
	seen map[string]bool
	// actuals are the real paths of folders and links. Links may lead to what lies beneath their
	// folder and nowhere else: the author of one team's file must not make a load read, and print,
	// other files of the machine.
	actuals map[string]string
	// entries counts what is in and beneath each folder, and leftOut are the folders that have too
	// much of it; both by path in the folder that was named.
	entries map[string]int
	leftOut map[string]bool
	// links are those in the folders that were read, which come after all without links.
	links []foundLink
	// found are the files that were read, at last in the order of their paths.
	found []found
}

func (f *finder) find(path string) {
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
	// The folder that is named may itself be a link, as a mounted one often is.
	actual, err := filepath.EvalSymlinks(Absolute(path))
	if err != nil {
		f.unreadable(path, err)
		return
	}
	f.actuals[path] = actual
	before := f.Reported()
	f.all()
	if len(f.found) == 0 && f.Reported() == before {
		f.Unplaced("No configuration found", "The folder %s contains no .hcl file; put one "+
			"there or correct --config.", path)
	}
}

// namedFile reads a file that the caller names, whatever its name ends in.
func (f *finder) namedFile(path string) {
	if IsLockFile(path) {
		f.Unplaced("Not a configuration file", "%s is a lock file; name the configuration or its folder.", path)
		return
	}
	f.options.OnRead(path)
	content, err := regular.Read(path, maxFileSize, os.OpenFile)
	f.add(path, content, err)
}

// file reads a file of a folder.
func (f *finder) file(path string) {
	actual, isFirst := f.first(path)
	if !isFirst {
		return
	}
	// A secret beneath the folder is not configuration either, and diagnostics quote lines.
	if !isConfig(actual) {
		f.refuse(path, "Not a configuration file", "%s is a link to a file that does not end "+
			"in .hcl, and is not read.", path)
		return
	}
	f.options.OnRead(path)
	content, err := readWithin(f.actuals[f.root], actual, maxFileSize)
	f.add(path, content, err)
}

// readWithin reads a resolved path. If a link has taken the place of the file or of a folder above
// it in the meantime, it is not followed out of the root.
func readWithin(root, actual string, limit int64) ([]byte, error) {
	relative, err := filepath.Rel(root, actual)
	if err != nil {
		return nil, err
	}
	within, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer within.Close()
	return regular.Read(relative, limit, within.OpenFile)
}

// ReadLockFile reads a lock file of up to limit bytes. Links are followed as those to configuration
// are: to lock files beneath its folder.
func ReadLockFile(path string, limit int64) ([]byte, error) {
	actual, err := filepath.EvalSymlinks(Absolute(path))
	if err != nil {
		return nil, err
	}
	folder, err := filepath.EvalSymlinks(Absolute(filepath.Dir(path)))
	switch {
	case err != nil:
		return nil, err
	case !regular.IsBeneath(folder, actual):
		return nil, fmt.Errorf("it is a link that leads out of %s, and is not read; put a copy "+
			"in its place", filepath.Dir(path))
	case !IsLockFile(actual):
		return nil, errors.New("it is a link to a file that does not end in .lock.hcl, and is not read")
	}
	return readWithin(folder, actual, limit)
}

// add keeps what was read.
func (f *finder) add(path string, content []byte, err error) {
	_, isTooLarge := errors.AsType[*regular.TooLargeError](err)
	switch {
	case isTooLarge:
		f.refuse(path, "Configuration file too large", "%s is larger than %d bytes; split it.", path, maxFileSize)
	case err != nil:
		f.unreadable(path, err)
	default:
		f.found = append(f.found, found{path, content})
	}
}

func (f *finder) unreadable(path string, err error) {
	f.refuse(path, "Cannot read the configuration", "%s: %s.", path, regular.Cause(err))
}

// inFile marks a diagnostic that is about a file as a whole, so that it points into none.
type inFile string

// refuse reports why a file is not read.
func (f *finder) refuse(path, summary, detail string, args ...any) {
	f.Report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Extra: inFile(path)})
}

// IsLockFile reports whether a file is a lock file by its name, and so never configuration.
func IsLockFile(path string) bool { return strings.HasSuffix(path, ".lock.hcl") }

// isConfig reports whether a file of a folder is configuration by its name.
func isConfig(path string) bool { return strings.HasSuffix(path, ".hcl") && !IsLockFile(path) }
