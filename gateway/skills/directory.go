package skills

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// folderType is the MIME type of folders in SEP-2640.
const folderType = "inode/directory"

// Directory collects the files and folders in one folder, which may contain several skills. Make it
// with [NewDirectory].
type Directory struct {
	uri string
	// children are the MCP resources of the files and folders, by the last segments of their URIs.
	children map[string]wire.Object
}

// NewDirectory returns an empty folder. uri is the URI under which clients find the folder.
func NewDirectory(uri string) *Directory { return &Directory{uri, map[string]wire.Object{}} }

// Add adds the files and folders that a skill has in this folder, except withheld files. The path of the folder
// is relative to the skill. found reports whether there are any. In a dynamic skill it is false, because such a
// skill has no manifest.
func (d *Directory) Add(s *Skill, path string, isWithheld func(path string) bool) (found bool) {
	for _, file := range s.Files {
		// The leading slashes also handle the skill's root, whose path is empty.
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

// add adds a child. The size is for files only.
func (d *Directory) add(name string, isFolder bool, size int64) {
	child := wire.Object{}.With("uri", wire.Quote(d.uri+"/"+name)).With("name", wire.Quote(wire.UnescapeSegment(name)))
	if isFolder {
		child = child.WithText("mimeType", folderType)
	} else {
		child = child.WithText("mimeType", files.MimeType(name)).With("size", wire.NumberID(size))
	}
	d.children[name] = child
}

// Resources returns the resources member of a resources/directory/read result, sorted by name.
func (d *Directory) Resources() jsontext.Value {
	return wire.Array(exslices.CastFunc(slices.Sorted(maps.Keys(d.children)), func(name string) jsontext.Value {
		return d.children[name].JSON()
	}))
}
