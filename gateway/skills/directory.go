package skills

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// folderType is the MIME type of folders.
const folderType = "inode/directory"

// Directory collects the files and folders in one folder of one or more skills. Make it with
// [NewDirectory].
type Directory struct {
	uri string
	// children are its files and folders by their names in URIs, as Resources.
	children map[string]wire.Object
}

// NewDirectory returns an empty folder with a client's URI.
func NewDirectory(uri string) *Directory { return &Directory{uri, map[string]wire.Object{}} }

// Add adds the files of a skill's manifest in this folder; path is the folder's path in the
// skill. It reports whether there are any. A dynamic skill has no manifest.
func (d *Directory) Add(s *Skill, path string, isWithheld func(path string) bool) (found bool) {
	for _, file := range s.Files {
		// With a leading slash, the root, whose path is empty, needs no special case.
		below, within := strings.CutPrefix("/"+file.Path, strings.TrimSuffix("/"+path, "/")+"/")
		if !within || isWithheld(file.Path) {
			continue
		}
		found = true
		name, _, isNested := strings.Cut(below, "/")
		d.add(name, isNested, file.Size)
	}
	return found
}

// add adds a child. Only files have a size.
func (d *Directory) add(name string, isFolder bool, size int64) {
	child := wire.Object{}.With("uri", wire.Quote(d.uri+"/"+name)).With("name", wire.Quote(wire.UnescapeSegment(name)))
	mime := files.MimeType(name)
	if isFolder {
		mime = folderType
	}
	if mime != "" {
		child = child.With("mimeType", wire.Quote(mime))
	}
	if !isFolder {
		child = child.With("size", wire.NumberID(size))
	}
	d.children[name] = child
}

// Resources returns the children by name, as the array of resources/directory/read.
func (d *Directory) Resources() jsontext.Value {
	var all []jsontext.Value
	for _, name := range slices.Sorted(maps.Keys(d.children)) {
		all = append(all, d.children[name].JSON())
	}
	return wire.Array(all)
}
