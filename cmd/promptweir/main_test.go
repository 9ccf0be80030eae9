package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// The test binary is the gateway and an upstream as well, by the name that it is called with.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"promptweir": main,
		"greeter":    func() { serveGreeter(&mcp.StdioTransport{}) },
		"greeterd":   greeterd,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, UpdateScripts: os.Getenv("UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // for its reports it would wait a second at each command's end
			return nil
		},
	})
}

// exits is exec for a script that wants a certain exit code: exits CODE COMMAND [ARG…].
func exits(ts *testscript.TestScript, _ bool, args []string) {
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = strconv.Itoa(failed.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// newGreeter is an MCP server with prompts that tests want: hello, which needs who; wip_bye; pid, which tells the
// process; and slow, which makes the file that its argument names and answers when that is gone.
func newGreeter() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddPrompt(&mcp.Prompt{
		Name: "hello", Description: "Says hello.",
		Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}, {Name: "tone"}},
	}, say("Hello"))
	server.AddPrompt(&mcp.Prompt{Name: "wip_bye", Title: "Not finished"}, say("Bye"))
	server.AddPrompt(&mcp.Prompt{Name: "pid"}, say(strconv.Itoa(os.Getpid())))
	server.AddPrompt(&mcp.Prompt{
		Name: "slow", Arguments: []*mcp.PromptArgument{{Name: "file", Required: true}},
	}, slow)
	return server
}

func serveGreeter(transport mcp.Transport) {
	if err := newGreeter().Run(context.Background(), transport); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// greeterd is the greeter over Streamable HTTP at the address that its argument names. It prints where it listens.
func greeterd() {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	server := newGreeter()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	fmt.Fprintln(os.Stderr, http.Serve(listener, handler))
}

// say answers with a word and the argument who.
func say(word string) mcp.PromptHandler {
	return func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		words := []string{word}
		if who := r.Params.Arguments["who"]; who != "" {
			words = append(words, who)
		}
		text := &mcp.TextContent{Text: strings.Join(words, ", ")}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: text}}}, nil
	}
}

func slow(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	file := r.Params.Arguments["file"]
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return say("done")(ctx, r)
		}
		time.Sleep(time.Millisecond)
	}
	return nil, ctx.Err()
}
