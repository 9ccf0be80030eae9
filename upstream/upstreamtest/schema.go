package upstreamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// definitions names what the schemas call each request and notification, from either side.
var definitions = map[string]string{ //nolint:gochecknoglobals // a constant table
	"initialize": "InitializeRequest", "ping": "PingRequest", "server/discover": "DiscoverRequest",
	"prompts/list": "ListPromptsRequest", "prompts/get": "GetPromptRequest", "completion/complete": "CompleteRequest",
	"logging/setLevel": "SetLevelRequest", "subscriptions/listen": "SubscriptionsListenRequest",
	"elicitation/create": "ElicitRequest", "sampling/createMessage": "CreateMessageRequest", "roots/list": "ListRootsRequest",
	"tools/list": "ListToolsRequest", "resources/list": "ListResourcesRequest", "resources/templates/list": "ListResourceTemplatesRequest",
	"notifications/initialized": "InitializedNotification", "notifications/cancelled": "CancelledNotification",
	"notifications/progress": "ProgressNotification", "notifications/message": "LoggingMessageNotification",
	"notifications/prompts/list_changed":       "PromptListChangedNotification",
	"notifications/roots/list_changed":         "RootsListChangedNotification",
	"notifications/elicitation/complete":       "ElicitationCompleteNotification",
	"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}

// resultDefinitions names what the schemas call each method's result.
var resultDefinitions = map[string]string{ //nolint:gochecknoglobals // a constant table
	"initialize": "InitializeResult", "ping": "EmptyResult", "server/discover": "DiscoverResult",
	"prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
	"logging/setLevel": "EmptyResult", "subscriptions/listen": "SubscriptionsListenResult",
	"elicitation/create": "ElicitResult", "sampling/createMessage": "CreateMessageResult", "roots/list": "ListRootsResult",
	"tools/list": "ListToolsResult", "resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult",
}

// HasSchemas reports whether the protocol's JSON schemas are beside the repository: a clone alone does not have them,
// and [Violation] finds nothing there.
func HasSchemas() bool { return schemaFolder() != "" }

// schemaFolder is where the schemas are, looked for from the folder in which go test runs a package.
var schemaFolder = sync.OnceValue(func() string { //nolint:gochecknoglobals // found once
	for folder, err := os.Getwd(); err == nil && folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
			continue
		}
		schemas := filepath.Join(folder, "..", "shared", "spec", "schema")
		if _, err := os.Stat(schemas); err == nil {
			return schemas
		}
	}
	return ""
})

// Violation holds a message that one side sends against the JSON schema of its revision. Method is what a response
// answers; it is of no meaning for other messages.
func Violation(revision, method string, body []byte) error {
	if !HasSchemas() || len(body) == 0 {
		return nil
	}
	var message map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if err := decoder.Decode(&message); err != nil {
		return fmt.Errorf("not a JSON object: %s", body)
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

// parts are the definitions that a message and its result, or a request as a whole, must meet. Without the first there
// is none.
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
		return "", "", nil // those revisions have no error without an id
	case message["error"] != nil:
		return "JSONRPCError", "", nil
	}
	whole, part, value = "JSONRPCResponse", resultDefinitions[method], message["result"]
	if revision >= "2025-11-25" {
		whole = "JSONRPCResultResponse"
	}
	if result, ok := value.(map[string]any); ok && result["resultType"] == "input_required" && method == "prompts/get" {
		part = "InputRequiredResult"
	}
	return whole, part, value
}

type definition struct{ revision, name string }

var (
	compiledMu sync.Mutex                            //nolint:gochecknoglobals // guards compiled
	compiled   = map[definition]*jsonschema.Schema{} //nolint:gochecknoglobals // schemas are slow to compile
)

func schemaOf(revision, name string) (*jsonschema.Schema, error) {
	compiledMu.Lock()
	defer compiledMu.Unlock()
	if schema := compiled[definition{revision, name}]; schema != nil {
		return schema, nil
	}
	root := "$defs"
	if revision < "2025-11-25" {
		root = "definitions"
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(schemaFolder(), revision+".json") + "#/" + root + "/" + name)
	if err != nil {
		return nil, err
	}
	compiled[definition{revision, name}] = schema
	return schema, nil
}
