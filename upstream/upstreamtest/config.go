package upstreamtest

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// roleVariable tells the test binary that it runs as a child process, and in which role.
const roleVariable = "UPSTREAMTEST_ROLE"

// HTTP returns the configuration of an upstream at a URL, with all defaults.
func HTTP(name, url string) config.Upstream {
	u := defaults(name)
	u.Transport, u.URL = config.StreamableHTTP, url
	return u
}

// Child returns the configuration of an upstream that runs this test binary in a role of [Main].
func Child(tb testing.TB, name, role string, args ...string) config.Upstream {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	u := defaults(name)
	u.Transport, u.Command = config.Stdio, append([]string{program}, args...)
	u.Env = map[string]config.Secret{
		roleVariable: config.NewSecret(role),
		"GORACE":     config.NewSecret("atexit_sleep_ms=0"), // else the race detector makes each child linger for a second
	}
	return u
}

func defaults(name string) config.Upstream {
	return config.Upstream{
		Name: name, Team: "team-of-" + name, Protocol: "auto", Prefix: name,
		Timeout: config.DefaultTimeout, Refresh: config.DefaultRefresh, Concurrency: config.DefaultConcurrency, Attempts: config.DefaultAttempts,
		MaxPrompts: config.DefaultMaxPrompts, MaxMessage: config.DefaultMaxMessage,
		Breaker: config.Breaker{Failures: config.DefaultBreakerFailures, Cooldown: config.DefaultBreakerCooldown},
	}
}

// Main runs the tests, or a role if the binary was started as a [Child]. Call it from TestMain.
func Main(m *testing.M, roles map[string]func(args []string)) {
	if role, ok := os.LookupEnv(roleVariable); ok {
		roles[role](os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// eventually is how long [Eventually] waits: long enough for a busy machine.
const eventually = time.Minute

// Eventually waits until a condition holds. It fails the test if that takes too long.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(eventually); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("after %s still not: %s", eventually, what)
		}
	}
}

// Load writes a configuration to a file, and reads it as the command line does. In the text, %KEY% stands for a cursor key.
func Load(tb testing.TB, path, text string) *config.Config {
	tb.Helper()
	text = strings.ReplaceAll(text, "%KEY%", strings.Repeat("QUJD", 10)+"QUI=")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	cfg, diags := config.Load(path, config.Options{})
	if err := diags.Err(); err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

// Object parses a JSON object.
func Object(tb testing.TB, text string) wire.Object {
	tb.Helper()
	object, err := wire.ParseObject([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return object
}

// Equal fails the test if two values differ; the format says what they are.
func Equal[T any](tb interface {
	Helper()
	Errorf(format string, args ...any)
}, want, got T, format string, args ...any,
) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// Allocs returns how many allocations one call of f makes once its pools are filled. The garbage
// collector is off meanwhile, since it empties sync.Pools, so without the race detector the first
// measurement is exact. The race detector makes a sync.Pool drop one value in four at random; only
// for its sake the least of many measurements is taken.
func Allocs(tb testing.TB, f func()) float64 {
	tb.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := testing.AllocsPerRun(1, f)
	for range 50 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// SDK returns a server of the official Go SDK with the named prompts, two on each page. A get
// returns the prompt's name and arguments as text, a completion returns the value doubled.
func SDK(options mcp.ServerOptions, names ...string) *mcp.Server {
	options.PageSize = 2
	options.CompletionHandler = func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		value := r.Params.Argument.Value
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{value + value}}}, nil
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &options)
	for _, name := range names {
		AddPrompt(server, name)
	}
	return server
}

// AddPrompt adds a prompt to a server made by [SDK], which notifies its clients.
func AddPrompt(server *mcp.Server, name string) {
	prompt := &mcp.Prompt{Name: name, Description: "about " + name, Arguments: []*mcp.PromptArgument{{Name: "topic"}}}
	server.AddPrompt(prompt, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := fmt.Sprintf("%s: %s", name, r.Params.Arguments["topic"])
		return &mcp.GetPromptResult{
			Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
		}, nil
	})
}
