package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas is where the protocol's JSON schemas are kept beside the repository; a clone alone does not have them.
const schemas = "../../shared/spec/schema"

// results names the schema of each method's result, or of the whole message for a notification.
var results = map[string]string{ //nolint:gochecknoglobals // a constant table
	"initialize": "InitializeResult", "ping": "EmptyResult", "server/discover": "DiscoverResult",
	"prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
	"tools/list": "ListToolsResult", "resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult",
	"subscriptions/listen":                     "SubscriptionsListenResult",
	"notifications/prompts/list_changed":       "PromptListChangedNotification",
	"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}

type definition struct{ revision, name string }

var (
	compiledMu sync.Mutex                            //nolint:gochecknoglobals // guards compiled
	compiled   = map[definition]*jsonschema.Schema{} //nolint:gochecknoglobals // schemas are slow to compile
)

func schemaOf(t testing.TB, revision, name string) *jsonschema.Schema {
	t.Helper()
	compiledMu.Lock()
	defer compiledMu.Unlock()
	if schema := compiled[definition{revision, name}]; schema != nil {
		return schema
	}
	path, err := filepath.Abs(filepath.Join(schemas, revision+".json"))
	if err != nil {
		t.Fatal(err)
	}
	root := "$defs"
	if revision < "2025-11-25" {
		root = "definitions"
	}
	schema, err := jsonschema.NewCompiler().Compile(path + "#/" + root + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	compiled[definition{revision, name}] = schema
	return schema
}

// conform holds a message against the schemas of the revision. Without a body there is nothing to hold.
func conform(t testing.TB, revision, method, body string) {
	t.Helper()
	if _, err := os.Stat(schemas); err != nil || body == "" {
		return // see TestSchemasAreHere
	}
	var message map[string]any
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&message); err != nil {
		t.Fatalf("not JSON: %s", body)
	}
	whole, part, value := "JSONRPCNotification", results[method], any(message)
	switch {
	case message["error"] != nil && revision >= "2025-11-25":
		whole, part = "JSONRPCErrorResponse", ""
	case message["error"] != nil:
		whole, part = "JSONRPCError", ""
		if message["id"] == nil {
			return // those revisions have no error without an id
		}
	case message["result"] != nil && revision >= "2025-11-25":
		whole, value = "JSONRPCResultResponse", message["result"]
	case message["result"] != nil:
		whole, value = "JSONRPCResponse", message["result"]
	}
	if err := schemaOf(t, revision, whole).Validate(message); err != nil {
		t.Errorf("%s: %s is no %s: %v", revision, body, whole, err)
	}
	if object, ok := value.(map[string]any); ok && object["resultType"] == "input_required" && method == "prompts/get" {
		part = "InputRequiredResult"
	}
	if part == "" {
		return
	}
	if err := schemaOf(t, revision, part).Validate(value); err != nil {
		t.Errorf("%s: %s is no %s: %v", revision, body, part, err)
	}
}

// TestSchemasAreHere says, where that is so, that the other tests compare nothing with the protocol's schemas.
func TestSchemasAreHere(t *testing.T) {
	if _, err := os.Stat(schemas); err != nil {
		t.Skipf("messages are not held against the protocol's schemas: %v", err)
	}
}
