package requests

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// era contains the functions that differ between the eras.
type era struct {
	// own handles the methods that only this era has.
	own func(h *Handler, x *run) (Result, error)
	// ask makes the call of a get, during which the upstream may ask the client for input.
	ask func(ctx context.Context, h *Handler, x *run) (outcome, error)
	// capabilities returns the capabilities to declare to the upstream if the client cannot be
	// asked for input during the request.
	capabilities func(r *Request) jsontext.Value
	// failure handles an error of an upstream. It returns the members of an input_required result,
	// or otherwise the error for the client. declared are the client's capabilities, and usable are
	// the capabilities with which the client can be asked for input.
	failure func(answer *wire.Error, declared, usable wire.Capabilities) (inputRequired wire.Object, refusal *wire.Error)
	// unknownResource returns the error for a resource that the caller does not see.
	unknownResource func(uri string) *wire.Error

	// members adapts a result's members to clients of the era. info is the gateway's
	// Implementation.
	members func(members wire.Object, info jsontext.Value) wire.Object
	// cacheable returns the members with the hints for caches, if the era has such hints.
	cacheable func(members wire.Object, ttl time.Duration, scope string) wire.Object
	// endList appends the members after a list's entries, except _meta, whose members it returns.
	// isPartial is true if part of the list may be outdated.
	endList func(x *run, dst []byte, of *policy.Audience, isPartial bool, info jsontext.Value) (_ []byte, meta wire.Object)
}

//nolint:gochecknoglobals // constant tables
var (
	// legacy is the era of the revisions from 2024-11-05 to 2025-11-25.
	legacy = era{
		own:          answerLegacy,
		ask:          callRepeatedly,
		capabilities: func(*Request) jsontext.Value { return emptyObject },
		failure:      func(answer *wire.Error, _, _ wire.Capabilities) (wire.Object, *wire.Error) { return nil, answer },
		unknownResource: func(uri string) *wire.Error {
			return wire.NewError(resourceNotFound, "Unknown resource: "+uri).
				WithData(wire.Object{}.With("uri", wire.Quote(uri)).JSON())
		},
		members: func(members wire.Object, _ jsontext.Value) wire.Object {
			return withServerInfo(members.Without(func(name string) bool { return name == "resultType" }), nil)
		},
		cacheable: func(members wire.Object, _ time.Duration, _ string) wire.Object { return members },
		endList: func(_ *run, dst []byte, _ *policy.Audience, _ bool, _ jsontext.Value) ([]byte, wire.Object) {
			return dst, nil
		},
	}
	// modern is the era of 2026-07-28.
	modern = era{
		own:          answerModern,
		ask:          callOrPark,
		capabilities: func(r *Request) jsontext.Value { return r.Meta.Get(wire.MetaClientCapabilities) },
		failure:      forModern,
		unknownResource: func(uri string) *wire.Error {
			return wire.NewError(wire.InvalidParams, "Unknown resource: "+uri)
		},
		members:   modernMembers,
		cacheable: withHints,
		endList:   endModernList,
	}
)

func eraOf(r *Request) *era {
	if r.Modern() {
		return &modern
	}
	return &legacy
}

// answerLegacy handles the methods of the legacy era.
func answerLegacy(_ *Handler, x *run) (Result, error) {
	switch x.r.Message.Method {
	case wire.Ping:
		return Result{JSON: emptyObject}, nil
	case wire.SetLogLevel:
		return x.r.setLogLevel()
	case wire.ToolsList, wire.ResourcesList, wire.TemplatesList:
		return Result{JSON: emptyLists[x.r.Message.Method]}, nil
	}
	return Result{}, methodNotFound(x.r.Message.Method)
}

// answerModern handles the methods of the modern era.
func answerModern(h *Handler, x *run) (Result, error) {
	if x.r.Message.Method != wire.Discover {
		return Result{}, methodNotFound(x.r.Message.Method)
	}
	return Result{JSON: discovery(x.r, h.info)}, nil
}

func modernMembers(members wire.Object, info jsontext.Value) wire.Object {
	if _, stated := members.Text("resultType"); !stated {
		members = members.With("resultType", quotedComplete)
	}
	return withServerInfo(members, info)
}

// withServerInfo returns the members with an Implementation in their _meta, or without one if info
// is nil. It removes the upstream's Implementation, because the client's server is the gateway.
func withServerInfo(members wire.Object, info jsontext.Value) wire.Object {
	before := members.Get("_meta")
	isInfo := func(name string) bool { return name == wire.MetaServerInfo }
	meta := members.Object("_meta").Without(isInfo).With(wire.MetaServerInfo, info)
	switch {
	// Keep a _meta that the server sent empty, but remove a _meta that contained only serverInfo.
	case len(meta) > 0 || string(before) == "{}":
		return members.With("_meta", meta.JSON())
	case before != nil:
		return members.Without(func(name string) bool { return name == "_meta" })
	}
	return members
}

func withHints(members wire.Object, ttl time.Duration, scope string) wire.Object {
	return members.With("ttlMs", wire.NumberID(ttl.Milliseconds())).With("cacheScope", wire.Quote(scope))
}

func endModernList(x *run, dst []byte, of *policy.Audience, isPartial bool, info jsontext.Value) ([]byte, wire.Object) {
	dst = append(dst, `,"resultType":"complete"`...)
	if x.r.tool.name == "" { // results of tools have no hints for caches (2026-07-28, CallToolResult)
		ttl, scope := cacheHints(x.snapshot, of, isPartial)
		dst = append(append(append(dst, `,"cacheScope":"`...), scope...), `","ttlMs":`...)
		dst = strconv.AppendInt(dst, ttl.Milliseconds(), 10)
	}
	return dst, wire.Object{}.With(wire.MetaServerInfo, info)
}
