// Command reviews is a small MCP server over stdio with two prompts that a software team might share, one of them with
// completion. examples/two-teams puts it behind the gateway as a child process.
//
// It exits at the end of its input, and on SIGINT and SIGTERM. It logs to standard error, because standard output belongs
// to the protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newServer().Run(ctx, &mcp.StdioTransport{})
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		logger.Error("serve over stdio", "error", err)
		os.Exit(1)
	}
}

// newServer returns the server with its prompts.
func newServer() *mcp.Server {
	server := mcp.NewServer(
		&mcp.Implementation{Name: "reviews", Title: "Code reviews", Version: "1.0.0"},
		&mcp.ServerOptions{
			Capabilities:      &mcp.ServerCapabilities{}, // no logging; prompts and completions follow from what is added
			CompletionHandler: complete,
		},
	)
	server.AddPrompt(&mcp.Prompt{
		Name:        "code_review",
		Title:       "Review code",
		Description: "Review a piece of code for correctness first, then for clarity.",
		Arguments: []*mcp.PromptArgument{
			{Name: "code", Title: "Code", Description: "The code to review.", Required: true},
			{Name: "language", Title: "Language", Description: "The language it is written in. Guessed when absent."},
		},
	}, codeReview)
	server.AddPrompt(&mcp.Prompt{
		Name:        "commit_message",
		Title:       "Write a commit message",
		Description: "Turn a diff into a commit message: a short subject, then why.",
		Arguments: []*mcp.PromptArgument{
			{Name: "diff", Title: "Diff", Description: "The change, as printed by git diff.", Required: true},
		},
	}, commitMessage)
	return server
}

func codeReview(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	code, err := required(req, "code")
	if err != nil {
		return nil, err
	}
	language := req.Params.Arguments["language"]
	what := "this code"
	if language != "" {
		what = "this " + language + " code"
	}
	return ask("Code review", fmt.Sprintf(
		"Review %s. Name what is wrong first, with the line, then what is hard to read, and say so when nothing is.\n\n```%s\n%s\n```",
		what, strings.ToLower(language), code)), nil
}

func commitMessage(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	diff, err := required(req, "diff")
	if err != nil {
		return nil, err
	}
	return ask("Commit message",
		"Write a commit message for this change: a subject of at most 60 characters, an empty line, then why it was made.\n\n```diff\n"+diff+"\n```"), nil
}

// complete suggests languages for code_review, and nothing for other arguments.
func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	if req.Params.Ref.Name == "code_review" && req.Params.Argument.Name == "language" {
		typed := strings.ToLower(req.Params.Argument.Value)
		values = slices.DeleteFunc(
			[]string{"C", "Go", "Java", "JavaScript", "Kotlin", "Python", "Rust", "TypeScript"},
			func(language string) bool { return !strings.HasPrefix(strings.ToLower(language), typed) },
		)
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}

// required returns an argument, or the protocol's error if it is missing.
func required(req *mcp.GetPromptRequest, name string) (string, error) {
	value, ok := req.Params.Arguments[name]
	if !ok {
		return "", &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("prompt %q needs the argument %q", req.Params.Name, name),
		}
	}
	return value, nil
}

// ask returns a prompt with one message by the user.
func ask(description, text string) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{
		Description: description,
		Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	}
}
