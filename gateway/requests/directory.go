package requests

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// directory is a folder of skills, as the caller sees it.
type directory struct {
	uri string
	// children are its files and folders by their names in URIs, as Resources.
	children map[string]wire.Object
}

// readDirectory appends the result of resources/directory/read, from manifests. The folders of a dynamic
// skill, which has none, are unknown.
func readDirectory(ctx context.Context, h *Handler, r *Request, out *Response) error {
	uri, err := r.uri()
	if err != nil {
		return err
	}
	d := &directory{uri, map[string]wire.Object{}}
	entry, _, err := h.authorizeClient(ctx, r, out, func(audience *policy.Audience, _ *catalog.View) *catalog.Entry {
		return d.find(r.Snapshot, audience)
	})
	switch {
	case err != nil:
		return err
	case r.Params.Get("cursor") != nil: // there is one page only
		return invalidParams("the cursor is not from this directory's list")
	case entry == nil:
		return wire.NewError(wire.InvalidParams, "Unknown directory: "+uri)
	}
	var children []jsontext.Value
	for _, name := range slices.Sorted(maps.Keys(d.children)) {
		children = append(children, d.children[name].JSON())
	}
	result := upstream.Result{JSON: wire.Object{}.With("resources", wire.Array(children)).JSON(), Revision: r.Revision}
	return out.appendResult(r, r.cacheable(result), h.info, inputNotAllowed) // the TypeScript SDK demands the hints here, too
}

// find adds the children of the folder that manifests have, and returns a skill that it belongs to; nil
// if no skill that the audience sees has the folder.
func (d *directory) find(s *snapshot.Snapshot, audience *policy.Audience) (of *catalog.Entry) {
	for entry, path := range s.SkillsAround(audience, d.uri) {
		for _, file := range entry.Skill.Files {
			// With a slash before it, the root, whose path is empty, is a folder like the others.
			below, within := strings.CutPrefix("/"+file.Path, strings.TrimSuffix("/"+path, "/")+"/")
			if !within || isWithheld(s, audience, entry, file.Path) {
				continue
			}
			of = entry
			name, _, isNested := strings.Cut(below, "/")
			d.add(name, isNested, file.Size)
		}
	}
	return of
}

// add adds a child. The size is that of a file.
func (d *directory) add(name string, isFolder bool, size int64) {
	child := wire.Object{}.With("uri", wire.Quote(d.uri+"/"+name)).With("name", wire.Quote(catalog.Unescaped(name)))
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

// folderType is the MIME type of folders.
const folderType = "inode/directory"
