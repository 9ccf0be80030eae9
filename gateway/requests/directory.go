package requests

import (
	"context"
	"errors"
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

// maxDirectoryPages bounds the pages of a directory that are asked for.
const maxDirectoryPages = 16

// directory is a folder of skills, as the caller sees it.
type directory struct {
	uri string
	// children are its files and folders by their names in URIs, as Resources.
	children map[string]wire.Object
}

// readDirectory appends the result of resources/directory/read: from manifests or, for a skill that
// has none, from its server.
func readDirectory(ctx context.Context, h *Handler, r *Request, out *Response) error {
	uri, err := r.uri()
	if err != nil {
		return err
	}
	d, own := &directory{uri, map[string]wire.Object{}}, ""
	entry, owners, err := h.authorizeClient(ctx, r, out, func(audience *policy.Audience, _ *catalog.View) (entry *catalog.Entry) {
		entry, own = d.find(r.Snapshot, audience)
		return entry
	})
	switch {
	case err != nil:
		return err
	case r.Params.Get("cursor") != nil: // there is one page only
		return invalidParams("the cursor is not from this directory's list")
	case entry == nil:
		return d.unknown()
	case len(d.children) == 0:
		if err := d.ask(ctx, h, r, out, newResourceCall(r, entry, owners, own)); err != nil {
			return err
		}
	}
	var children []jsontext.Value
	for _, name := range slices.Sorted(maps.Keys(d.children)) {
		children = append(children, d.children[name].JSON())
	}
	result := upstream.Result{JSON: wire.Object{}.With("resources", wire.Array(children)).JSON(), Revision: r.Revision}
	return out.appendResult(r, r.cacheable(result), h.info, inputNotAllowed) // the TypeScript SDK demands the hints here, too
}

func (d *directory) unknown() error {
	return wire.NewError(wire.InvalidParams, "Unknown directory: "+d.uri)
}

// find adds what manifests have of the folder, and returns a skill that it belongs to. If nothing
// was added, only the skill's server knows what is in the folder, which has this URI there.
func (d *directory) find(s *snapshot.Snapshot, audience *policy.Audience) (of *catalog.Entry, own string) {
	var dynamic *catalog.Entry
	for entry, path := range s.SkillsAround(audience, d.uri) {
		if entry.Skill.Dynamic {
			if _, ok := entry.Skill.File(path); dynamic == nil && (ok || path == "") {
				dynamic, own = entry, strings.TrimSuffix(entry.Skill.Root+"/"+path, "/")
			}
			continue
		}
		for _, file := range entry.Skill.Files {
			// With a slash before it, the root, whose path is empty, is a folder like the others.
			below, within := strings.CutPrefix("/"+file.Path, strings.TrimSuffix("/"+path, "/")+"/")
			if !within {
				continue
			}
			of = entry
			name, _, isNested := strings.Cut(below, "/")
			d.add(name, isNested, wire.Object{}.With("size", wire.NumberID(file.Size)))
		}
	}
	if of == nil {
		of = dynamic
	}
	return of, own
}

// add adds a child. Of what its server says of it, the size is kept.
func (d *directory) add(name string, isFolder bool, sent wire.Object) {
	child := wire.Object{}.With("uri", wire.Quote(d.uri+"/"+name)).With("name", wire.Quote(catalog.Unescaped(name)))
	mime := files.MimeType(name)
	if isFolder {
		mime = folderType
	}
	if mime != "" {
		child = child.With("mimeType", wire.Quote(mime))
	}
	if size, ok := wire.Int(sent.Get("size")); ok && !isFolder {
		child = child.With("size", wire.NumberID(size))
	}
	d.children[name] = child
}

// folderType is the MIME type of folders.
const folderType = "inode/directory"

// ask adds what a server says of the folder of a skill. The error is the client's.
func (d *directory) ask(ctx context.Context, h *Handler, r *Request, out *Response, c *call) error {
	own, _ := c.params.Text("uri")
	for range maxDirectoryPages {
		err := c.callOwners(ctx, nil)
		out.upstream = c.owner
		switch {
		case isUnknown(err):
			return d.unknown()
		case err != nil:
			_, err = r.afterError(err, 0)
			return err
		}
		result := wire.Members(c.result.JSON)
		resources, err := wire.ParseArray(result.Get("resources"))
		if err != nil || len(resources)+len(d.children) > wire.MaxSkillFiles {
			return c.refuse(ctx, h.logger, d.uri, errors.New("the folder has no array of resources, or too many"))
		}
		for _, value := range resources {
			sent := wire.Members(value)
			uri, _ := sent.Text("uri")
			mime, _ := sent.Text("mimeType")
			name, within := strings.CutPrefix(uri, own+"/")
			if _, ok := c.entry.Skill.File(name); ok && within && !strings.Contains(name, "/") { // what lies elsewhere is none of the skill's
				d.add(name, mime == folderType, sent)
			}
		}
		next := result.Get("nextCursor")
		if next.Kind() != '"' {
			return nil
		}
		// A cursor means something only to the server that it is from.
		c.params = c.params.With("cursor", next)
		c.owners = slices.DeleteFunc(slices.Clone(c.owners), func(o catalog.Owner) bool { return o.Upstream != c.owner })
	}
	return c.refuse(ctx, h.logger, d.uri, errors.New("the folder has too many pages"))
}
