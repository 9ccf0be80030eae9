package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// The scripts probe four servers: MODERN, of the modern era, requires a token; LEGACY has sessions,
// and a prompt that fails; BARE declares no capabilities; ASKING has a prompt that sends a server
// request, which the modern era does not allow.
func TestProbe_FollowsTheScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/probe", RequireExplicitExec: true, UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			for name, handler := range map[string]http.Handler{
				"MODERN": behindToken(probeable(false), true),
				"LEGACY": behindToken(probeable(true), false),
				"BARE":   http.HandlerFunc(serveBare),
				"ASKING": mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return asking() }, &mcp.StreamableHTTPOptions{Stateless: true}),
			} {
				server := httptest.NewServer(handler)
				env.Defer(server.Close)
				env.Setenv(name, server.URL)
			}
			env.Setenv("SKILLS", gatewaytest.NewSkillPeer(t, "skills", map[string]string{"skill://acme/refunds/SKILL.md": "Refund.", "skill://acme/refunds/a b.md": "A"}).URL)
			return setup(env)
		},
	})
}

// probeable returns a server with prompts that check their arguments, require input, or fail.
func probeable(failing bool) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "probeable", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
	server.AddPrompt(&mcp.Prompt{
		Name: "echo", Arguments: []*mcp.PromptArgument{{Name: "text", Required: true}, {Name: "tone"}},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if got := fmt.Sprint(r.Params.Arguments); got != "map[text:placeholder]" {
			return nil, errors.New("arguments: " + got)
		}
		return textResult("echo"), nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "nothing"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if r.Params.Arguments != nil {
			return nil, fmt.Errorf("arguments: %v", r.Params.Arguments)
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "question"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if failing {
			return nil, errors.New("nobody\tknows \x1b[31mwhy")
		}
		return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{Message: "Who?"}}}, nil
	})
	return server
}

// asking returns a server with a prompt that asks the client as in the legacy era.
func asking() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "asking", Version: "1"}, nil)
	server.AddPrompt(&mcp.Prompt{Name: "who"}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?"})
		return nil, err
	})
	return server
}

// behindToken serves over Streamable HTTP in one era. The modern one has no sessions, and requires
// the token.
func behindToken(server *mcp.Server, modern bool) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: modern})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if modern && r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// serveBare answers every request with an empty result, after initialize.
func serveBare(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	result := "{}"
	switch {
	case strings.Contains(string(body), `"server/discover"`):
		w.WriteHeader(http.StatusBadRequest)
		return
	case !strings.Contains(string(body), `"id"`):
		w.WriteHeader(http.StatusAccepted)
		return
	case strings.Contains(string(body), `"initialize"`):
		result = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"bare","version":"1"}}`
	}
	id, _, _ := strings.Cut(strings.SplitAfter(string(body), `"id":`)[1], ",")
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, strings.TrimRight(id, "}"), result)
}
