package requests

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A skill is an entry of the catalog like a prompt, so that lists and everything about visibility
// know nothing of it. What is its own: its entry is got from the catalog and its files, one by one,
// from its upstream. A file is found by the skills around it that the caller sees, and never in
// another way, so that what belongs to no such skill does not exist.

// MetaProvenance is the _meta key under which the entry of a skill says where it is from.
const MetaProvenance = wire.MetaPrefix + "provenance"

// provenance returns a function that says, as a member of _meta, where a skill is from, for an
// audience that sees it. Most skills of a list are from the same place.
func provenance(s *snapshot.Snapshot, audience *policy.Audience) func(*catalog.Entry) []byte {
	type origin struct{ team, upstream, lock, rule string }
	sources, known := s.Sources(), map[origin][]byte{}
	team, isLocked := "", false
	return func(e *catalog.Entry) []byte {
		// The first in the configuration, although a call may have to go to another one.
		owner := e.OwnersFor(audience)[0]
		from := origin{team: e.Team, upstream: owner.Upstream}
		if e.Team != team {
			team, isLocked = e.Team, s.Config.LockFor(e.Team).Mode != config.LockOff
		}
		if isLocked {
			at, _ := s.Index(owner.Upstream)
			name := s.ExposedName(&sources[at], owner.Name) // whatever a prompt block calls it
			from.lock = string(s.Config.Lock.State(name, e.Skill.Hash))
			if e.Skill.Dynamic { // nothing of it can be approved
				from.lock = string(config.LockMissing)
			}
		}
		if rule, _ := audience.ShownBy(e.VisibilityTo(audience)); rule != nil {
			// Not where this gateway has its files: each replica says the same.
			relative, err := filepath.Rel(s.Config.Folder, rule.Place)
			if from.rule = filepath.ToSlash(relative); err != nil {
				from.rule = rule.Place
			}
		}
		if known[from] == nil {
			about := wire.Object{}.With("team", wire.Quote(from.team)).With("upstream", wire.Quote(from.upstream))
			if from.lock != "" {
				about = about.With("lock", wire.Quote(from.lock))
			}
			if from.rule != "" {
				about = about.With("rule", wire.Quote(from.rule))
			}
			member := wire.Object{}.With(MetaProvenance, about.JSON()).JSON()
			known[from] = member[len("{") : len(member)-len("}")]
		}
		return known[from]
	}
}

// uri returns the URI that a request is about.
func (r *Request) uri() (string, error) {
	if odd := r.Params.Folded("uri"); odd != "" {
		return "", invalidParams(fmt.Sprintf("member %q differs from a known member only in case", odd))
	}
	uri, ok := r.Params.Text("uri")
	if !ok {
		return "", invalidParams("uri must be a string")
	}
	return uri, nil
}

// describe appends the result of skills/get, from memory.
func (h *Handler) describe(ctx context.Context, r *Request, out *Response) error {
	uri, err := r.uri()
	if err != nil {
		return err
	}
	if err := h.settle(ctx, r); err != nil {
		return err
	}
	s := r.Snapshot
	if out.counted, err = h.limits.acquire(&r.Caller.Principal, s.Config.Gateway.Limit); err != nil {
		return err
	}
	audience := s.Policy.Audience(r.Caller.Principal)
	// The lookup below has no budget of its own: this evaluates what conditions the audience's view
	// needs.
	if _, err := s.RequestView(audience); err != nil {
		return rulesTakeTooLong()
	}
	entry := s.Skill(audience, uri)
	if entry == nil {
		return wire.NewError(wire.InvalidParams, "Unknown skill: "+uri)
	}
	out.JSON = append(out.JSON, `{"skill":`...)
	out.JSON = entry.AppendSkill(out.JSON, provenance(s, audience)(entry))
	appendListMeta(r, out, audience, h.info)
	return nil
}

// read appends the result of resources/read, for a link or a file of a skill.
func (h *Handler) read(ctx context.Context, r *Request, out *Response) error {
	uri, err := r.uri()
	if err != nil {
		return err
	}
	if readsLink(r) {
		return h.get(ctx, r, out)
	}
	if !r.Serves(wire.SkillsGet) { // there are only links
		return r.unknownResource(uri)
	}
	// The audit log calls the read of a SKILL.md a get, and must know it even if the request is
	// refused here.
	r.target = target{name: uri, use: wire.IsSkillFile(uri)}
	if h.audit.refuses() {
		return errAudit()
	}
	entry, owners, file, err := h.authorizeFile(ctx, r, out, uri)
	switch {
	case err != nil:
		return err
	case entry == nil:
		return r.unknownResource(uri)
	}
	r.target.name = entry.Name
	r.screening = newScreening(h.logger, entry, r.Snapshot.Screen(entry.Team))
	// Until the response counts what it holds, there are several copies of the file.
	reading, ok := h.ledger.Acquire(r.Snapshot.Config.Gateway.MaxBuffered, r.Key(), owners[0].Upstream, 4*int(file.Size))
	if !ok {
		return errUnread()
	}
	defer reading.Release()
	own := entry.Skill.Root + "/" + file.Path
	c := newResourceCall(r, entry, owners, own)
	err = c.callOwners(ctx, nil)
	out.upstream = c.owner
	if isUnknown(err) {
		r.Snapshot.Connector(c.owner).Relist()
		return r.unknownResource(uri) // its message may name the upstream's own uri
	}
	if err != nil {
		_, err = r.afterError(err, 0)
		return err
	}
	content, err := verified(c.result.JSON, own, file, entry.Skill)
	if err != nil {
		return c.refuse(ctx, h.logger, uri, err)
	}
	if r.target.use && file.Path != wire.SkillFile { // of the skill's own, it was screened with the entry
		text, _ := content.Text("text")
		front, err := files.FrontMatter(text)
		if err != nil {
			front = nil
		}
		if _, err := r.screening.screened(ctx, c.result, r.screening.blocks.NestedSkill(front)); err != nil {
			return err
		}
	}
	if r.target.use {
		_, err = r.screening.result(ctx, c.result)
	} else {
		_, err = r.screening.screened(ctx, c.result, r.screening.blocks.File(c.result.JSON))
	}
	if err != nil {
		return err
	}
	result := wire.Members(c.result.JSON).With("contents", wire.Array([]jsontext.Value{content.With("uri", wire.Quote(uri)).JSON()}))
	return out.appendResult(r, r.cacheable(upstream.Result{JSON: result.JSON(), Revision: c.result.Revision}), h.info, inputNotAllowed)
}

// authorizeFile is authorize for a file of a skill.
func (h *Handler) authorizeFile(ctx context.Context, r *Request, out *Response, uri string) (
	entry *catalog.Entry, owners []catalog.Owner, file catalog.ManifestFile, err error,
) {
	if r.local != nil {
		entry, owners, file = r.local.lookupFile(r.Snapshot, uri)
		return entry, owners, file, nil
	}
	entry, owners, err = h.authorizeClient(ctx, r, out, func(audience *policy.Audience, _ *catalog.View) *catalog.Entry {
		for entry, path := range r.Snapshot.SkillsAround(audience, uri) {
			if known, ok := entry.Skill.File(path); ok && path != "" && !isWithheld(r.Snapshot, audience, entry, path) {
				file = known
				return entry
			}
		}
		return nil
	})
	return entry, owners, file, err
}

// isWithheld reports whether a file of a skill also belongs to a skill within it that a hide block keeps
// from the audience.
func isWithheld(s *snapshot.Snapshot, audience *policy.Audience, of *catalog.Entry, path string) bool {
	for end := range path {
		if path[end] != '/' {
			continue
		}
		if inner := s.Catalog.Lookup(of.Name + "/" + path[:end]); inner != nil && !inner.VisibleTo(audience) && inner.HiddenBy(audience) != nil {
			return true
		}
	}
	return false
}

// lookupFile returns a skill with a file, and its owners, as far as the caller may use them.
func (l *Local) lookupFile(s *snapshot.Snapshot, uri string) (*catalog.Entry, []catalog.Owner, catalog.ManifestFile) {
	entries, ownersOf := s.Catalog.Entries(), func(e *catalog.Entry) []catalog.Owner { return e.Owners }
	if l.Principal != nil {
		audience := s.Policy.Audience(*l.Principal)
		entries = s.View(audience).Entries()
		ownersOf = func(e *catalog.Entry) []catalog.Owner { return e.OwnersFor(audience) }
	}
	for _, entry := range entries {
		if path, within := strings.CutPrefix(uri, entry.Root+"/"); entry.Skill != nil && within {
			if file, ok := entry.Skill.File(path); ok {
				return entry, ownersOf(entry), file
			}
		}
	}
	return nil, nil, catalog.ManifestFile{}
}

// unknownResource is the answer for a file of no skill that the caller sees.
func (r *Request) unknownResource(uri string) error {
	if r.Modern() {
		return wire.NewError(wire.InvalidParams, "Unknown resource: "+uri)
	}
	return wire.NewError(resourceNotFound, "Unknown resource: "+uri).
		WithData(wire.Object{}.With("uri", wire.Quote(uri)).JSON())
}

// newResourceCall returns the call of the request's method for a resource of a skill, by its owner's
// uri.
func newResourceCall(r *Request, entry *catalog.Entry, owners []catalog.Owner, own string) *call {
	return &call{
		snapshot: r.Snapshot, entry: entry, owners: owners, caller: r.assertedCaller(), request: upstream.Request{Method: r.Message.Method, Caller: r.upstreamCaller()},
		params: wire.Object{}.With("uri", wire.Quote(own)),
	}
}

// isUnknown reports whether an upstream says that it has no such resource.
func isUnknown(err error) bool {
	answer, ok := errors.AsType[*wire.Error](err)
	return ok && (answer.Code == wire.InvalidParams || answer.Code == resourceNotFound || answer.Code == wire.MethodNotFound)
}

// refuse reports what an upstream sent in place of a skill's content, and returns the client's error.
func (c *call) refuse(ctx context.Context, logger *slog.Logger, uri string, why error) error {
	c.snapshot.Connector(c.owner).Relist() // the skill may have changed, which no server reports
	logger.ErrorContext(ctx, "file of a skill refused", slog.String("upstream", c.owner), slog.String("prompt", c.entry.Name),
		slog.String("reason", string(upstream.BadResponse)), slog.String("uri", uri), slog.Any("error", why))
	return wire.NewError(wire.InternalError, fmt.Sprintf("%q sent a file that differs from the skill's entry: list the skills again", c.owner)).
		WithData(wire.Object{}.With("upstream", wire.Quote(c.owner)).With("reason", wire.Quote(string(upstream.BadResponse))).JSON())
}

// cacheable returns a result with the hints for caches that clients of 2026-07-28 get.
func (r *Request) cacheable(result upstream.Result) upstream.Result {
	members := wire.Members(result.JSON).Without(func(name string) bool { return name == "ttlMs" || name == "cacheScope" })
	if r.Modern() {
		audience := r.Snapshot.Policy.Audience(r.Caller.Principal)
		ttl, scope := cacheHints(r.Snapshot, audience, false)
		members = members.With("ttlMs", strconv.AppendInt(nil, ttl.Milliseconds(), 10)).With("cacheScope", wire.Quote(scope))
	}
	result.JSON = members.JSON()
	return result
}

// verified returns the content in the result of a read. The error means that it is not the file
// that the skill's entry describes.
func verified(result jsontext.Value, uri string, file catalog.ManifestFile, of *catalog.Skill) (wire.Object, error) {
	contents, err := wire.ParseArray(wire.Members(result).Get("contents"))
	if err != nil || len(contents) != 1 {
		return nil, errors.New("the result does not have exactly one content")
	}
	content := wire.Members(contents[0])
	if got, _ := content.Text("uri"); got != uri {
		return nil, errors.New("the content has a different uri")
	}
	text, isText := content.Text("text")
	bytes := []byte(text)
	if blob, isBlob := content.Text("blob"); isBlob == isText {
		return nil, errors.New("the content must have either a text or a blob")
	} else if isBlob {
		if bytes, err = base64.StdEncoding.DecodeString(blob); err != nil {
			return nil, errors.New("the blob is not base64")
		}
	}
	switch {
	case file.Digest == "": // dynamic
	case int64(len(bytes)) != file.Size:
		return nil, fmt.Errorf("it has %d bytes, not %d", len(bytes), file.Size)
	case fmt.Sprintf("sha256:%x", sha256.Sum256(bytes)) != file.Digest:
		return nil, fmt.Errorf("its digest is not %s", file.Digest)
	}
	if file.Path == wire.SkillFile { // of a nested skill, it is a text like any other
		if err := checkFrontMatter(string(bytes), of); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// checkFrontMatter refuses a SKILL.md that says something else of itself than its entry did, by which
// it was screened and explained.
func checkFrontMatter(text string, of *catalog.Skill) error {
	front, err := files.FrontMatter(text)
	if err != nil {
		return err
	}
	listed := of.Frontmatter.JSON()
	if err := errors.Join(front.Canonicalize(), listed.Canonicalize()); err != nil {
		return err
	}
	if !slices.Equal(front, listed) {
		return errors.New("its front matter differs from the entry")
	}
	return nil
}
