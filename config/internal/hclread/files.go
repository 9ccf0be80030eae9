package hclread

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/safefile"
)

// MaxFiles bounds the number of configuration files in a folder.
const MaxFiles = 10_000

// finder finds and reads configuration files.
type finder struct {
	*Reader

	found []*File
}

func (f *finder) find(path string) {
	f.root = path
	f.options.OnRead(path)
	info, err := os.Stat(path)
	if err != nil {
		guess := "."
		if siblings, _ := os.ReadDir(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			guess = Suggest(filepath.Base(path), exslices.CastFunc(siblings, fs.DirEntry.Name))
		}
		f.refuse(path, summaryUnreadable, "%s: %s%s", path, safefile.Cause(err), guess)
		return
	}
	if !info.IsDir() {
		f.root = filepath.Dir(path)
		f.namedFile(path)
		return
	}
	f.isFolder = true
	before := f.Reported()
	if err := f.folder(path); err != nil {
		f.unreadable(path, err)
	}
	// Sort by path: if two files declare a name, the first path gets it.
	names := func(file *File) []string { return strings.Split(file.Path, string(filepath.Separator)) }
	slices.SortStableFunc(f.found, func(a, b *File) int { return slices.Compare(names(a), names(b)) })
	if len(f.found) == 0 && f.Reported() == before {
		f.Unplaced("No configuration found", "The folder %s contains no .hcl file; put one there or correct --config.", path)
	}
}

// namedFile reads a file that the caller names. It refuses lock files, and extensions of other formats.
func (f *finder) namedFile(path string) {
	if IsLockFile(path) || slices.Contains([]string{".md", ".toml", ".yaml", ".yml"}, filepath.Ext(path)) {
		f.Unplaced("Not a configuration file", "%s is not HCL, or is a lock file; name the configuration or its folder.", path)
		return
	}
	f.options.OnRead(path)
	f.add(path, path, os.OpenFile)
}

// folder reads the files below a folder. It skips names that begin with a dot or an underscore, but
// follows links into folders with such names, because a mounted ConfigMap has its files in them.
func (f *finder) folder(path string) error {
	// The folder may itself be a link, like mounted folders.
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	isHidden := func(path string) bool { return strings.ContainsAny(filepath.Base(path)[:1], "._") }
	return safefile.Walk(root, ".", isHidden, func(file safefile.File) error {
		at := filepath.Join(path, filepath.FromSlash(file.Path))
		if file.IsDir() || isConfig(file.Path) {
			f.options.OnRead(at)
		}
		if len(f.found) == MaxFiles {
			f.Unplaced("Too many files", "There are more than %d .hcl files in %s; put several blocks into one file.", MaxFiles, path)
			return fs.SkipAll
		}
		return f.file(root, at, file)
	})
}

// file reads one file of a folder. For a path to skip, it returns [fs.SkipDir].
func (f *finder) file(root *os.Root, at string, file safefile.File) error {
	isConfigName := isConfig(file.Path)
	text, isReplaced := f.options.Texts[file.Path]
	// A link may lead only below its own folder, as in a ConfigMap. Otherwise the author of one
	// team's file could make a load read and print other files, or give another team's file a
	// second path.
	leadsOut := file.LeadsOut() || file.Link != "" && file.Err == nil && !safefile.IsBeneath(path.Dir(file.Link), file.Actual)
	switch {
	case isReplaced && isConfigName:
		f.found = append(f.found, newFile(at, []byte(text)))
	case leadsOut:
		f.linkOut(at, isConfigName)
		return fs.SkipDir
	case file.Err != nil && (isConfigName || file.Link == ""): // Walk sets no Link for an unreadable folder
		f.unreadable(at, file.Err)
	case file.IsDir():
	case !isConfigName:
		return fs.SkipDir
	// The target may be a file of secrets in the folder, whose lines diagnostics would quote.
	case !isConfig(file.Actual):
		f.refuse(at, "Not a configuration file", "%s is a link to a file that does not end in .hcl, and is not read.", at)
	default:
		f.add(at, filepath.FromSlash(file.Actual), root.OpenFile)
	}
	return nil
}

// linkOut reports a link that leads out of the folder and is not followed. It is an error if its name
// ends in .hcl. Otherwise it is a warning, because the link may be for a folder of secrets.
func (f *finder) linkOut(path string, isConfigName bool) {
	d := &hcl.Diagnostic{
		Severity: hcl.DiagWarning, Summary: "Link out of the folder", Extra: inFile(path),
		Detail: fmt.Sprintf("%s is a link that is absolute or leads out of %s, and is not read; put a copy in its place, or make "+
			"it relative.", path, filepath.Dir(path)),
	}
	if isConfigName {
		d.Severity = hcl.DiagError
	}
	f.Report(d)
}

// ReadLockFile reads a lock file of up to limit bytes. It follows links only to lock files below
// the folder.
func ReadLockFile(path string, limit int64) ([]byte, error) {
	actual, err := filepath.EvalSymlinks(Absolute(path))
	if err != nil {
		return nil, err
	}
	folder, err := filepath.EvalSymlinks(Absolute(filepath.Dir(path)))
	switch {
	case err != nil:
		return nil, err
	case !safefile.IsBeneath(folder, actual):
		return nil, fmt.Errorf("it is a link that leads out of %s, and is not read; put a copy in its place", filepath.Dir(path))
	case !IsLockFile(actual):
		return nil, errors.New("it is a link to a file that does not end in .lock.hcl, and is not read")
	}
	return safefile.ReadActual(actual, actual, limit, os.OpenFile)
}

func (f *finder) add(path, actual string, open safefile.Open) {
	content, err := safefile.Read(actual, maxFileSize, open)
	_, isTooLarge := errors.AsType[*safefile.TooLargeError](err)
	switch {
	case isTooLarge:
		f.refuse(path, "Configuration file too large", "%s is larger than %d bytes; split it.", path, maxFileSize)
		if file, err := open(actual, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			defer file.Close()
			// The beginning still shows which team owns the file.
			content, _ = io.ReadAll(io.LimitReader(file, maxFileSize))
			f.found = append(f.found, newFile(path, content))
			f.found[len(f.found)-1].IsBroken = true
		}
	case err != nil:
		f.unreadable(path, err)
	default:
		f.found = append(f.found, newFile(path, content))
	}
}

const summaryUnreadable = "Cannot read the configuration"

func (f *finder) unreadable(path string, err error) {
	f.refuse(path, summaryUnreadable, "%s: %s.", path, safefile.Cause(err))
}

// inFile marks a diagnostic about a whole file or, with a location in another file, about both files.
type inFile string

func (f *finder) refuse(path, summary, detail string, args ...any) {
	f.Report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Extra: inFile(path)})
}

// IsLockFile reports whether a file is a lock file, by its name.
func IsLockFile(path string) bool { return strings.HasSuffix(path, ".lock.hcl") }

// isConfig reports whether a file of a folder is configuration, by its name.
func isConfig(path string) bool { return strings.HasSuffix(path, ".hcl") && !IsLockFile(path) }
