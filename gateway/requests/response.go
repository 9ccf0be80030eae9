package requests

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// minLarge is the size in bytes from which writing a result in a piece of its own is cheaper than
// copying it.
const minLarge = 32 << 10

// Response is the JSON-RPC response to one request, with everything that the request holds in this
// package. Each thing is acquired where it is needed, and released here and in [Handler.conclude]
// only:
//
//	counted  by the limits, from the authorization until the response is written
//	held     memory, from when the result is complete until the response is written
//	parked   a get that goes on while its client is asked; it outlasts the response, unless the client does not get that
type Response struct {
	// JSON is the response, except for what [Response.Parts] adds.
	JSON []byte
	// Code is that of a JSON-RPC error; 0 for a result.
	Code int64

	counted counted
	held    edge.Hold
	parked  string

	// upstream is the one that the result is of; empty for the gateway's own. It asks the client
	// for input if asks is set.
	upstream string
	asks     bool

	inParts bool
	// large belongs in JSON before the offset at; nil where JSON is complete.
	large jsontext.Value
	at    int
}

// Parts returns the response in order, so that a large result need not be copied.
func (out *Response) Parts() [][]byte {
	if out.large == nil {
		return [][]byte{out.JSON}
	}
	return [][]byte{out.JSON[:out.at], out.large, out.JSON[out.at:]}
}

// Limited reports whether a limit counts the request until [Response.Release].
func (out *Response) Limited() bool { return len(out.counted.by) > 0 }

// Release ends the request for the limits that count it, and gives back the memory that it holds.
// To be called when the response is written, or when nobody waits for it any more. Calling it again
// does nothing.
func (out *Response) Release() {
	out.held.Release()
	out.counted.end()
}

func (out *Response) append(json []byte) { out.JSON = append(out.JSON, json...) }

// appendValue appends part of a result to dst, which is the response so far, or only records where
// a large one belongs.
func (out *Response) appendValue(dst []byte, value jsontext.Value) []byte {
	if !out.inParts || out.large != nil || len(value) < minLarge {
		return append(dst, value...)
	}
	out.at, out.large = len(dst), value
	return dst
}

// appendResult appends an upstream's result in the form that the client's revision requires.
// Between two legacy peers it stays as it is; otherwise only the members that belong to one era
// change. OnInput converts a result that asks for input, info is the gateway's Implementation.
func (out *Response) appendResult(
	r *Request, result upstream.Result, info jsontext.Value, onInput func(wire.Object) (wire.Object, error),
) error {
	if !r.Modern() && !wire.Modern(result.Revision) {
		out.JSON = out.appendValue(out.JSON, result.JSON)
		return nil
	}
	var err error
	object := wire.Members(result.JSON)
	kind, stated := object.Text("resultType")
	if stated && kind == wire.ResultInputRequired {
		if !wire.Modern(result.Revision) {
			onInput = inputNotAllowed // a legacy server cannot mean it
		}
		if object, err = onInput(object); err != nil {
			return err
		}
	}
	before := object.Get("_meta")
	// Whatever else a server says of itself, its serverInfo is not the one of the client's server.
	meta := object.Object("_meta").Without(func(name string) bool { return name == wire.MetaServerInfo })
	if r.Modern() {
		if !stated {
			object = object.With("resultType", quotedComplete)
		}
		meta = meta.With(wire.MetaServerInfo, info)
	} else {
		object = object.Without(func(name string) bool { return name == "resultType" })
	}
	switch {
	// A _meta that the server sent empty stays; one that only held its serverInfo goes.
	case len(meta) > 0 || string(before) == "{}":
		object = object.With("_meta", meta.JSON())
	case before != nil:
		object = object.Without(func(name string) bool { return name == "_meta" })
	}
	out.JSON = object.AppendBy(out.JSON, out.appendValue)
	return nil
}

// quotedComplete is wire.ResultComplete as JSON.
var quotedComplete = wire.Quote(wire.ResultComplete) //nolint:gochecknoglobals // a constant

// inputNotAllowed refuses input_required where the method or the upstream's revision does not allow
// it.
func inputNotAllowed(wire.Object) (wire.Object, error) {
	return nil, wire.NewError(wire.InternalError, "The upstream requires input where the protocol does not allow it")
}
