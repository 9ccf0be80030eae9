package upstreamtest

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas has the protocol's JSON schema of each revision.
//
//go:embed testdata/schema/*.json
var schemas embed.FS

// definitions maps each method, of either side, to the schema definition of its request or
// notification.
var definitions = map[string]string{ //nolint:gochecknoglobals // a constant table
	"initialize": "InitializeRequest", "ping": "PingRequest", "server/discover": "DiscoverRequest",
	"prompts/list": "ListPromptsRequest", "prompts/get": "GetPromptRequest", "completion/complete": "CompleteRequest",
	"logging/setLevel": "SetLevelRequest", "subscriptions/listen": "SubscriptionsListenRequest",
	"elicitation/create": "ElicitRequest", "sampling/createMessage": "CreateMessageRequest", "roots/list": "ListRootsRequest",
	"tools/list": "ListToolsRequest", "tools/call": "CallToolRequest", "resources/list": "ListResourcesRequest", "resources/templates/list": "ListResourceTemplatesRequest", "resources/read": "ReadResourceRequest",
	"notifications/initialized": "InitializedNotification", "notifications/cancelled": "CancelledNotification",
	"notifications/progress": "ProgressNotification", "notifications/message": "LoggingMessageNotification",
	"notifications/prompts/list_changed":       "PromptListChangedNotification",
	"notifications/roots/list_changed":         "RootsListChangedNotification",
	"notifications/elicitation/complete":       "ElicitationCompleteNotification",
	"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}

// resultDefinitions maps each method to the schema definition of its result.
var resultDefinitions = map[string]string{ //nolint:gochecknoglobals // a constant table
	"initialize": "InitializeResult", "ping": "EmptyResult", "server/discover": "DiscoverResult",
	"prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
	"logging/setLevel": "EmptyResult", "subscriptions/listen": "SubscriptionsListenResult",
	"elicitation/create": "ElicitResult", "sampling/createMessage": "CreateMessageResult", "roots/list": "ListRootsResult",
	"tools/list": "ListToolsResult", "tools/call": "CallToolResult", "resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult", "resources/read": "ReadResourceResult",
}

// Violation returns an error if a message does not satisfy the JSON schema of its revision. For a
// response, method is the method of the request that it answers; for any other message it is
// ignored.
func Violation(revision, method string, body []byte) error {
	var message map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&message); err != nil {
		return fmt.Errorf("%s: %q is not a JSON object: %w", revision, body, err)
	}
	whole, part, value := parts(revision, method, message)
	if whole == "" {
		return nil
	}
	var violations []error
	for _, check := range []struct {
		name  string
		value any
	}{{whole, message}, {part, value}} {
		if check.name == "" {
			continue
		}
		schema, err := schemaOf(revision, check.name)
		if err == nil {
			err = schema.Validate(check.value)
		}
		if err != nil {
			violations = append(violations, fmt.Errorf("%s: %s is no %s: %w", revision, body, check.name, err))
		}
	}
	return errors.Join(violations...)
}

// parts names the definition that a message must satisfy as a whole, and the one that its value
// must: its result, or for a request or notification the message itself. It names none where the
// revision has no schema for the message.
func parts(revision, method string, message map[string]any) (whole, part string, value any) {
	named, isCall := message["method"].(string)
	switch _, hasID := message["id"]; {
	case isCall && hasID:
		return "JSONRPCRequest", definitions[named], message
	case isCall:
		return "JSONRPCNotification", definitions[named], message
	case message["error"] != nil && revision >= "2025-11-25":
		return "JSONRPCErrorResponse", "", nil
	case message["error"] != nil && message["id"] == nil:
		return "", "", nil // these revisions do not define an error without an id
	case message["error"] != nil:
		return "JSONRPCError", "", nil
	}
	whole, part, value = "JSONRPCResponse", resultDefinitions[method], message["result"]
	if revision >= "2025-11-25" {
		whole = "JSONRPCResultResponse"
	}
	if result, ok := value.(map[string]any); ok && result["resultType"] == "input_required" && (method == "prompts/get" || method == "tools/call" || method == "resources/read") {
		part = "InputRequiredResult"
	}
	return whole, part, value
}

type definition struct{ revision, name string }

var (
	compiledMu sync.Mutex                            //nolint:gochecknoglobals // guards compiled
	compiled   = map[definition]*jsonschema.Schema{} //nolint:gochecknoglobals // a cache: schemas are slow to compile
)

// schemaOf returns a definition of a revision. A revision or definition that is missing is an
// error, so that no message passes unchecked.
func schemaOf(revision, name string) (*jsonschema.Schema, error) {
	compiledMu.Lock()
	defer compiledMu.Unlock()
	if schema := compiled[definition{revision, name}]; schema != nil {
		return schema, nil
	}
	file, err := schemas.Open("testdata/schema/" + revision + ".json")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		return nil, err
	}
	root := "$defs"
	if revision < "2025-11-25" {
		root = "definitions"
	}
	url := "mcp:///" + revision + ".json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(url, document); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile(url + "#/" + root + "/" + name)
	if err != nil {
		return nil, err
	}
	compiled[definition{revision, name}] = schema
	return schema, nil
}
