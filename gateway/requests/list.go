package requests

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The times for which a client may cache a list: degradedTTL while an upstream in its view is
// degraded, otherwise healthyTTL. A server in the view with a shorter TTL that does not report
// changes reduces the time to its TTL. The age of the server's list is not subtracted, so that
// equal requests get equal bytes, and clients do not all return at the same moment.
const (
	healthyTTL  = time.Minute
	degradedTTL = 5 * time.Second
)

// MetaPartial is the _meta key under which a list names the upstreams whose prompts may be outdated
// or missing, or whose gets fail.
const MetaPartial = wire.MetaPrefix + "partial"

// list returns the result of prompts/list or skills/list: one page of the caller's view, from
// memory.
func (h *Handler) list(ctx context.Context, x *run) (Result, error) {
	if err := h.awaitTried(ctx, x); err != nil {
		return Result{}, err
	}
	s := x.snapshot
	if err := x.count(h.limits, s.Config.Gateway.Limit); err != nil {
		return Result{}, err
	}
	after, err := x.position()
	if err != nil {
		return Result{}, err
	}
	audience := s.Policy.Audience(x.caller.Principal)
	view, err := s.RequestView(ctx, audience)
	if err != nil {
		return Result{}, viewError(err)
	}
	skills := x.r.Message.Method == wire.SkillsList
	if view = view.Kind(skills); view.Len() == 0 {
		// A client would believe that an empty list is complete. Return an error until one of its
		// servers has been listed.
		if err := s.CheckListed(audience); err != nil {
			return Result{}, err
		}
	}
	if x.r.tool.name != "" {
		return x.listForTool(ctx, audience, view, after)
	}
	page := x.page(audience, view, after)
	if page.next != "" && !skills {
		logPages(ctx, h.logger, x, audience, view)
	}
	return page, nil
}

// page returns the page of entries after a name, or the first page if the name is empty.
func (x *run) page(audience *policy.Audience, view *catalog.View, after string) Result {
	size, skills := x.snapshot.Config.Gateway.PageSize, x.r.Message.Method == wire.SkillsList
	if after == "" && x.r.Variant == "" && !skills { // the usual list
		first := view.FirstPage(size)
		return Result{page: first.Prompts, next: first.Next, audience: audience}
	}
	entries, next, _ := view.Page(after, size)
	appendEntries := func(dst []byte) []byte { return catalog.AppendPrompts(dst, inForm(x.r.Variant, entries)) }
	if skills {
		appendEntries = func(dst []byte) []byte {
			return catalog.AppendSkills(dst, entries, provenance(x.snapshot, audience))
		}
	}
	return Result{append: appendEntries, next: next, audience: audience}
}

// inForm returns the entries with their definitions in the form of a variant.
func inForm(variant config.Variant, entries []*catalog.Entry) []*catalog.Entry {
	if variant != config.VariantFlat {
		return entries
	}
	formed := make([]*catalog.Entry, len(entries))
	for i, e := range entries {
		// Only the JSON of these entries is used.
		formed[i] = &catalog.Entry{JSON: flat.Definition(e.JSON, e.Arguments)}
	}
	return formed
}

// logPages logs that an audience's list has several pages, once per audience.
func logPages(
	ctx context.Context, logger *slog.Logger, x *run, audience *policy.Audience, view *catalog.View,
) {
	if !x.snapshot.FirstPaged(audience) {
		return
	}
	size := x.snapshot.Config.Gateway.PageSize
	pages := view.Pages(size)
	logger.WarnContext(ctx, "list has more than one page: clients that read the first only lose the rest",
		slog.String("principal", x.caller.Principal.Subject), slog.Int("prompts", view.Len()),
		slog.Int("first_page", pages[0]), slog.Int("pages", len(pages)), slog.Int("page_size", size), slog.String("clients", clients.FirstPageOnly()))
}

// listed identifies the list that a cursor belongs to. Each variant and each query has its own
// list.
func (r *Request) listed() string {
	if r.Variant == "" {
		return r.Message.Method
	}
	return strings.Join([]string{r.Message.Method, string(r.Variant), r.tool.name, r.tool.query}, " ")
}

func (x *run) sealPosition(after string) string {
	return x.snapshot.Sealer.SealCursor(x.r.listed(), x.caller.Principal.Key(), after)
}

// position returns the name after which the requested page begins.
func (x *run) position() (string, error) {
	value := x.r.Params.Get("cursor")
	if value == nil {
		return "", nil
	}
	cursor, ok := wire.Text(value)
	if !ok {
		return "", invalidCursor(seal.ErrMalformed)
	}
	after, err := x.snapshot.Sealer.OpenCursor(x.r.listed(), x.caller.Principal.Key(), cursor)
	if err != nil {
		return "", invalidCursor(err)
	}
	return after, nil
}

func invalidCursor(err error) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote(seal.Reason(err)))
	return wire.NewError(wire.InvalidParams, "Invalid cursor: start the list again without a cursor").
		WithData(data.JSON())
}

// partial returns the upstreams in the audience's view whose lists may be outdated, or whose gets
// fail, as a JSON array, or nil if there are no such upstreams.
func partial(s *snapshot.Snapshot, audience *policy.Audience) jsontext.Value {
	var list []jsontext.Value
	for _, d := range s.Degradations(audience) {
		item := wire.Object{}.
			With("upstream", wire.Quote(d.Upstream)).
			With("reason", wire.Quote(string(d.Reason))).
			With("since", wire.Quote(d.Since.UTC().Format(time.RFC3339))).
			With("stale", jsontext.Value(strconv.FormatBool(d.Stale))).
			WithTrue("failing", d.Failing)
		if len(d.Files) > 0 {
			item = item.With("files", wire.Array(exslices.CastFunc(d.Files, func(f snapshot.BrokenFile) jsontext.Value {
				return wire.Object{}.With("place", wire.Quote(f.Place)).With("prompt", wire.Quote(f.Prompt)).JSON()
			})))
		}
		list = append(list, item.JSON())
	}
	if list == nil {
		return nil
	}
	return wire.Array(list)
}

// cacheHints returns how long a client may cache an audience's view, and which caches may store it.
func cacheHints(s *snapshot.Snapshot, audience *policy.Audience, isPartial bool) (ttl time.Duration, scope string) {
	ttl, scope = degradedTTL, "private"
	if !isPartial {
		ttl = max(ttl, s.TTL(audience, healthyTTL))
	}
	if !s.Identity.Required() { // all callers have the same view
		scope = "public"
	}
	return ttl, scope
}

// appendListMeta appends the members after a list's entries: the members that the client's era
// requires, and [MetaPartial].
func (x *run) appendListMeta(dst []byte, audience *policy.Audience, info jsontext.Value) []byte {
	partial := partial(x.snapshot, audience)
	dst, meta := x.era.endList(x, dst, audience, partial != nil, info)
	if meta = meta.With(MetaPartial, partial); len(meta) > 0 {
		dst = meta.Append(append(dst, `,"_meta":`...))
	}
	return dst
}
