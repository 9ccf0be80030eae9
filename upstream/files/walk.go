package files

import (
	"cmp"
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

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/regular"
	"github.com/promptweir/promptweir/upstream/system"
)

const (
	// maxEntries bounds the files and folders that are found for one team, and maxFolders how
	// deeply they are nested.
	maxEntries = 100_000
	maxFolders = 32
	// maxNames bounds the names under which links make one folder known: without it, a few links
	// that lead to one another have more names than anybody can list.
	maxNames = 8
	// maxCompared bounds the comparisons of names with patterns between two steps.
	maxCompared = 1 << 16
	// nameOverhead is what a walk holds for a name that it found, beside the name: its stamp.
	// userOverhead is what it holds for each block that the name is for.
	nameOverhead = 256
	userOverhead = 32
)

// walk looks for the files of a team's blocks. It reads each folder once, and no file.
type walk struct {
	files *config.Files
	// step is called before each access to the disk. An error ends the walk.
	step func() error
	cost *Cost
	// patterns are those of all blocks, each once, and users the indexes of the blocks that have
	// it.
	patterns []config.PathPattern
	users    [][]int
	matched  []bool
	// found are the files of each block, by paths from the root with slashes.
	found  [][]string
	stamps map[string]stamp
	// folders holds of each the entries of interest: folders, links and Markdown files.
	folders map[system.FileID][]*child
	names   map[system.FileID]int
	entries int
	// held is what the names take that were found, in bytes.
	held int
	// compared counts the names that were compared with patterns since the last step.
	compared int
	links    []visit // to folders, which come after all that has fewer links in its path
}

// child is an entry of a folder.
type child struct {
	name          string
	isLink, isDir bool
	isKnown       bool // whether the rest is known
	stamp         stamp
	beneath       bool // whether a link leads to something beneath the root
}

// visit is a folder under one of its names.
type visit struct {
	path string // from the root, with slashes
	id   system.FileID
	// positions are those in the patterns; nil while the visit waits, of which there may be many.
	positions []config.PathPosition
	above     []system.FileID // the folders around it
}

// newWalk returns the walk for blocks that have the same source.
func newWalk(files *config.Files, blocks []*block, step func() error, cost *Cost) *walk {
	w := &walk{
		files: files, step: step, cost: cost, found: make([][]string, len(blocks)),
		stamps: map[string]stamp{}, folders: map[system.FileID][]*child{}, names: map[system.FileID]int{},
	}
	index := map[string]int{}
	for i, b := range blocks {
		for _, p := range b.upstream.Files.Patterns {
			at, known := index[p.String()]
			if !known {
				at = len(w.patterns)
				index[p.String()] = at
				w.patterns, w.users = append(w.patterns, p), append(w.users, nil)
			}
			w.users[at] = append(w.users[at], i)
		}
	}
	w.matched = make([]bool, len(w.patterns))
	return w
}

// run walks through the folders that can have matches. An error means that what is there is not
// known.
func (w *walk) run() error {
	relative, err := filepath.Rel(w.files.Root, w.files.Folder)
	if err != nil {
		return err
	}
	root, above := visit{path: filepath.ToSlash(relative), id: stampOf(w.files.Folder).id}, filepath.ToSlash(relative)+"/"
	if relative == "." { // which begins no other path
		above = ""
	}
	// By the number of links, so that the names without any are among the eight.
	for next := []visit{root}; len(next) > 0; next, w.links = w.links, nil {
		for _, at := range next {
			if at.positions = w.positions(""); at.path != root.path {
				at.positions = w.positions(strings.TrimPrefix(at.path, above))
			}
			if err := w.visit(at); err != nil {
				return err
			}
		}
	}
	for _, found := range w.found {
		slices.Sort(found)
	}
	return nil
}

// missing returns an error for the first pattern of a block whose folder cannot be read.
func (w *walk) missing(files *config.Files, known map[string]error) error {
	for _, p := range files.Patterns {
		folder := p.Folder()
		err, isKnown := known[folder]
		if !isKnown {
			if err := w.step(); err != nil {
				return err
			}
			err = w.checkFolder(folder)
			known[folder] = err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFolder returns an error for the first part of a folder's path that is none. The text is the
// same for all patterns, so that one mistake can be told from several.
func (w *walk) checkFolder(folder string) error {
	at := w.files.Folder
	for name := range strings.SplitSeq(folder, "/") {
		at = filepath.Join(at, name)
		// Nobody is told whether there is something at the end of a link that leads out.
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 && !w.isBeneath(at) {
			return fmt.Errorf("the link %s leads to nothing inside of %s; put a folder in its place, or correct files", at, w.files.Root)
		}
		switch info, err := os.Stat(at); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("there is no folder %s; make it, or correct files", at)
		case err != nil:
			return fmt.Errorf("cannot read %s: %w", at, regular.Cause(err))
		case !info.IsDir():
			return fmt.Errorf("the path %s is not a folder; put one in its place, or correct files", at)
		}
	}
	return nil
}

// positions returns those in all patterns after a path from the folder of the patterns.
func (w *walk) positions(path string) []config.PathPosition {
	positions := make([]config.PathPosition, len(w.patterns))
	for i, p := range w.patterns {
		positions[i] = p.Start()
		for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if name != "" {
				positions[i] = p.Next(positions[i], name)
			}
		}
	}
	return positions
}

// mayEnter reports whether a folder is to be visited under one more name.
func (w *walk) mayEnter(id system.FileID, above []system.FileID) bool {
	// A link that leads back up would make each of its files known under longer and longer names.
	if len(above) > maxFolders || slices.Contains(above, id) {
		return false
	}
	w.names[id]++
	return w.names[id] <= maxNames
}

func (w *walk) visit(at visit) error {
	children, err := w.children(at)
	if err != nil {
		return err
	}
	at.above = append(slices.Clip(at.above), at.id)
	for _, c := range children {
		if err := w.child(at, c); err != nil {
			return err
		}
	}
	return nil
}

// children reads a folder at its first name.
func (w *walk) children(at visit) ([]*child, error) {
	if children, known := w.folders[at.id]; known {
		return children, nil
	}
	if err := w.step(); err != nil {
		return nil, err
	}
	here := onDisk(w.files, at.path)
	opened, err := os.OpenFile(here, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its name meanwhile
	if err != nil {
		return nil, goneOr(here, err)
	}
	defer opened.Close()
	w.cost.Folders++
	var children []*child
	for {
		entries, err := opened.ReadDir(1000) // not all at once: there may be more than memory holds
		if w.entries += len(entries); w.entries > maxEntries {
			return nil, fmt.Errorf("there are more than %d files and folders in %s; narrow the patterns, or keep other files elsewhere",
				maxEntries, w.files.Folder)
		}
		for _, e := range entries {
			isLink := e.Type()&fs.ModeSymlink != 0
			if isLink || e.IsDir() || config.IsPromptFile(e.Name()) { // as each pattern ends
				children = append(children, &child{name: e.Name(), isLink: isLink, isDir: e.IsDir()})
			}
		}
		if err != nil || len(entries) == 0 {
			slices.SortFunc(children, func(a, b *child) int { return cmp.Compare(a.name, b.name) })
			w.folders[at.id] = children
			return children, goneOr(here, err)
		}
		if err := w.step(); err != nil {
			return nil, err
		}
	}
}

// goneOr returns nil at the end of a folder, and where it was there a moment ago.
func goneOr(path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("cannot read %s: %w", path, regular.Cause(err))
}

func (w *walk) child(at visit, c *child) error {
	if w.compared += len(w.patterns); w.compared > maxCompared {
		w.compared = 0
		if err := w.step(); err != nil {
			return err
		}
	}
	matches, enters := false, false
	positions := make([]config.PathPosition, len(w.patterns))
	for i, p := range w.patterns {
		if at.positions[i] != 0 {
			positions[i] = p.Next(at.positions[i], c.name)
			matches = matches || p.Ends(positions[i])
			enters = enters || p.Enters(positions[i])
		}
	}
	if !matches && (!enters || !c.isDir && !c.isLink) {
		return nil
	}
	file := path.Join(at.path, c.name)
	if err := w.inspect(file, c); err != nil {
		return err
	}
	switch s := c.stamp; {
	case !s.exists:
		if matches && c.isLink { // a dangling link is a mistake, a file that is gone is not
			return w.add(file, s, positions)
		}
	case s.mode.IsDir():
		switch {
		case matches && c.isLink && !c.beneath: // reported as any other link that leads out
			return w.add(file, s, positions)
		// In this order: mayEnter counts the name as one of the eight.
		case !enters || c.isLink && !c.beneath || !w.mayEnter(s.id, at.above):
		case c.isLink:
			w.links = append(w.links, visit{path: file, id: s.id, above: at.above})
			return w.hold(len(file) + nameOverhead)
		default:
			return w.visit(visit{file, s.id, positions, at.above})
		}
	case matches:
		return w.add(file, s, positions)
	}
	return nil
}

// hold counts what a name takes in memory: eight long names for each of maxEntries files would be
// gigabytes.
func (w *walk) hold(bytes int) error {
	if w.held += bytes; w.held > w.files.Max {
		return fmt.Errorf("the file names in %s, with those through links, take more than %d bytes; narrow the patterns, or use "+
			"fewer links", w.files.Folder, w.files.Max)
	}
	return nil
}

// inspect finds out what an entry of a folder is, once under all names of the folder: a link is
// relative to the folder itself.
func (w *walk) inspect(file string, c *child) error {
	if c.isKnown {
		return nil
	}
	if err := w.step(); err != nil {
		return err
	}
	w.cost.Stats++
	c.isKnown = true
	if c.stamp = stampOf(onDisk(w.files, file)); c.isLink && c.stamp.exists && c.stamp.mode.IsDir() {
		c.beneath = w.isBeneath(onDisk(w.files, file))
	}
	return nil
}

// add adds a file to the blocks whose patterns match it.
func (w *walk) add(file string, s stamp, positions []config.PathPosition) error {
	size := len(file) + nameOverhead
	for i, p := range w.patterns {
		if !p.Ends(positions[i]) {
			continue
		}
		w.matched[i] = true
		for _, user := range w.users[i] {
			if found := w.found[user]; len(found) == 0 || found[len(found)-1] != file { // else another pattern matched it
				w.found[user] = append(found, file)
				size += userOverhead
			}
		}
	}
	w.stamps[file] = s
	return w.hold(size)
}

// isBeneath reports whether a link leads to something beneath the root. Nobody is told what is in
// other folders.
func (w *walk) isBeneath(file string) bool {
	root, err := filepath.EvalSymlinks(w.files.Root)
	if err != nil {
		return false
	}
	actual, err := filepath.EvalSymlinks(file)
	return err == nil && regular.IsBeneath(root, actual)
}

// stamp returns the stamp of a file at the time of the walk or, for others, now.
func (w *walk) stamp(file string) stamp {
	s, known := w.stamps[file]
	if !known && w.step() == nil { // whoever calls it looks at whether the pass has ended
		w.cost.Stats++
		s = stampOf(onDisk(w.files, file))
		w.stamps[file] = s
	}
	return s
}

// unmatched returns the patterns of a block that match nothing.
func (w *walk) unmatched(block int) (patterns []string) {
	for i, p := range w.patterns {
		if !w.matched[i] && slices.Contains(w.users[i], block) {
			patterns = append(patterns, `"`+strings.ReplaceAll(p.String(), `"`, "")+`"`)
		}
	}
	return patterns
}
