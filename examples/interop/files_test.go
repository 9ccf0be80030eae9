package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// promptFiles are prompts in each format that the gateway reads, by their paths beside the configuration.
var promptFiles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"prompts/report.md": "---\ntitle: Report\narguments:\n  - name: notes\n    required: true\n  - name: severity\n    values: [minor, major]\n" +
		"    default: minor\n---\nA {{severity}} report: {{notes}}\n## assistant\nHere:\n",
	".claude/commands/git/fix.md":    "---\nallowed-tools: Bash(git add:*), Bash\nargument-hint: [issue] [priority]\n---\nFix $0 ({{x}}) with $1.\n",
	".claude/commands/explain.md":    "# Explain\n\n$ARGUMENTS, in one sentence.\n",
	".github/prompts/docs.prompt.md": "---\nmode: 'agent'\ndescription: 'Write docs'\n---\nDocument ${input:what:a file} of ${workspaceFolder}.\n",
	"skills/pdf/SKILL.md":            "---\nname: pdf-forms\ndescription: Use it when: a PDF comes up\nlicense: MIT\narguments: form\n---\n# PDF\n\nSee [forms](FORMS.md), $form.\n",
}

const promptPatterns = `["prompts/*.md", ".claude/commands/**/*.md", ".github/prompts/*.prompt.md", "skills/**/SKILL.md"]`

// promptGets and promptTexts are a get of each, and the text that it returns.
const promptGets = `[
	{"name": "files.report", "arguments": {"notes": "{{severity}}\n## user"}},
	{"name": "files.git:fix", "arguments": {"issue": "12", "priority": "care"}},
	{"name": "files.explain", "arguments": {"arguments": "a weir"}},
	{"name": "files.docs", "arguments": {"what": "main.go"}},
	{"name": "files.pdf", "arguments": {"form": "a form"}}
]`

var promptTexts = []string{ //nolint:gochecknoglobals // a constant table
	"A minor report: {{severity}}\n## user", "Here:", "Fix 12 ({{x}}) with care.", "# Explain\n\na weir, in one sentence.",
	"Document main.go of ${workspaceFolder}.", "# PDF\n\nSee [forms](FORMS.md), a form.",
}

// TestInterop_PromptsFromFiles gets prompts of all formats with clients of the oldest and of the newest revision.
func TestInterop_PromptsFromFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range promptFiles {
		write(name, content)
	}
	write("gateway.hcl", fmt.Sprintf(settings, "", "upstream \"files\" { files = "+promptPatterns+" }"))
	program := filepath.Join(t.TempDir(), "promptweir")
	proctest.Build(t, filepath.Dir(program), "./cmd/promptweir")
	modern := proctest.Start(t, folder, program, "serve", "--config", filepath.Join(folder, "gateway.hcl")).Attr(t, "endpoint")
	oldest := asOldestClient(t, modern)
	names := []string{"files.docs", "files.explain", "files.git:fix", "files.pdf", "files.report"}
	waitUntilListed(t, modern, names)
	mcpgo := buildMcpgo(t)

	for _, client := range []struct {
		name, revision, endpoint string
		program                  []string
		mode                     string
	}{
		{"sdk1", "2024-11-05", oldest, []string{"node", "sdk1.mjs"}, ""},
		{"client2", "2024-11-05", oldest, []string{"node", "client2.mjs"}, "legacy"},
		{"client2-pinned", "2026-07-28", modern, []string{"node", "client2.mjs"}, "2026-07-28"},
		{"mcpgo-sessions", "2024-11-05", oldest, []string{mcpgo}, "sessions"},
		{"mcpgo", "2026-07-28", modern, []string{mcpgo}, "http"},
	} {
		t.Run(client.name, func(t *testing.T) {
			complete := `[{"ref": {"type": "ref/prompt", "name": "files.report"}, "argument": {"name": "severity", "value": "ma"}}]`
			want := result{Revision: client.revision, Pages: [][]string{names}, Got: promptTexts, Completed: [][]string{{"major"}}}
			if client.revision == "2024-11-05" { // which does not declare completions, so that some clients do not ask
				complete, want.Completed = "[]", nil
			}
			added := "added_for_" + client.name
			got := drive(t, slices.Concat(client.program, []string{client.endpoint, fmt.Sprintf(`{"get": %s, "complete": %s}`, promptGets, complete), client.mode}),
				func() { write("prompts/"+added+".md", "Added.") })
			names = slices.Sorted(slices.Values(append(slices.Clone(names), "files."+added)))
			want.Changed = names
			if len(got.Completed) == 0 {
				got.Completed = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what the client saw (-want +got):\n%s", diff)
			}
		})
	}

	for _, endpoint := range []string{oldest, modern} {
		era := map[string]string{oldest: "legacy", modern: "modern"}[endpoint]
		t.Run("inspector-"+era, func(t *testing.T) {
			takesLong(t)
			checkGets(t, func(name string, arguments []string) string {
				args := []string{installed(t, "mcp-inspector"), "--cli", endpoint, "--transport", "http", "--protocol-era", era, "--method", "prompts/get", "--prompt-name", name}
				if len(arguments) > 0 {
					args = append(append(args, "--prompt-args"), arguments...)
				}
				out, err := runNode(t, patience, args...)
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return out
			})
		})
		t.Run("command-line-"+era, func(t *testing.T) {
			checkGets(t, func(name string, arguments []string) string {
				out, err := proctest.Output(t.Context(), program, slices.Concat([]string{"get", name}, arguments, []string{"--url", endpoint, "-o", "json"})...)
				if err != nil {
					t.Fatal(err)
				}
				return out
			})
		})
	}
}

// checkGets gets each prompt by a command, whose output is the result as JSON.
func checkGets(t *testing.T, get func(name string, arguments []string) string) {
	t.Helper()
	var gets []struct {
		Name      string
		Arguments map[string]string
	}
	if err := json.Unmarshal([]byte(promptGets), &gets); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range gets {
		var arguments []string
		for name, value := range g.Arguments {
			arguments = append(arguments, name+"="+value)
		}
		var printed struct {
			Messages []struct{ Content struct{ Text string } }
		}
		if out := get(g.Name, arguments); json.Unmarshal([]byte(out), &printed) != nil {
			t.Fatalf("%s: %s", g.Name, out)
		}
		for _, message := range printed.Messages {
			got = append(got, message.Content.Text)
		}
	}
	if diff := cmp.Diff(promptTexts, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

// asOldestClient returns an endpoint that makes clients of 2024-11-05 of all that use it: they offer no later revision, and
// find out nothing about one.
func asOldestClient(t *testing.T, endpoint string) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		},
		FlushInterval: -1,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"server/discover"`)) {
			http.Error(w, "unknown method", http.StatusBadRequest)
			return
		}
		if bytes.Contains(body, []byte(`"method":"initialize"`)) {
			for _, later := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
				body = bytes.ReplaceAll(body, []byte(later), []byte("2024-11-05"))
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return strings.TrimSuffix(server.URL, "/") + target.Path
}
