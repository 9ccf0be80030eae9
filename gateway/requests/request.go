package requests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Request is one client's request, after its transport has read it, checked it and authenticated
// its caller. The transport fills it in once; from then on it belongs to [Handler.Handle].
type Request struct {
	// Received is when it had been read.
	Received time.Time

	// Size is that of the message's text in bytes, which it keeps in memory.
	Size    int
	Message wire.Message
	Params  wire.Object
	Meta    wire.Object // of the params
	// Revision is the protocol revision that the client speaks.
	Revision string

	// Variant is that of the endpoint; empty for the plain one.
	Variant config.Variant

	// Snapshot and Caller are of one configuration, and so is everything that the request does.
	Snapshot *snapshot.Snapshot
	Caller   snapshot.Caller

	// LogLevel is the least severe level of log messages that the client wants; empty for none.
	LogLevel string
	// SetLogLevel changes the level of later requests of the session; nil where there is no
	// session.
	SetLogLevel func(level string)
	// Relay takes what is to be sent to the client before the response, and ServerRequest sends a
	// server request to a client of the legacy era and returns its reply. Both are nil where the
	// transport cannot do that.
	Relay         *RelayQueue
	ServerRequest func(ctx context.Context, method string, params jsontext.Value) (reply jsontext.Value, err error)
	// Client is the address of the network peer, which is not the principal; empty over stdio.
	Client string
	// Capabilities are those by which the client can be asked for input during the request.
	Capabilities wire.Capabilities
	// InParts says that the transport can write a large result without a copy, see
	// [Response.Parts].
	InParts bool
	// Software is what the client of a legacy session said at initialize that it is.
	Software Software
	// Session is the id of a legacy session of Streamable HTTP, zero elsewhere.
	Session [16]byte

	// local is the caller in this process; nil for a client.
	local *Local
	// took is how long it was from Received until the response was ready.
	took   time.Duration
	target target
	tool   toolCall
	// screening checks what the upstream sends during the request.
	screening screening
	operation operation
}

// Software is what a client says that it is, each part cut to 64 bytes. Nobody has checked it.
type Software struct{ Name, Version string }

// maxSoftware bounds each part of a [Software], in bytes.
const maxSoftware = 64

// ReadSoftware reads an Implementation, as clientInfo is.
func ReadSoftware(info wire.Object) Software {
	read := func(name string) string {
		text, _ := info.Text(name)
		if len(text) > maxSoftware {
			// The cut may fall within a character.
			text = strings.ToValidUTF8(text[:maxSoftware], "")
		}
		return text
	}
	return Software{read("name"), read("version")}
}

// Answered returns when the response was ready.
func (r *Request) Answered() time.Time { return r.Received.Add(r.took) }

// Key returns the client whose memory the request takes, see [ownerOf]. It implements [upstream.Caller].
func (r *Request) Key() string { return ownerOf(&r.Caller.Principal, r.Client) }

// upstreamCaller returns whose line at an upstream the request's call waits in, and whose failures
// it adds to. Callers in this process have no key by which they could be told apart.
func (r *Request) upstreamCaller() upstream.Caller {
	if r.local != nil {
		return nil
	}
	return r
}

// assertedCaller returns who is named to servers; nil for an operator, who looks at the view of another, and for a command
// without a principal.
func (r *Request) assertedCaller() *policy.Principal {
	switch {
	case r.local == nil:
		return &r.Caller.Principal
	case r.local.Operator != nil:
		return nil
	}
	return r.local.Principal
}

// ownerOf returns the client whose memory a request takes: a principal or, for callers without a
// credential, the address that they call from. A client of IPv6 has a whole network to itself.
func ownerOf(principal *policy.Principal, client string) string {
	if !principal.Anonymous || client == "" {
		return principal.Key()
	}
	return edge.AddressKey(client)
}

// free are requests that can be used again. Without them, a list of 10 takes 1.046 of the CPU time
// (95 % confidence interval of 30 pairs of builds: 1.026–1.075).
var free = sync.Pool{New: func() any { return new(Request) }} //nolint:gochecknoglobals // a pool is shared by nature

// Release lets a list or get that has been answered be used again. The call of a get has returned by
// then, and what it left behind at the upstream are copies; only a relay, and the parked get that
// a repeated get came back to, may still refer to the request. The caller must not use it afterwards.
func (r *Request) Release() {
	isGet := r.Message.Method == wire.PromptsGet && !r.IsRepeated()
	if !isGet && r.Message.Method != wire.PromptsList || r.Relay != nil {
		return
	}
	clear(r.Params) // or they would keep the message
	clear(r.Meta)
	*r = Request{Params: r.Params[:0], Meta: r.Meta[:0]}
	free.Put(r)
}

// Read reads one message. Even with an error the request has the message's id, if that much could
// be read.
func Read(raw []byte) (*Request, *wire.Error) {
	message, err := wire.Parse(raw)
	r, _ := free.Get().(*Request)
	r.Received, r.Size, r.Message = time.Now(), len(raw), message
	if err != nil {
		return r, AsWireError(err)
	}
	if message.Params != nil {
		r.Params = withoutNulls(wire.MembersInto(r.Params, message.Params))
		r.Meta = wire.MembersInto(r.Meta, r.Params.Get("_meta"))
	}
	return r, nil
}

// withoutNulls returns params without the optional members that are null, and with an empty object
// for arguments that are an empty array: some clients' serializers write these for a member without a
// value, and an upstream that validates would refuse them.
func withoutNulls(params wire.Object) wire.Object {
	if wire.IsEmptyArray(params.Get("arguments")) {
		params = params.With("arguments", emptyObject)
	}
	isNull := func(m wire.Member) bool { return m.Value.Kind() == 'n' && optionalParam(m.Name) }
	if !slices.ContainsFunc(params, isNull) {
		return params
	}
	return slices.DeleteFunc(slices.Clone(params), isNull)
}

func optionalParam(name string) bool {
	switch name {
	case "cursor", "arguments", "context", "_meta", memberState, memberResponses:
		return true
	}
	return false
}

// ClaimsModern reports whether the message itself says that it is of the modern era.
func (r *Request) ClaimsModern() bool { return r.Meta.Get(wire.MetaProtocolVersion) != nil }

// Modern reports whether the client's revision is of the modern era.
func (r *Request) Modern() bool { return wire.Modern(r.Revision) }

// WantsRelay reports whether anything may have to be sent to the client before the response.
func (r *Request) WantsRelay() bool {
	switch r.Message.Method {
	case wire.ResourcesRead:
		if !readsLink(r) {
			return false
		}
		fallthrough
	case wire.PromptsGet:
		return r.Capabilities != 0 || r.progressToken() != nil || r.LogLevel != ""
	case wire.Complete:
		return r.progressToken() != nil || r.LogLevel != ""
	}
	return false
}

// progressToken returns the client's progress token, or nil.
func (r *Request) progressToken() jsontext.Value {
	token := r.Meta.Get(wire.MetaProgressToken)
	if kind := token.Kind(); kind != '"' && kind != '0' {
		return nil
	}
	return token
}

// maxParams bounds the members of a request's params.
const maxParams = 1000

// checkSpelling refuses params in which a member differs only in case from one that matters: a
// server that ignores case would read that member instead.
func (r *Request) checkSpelling() error {
	if len(r.Params) > maxParams {
		return invalidParams("too many members")
	}
	odd := r.Params.Folded("name", "arguments", "ref", "argument", "context", "cursor", "_meta",
		memberState, memberResponses)
	if odd == "" {
		odd = r.Params.Object("ref").Folded("type", "name", "uri")
	}
	if odd == "" {
		odd = r.Params.Object("argument").Folded("name", "value")
	}
	if odd != "" {
		return invalidParams(fmt.Sprintf("member %q differs from a known member only in case", odd))
	}
	return nil
}

// renew moves a request to the current snapshot. If a reload has replaced the configuration, the
// caller is authenticated again, and the request fails where it is not accepted any more.
func (h *Handler) renew(ctx context.Context, r *Request) error {
	// A caller in this process has no credential that a new configuration could refuse.
	if r.local != nil {
		r.Snapshot = h.publisher.Current()
		return nil
	}
	s, _, err := h.publisher.Renew(ctx, &r.Caller)
	if err != nil {
		return refusedAfterReload(err)
	}
	r.Snapshot = s
	return nil
}

// settle waits at the start until the upstreams that matter to the caller have answered or failed
// once.
func (h *Handler) settle(ctx context.Context, r *Request) error {
	s, err := h.publisher.Settle(ctx, &r.Caller, r.Snapshot)
	if err != nil {
		return refusedAfterReload(err)
	}
	r.Snapshot = s
	return nil
}

// refusedAfterReload returns the error for a client that a reload does not accept, or whose issuer
// could not be asked.
func refusedAfterReload(err error) error {
	if errors.Is(err, identity.ErrUnavailable) {
		return errors.Join(wire.NewError(wire.InternalError,
			"Service unavailable: the identity provider did not answer"), err)
	}
	return errors.Join(wire.NewError(wire.InvalidRequest,
		"Unauthorized: the configuration was reloaded and does not accept the credential"), err)
}
