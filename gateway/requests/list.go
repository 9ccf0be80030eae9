package requests

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// How long a client may rely on a list: less where a server in its view that would not report a
// change gives less, and least while an upstream in its view is degraded. It is not counted down
// while the server's own time passes, so that equal requests get equal bytes, and not all clients
// come back at one moment.
const (
	healthyTTL  = time.Minute
	degradedTTL = 5 * time.Second
)

// MetaPartial is the _meta key under which a list names the upstreams whose part of it is not
// fresh, or whose gets fail.
const MetaPartial = wire.MetaPrefix + "partial"

// list appends the result of prompts/list or skills/list: one page of the caller's view, from
// memory.
func (h *Handler) list(ctx context.Context, r *Request, out *Response) error {
	if err := h.settle(ctx, r); err != nil {
		return err
	}
	s := r.Snapshot
	var err error
	if out.counted, err = h.limits.acquire(&r.Caller.Principal, s.Config.Gateway.Limit); err != nil {
		return err
	}
	after, err := r.position()
	if err != nil {
		return err
	}
	audience := s.Policy.Audience(r.Caller.Principal)
	view, err := s.RequestView(audience)
	if err != nil {
		return rulesTakeTooLong()
	}
	skills := r.Message.Method == wire.SkillsList
	if view = view.Kind(skills); view.Len() == 0 {
		// As long as no server has been listed, clients would keep an empty list for the truth.
		if err := s.CheckListed(audience); err != nil {
			return err
		}
	}
	if r.tool.name != "" {
		return h.listForTool(ctx, r, out, audience, view, after)
	}
	out.JSON = append(out.JSON, '{')
	next := r.appendPage(out, audience, view, after)
	if next != "" {
		if !skills {
			logPages(ctx, h.logger, r, audience, view)
		}
		out.JSON = append(append(append(out.JSON, `,"nextCursor":"`...), r.sealPosition(next)...), '"')
	}
	appendListMeta(r, out, audience, h.info)
	return nil
}

// appendPage appends the entries of the page after a name, and returns the name after which the next
// page begins; empty without one.
func (r *Request) appendPage(out *Response, audience *policy.Audience, view *catalog.View, after string) (next string) {
	size, skills := r.Snapshot.Config.Gateway.PageSize, r.Message.Method == wire.SkillsList
	if after == "" && r.Variant == "" && !skills { // nearly every list
		page := view.FirstPage(size)
		out.JSON = out.appendValue(out.JSON, page.Prompts)
		return page.Next
	}
	entries, next, _ := view.Page(after, size)
	if skills {
		out.JSON = catalog.AppendSkills(out.JSON, entries, provenance(r.Snapshot, audience))
	} else {
		out.JSON = catalog.AppendPrompts(out.JSON, inForm(r.Variant, entries))
	}
	return next
}

// inForm returns the entries with their definitions in the form of a variant.
func inForm(variant config.Variant, entries []*catalog.Entry) []*catalog.Entry {
	if variant != config.VariantFlat {
		return entries
	}
	formed := make([]*catalog.Entry, len(entries))
	for i, e := range entries {
		// A page is appended from the JSON alone.
		formed[i] = &catalog.Entry{JSON: flat.Definition(e.JSON, e.Arguments)}
	}
	return formed
}

// logPages says, once for each audience, that its list does not fit on one page.
func logPages(
	ctx context.Context, logger *slog.Logger, r *Request, audience *policy.Audience, view *catalog.View,
) {
	if !r.Snapshot.FirstPaged(audience) {
		return
	}
	size := r.Snapshot.Config.Gateway.PageSize
	pages := view.Pages(size)
	logger.WarnContext(ctx, "list has more than one page: clients that read the first only lose the rest",
		slog.String("principal", r.Caller.Principal.Subject), slog.Int("prompts", view.Len()),
		slog.Int("first_page", pages[0]), slog.Int("pages", len(pages)), slog.Int("page_size", size), slog.String("clients", clients.FirstPageOnly()))
}

// listed names the list that a cursor is for: those of two variants, or queries, differ.
func (r *Request) listed() string {
	if r.Variant == "" {
		return r.Message.Method
	}
	return strings.Join([]string{r.Message.Method, string(r.Variant), r.tool.name, r.tool.query}, " ")
}

func (r *Request) sealPosition(after string) string {
	return r.Snapshot.Sealer.SealCursor(r.listed(), r.Caller.Principal.Key(), after)
}

// position returns the name after which the page begins.
func (r *Request) position() (string, error) {
	value := r.Params.Get("cursor")
	if value == nil {
		return "", nil
	}
	cursor, ok := wire.Text(value)
	if !ok {
		return "", invalidCursor(seal.ErrMalformed)
	}
	after, err := r.Snapshot.Sealer.OpenCursor(r.listed(), r.Caller.Principal.Key(), cursor)
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

// partial returns the upstreams whose part of the audience's view is not fresh, or whose gets fail,
// as a JSON array, or nil.
func partial(s *snapshot.Snapshot, audience *policy.Audience) (list jsontext.Value) {
	for _, d := range s.Degradations(audience) {
		separator := byte(',')
		if list == nil {
			separator = '['
		}
		item := wire.Object{}.
			With("upstream", wire.Quote(d.Upstream)).
			With("reason", wire.Quote(string(d.Reason))).
			With("since", wire.Quote(d.Since.UTC().Format(time.RFC3339))).
			With("stale", jsontext.Value(strconv.FormatBool(d.Stale)))
		if d.Failing {
			item = item.With("failing", jsontext.Value("true"))
		}
		list = item.Append(append(list, separator))
	}
	if list == nil {
		return nil
	}
	return append(list, ']')
}

// cacheHints returns for how long a client may rely on what an audience sees, and which cache may
// hold it.
func cacheHints(s *snapshot.Snapshot, audience *policy.Audience, isPartial bool) (ttl time.Duration, scope string) {
	ttl, scope = degradedTTL, "private"
	if !isPartial {
		ttl = max(ttl, s.TTL(audience, healthyTTL))
	}
	if !s.Identity.Required() { // everybody has the same view
		scope = "public"
	}
	return ttl, scope
}

// appendListMeta ends the result with the members that the client's revision requires beside the
// prompts.
func appendListMeta(r *Request, out *Response, audience *policy.Audience, info jsontext.Value) {
	var meta wire.Object
	partial := partial(r.Snapshot, audience)
	switch {
	// The result of a tool has no hints for caches (2026-07-28, CallToolResult).
	case r.Modern() && r.tool.name != "":
		out.JSON = append(out.JSON, `,"resultType":"complete"`...)
		meta = meta.With(wire.MetaServerInfo, info)
	case r.Modern():
		ttl, scope := cacheHints(r.Snapshot, audience, partial != nil)
		out.JSON = append(append(out.JSON, `,"resultType":"complete","cacheScope":"`...), scope...)
		out.JSON = strconv.AppendInt(append(out.JSON, `","ttlMs":`...), ttl.Milliseconds(), 10)
		meta = meta.With(wire.MetaServerInfo, info)
	}
	if partial != nil {
		meta = meta.With(MetaPartial, partial)
	}
	if len(meta) > 0 {
		out.JSON = meta.Append(append(out.JSON, `,"_meta":`...))
	}
	out.JSON = append(out.JSON, '}')
}
