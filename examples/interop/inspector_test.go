//go:build interop

package interop_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInspector_ListsAndGets runs the Inspector's command line against the gateway, with each of its ways to choose an era.
func TestInspector_ListsAndGets(t *testing.T) {
	names := []string{"sessions.greet", "stateless.greet"}
	gateway := startGateway(t, 1, newServer(t, false).upstream(), newServer(t, true).upstream())
	waitUntilListed(t, gateway, names)
	for _, era := range []string{"legacy", "auto", "modern"} {
		t.Run(era, func(t *testing.T) {
			inspect := func(to any, args ...string) {
				t.Helper()
				args = append([]string{
					installed(t, "mcp-inspector"), "--cli", gateway, "--transport", "http", "--protocol-era", era, "--method",
				}, args...)
				out, err := runNode(t, patience, args...)
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if err := json.Unmarshal([]byte(out), to); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			var listed struct{ Prompts []struct{ Name string } }
			inspect(&listed, "prompts/list")
			var got []string
			for _, prompt := range listed.Prompts {
				got = append(got, prompt.Name)
			}
			if diff := cmp.Diff(names, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			var greeting struct {
				Messages []struct{ Content struct{ Text string } }
			}
			inspect(&greeting, "prompts/get", "--prompt-name", "sessions.greet", "--prompt-args", "name=Ada")
			if len(greeting.Messages) != 1 || greeting.Messages[0].Content.Text != "Hello, Ada!" {
				t.Errorf("sessions.greet: %+v, want Hello, Ada!", greeting.Messages)
			}
		})
	}
}
