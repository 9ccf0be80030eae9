package requests

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The uri of a link in a get's result means nothing at the gateway, or something else at another
// server. With resources = "linked", the client gets a uri with a sealed token instead: for the link's
// upstream, prompt and uri, and for one principal. The seal is a pure function of these, so that equal
// gets have equal results, and no replica has to store the link. Reading a link is a call like a get:
// policy decides about the prompt at that moment.

const (
	linkScheme = "promptweir://"
	// maxLink bounds the uri of a client's link, in bytes, and maxSegment its last segment.
	maxLink, maxSegment = 1024, 128
	// maxLinks bounds the links of one result. A server decides how many there are, and each uses
	// part of what a key may seal, see package seal.
	maxLinks = 256
)

// Supports reports whether the client can use a method of the Skills extension or of resources. It
// is false for other methods. Revisions before 2025-11-25 have no extensions.
func (r *Request) Supports(method string) bool { return supports(r.Snapshot, r.Revision, method) }

func supports(s *snapshot.Snapshot, revision, method string) bool {
	skills := s.Skills && revision >= wire.Rev20251125
	switch method {
	case wire.SkillsList, wire.SkillsGet, wire.DirectoryRead:
		return skills
	case wire.ResourcesRead, wire.ResourcesList, wire.TemplatesList:
		return skills || s.Links
	}
	return false
}

// readsLink reports whether the request is a client's resources/read for a link, rather than for a
// file of a skill.
func (r *Request) readsLink(s *snapshot.Snapshot) bool {
	uri, _ := r.Params.Text("uri")
	return r.Message.Method == wire.ResourcesRead && s.Links && r.local == nil && strings.HasPrefix(uri, linkScheme)
}

// findLink finds the prompt of a link to read. The target's arguments contain the server's uri.
func (h *Handler) findLink(ctx context.Context, x *run) (*catalog.Entry, []catalog.Owner, error) {
	uri, _ := x.r.Params.Text("uri")
	x.target = target{name: uri, linked: true}
	// This lookup is for the audit log only. The lookup in the view decides whether the link may be
	// read.
	if link, err := x.openLink(uri); err == nil {
		x.target.setLink(link)
	}
	if h.audit.log.Refuses() {
		return nil, nil, errAudit()
	}
	var owner []catalog.Owner
	// A link that does not open takes the same path, so that it looks like a link that policy has
	// revoked.
	entry, _, err := h.findInView(ctx, x, func(audience *policy.Audience, view *catalog.View) *catalog.Entry {
		link, err := x.openLink(uri) // again, because the snapshot may have changed
		if err != nil {
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
		x.target.setLink(link)
		owner = owners[at : at+1]
		return entry
	})
	if err == nil && entry == nil {
		err = x.era.unknownResource(uri)
	}
	return entry, owner, err
}

var errNoLink = errors.New("no link of the caller's")

// openLink returns the link in a uri that the caller got from the gateway. A link is dead once its
// upstream is gone, has another prefix, or no longer serves links.
func (x *run) openLink(uri string) (seal.Link, error) {
	parts := strings.Split(strings.TrimPrefix(uri, linkScheme), "/")
	if len(uri) > maxLink || len(parts) != 3 {
		return seal.Link{}, errNoLink
	}
	link, err := x.snapshot.Sealer.OpenLink(x.caller.Principal.Key(), parts[1])
	if err != nil {
		return seal.Link{}, err
	}
	u := linkedUpstream(x.snapshot, link.Owner)
	// The token alone identifies the link. Compare the whole uri, so that a link has only one
	// spelling, and becomes invalid when the prefix changes.
	if u == nil || linkURI(u, parts[1], link.URI) != uri {
		return seal.Link{}, errNoLink
	}
	return link, nil
}

// linkedUpstream returns the upstream with a label if links in its results can be read. Otherwise it
// returns nil.
func linkedUpstream(s *snapshot.Snapshot, label string) *config.Upstream {
	at, known := s.Index(label)
	if !known || s.Upstreams[at].Resources != config.ResourcesLinked {
		return nil
	}
	return &s.Upstreams[at]
}

// linkURI returns the uri of a link for clients. The token identifies the link. The prefix shows
// the upstream to people, and the last segment shows the file extension to hosts. [run.openLink]
// compares both.
func linkURI(u *config.Upstream, token, own string) string {
	path, _, _ := strings.Cut(own, "#")
	path, _, _ = strings.Cut(path, "?")
	last := wire.EscapeSegment(wire.UnescapeSegment(path[strings.LastIndexAny(path, "/:")+1:]))
	if last == "" || last == "." || last == ".." || len(last) > maxSegment {
		last = "resource"
	}
	return linkScheme + wire.EscapeSegment(u.Prefix) + "/" + token + "/" + last
}

// sealLinks returns the result of a get or read with links that the client can read. Local callers
// cannot read links, so their result keeps the server's uris.
func (x *run) sealLinks(ctx context.Context, result jsontext.Value) jsontext.Value {
	owner, prompt := x.outcome.owner, x.call.entry.Name
	u := linkedUpstream(x.snapshot, owner)
	if x.r.local != nil || u == nil {
		return result
	}
	asked, _ := x.r.Params.Text("uri")
	own, _ := x.call.params.Text("uri")
	sealed, left := 0, 0
	edit := func(value jsontext.Value) jsontext.Value {
		uri, isText := wire.Text(value)
		switch {
		case !isText || isForClients(uri):
			return value
		// Clients expect the content under the uri that they requested.
		case x.target.linked && uri == own:
			return wire.Quote(asked) // do not seal again: the client's uri may be sealed with an older key
		}
		if sealed++; sealed <= maxLinks && len(uri) <= maxLink {
			token := x.snapshot.Sealer.SealLink(x.caller.Principal.Key(), seal.Link{Owner: owner, Prompt: prompt, URI: uri})
			if link := linkURI(u, token, uri); len(link) <= maxLink {
				return wire.Quote(link)
			}
		}
		left++
		return value
	}
	if x.target.linked {
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
		x.screening.logger.WarnContext(ctx, "links left as they are: they are too long or too many", slog.String("upstream", owner),
			slog.String("prompt", prompt), slog.Int("links", left))
	}
	return result
}

// isForClients reports whether clients fetch or show a uri themselves, or read it as a file of a
// skill.
func isForClients(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	return slices.Contains([]string{"http", "https", "ui", "skill"}, strings.ToLower(scheme))
}

// cacheableRead adds the cache hints of 2026-07-28 to the result of reading a link. The result
// stays fresh for the time that the server returned, but at most as long as a list, because policy
// may change.
func (x *run) cacheableRead(result upstream.Result) upstream.Result {
	// Neither a result between two legacy peers nor a result that requires input has cache hints.
	if !x.r.Modern() && !wire.Modern(result.Revision) || wire.KindOf(result.JSON, "contents") != '[' {
		return result
	}
	members := wire.Members(result.JSON)
	ttl, _ := wire.Int(members.Get("ttlMs")) // a legacy server sends none
	most, _ := cacheHints(x.snapshot, x.snapshot.Policy.Audience(x.caller.Principal), false)
	fresh := max(0, min(time.Duration(ttl)*time.Millisecond, most))
	result.JSON = x.era.cacheable(withoutHints(members), fresh, "private").JSON()
	return result
}
