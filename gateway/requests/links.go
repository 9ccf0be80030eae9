package requests

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A link in the result of a get has a uri of its server's, which means nothing at the gateway, or
// something else at another server. With resources = "linked", the client gets one by which the
// gateway finds the way back: whose link it is, in which prompt's result it was, and for whom. Its
// seal is a pure function of these, so that equal gets have equal bytes, and no replica has to
// remember it. Reading it is a call like a get: policy decides about the prompt at that moment.

const (
	linkScheme = "promptweir://"
	// maxLink bounds the uri of a link that a client gets, in bytes, and maxSegment its last
	// segment.
	maxLink, maxSegment = 1024, 128
	// maxLinks bounds the links of one result: a server decides how many there are, and each takes
	// part of what a key may seal, see the package seal.
	maxLinks = 256
)

// Serves reports whether a method of the Skills extension, or of resources, is there for the client.
// Revisions before 2025-11-25 know no extensions.
func (r *Request) Serves(method string) bool {
	skills := r.Snapshot.Skills && r.Revision >= wire.Rev20251125
	switch method {
	case wire.SkillsList, wire.SkillsGet, wire.DirectoryRead:
		return skills
	case wire.ResourcesRead, wire.ResourcesList, wire.TemplatesList:
		return skills || r.Snapshot.Links
	}
	return false
}

// readsLink reports whether the request is to read a link rather than a file of a skill.
func readsLink(r *Request) bool {
	uri, _ := r.Params.Text("uri")
	return r.Message.Method == wire.ResourcesRead && r.Snapshot.Links && r.local == nil && strings.HasPrefix(uri, linkScheme)
}

// authorizeLink returns the upstream call of the read of a link that its caller may make.
func authorizeLink(ctx context.Context, h *Handler, r *Request, out *Response) (*call, error) {
	uri, _ := r.Params.Text("uri")
	// For the audit log only. Whether the link may be read is decided with authorization.
	link, err := openLink(r, uri)
	r.target = target{name: uri, linked: true}
	if err == nil {
		r.target = target{name: link.Prompt, linked: true, arguments: wire.Object{}.With("uri", wire.Quote(link.URI))}
	}
	if h.audit.refuses() {
		return nil, errAudit()
	}
	var owner []catalog.Owner
	// What does not open takes the same way, so that it cannot be told from what policy took back.
	entry, _, refusal := h.authorizeClient(ctx, r, out, func(audience *policy.Audience, view *catalog.View) *catalog.Entry {
		if link, err = openLink(r, uri); err != nil { // anew: the snapshot may be another by now
			return nil
		}
		entry := view.Kind(false).Lookup(link.Prompt)
		if entry == nil {
			return nil
		}
		owners := entry.OwnersFor(audience)
		at := slices.IndexFunc(owners, func(o catalog.Owner) bool { return o.Upstream == link.Owner })
		if at < 0 {
			return nil
		}
		owner = owners[at : at+1]
		return entry
	})
	switch {
	case refusal != nil:
		return nil, refusal
	case entry == nil:
		return nil, r.unknownResource(uri)
	}
	r.screening = newScreening(h.logger, entry, r.Snapshot.Screen(entry.Team))
	c, err := newCall(r, entry, owner, r.Params.With("uri", wire.Quote(link.URI)))
	if err != nil {
		return nil, err
	}
	c.request.Check = checkRead
	return c, nil
}

var errNoLink = errors.New("no link of the caller's")

// openLink returns the link of a uri that the caller got from the gateway, as it is: a link leads
// nowhere once its upstream is gone, has another prefix or does not serve links any more.
func openLink(r *Request, uri string) (seal.Link, error) {
	parts := strings.Split(strings.TrimPrefix(uri, linkScheme), "/")
	if len(uri) > maxLink || len(parts) != 3 {
		return seal.Link{}, errNoLink
	}
	link, err := r.Snapshot.Sealer.OpenLink(r.Caller.Principal.Key(), parts[1])
	if err != nil {
		return seal.Link{}, err
	}
	u := linkedUpstream(r, link.Owner)
	// The token alone would do. The rest is compared so that a link has one spelling, and does not
	// outlive the prefix in it.
	if u == nil || linkURI(u, parts[1], link.URI) != uri {
		return seal.Link{}, errNoLink
	}
	return link, nil
}

// linkedUpstream returns the upstream with a label if links in its results can be read, else nil.
func linkedUpstream(r *Request, label string) *config.Upstream {
	at, known := r.Snapshot.Index(label)
	if !known || r.Snapshot.Upstreams[at].Resources != config.ResourcesLinked {
		return nil
	}
	return &r.Snapshot.Upstreams[at]
}

// linkURI returns the uri of a link for clients. People see in it whose it is, and hosts its
// extension; only the token counts.
func linkURI(u *config.Upstream, token, own string) string {
	path, _, _ := strings.Cut(own, "#")
	path, _, _ = strings.Cut(path, "?")
	last := catalog.Escaped(catalog.Unescaped(path[strings.LastIndexAny(path, "/:")+1:]))
	if last == "" || last == "." || last == ".." || len(last) > maxSegment {
		last = "resource"
	}
	return linkScheme + catalog.Escaped(u.Prefix) + "/" + token + "/" + last
}

// sealLinks returns the result of a get or of a read with links that the client can read. Local
// callers cannot: they see what the server sent.
func (c *call) sealLinks(ctx context.Context, r *Request, result jsontext.Value) jsontext.Value {
	u := linkedUpstream(r, c.owner)
	if r.local != nil || u == nil {
		return result
	}
	asked, _ := r.Params.Text("uri")
	own, _ := c.params.Text("uri")
	sealed, left := 0, 0
	edit := func(value jsontext.Value) jsontext.Value {
		uri, isText := wire.Text(value)
		switch {
		case !isText || isForClients(uri):
			return value
		// Clients look for the content under the uri that they asked for.
		case c.request.Method == wire.ResourcesRead && uri == own:
			return wire.Quote(asked) // though it may be sealed with an older key
		}
		if sealed++; sealed <= maxLinks && len(uri) <= maxLink {
			token := r.Snapshot.Sealer.SealLink(r.Caller.Principal.Key(), seal.Link{Owner: c.owner, Prompt: c.entry.Name, URI: uri})
			if link := linkURI(u, token, uri); len(link) <= maxLink {
				return wire.Quote(link)
			}
		}
		left++
		return value
	}
	if c.request.Method == wire.ResourcesRead {
		result = wire.Edit(result, []string{"contents", "*", "uri"}, edit)
	} else {
		result = wire.Edit(result, []string{"messages", "*", "content"}, func(content jsontext.Value) jsontext.Value {
			if kind, _ := wire.Members(content).Text("type"); kind != "resource_link" {
				return content
			}
			return wire.Edit(content, []string{"uri"}, edit)
		})
	}
	if left > 0 {
		r.screening.logger.WarnContext(ctx, "links left as they are: they are too long or too many", slog.String("upstream", c.owner),
			slog.String("prompt", c.entry.Name), slog.Int("links", left))
	}
	return result
}

// isForClients reports whether a uri is one that clients fetch or show themselves, or that of a
// skill's file, which is read as such.
func isForClients(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	switch strings.ToLower(scheme) {
	case "http", "https", "ui", "skill":
		return true
	}
	return false
}

// cacheableRead returns the result of reading a link with the hints for caches that clients of
// 2026-07-28 get: fresh for as long as its server says, but no longer than a list, since policy may
// change.
func cacheableRead(r *Request, result upstream.Result) upstream.Result {
	if !r.Modern() && !wire.Modern(result.Revision) || wire.KindOf(result.JSON, "contents") != '[' {
		return result // no hints, or a result that asks for input
	}
	ttl, _ := wire.Int(wire.Members(result.JSON).Get("ttlMs")) // a server of another era says nothing
	result = r.cacheable(result)
	if r.Modern() {
		members := wire.Members(result.JSON)
		most, _ := wire.Int(members.Get("ttlMs"))
		result.JSON = members.With("ttlMs", wire.NumberID(max(0, min(ttl, most)))).
			With("cacheScope", wire.Quote("private")).JSON()
	}
	return result
}
