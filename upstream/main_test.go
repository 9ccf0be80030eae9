package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestMain(m *testing.M) {
	// Most tests wait for a peer, so that more of them can run than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	upstreamtest.Main(m, map[string]func([]string){"sdk": playSDK, "script": playScript, "asking": playAsking, "http": playHTTP})
}

// playSDK is a child process with a server of the official SDK. Getting the prompt "grow" adds the prompt "grown".
func playSDK([]string) {
	server := upstreamtest.SDK(mcp.ServerOptions{}, "a", "b", "c", "d")
	server.AddPrompt(&mcp.Prompt{Name: "grow"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		upstreamtest.AddPrompt(server, "grown")
		return &mcp.GetPromptResult{}, nil
	})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// playHTTP is a process with a server of the official SDK over HTTP, whose URL it prints.
func playHTTP([]string) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	server := &http.Server{Handler: sdkHandler(upstreamtest.SDK(mcp.ServerOptions{}, "p"), mcp.StreamableHTTPOptions{}), ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.Serve(listener))
}

// script is a hand-written legacy child process. Its arguments say how it misbehaves.
type script struct{ faults []string }

func (s script) has(fault string) bool { return slices.Contains(s.faults, fault) }

func playScript(faults []string) {
	s := script{faults}
	terminated := make(chan os.Signal, 1)
	switch {
	case s.has("ignores-end"):
		signal.Notify(terminated, syscall.SIGTERM)
	case s.has("dies-at-once"):
		fmt.Fprintln(os.Stderr, "dying")
		os.Exit(3)
	case s.has("deaf"):
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case s.has("grandchild"):
		grandchild := exec.Command("sleep", "3600") //nolint:noctx // it is to outlive its parent
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "grandchild", grandchild.Process.Pid)
	case s.has("garbage"):
		for i := 0; ; i++ {
			fmt.Println("this is garbage, too: ", i)
		}
	case s.has("ignores-term"):
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintf(os.Stderr, "pid %d\n", os.Getpid())
	fmt.Fprint(os.Stderr, "unfinished line")
	if s.has("pings-at-once") {
		fmt.Println(`{"jsonrpc":"2.0","id":"early","method":"ping"}`)
	}
	reader := bufio.NewReader(os.Stdin)
	for {
		line, err := wire.ReadLine(reader, 8<<20)
		if errors.Is(err, io.EOF) {
			break
		}
		message, err := wire.Parse(line)
		if err != nil {
			panic(err)
		}
		s.take(message)
	}
	switch {
	case s.has("ignores-end"):
		<-terminated
		fmt.Fprintln(os.Stderr, "terminated")
		os.Exit(5)
	case s.has("ignores-term"):
		time.Sleep(time.Hour)
	}
	fmt.Fprintln(os.Stderr, "stdin ended")
}

func (s script) take(m wire.Message) {
	result := func(json string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, json) }
	switch m.Method {
	case "":
		fmt.Fprintf(os.Stderr, "response %s %s\n", m.ID, m.Result)
	case wire.Discover:
		if s.has("dies-of-probe") {
			os.Exit(4)
		}
		if s.has("silent") {
			return
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"before initialize"}}`+"\n", m.ID)
	case wire.Initialize:
		fmt.Println("this is no message")
		revision := wire.Rev20250618
		if s.has("batches") {
			revision = wire.Rev20250326
		}
		result(`{"protocolVersion":"` + revision + `","capabilities":{"prompts":{"listChanged":true}}}`)
	case wire.PromptsList:
		if s.has("closes-stdout") {
			_ = os.Stdout.Close()
			time.Sleep(time.Hour)
		}
		if s.has("lists-nonsense") {
			result(`{"prompts":[{"name":"scripted"},{"name":"x","description":"\udc00"}]}`)
			return
		}
		result(`{"prompts":[{"name":"scripted"}]}`)
	case wire.PromptsGet:
		s.get(m, result)
	case wire.Ping:
		result(`{}`)
	default:
		fmt.Fprintf(os.Stderr, "notification %s %s\n", m.Method, m.Params)
	}
}

func (s script) get(m wire.Message, result func(string)) {
	params, err := wire.ParseObject(m.Params)
	if err != nil {
		panic(err)
	}
	switch name, _ := params.Text("name"); name {
	case "env":
		result(`{"env":` + string(wire.Quote(strings.Join(os.Environ(), "\x00"))) + `}`)
	case "hang":
		fmt.Fprintf(os.Stderr, "hanging %s\n", m.ID) // the log collapses equal lines
	case "deaf":
		fmt.Fprintln(os.Stderr, "deaf now")
		select {}
	case "batch":
		fmt.Printf(`[{"jsonrpc":"2.0","method":"notifications/progress"},{"jsonrpc":"2.0","id":%s,"result":{"from":"batch"}}]`+"\n", m.ID)
	case "surrogate":
		result(`{"description":"\ud800"}`)
	case "duplicate":
		result(`{"messages":[],"messages":[]}`)
	case "truncated":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"messages":[`+"\n", m.ID)
	case "batch with a duplicate":
		fmt.Printf(`[{"jsonrpc":"2.0","method":"notifications/progress"},{"jsonrpc":"2.0","id":%s,"result":{"a":1,"a":2}}]`+"\n", m.ID)
	case "big":
		result(`{"big":"` + strings.Repeat("x", 1<<20) + `"}`)
	default:
		result(`{"params":` + string(m.Params) + `,"pid":` + strconv.Itoa(os.Getpid()) + `}`)
	}
}

// start runs a connector until the test ends.
func start(t *testing.T, u config.Upstream, opts upstream.Options) *upstream.Connector {
	t.Helper()
	c := upstream.New(u, opts, func() {})
	run(t, c)
	return c
}

// run runs a connector until the test ends or stop is called.
func run(t *testing.T, c *upstream.Connector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// names returns the names of the present list.
func names(c *upstream.Connector) string {
	var list []string
	for _, definition := range c.State().Definitions {
		object, err := wire.ParseObject(definition)
		if err != nil {
			return err.Error()
		}
		name, _ := object.Text("name")
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

// waitForNames waits until the list is up to date and has these names.
func waitForNames(t *testing.T, c *upstream.Connector, want string) {
	t.Helper()
	upstreamtest.Eventually(t, "the list "+want, func() bool {
		state := c.State()
		return state.Connected && state.Problem == nil && state.Listed && names(c) == want
	})
}

// get gets a prompt with an argument.
func get(ctx context.Context, c *upstream.Connector, name string) (string, error) {
	params := wire.Object{}.With("name", wire.Quote(name)).
		With("arguments", wire.Object{}.With("topic", wire.Quote("wéirs")).JSON())
	result, err := c.Call(ctx, &upstream.Request{Method: wire.PromptsGet, Name: name, Params: params}, nil)
	return string(result.JSON), err
}

// wantUnavailable checks the reason why a call was not answered.
func wantUnavailable(t *testing.T, err error, want upstream.Reason) {
	t.Helper()
	if got := unavailable(err); got != want {
		t.Errorf("error %v: reason = %q, want %q", err, got, want)
	}
}
