// Command letters is a small MCP server over stdio whose prompts are the text files of a folder, so that you can change a
// definition with an editor while everything runs. examples/teams puts it behind the gateway.
//
//	letters FOLDER
//
// A file's name without .txt is the prompt's name, and its first line the description. In the other lines, each name in
// double braces, as in {{customer}}, is a required argument. The folder is read again every second.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(os.Args) != 2 {
		logger.Error("usage: letters FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, logger, os.Args[1])
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		logger.Error("serve letters", "error", err)
		os.Exit(1)
	}
}

// run serves the letters of a folder until ctx or standard input ends.
func run(ctx context.Context, logger *slog.Logger, folder string) error {
	letters, err := read(folder)
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "letters", Title: "Letters", Version: "1.0.0"},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	replace(server, nil, letters)

	ctx, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		follow(ctx, logger, server, folder, letters)
	}()
	err = server.Run(ctx, &mcp.StdioTransport{})
	stop()
	<-over
	return err
}

// follow reads the folder again every second until ctx ends. The SDK notifies the client of each change.
func follow(ctx context.Context, logger *slog.Logger, server *mcp.Server, folder string, letters map[string]string) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := read(folder)
		if err != nil {
			logger.WarnContext(ctx, "letters not read, the previous ones stay", "error", err)
			continue
		}
		replace(server, letters, now)
		letters = now
	}
}

// read returns the text of each letter, by name.
func read(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	letters := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		letters[strings.TrimSuffix(filepath.Base(file), ".txt")] = string(text)
	}
	return letters, nil
}

// replace updates the server's prompts where the letters differ.
func replace(server *mcp.Server, before, after map[string]string) {
	for name := range before {
		if _, still := after[name]; !still {
			server.RemovePrompts(name)
		}
	}
	for name, text := range after {
		if old, known := before[name]; !known || old != text {
			server.AddPrompt(prompt(name, text))
		}
	}
}

var blank = regexp.MustCompile(`\{\{(\w+)\}\}`)

// prompt returns the prompt of a letter, and its handler.
func prompt(name, text string) (*mcp.Prompt, mcp.PromptHandler) {
	description, body, _ := strings.Cut(text, "\n")
	p := &mcp.Prompt{Name: name, Description: description}
	seen := map[string]bool{}
	for _, match := range blank.FindAllStringSubmatch(body, -1) {
		if argument := match[1]; !seen[argument] {
			seen[argument] = true
			p.Arguments = append(p.Arguments, &mcp.PromptArgument{Name: argument, Required: true})
		}
	}
	return p, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		for argument := range seen {
			if _, ok := req.Params.Arguments[argument]; !ok {
				return nil, &jsonrpc.Error{
					Code:    jsonrpc.CodeInvalidParams,
					Message: fmt.Sprintf("prompt %q needs the argument %q", name, argument),
				}
			}
		}
		filled := blank.ReplaceAllStringFunc(body, func(field string) string {
			return req.Params.Arguments[strings.Trim(field, "{}")]
		})
		return &mcp.GetPromptResult{
			Description: description,
			Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: strings.TrimSpace(filled)}}},
		}, nil
	}
}
