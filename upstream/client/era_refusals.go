package client

import (
	"errors"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
)

// serverRequestRefusals are the answers by which the SDKs of servers that speak both eras say that a handler cannot ask the client
// while it serves a request of the modern era. The handler was written for the legacy era, where it can. Handlers often put
// words of their own around the text. Tests run each of these SDKs.
var serverRequestRefusals = []struct { //nolint:gochecknoglobals // a constant table
	sdk  string
	code int64
	text string
}{
	{"github.com/modelcontextprotocol/go-sdk v1.8.0", 0, "cannot be sent while serving a request on protocol version "},
	{"@modelcontextprotocol/server 2.4.0", wire.InternalError, "Server-to-client requests are not available on protocol revision "},
	{"github.com/mark3labs/mcp-go v1.2.1", wire.InternalError, "server-initiated requests are not supported in protocol version "},
}

// RefusedServerRequest returns the SDK by whose recorded answer a server refused to ask the client in the modern era. It is empty for
// any other error, and if anything that the server said about the request was passed on to the client.
func RefusedServerRequest(err error) (sdk string) {
	answer, ok := errors.AsType[*wire.Error](err)
	if !ok || Started(err) {
		return ""
	}
	if _, relayed := errors.AsType[*relayedError](err); relayed {
		return ""
	}
	for _, refusal := range serverRequestRefusals {
		if answer.Code == refusal.code && strings.Contains(answer.Message, refusal.text) {
			return refusal.sdk
		}
	}
	return ""
}
