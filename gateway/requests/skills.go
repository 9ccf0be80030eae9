package requests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A skill is an entry of the catalog like a prompt, so lists and visibility work the same way.
// Reading differs: skills/get returns the entry from the catalog, and resources/read gets a file
// from its upstream. A file is found only through a skill that the caller sees. Other files do not
// exist for the caller.

// provenance returns a function that returns the origin of a skill, as a member of _meta. The audience
// must see the skill. The function caches, because most skills of a list have the same origin.
func provenance(s *snapshot.Snapshot, audience *policy.Audience) func(*catalog.Entry) []byte {
	sources, known := s.Sources, map[skills.Origin][]byte{}
	team, isLocked := "", false
	return func(e *catalog.Entry) []byte {
		// The first owner in the configuration, even if a call goes to another owner.
		owner := e.OwnersFor(audience)[0]
		from := skills.Origin{Team: e.Team, Upstream: owner.Upstream}
		if e.Team != team {
			team, isLocked = e.Team, s.Config.LockFor(e.Team).Mode != config.LockOff
		}
		if isLocked {
			at, _ := s.Index(owner.Upstream)
			name := s.ExposedName(&sources[at], owner.Name) // the lock ignores names in prompt blocks
			from.Lock = string(s.Config.Lock.State(name, e.Skill.Hash))
			if e.Skill.Dynamic { // a dynamic skill cannot be approved
				from.Lock = string(config.LockMissing)
			}
		}
		if rule, _ := audience.ShownBy(e.VisibilityTo(audience)); rule != nil {
			from.Rule = s.Config.Relative(rule.Place)
		}
		if known[from] == nil {
			known[from] = from.Member()
		}
		return known[from]
	}
}

// uri returns the URI in a request.
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

// describe returns the result of skills/get, from memory.
func (h *Handler) describe(ctx context.Context, x *run) (Result, error) {
	uri, err := x.r.uri()
	if err != nil {
		return Result{}, err
	}
	if err := h.awaitTried(ctx, x); err != nil {
		return Result{}, err
	}
	s := x.snapshot
	if err := x.count(h.limits, s.Config.Gateway.Limit); err != nil {
		return Result{}, err
	}
	audience := s.Policy.Audience(x.caller.Principal)
	// The lookup below evaluates conditions without a bound on time, so they are evaluated here first.
	if _, err := s.RequestView(ctx, audience); err != nil {
		return Result{}, viewError(err)
	}
	entry := s.Skill(audience, uri)
	if entry == nil {
		return Result{}, wire.NewError(wire.InvalidParams, "Unknown skill: "+uri)
	}
	return Result{audience: audience, append: func(dst []byte) []byte {
		return skills.Append(append(dst, `"skill":`...), entry.JSON, provenance(s, audience)(entry))
	}}, nil
}

// read returns the result of resources/read for a link, or for a file of a skill.
func (h *Handler) read(ctx context.Context, x *run) (Result, error) {
	uri, err := x.r.uri()
	switch {
	case err != nil:
		return Result{}, err
	case x.r.readsLink(x.snapshot):
		return h.get(ctx, x)
	case !supports(x.snapshot, x.r.Revision, wire.SkillsGet): // without skills, only links can be read
		return Result{}, x.era.unknownResource(uri)
	}
	entry, owners, file, err := h.findFile(ctx, x, uri)
	if err != nil {
		return Result{}, err
	}
	if err := h.limit(x); err != nil {
		return Result{}, err
	}
	// The file exists in several copies until Handle counts the memory of the response itself.
	if err := h.hold(x, owners[0].Upstream, 4*int(file.Size)); err != nil {
		return Result{}, err
	}
	x.call = newCall(x, entry, owners, wire.Object{}.With("uri", wire.Quote(entry.Skill.URI(file))))
	x.outcome, err = x.callOwners(ctx, nil)
	if isUnknown(err) {
		x.snapshot.Connector(x.outcome.owner).Relist()
		return Result{}, x.era.unknownResource(uri) // the message may contain the upstream's own uri
	}
	if err != nil {
		_, err = x.afterError(err, 0)
		return Result{}, err
	}
	content, err := entry.Skill.Verify(x.outcome.result.JSON, file)
	if err != nil {
		return Result{}, h.refuseFile(ctx, x, uri, err)
	}
	if err := x.screenFile(ctx, file, content); err != nil {
		return Result{}, err
	}
	contents := wire.Array([]jsontext.Value{content.With("uri", wire.Quote(uri)).JSON()})
	return x.passedOn(upstream.Result{
		JSON:     x.cacheable(wire.Members(x.outcome.result.JSON).With("contents", contents)).JSON(),
		Revision: x.outcome.result.Revision,
	}, inputNotAllowed)
}

// screenFile applies the screens to a file of a skill.
func (x *run) screenFile(ctx context.Context, file skills.File, content wire.Object) (err error) {
	result, screens := x.outcome.result, x.screening.blocks
	if !x.target.readsSkill {
		_, err = x.screening.screened(ctx, result, screens.File(result.JSON))
		return err
	}
	if file.Path != wire.SkillFile { // the skill's own front matter was screened with the entry
		text, _ := content.Text("text")
		front, err := files.FrontMatter(text)
		if err != nil {
			front = nil
		}
		if _, err := x.screening.screened(ctx, result, screens.NestedSkill(front)); err != nil {
			return err
		}
	}
	_, err = x.screening.result(ctx, result)
	return err
}

// findFile finds the innermost visible skill that contains the file, and the owners that may serve
// it.
func (h *Handler) findFile(ctx context.Context, x *run, uri string) (
	entry *catalog.Entry, owners []catalog.Owner, file skills.File, err error,
) {
	// The audit log calls the read of a SKILL.md a get, even if the request is refused here.
	x.target = target{name: uri, readsSkill: wire.IsSkillFile(uri)}
	if h.audit.log.Refuses() {
		return nil, nil, file, errAudit()
	}
	if x.r.local != nil {
		if entry, owners, file = x.r.local.lookupFile(x.snapshot, uri); entry != nil {
			x.found(h, entry)
		}
	} else {
		entry, owners, err = h.findInView(ctx, x, func(audience *policy.Audience, _ *catalog.View) *catalog.Entry {
			for entry, path := range x.snapshot.SkillsAround(audience, uri) {
				if known, ok := entry.Skill.File(path); ok && path != "" && !isWithheld(x.snapshot, audience, entry, path) {
					file = known
					return entry
				}
			}
			return nil
		})
	}
	switch {
	case err != nil:
		return nil, nil, file, err
	case entry == nil:
		return nil, nil, file, x.era.unknownResource(uri)
	}
	x.target.name = entry.Name
	return entry, owners, file, nil
}

// readDirectory returns the result of resources/directory/read from manifests. Folders of a dynamic
// skill, which has no manifest, are unknown.
func (h *Handler) readDirectory(ctx context.Context, x *run) (Result, error) {
	uri, err := x.r.uri()
	if err != nil {
		return Result{}, err
	}
	var d *skills.Directory
	entry, _, err := h.findInView(ctx, x, func(audience *policy.Audience, _ *catalog.View) (of *catalog.Entry) {
		d = skills.NewDirectory(uri)
		for entry, path := range x.snapshot.SkillsAround(audience, uri) {
			if d.Add(entry.Skill, path, func(path string) bool { return isWithheld(x.snapshot, audience, entry, path) }) {
				of = entry
			}
		}
		return of
	})
	if err == nil && entry != nil {
		err = h.limit(x)
	}
	switch {
	case err != nil:
		return Result{}, err
	case x.r.Params.Get("cursor") != nil: // there is only one page
		return Result{}, invalidParams("the cursor is not from this directory's list")
	case entry == nil:
		return Result{}, wire.NewError(wire.InvalidParams, "Unknown directory: "+uri)
	}
	// The TypeScript SDK also requires the hints for this result.
	return Result{Members: x.cacheable(wire.Object{}.With("resources", d.Resources()))}, nil
}

// isWithheld reports whether a file of a skill also belongs to a nested skill that a hide block
// withholds from the audience.
func isWithheld(s *snapshot.Snapshot, audience *policy.Audience, of *catalog.Entry, path string) bool {
	for end := range path {
		if path[end] != '/' {
			continue
		}
		name := of.Name + "/" + path[:end]
		inner := s.Catalog.Lookup(name)
		if inner != nil && !inner.VisibleTo(audience) && inner.HiddenBy(audience) != nil {
			return true
		}
		// A nested skill that is not approved is missing from the catalog, and policy may hide it
		// as well.
		if _, isSkill := of.Skill.File(path[:end] + "/" + wire.SkillFile); isSkill && inner == nil {
			v := s.Policy.Visibility(of.Team, of.Owners[0].Upstream, name, nil)
			if !audience.Sees(v) && audience.HiddenBy(v) != nil {
				return true
			}
		}
	}
	return false
}

// lookupFile returns the skill that contains a file, its owners and the file, if the caller may use
// them.
func (l *Local) lookupFile(s *snapshot.Snapshot, uri string) (*catalog.Entry, []catalog.Owner, skills.File) {
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
	return nil, nil, skills.File{}
}

// isUnknown reports whether an error means that the upstream does not know the resource.
func isUnknown(err error) bool {
	answer, ok := errors.AsType[*wire.Error](err)
	return ok && (answer.Code == wire.InvalidParams || answer.Code == resourceNotFound || answer.Code == wire.MethodNotFound)
}

// refuseFile logs wrong content of a skill's file, requests a new list, and returns the client's
// error.
func (h *Handler) refuseFile(ctx context.Context, x *run, uri string, why error) error {
	owner := x.outcome.owner
	x.snapshot.Connector(owner).Relist() // the skill may have changed without a notification
	h.logger.ErrorContext(ctx, "file of a skill refused", slog.String("upstream", owner), slog.String("prompt", x.call.entry.Name),
		slog.String("reason", string(upstream.BadResponse)), slog.String("uri", uri), slog.Any("error", why))
	return wire.NewError(wire.InternalError, fmt.Sprintf("%q sent a file that differs from the skill's entry: list the skills again", owner)).
		WithData(wire.Object{}.With("upstream", wire.Quote(owner)).With("reason", wire.Quote(string(upstream.BadResponse))).JSON())
}

// cacheable adds the hints for caches, for clients of 2026-07-28.
func (x *run) cacheable(members wire.Object) wire.Object {
	ttl, scope := cacheHints(x.snapshot, x.snapshot.Policy.Audience(x.caller.Principal), false)
	return x.era.cacheable(withoutHints(members), ttl, scope)
}

func withoutHints(members wire.Object) wire.Object {
	return members.Without(func(name string) bool { return name == "ttlMs" || name == "cacheScope" })
}
