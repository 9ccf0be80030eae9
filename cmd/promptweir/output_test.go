package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hostile begins an escape sequence in two ways, reverses text, overwrites the line and hides a character.
const hostile = "a\x1b[31m\u009b2J\u202e\r\u200b\U000e0041b"

// hostileServer serves two prompts that say hostile things everywhere: "good" and "bad", whose get fails.
func hostileServer(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "hostile", Version: "1"}, nil)
	arguments := []*mcp.PromptArgument{{Name: hostile}}
	server.AddPrompt(&mcp.Prompt{Name: "good", Description: hostile, Arguments: arguments}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: mcp.Role(hostile), Content: &mcp.TextContent{Text: hostile + "\n\tend"}}}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "bad" + hostile}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return nil, errors.New(hostile)
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(s.Close)
	return s.URL
}

// hostileFolder has a file with a hostile name and content that does not parse, and one that is not formatted.
func hostileFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"broken" + hostile + ".hcl":   "team \"x\" { members = " + hostile + "\r\n}\n",
		"untidy" + hostile + ".hcl":   "team \"y\" {\n  members=[]\n}\n",
		"wrong" + hostile + "2.hcl":   "team \"z\" {\n  members = [\"" + hostile + "\"]\n}\n",
		"labelled" + hostile + ".hcl": "team \"" + hostile + "\" {\n  odd = 1\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestCommands_PrintNothingThatActsOnATerminal(t *testing.T) {
	url, folder := hostileServer(t), hostileFolder(t)
	for _, test := range []struct {
		args []string
		want string // part of the output
	}{
		{[]string{"list", "--url", url}, "good"},
		{[]string{"list", "--url", url, "-o", "json"}, `\u009b2J\u202e`},
		{[]string{"get", "--url", url, "good"}, "b\n\tend\n"},
		{[]string{"get", "--url", url, "good", "-o", "json"}, `\u009b2J\u202e`},
		{[]string{"get", "--url", url, "bad" + hostile}, "promptweir: a\ufffd[31m"},
		{[]string{"get", "--url", url, "good", hostile}, "write ARG=VALUE"},
		{[]string{"get", "--url", url, "bad" + hostile, "--log-level", "debug", "--log-format", "json"}, "promptweir: a\ufffd[31m"},
		{[]string{"probe", url}, "prompts/get bada\ufffd[31m"},
		{[]string{"validate", "--config", folder}, "wronga\ufffd[31m\ufffd2J"},
		{[]string{"fmt", "--check", folder}, "untidya\ufffd[31m\ufffd2J"},
		{[]string{"explain", hostile, "--config", filepath.Join(folder, "untidy"+hostile+".hcl")}, "no upstream"},
		{[]string{"list", "--config", filepath.Join(folder, hostile)}, "a\ufffd[31m"},
		{[]string{hostile}, "unknown command"},
	} {
		var out, err bytes.Buffer
		run(t.Context(), test.args, streams{in: strings.NewReader(""), out: &out, err: &err})
		printed := out.String() + err.String()
		if at := strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("%.40q prints %q", test.args, printed[at:])
		}
		if !strings.Contains(printed, test.want) {
			t.Errorf("%.40q prints %q, want %q", test.args, printed, test.want)
		}
	}
}

func TestPrintJSON_KeepsTheMeaning(t *testing.T) {
	var out bytes.Buffer
	if err := printJSON(printableWriter{&out}, map[string]string{"text": hostile}); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["text"] != hostile {
		t.Errorf("%s reads as %q, %v", &out, got["text"], err)
	}
}
