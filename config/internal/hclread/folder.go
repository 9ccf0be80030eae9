package hclread

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/regular"
)

// foundLink is a link in a folder that was read.
type foundLink struct {
	path string
	to   regular.Way
	err  error // why it leads nowhere
}

// all reads what is below the folder that was named, and then what links in it lead to: of several
// paths to a file or a folder, the one without links counts. A link leads to what lies beneath its
// own folder, as in a mounted ConfigMap. The author of one team's file could else, by a link to
// another team's file, give that file a path at which it is granted less, and has no text that is
// kept.
func (f *finder) all() {
	f.folder(f.root)
	for len(f.links) > 0 {
		links := f.links
		f.links = nil
		// A text in use comes before what has none, which would be taken for the same file; and a
		// link before another one that leads through it.
		hasText := func(l foundLink) int { return min(1, len(f.options.Texts[f.InFolder(l.path)])) }
		slices.SortStableFunc(links, func(a, b foundLink) int {
			return cmp.Or(cmp.Compare(hasText(b), hasText(a)), cmp.Compare(len(a.to.Links), len(b.to.Links)))
		})
		for _, l := range links {
			if !f.isLeftOut(f.InFolder(l.path)) {
				f.entry(l.path, true, &l)
			}
		}
	}
	// Of names that two files claim, the first in the order of the paths gets it.
	names := func(file found) []string { return strings.Split(file.path, string(filepath.Separator)) }
	slices.SortStableFunc(f.found, func(a, b found) int { return slices.Compare(names(a), names(b)) })
}

// What is looked up for links costs those who made them.
const (
	freeLookups = 16  // those of a mounted ConfigMap; further ones count as entries of its folder
	lookupBytes = 256 // of the limit of a file that names a value's file by such a link
)

// resolve finds out where a link leads.
func (f *finder) resolve(path, folder string) foundLink {
	l := foundLink{path: path}
	l.to, l.err = regular.Follow(filepath.Join(folder, filepath.Base(path)))
	f.count(f.InFolder(filepath.Dir(path)), max(0, l.to.Lookups-freeLookups))
	return l
}

// folder reads what is below a folder, in the order of the names, without the links in it.
func (f *finder) folder(path string) {
	actual, isFirst := f.first(path)
	if !isFirst {
		return
	}
	f.actuals[path] = actual
	f.options.OnRead(path)
	entries, err := readFolder(path)
	if err != nil {
		f.unreadable(path, err)
		return
	}
	name := f.InFolder(path)
	f.countEntries(name, entries)
	for _, e := range entries {
		if f.isLeftOut(name) {
			return
		}
		// ..data and its versions in a ConfigMap start with a dot, too: the links beside them are
		// read.
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		switch entry := filepath.Join(path, e.Name()); {
		case e.Type()&fs.ModeSymlink != 0:
			f.links = append(f.links, f.resolve(entry, actual))
		default:
			f.entry(entry, e.IsDir(), nil)
		}
	}
}

// readFolder returns the entries of a folder by name, or as many as are too many.
func readFolder(path string) ([]fs.DirEntry, error) {
	// Without O_NONBLOCK, a pipe that has taken the place of the folder would block.
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	entries, err := folder.ReadDir(maxEntries + 1)
	if errors.Is(err, io.EOF) { // an empty folder
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// countEntries counts the entries of a folder.
func (f *finder) countEntries(folder string, entries []fs.DirEntry) {
	n := len(entries)
	for _, e := range entries {
		if isConfig(e.Name()) {
			n += fileEntries - 1
		}
	}
	f.count(folder, n)
}

// count adds entries of a folder to those of the folders around it, and leaves folders out until
// what is read is within the bound.
func (f *finder) count(folder string, n int) {
	f.entries["."] += n
	for ; folder != "."; folder = path.Dir(folder) {
		f.entries[folder] += n
	}
	for f.kept() > cmp.Or(f.options.maxEntries, maxEntries) {
		f.leaveOut(f.fullest())
	}
}

// kept counts the entries that are not left out.
func (f *finder) kept() int {
	n := f.entries["."]
	for folder := range f.leftOut {
		n -= f.entries[folder]
	}
	return n
}

// fullest returns the deepest folder that has a quarter of all entries so far, those that are left
// out included. So a team that fills many folders loses the one around them before long, but four
// teams must do so before the folder of all teams is left out.
func (f *finder) fullest() string {
	fullest := "."
	for {
		next := ""
		for folder, n := range f.entries {
			isFuller := n > f.entries[next] || n == f.entries[next] && folder > next
			if folder != "." && path.Dir(folder) == fullest && !f.leftOut[folder] && n >= f.entries["."]/4 && isFuller {
				next = folder
			}
		}
		if next == "" {
			return fullest
		}
		fullest = next
	}
}

func (f *finder) leaveOut(folder string) {
	if folder == "." {
		f.Unplaced("Too many files", "There are more than %d files and folders in %s, or more than %d .hcl files; "+
			"put several blocks into one file, and keep other files elsewhere.", maxEntries, f.root, MaxFiles)
	} else {
		path := filepath.Join(f.root, filepath.FromSlash(folder))
		f.refuse(path, "Too many files", "%s is skipped: with it, the configuration would exceed "+
			"%d files and folders, or %d .hcl files; put several blocks into one file, and keep other files elsewhere.",
			path, maxEntries, MaxFiles)
	}
	// Those inside it are left out with it.
	maps.DeleteFunc(f.leftOut, func(other string, _ bool) bool { return isIn(other, folder) })
	f.leftOut[folder] = true
	f.found = slices.DeleteFunc(f.found, func(file found) bool { return isIn(f.InFolder(file.path), folder) })
}

func (f *finder) isLeftOut(folder string) bool {
	for other := range f.leftOut {
		if isIn(folder, other) {
			return true
		}
	}
	return false
}

// isIn reports whether one path with slashes is another one, or beneath it.
func isIn(path, folder string) bool {
	return path == folder || folder == "." || strings.HasPrefix(path, folder+"/")
}

// entry reads an entry of a folder, which may be a link. Without .hcl at the end of its name, it is
// read only if it may be a folder.
func (f *finder) entry(path string, mayBeFolder bool, l *foundLink) {
	isConfig := isConfig(path)
	if l != nil && l.err == nil {
		f.actuals[path] = l.to.Actual
	}
	if text, ok := f.options.Texts[f.InFolder(path)]; ok {
		if isConfig {
			f.standIn(path, text)
		}
		f.standInBeneath(path)
		return
	}
	if !isConfig && !mayBeFolder {
		return
	}
	at, err := path, error(nil)
	if l != nil {
		at, err = l.to.Actual, l.err
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(at)
	}
	switch {
	case err != nil && isConfig:
		f.unreadable(path, err)
	case err != nil:
		// A dangling link without .hcl at its end would not have been read anyway.
	case info.IsDir():
		f.folder(path)
	case isConfig && !info.Mode().IsRegular(): // reading a pipe would block
		f.refuse(path, "Cannot read the configuration", "%s is not a regular file.", path)
	case isConfig:
		f.file(path)
	}
}

// standInBeneath reads the texts in place of what is in a folder, which is not read itself.
func (f *finder) standInBeneath(folder string) {
	for _, name := range slices.Sorted(maps.Keys(f.options.Texts)) {
		if strings.HasPrefix(name, f.InFolder(folder)+"/") && isConfig(name) {
			f.standIn(filepath.Join(f.root, filepath.FromSlash(name)), f.options.Texts[name])
		}
	}
}

// standIn reads a text in place of a file, under whichever name it is met first.
func (f *finder) standIn(path, text string) {
	f.options.OnRead(path)
	if actual, err := f.actual(path); err == nil {
		if f.seen[actual] {
			return
		}
		f.seen[actual] = true
	}
	f.found = append(f.found, found{path, []byte(text)})
}

// first returns the real path of a file or folder that has not been read yet, under this or another
// name, and that lies beneath the folder that it is in.
func (f *finder) first(path string) (actual string, ok bool) {
	actual, err := f.actual(path)
	if err != nil {
		f.unreadable(path, err)
		return "", false
	}
	if folder, isIn := f.actuals[filepath.Dir(path)]; isIn && path != f.root && !regular.IsBeneath(folder, actual) {
		d := &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Link out of the folder",
			Detail: fmt.Sprintf("%s is a link that leads out of %s, and is not read; put a "+
				"copy in its place.", path, filepath.Dir(path)),
			Extra: inFile(path),
		}
		if !strings.HasSuffix(path, ".hcl") { // a folder, of secrets perhaps
			d.Severity = hcl.DiagWarning
		}
		f.Report(d)
		return "", false
	}
	if f.seen[actual] { // a second name of the same file would make every block in it a duplicate
		return "", false
	}
	f.seen[actual] = true
	return actual, true
}

// actual returns the real path of what is beneath the folder that was named.
func (f *finder) actual(path string) (string, error) {
	if actual, isKnown := f.actuals[path]; isKnown {
		return actual, nil
	}
	if folder, isKnown := f.actuals[filepath.Dir(path)]; isKnown { // and this is no link
		return filepath.Join(folder, filepath.Base(path)), nil
	}
	t, err := regular.Follow(Absolute(path))
	return t.Actual, err
}
