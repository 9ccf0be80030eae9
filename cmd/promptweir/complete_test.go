package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// completed returns what a shell offers for the last word of a command line.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	out, errs, code := runHere(t, append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitDone || len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], ":") {
		t.Fatalf("completion of %q: exit code %d\n%s%s", args, code, out, errs)
	}
	return lines[:len(lines)-1]
}

func wantCompleted(t *testing.T, want []string, args ...string) {
	t.Helper()
	if got := completed(t, args...); !slices.Equal(got, want) {
		t.Errorf("completion of %q (-want +got):\n%s", args, cmp.Diff(want, got))
	}
}

func TestComplete_KnowsPromptsOfFilesWithoutStartingAnything(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		writeFile(t, dir, name, content)
	}
	marker := filepath.Join(dir, "started")
	write("gateway.hcl", "auth {\n token \"ci\" {\n sha256 = sha256(\"x\")\n groups = [\"build\"]\n }\n}\n")
	write("team.hcl", `
team "ops" {
  members = ["user:ann", "group:ops"]
  upstream "handbook" { files = ["*.md"] }
  upstream "server" { command = ["touch", "`+marker+`"] }
  expose "all" {
    prompts = ["handbook.report"]
    to      = ["group:everybody"]
  }
}
`)
	write("report.md", `---
description: Write a report
arguments:
  - name: notes
    description: What was seen.
    required: true
  - name: severity
    values: [minor, major, critical]
---
{{severity}} {{notes}}
`)
	write("other.md", "Nothing to say.\n")
	config := "--config=" + dir
	wantCompleted(t, []string{"handbook.other", "handbook.report\tWrite a report"}, "get", config, "")
	wantCompleted(t, []string{"handbook.report\tWrite a report"}, "list", config, "--as", "user:x,group:everybody", "hand")
	wantCompleted(t, []string{"handbook.other", "handbook.report\tWrite a report"}, "explain", config, "")
	wantCompleted(t, []string{"notes=\tWhat was seen.", "severity="}, "get", config, "handbook.report", "")
	wantCompleted(t, []string{"severity="}, "get", config, "handbook.report", "notes=x", "")
	wantCompleted(t, []string{"severity=minor", "severity=major"}, "get", config, "handbook.report", "severity=m")
	wantCompleted(t, nil, "get", config, "handbook.none", "")
	wantCompleted(t, []string{"group:build", "group:everybody", "group:ops", "user:ann", "user:ci"}, "list", config, "--as", "")
	wantCompleted(t, []string{"user:ann,group:build", "user:ann,group:everybody", "user:ann,group:ops"}, "explain", config, "--as", "user:ann,")
	wantCompleted(t, []string{"ops"}, "list", config, "--team", "")
	wantCompleted(t, []string{"table", "wide", "name", "json"}, "list", "-o", "")
	wantCompleted(t, []string{"text", "json", "github"}, "validate", "--output", "")
	wantCompleted(t, []string{"bash", "zsh", "fish", "powershell"}, "completion", "")
	wantCompleted(t, nil, "get", "--config", filepath.Join(dir, "nowhere"), "")
	if _, err := os.Stat(marker); err == nil {
		t.Error("completion started a server")
	}
}

func TestComplete_AsksTheServerAtURL(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "helpful", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			value := r.Params.Ref.Name + "-" + r.Params.Argument.Name + "-" + r.Params.Argument.Value + "-"
			if r.Params.Context != nil {
				value += r.Params.Context.Arguments["code"]
			}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{value}}}, nil
		},
	})
	server.AddPrompt(&mcp.Prompt{Name: "review", Title: "Review code", Arguments: []*mcp.PromptArgument{{Name: "code"}, {Name: "language"}}}, nil)
	url := "--url=" + serveOverHTTP(t, server)
	wantCompleted(t, []string{"review\tReview code"}, "get", url, "")
	wantCompleted(t, []string{"code=", "language="}, "get", url, "review", "")
	wantCompleted(t, []string{"language=review-language-g-x"}, "get", url, "review", "code=x", "language=g")
	wantCompleted(t, nil, "get", "--url=http://127.0.0.1:1/mcp", "")
	wantCompleted(t, nil, "get", url, "--skill", "")
	url = "--url=" + gatewaytest.NewSkillPeer(t, "skills", map[string]string{"skill://a/x/SKILL.md": "", "skill://a/x/b.md": ""}).URL
	for _, command := range [][]string{{"get", url, "--skill", ""}, {"list", url, "--skills", "skill"}} {
		wantCompleted(t, []string{"skill://a/x/SKILL.md\tD"}, command...)
	}
	wantCompleted(t, []string{"p"}, "list", url, "")
}

// A shell inserts a completed word as it is, so only printable words are offered.
func TestComplete_OffersOnlyWhatCanBeShown(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "hostile", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			values := []string{"a\x1b]52;c;ZXZpbA==\a", "a\nb", "a\u202eb", "plain"}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
		},
	})
	server.AddPrompt(&mcp.Prompt{Name: "a\x1b[2J"}, nil)
	server.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "co\x1b[2Jde"}, {Name: "language"}}}, nil)
	url := "--url=" + serveOverHTTP(t, server)
	wantCompleted(t, []string{"review"}, "get", url, "")
	wantCompleted(t, []string{"language="}, "get", url, "review", "")
	wantCompleted(t, []string{"language=plain"}, "get", url, "review", "language=")
}
