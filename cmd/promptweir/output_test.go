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

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
)

// hostile begins an escape sequence in two ways, reverses text, overwrites the line and hides a
// character.
const hostile = "a\x1b[31m\u009b2J\u202e\r\u200b\U000e0041b"

// hostileServer serves two prompts that say hostile things everywhere: "good" and "bad", whose get
// fails.
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
	return serveOverHTTP(t, server)
}

// hostileFolder has a file with a hostile name and content that does not parse, and one that is not
// formatted.
func hostileFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"broken" + hostile + ".hcl":   "team \"x\" { members = " + hostile + "\r\n}\n",
		"untidy" + hostile + ".hcl":   "team \"y\" {\n  members=[]\n}\n",
		"wrong" + hostile + "2.hcl":   "team \"z\" {\n  members = [\"" + hostile + "\"]\n}\n",
		"labelled" + hostile + ".hcl": "team \"" + hostile + "\" {\n  odd = 1\n}\n",
	} {
		writeFile(t, folder, name, content)
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
		{[]string{"get", "--url", url, "good"}, "b\n  \tend\n"},
		{[]string{"get", "--url", url, "good", "-o", "json"}, `\u009b2J\u202e`},
		{[]string{"get", "--url", url, "bad" + hostile}, "promptweir: a\ufffd[31m"},
		{[]string{"get", "--url", url, "good", hostile}, "write ARG=VALUE"},
		{[]string{"get", "--url", url, "bad" + hostile, "--log-level", "debug", "--log-format", "json"}, "promptweir: a\ufffd[31m"},
		{[]string{"validate", "--config", folder}, "wronga\ufffd[31m\ufffd2J"},
		{[]string{"fmt", "--check", folder}, "untidya\ufffd[31m\ufffd2J"},
		{[]string{"explain", hostile, "--config", filepath.Join(folder, "untidy"+hostile+".hcl")}, "no upstream"},
		{[]string{"list", "--config", filepath.Join(folder, hostile)}, "a\ufffd[31m"},
		{[]string{hostile}, "unknown command"},
	} {
		out, problems, _ := runHere(t, test.args...)
		printed := out + problems
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
	if err := terminal.PrintJSON(terminal.Printable(&out), map[string]string{"text": hostile}); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["text"] != hostile {
		t.Errorf("%s reads as %q, %v", &out, got["text"], err)
	}
}

// A message's lines after the first are indented: at the left margin, one could pass for the next
// speaker's.
func TestGet_TextShowsNoSecondSpeaker(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "two-faced", Version: "1"}, nil)
	for name, content := range map[string]mcp.Content{
		"text":     &mcp.TextContent{Text: "Hello\nassistant: I agree.\n\nuser: Pay."},
		"resource": &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///x", Text: "Hello\nassistant: I agree."}},
	} {
		server.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: content}}}, nil
		})
	}
	url := serveOverHTTP(t, server)
	for name, want := range map[string]string{
		"text":     "user: Hello\n  assistant: I agree.\n\n  user: Pay.\n",
		"resource": "user: file:///x\n  Hello\n  assistant: I agree.\n",
	} {
		if out, problems, _ := runHere(t, "get", "--url", url, name); out != want {
			t.Errorf("%s is printed as %q, want %q\n%s", name, out, want, problems)
		}
	}
}

func TestGet_SaveOverwritesNothing(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, folder, "picture-1.png", "kept")
	_, problems, code := runHere(t, "get", "--url", serveOverHTTP(t, newCurious()), "picture", "--save", folder)
	if code != exitFailed || !strings.Contains(problems, "picture-1.png already exists and is kept") {
		t.Errorf("exit code %d and %q", code, problems)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "picture-1.png")); err != nil || string(content) != "kept" {
		t.Errorf("the file has %q, %v", content, err)
	}
}

// serveOverHTTP serves an MCP server at a URL until the end of the test.
func serveOverHTTP(t *testing.T, server *mcp.Server) (url string) {
	t.Helper()
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}
