package requests

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Result is the result of a request before it is encoded for the client's era. Its content is in
// JSON, Members, page or append. If both JSON and Members are set, Members are used.
type Result struct {
	// JSON is written unchanged.
	JSON jsontext.Value
	// Members are written in the form of the client's era.
	Members wire.Object

	// page is the first page of an audience's view. append appends another page, or one entry. If
	// next is not empty, encode then adds a cursor for the position after next. Last come the
	// members that the era requires in a list.
	page     []byte
	append   func(dst []byte) []byte
	next     string
	audience *policy.Audience
}

// minLarge is the size in bytes from which writing a result separately is cheaper than copying it.
const minLarge = 8 << 10

// Response is the JSON-RPC response to one request.
type Response struct {
	// JSON is the response, without the part that [Response.Parts] adds.
	JSON []byte
	// Code is the code of a JSON-RPC error. It is 0 if the response is a result.
	Code int64
	// Ready is the time at which the response was complete.
	Ready time.Time

	inParts bool
	// large is a part of the result that Parts inserts into JSON; at is its offset there. It is nil if
	// JSON is complete.
	large jsontext.Value
	at    int
}

// Parts returns the parts of the response in order. A large result is not copied.
func (out *Response) Parts() [][]byte {
	if out.large == nil {
		return [][]byte{out.JSON}
	}
	return [][]byte{out.JSON[:out.at], out.large, out.JSON[out.at:]}
}

// appendValue appends part of a result to the response in dst. If the part is large, appendValue only
// records the part and its position.
func (out *Response) appendValue(dst []byte, value jsontext.Value) []byte {
	if !out.inParts || out.large != nil || len(value) < minLarge {
		return append(dst, value...)
	}
	out.at, out.large = len(dst), value
	return dst
}

// respond returns the response with a result, in the memory of buffer.
func (x *run) respond(buffer []byte, result Result, info jsontext.Value) Response {
	out := x.encode(wire.AppendResultHead(buffer[:0], x.r.Message.ID), result, info)
	out.JSON = append(out.JSON, '}')
	return out
}

// encode appends a result to dst in the form of the client's era. info is the gateway's
// Implementation.
func (x *run) encode(dst []byte, result Result, info jsontext.Value) (out Response) {
	out.inParts = x.r.InParts
	switch {
	case result.audience != nil:
		dst = append(dst, '{')
		if result.append != nil {
			dst = result.append(dst)
		} else {
			dst = out.appendValue(dst, result.page)
		}
		if result.next != "" {
			dst = append(append(append(dst, `,"nextCursor":"`...), x.sealPosition(result.next)...), '"')
		}
		out.JSON = append(x.appendListMeta(dst, result.audience, info), '}')
	case result.Members != nil:
		out.JSON = x.era.members(result.Members, info).AppendBy(dst, out.appendValue)
	default:
		out.JSON = out.appendValue(dst, result.JSON)
	}
	return out
}

// passedOn turns an upstream's result into the client's. Between two legacy peers the result is
// unchanged. If the result requires input, ask returns the members for the client.
func (x *run) passedOn(result upstream.Result, ask func(wire.Object) (wire.Object, error)) (_ Result, err error) {
	fromModern := wire.Modern(result.Revision)
	if !x.r.Modern() && !fromModern {
		return Result{JSON: result.JSON}, nil
	}
	members := wire.Members(result.JSON)
	if kind, _ := members.Text("resultType"); kind == wire.ResultInputRequired {
		if !fromModern {
			ask = inputNotAllowed // legacy revisions have no such result
		}
		if members, err = ask(members); err != nil {
			return Result{}, err
		}
	}
	return Result{JSON: result.JSON, Members: members}, nil
}

// quotedComplete is wire.ResultComplete as JSON.
var quotedComplete = wire.Quote(wire.ResultComplete) //nolint:gochecknoglobals // a constant

// inputNotAllowed refuses input_required for a method, or an upstream's revision, that does not
// allow it.
func inputNotAllowed(wire.Object) (wire.Object, error) {
	return nil, wire.NewError(wire.InternalError, "The upstream requires input where the protocol does not allow it")
}
