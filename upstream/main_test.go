package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestMain(m *testing.M) {
	// Most tests wait for a peer, so that more of them can run than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	upstreamtest.Main(m, map[string]func([]string){"sdk": playSDK, "script": playScript, "asking": playAsking})
}

// playSDK is a child process with a server of the official SDK. Getting the prompt "grow" adds the
// prompt "grown".
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

// script is a hand-written legacy child process. Its arguments say how it misbehaves. A get of "lose"
// makes it refuse everything from then on, as a bridge does whose remote session is lost.
type script struct {
	faults []string
	lost   *bool
}

func (s script) has(fault string) bool { return slices.Contains(s.faults, fault) }

func playScript(faults []string) {
	s := script{faults, new(bool)}
	terminated := make(chan os.Signal, 1)
	switch {
	case s.has("ignores-end"):
		signal.Notify(terminated, syscall.SIGTERM)
	case s.has("grandchild"):
		grandchild := exec.Command("sleep", "3600") //nolint:noctx // it is to outlive its parent
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "grandchild", grandchild.Process.Pid)
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
	if *s.lost && m.IsRequest() {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"Session not found"}}`+"\n", m.ID)
		return
	}
	switch m.Method {
	case "":
		fmt.Fprintf(os.Stderr, "response %s %s\n", m.ID, m.Result)
	case wire.Discover:
		if s.has("dies-of-probe") {
			os.Exit(4)
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
	case "folder":
		folder, _ := os.Getwd()
		result(`{"folder":` + string(wire.Quote(folder)) + `}`)
	case "env":
		result(`{"env":` + string(wire.Quote(strings.Join(os.Environ(), "\x00"))) + `}`)
	case "lose":
		*s.lost = true
		result(`{}`)
	case "hang":
		fmt.Fprintf(os.Stderr, "hanging %s\n", m.ID) // the log collapses equal lines
	case "deaf":
		fmt.Fprintln(os.Stderr, "deaf now")
		time.Sleep(time.Hour) // without cgo, the runtime ends a process that waits for nothing
	case "surrogate":
		result(`{"description":"\ud800"}`)
	case "duplicate":
		result(`{"messages":[],"messages":[]}`)
	case "truncated":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"messages":[`+"\n", m.ID)
	case "batch with a duplicate":
		fmt.Printf(`[{"jsonrpc":"2.0","method":"notifications/progress"},{"jsonrpc":"2.0","id":%s,"result":{"a":1,"a":2}}]`+"\n", m.ID)
	case "logged":
		fmt.Printf(`{"level":"info","id":%s,"msg":"serving a prompt","error":null}`+"\n", m.ID)
		result(`{"messages":[]}`)
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

// startLogged is start with a log.
func startLogged(t *testing.T, u config.Upstream) (*upstream.Connector, *upstreamtest.Log) {
	t.Helper()
	var log upstreamtest.Log
	return start(t, u, upstream.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

// startTried is start, until the connector has tried to list the prompts.
func startTried(t *testing.T, u config.Upstream) *upstream.Connector {
	t.Helper()
	c := start(t, u, upstream.Options{})
	upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
	return c
}

// inBubble runs a connector to a peer in memory, in a synctest bubble.
func inBubble(
	t *testing.T, peer func(t testing.TB) *upstreamtest.Peer, u config.Upstream,
	test func(*testing.T, *upstreamtest.Peer, *upstream.Connector),
) {
	t.Helper()
	inLoggedBubble(t, peer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, _ *upstreamtest.Log) {
		test(t, p, c)
	})
}

// inLoggedBubble is inBubble with a log.
func inLoggedBubble(
	t *testing.T, peer func(t testing.TB) *upstreamtest.Peer, u config.Upstream,
	test func(*testing.T, *upstreamtest.Peer, *upstream.Connector, *upstreamtest.Log),
) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p := peer(t)
		var log upstreamtest.Log
		c := start(t, u, upstream.Options{
			Transport: upstreamtest.Memory{Handler: handlerFor(u, p)}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		synctest.Wait()
		test(t, p, c, &log)
	})
}

// handlerFor serves a peer over the transport of an upstream.
func handlerFor(u config.Upstream, p *upstreamtest.Peer) http.Handler {
	if u.Transport == config.SSE {
		return upstreamtest.SSE(p)
	}
	return p
}

// inEachEra runs a test with what makes a server of the legacy and of the modern era, one after the
// other.
func inEachEra(t *testing.T, test func(t *testing.T, peer func(testing.TB) *upstreamtest.Peer)) {
	t.Helper()
	for name, era := range handshakes {
		t.Run(name, func(t *testing.T) { test(t, era.peer) })
	}
}

// inEachBubble is inBubble in each era.
func inEachBubble(t *testing.T, test func(*testing.T, *upstreamtest.Peer, *upstream.Connector)) {
	t.Helper()
	inEachEra(t, func(t *testing.T, peer func(testing.TB) *upstreamtest.Peer) {
		inBubble(t, peer, anywhere(), test)
	})
}

// anywhere is an upstream in memory, and anywhereSSE one with HTTP+SSE.
func anywhere() config.Upstream { return upstreamtest.HTTP("timed", "http://peer.example/mcp") }

func anywhereSSE() config.Upstream { return sseUpstream("http://peer.example", true) }

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

// getting gets a prompt in the background. The channel gets how that ends.
func getting(ctx context.Context, c *upstream.Connector, name string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := get(ctx, c, name)
		ended <- err
	}()
	return ended
}

// mustGet fails the test if a get fails.
func mustGet(t *testing.T, c *upstream.Connector, name string) {
	t.Helper()
	if _, err := get(t.Context(), c, name); err != nil {
		t.Errorf("get(%s) = %v", name, err)
	}
}

// results, refuses and status are answers of a peer: a result, an error object in HTTP 200, and an
// HTTP status.
func results(json string) func(http.ResponseWriter, *upstreamtest.Request) {
	return func(w http.ResponseWriter, r *upstreamtest.Request) { r.Result(w, json) }
}

func refuses(err string) func(http.ResponseWriter, *upstreamtest.Request) {
	return func(w http.ResponseWriter, r *upstreamtest.Request) { r.Error(w, http.StatusOK, err) }
}

func status(status int) func(http.ResponseWriter, *upstreamtest.Request) {
	return func(w http.ResponseWriter, _ *upstreamtest.Request) { w.WriteHeader(status) }
}

// wantLogged checks that a log has texts.
func wantLogged(t *testing.T, log *upstreamtest.Log, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}

// wantNames checks the names of the present list.
func wantNames(t *testing.T, c *upstream.Connector, want string) {
	t.Helper()
	upstreamtest.Equal(t, want, names(c), "names")
}

// wantWell checks that a connector has no problem.
func wantWell(t *testing.T, c *upstream.Connector, when string) {
	t.Helper()
	if problem := c.State().Problem; problem != nil {
		t.Errorf("%s: %+v", when, problem)
	}
}

// wantFailure checks the reason why a get is not answered.
func wantFailure(t *testing.T, c *upstream.Connector, name string, want upstream.Reason) {
	t.Helper()
	_, err := get(t.Context(), c, name)
	wantUnavailable(t, err, want)
}

// wantSeen checks how many requests of a method a peer has got.
func wantSeen(t *testing.T, p *upstreamtest.Peer, method string, want int) {
	t.Helper()
	upstreamtest.Equal(t, want, len(p.Seen(method)), "requests of %s", method)
}

// wantUnavailable checks the reason why a call was not answered.
func wantUnavailable(t *testing.T, err error, want upstream.Reason) {
	t.Helper()
	upstreamtest.Equal(t, want, unavailable(err), "error %v: reason", err)
}
