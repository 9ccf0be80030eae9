package gatewaytest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Timeout bounds the wait for anything that must happen, on a busy machine, too. Tests that pass
// never wait that long.
const Timeout = time.Minute

// version is the version that gateways have unless a test sets another.
const version = "1.2.3"

// Server is a running gateway behind a real HTTP server.
type Server struct {
	*gateway.Gateway

	TB testing.TB
	// URL is the endpoint of Streamable HTTP.
	URL string
	// AdminURL is the base of the admin pages, without a slash at its end.
	AdminURL string
	// Stop stops the gateway before the test ends.
	Stop func()
}

// Serve runs a gateway until the test ends, and waits until it has tried to list each upstream.
func Serve(tb testing.TB, text string) *Server {
	tb.Helper()
	s := Start(tb, text)
	s.AwaitUpstreams()
	return s
}

// ServeLogged is [Serve], and returns what the gateway logs.
func ServeLogged(tb testing.TB, text string) (*Server, *Log) {
	tb.Helper()
	var log Log
	opts := gateway.Options{Version: version, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s := StartWith(tb, text, opts)
	s.AwaitUpstreams()
	return s, &log
}

// ServeLocked is [Serve] with a lock file beside the configuration.
func ServeLocked(tb testing.TB, text string, lock config.Lock) *Server {
	tb.Helper()
	s := StartConfig(tb, LoadLocked(tb, text, lock), gateway.Options{})
	s.AwaitUpstreams()
	return s
}

// ServeTwoTeams runs a gateway with the team payments of ann, whose upstream is billing, and the
// team search of bob, whose upstream is find. Everybody sees the reviews of payments. Nobody sees
// its prompts wip_*, which the team hides, and debug_*, which the gateway hides.
func ServeTwoTeams(tb testing.TB, auth string) (s *Server, billing, find *Peer) {
	tb.Helper()
	billing = NewPeer(tb, "billing", "review_pr", "wip_x", "debug_y", `{"name":"ledger","arguments":[{"name":"year","required":true}]}`)
	find = NewPeer(tb, "find", "query")
	return Serve(tb, auth+`
hide "never" { prompts = ["*.debug_*"] }
`+Team("payments", `"group:payments"`, `
expose "reviews" {
  prompts = ["billing.review_*", "billing.debug_*"]
  to      = ["*"]
}
hide "half-finished" { prompts = ["billing.wip_*"] }
`, billing)+Team("search", `"user:bob"`, "", find)), billing, find
}

// Start is [Serve] without the wait for the upstreams.
func Start(tb testing.TB, text string) *Server {
	tb.Helper()
	return StartWith(tb, text, gateway.Options{Version: version})
}

// StartWith is [Start] with other options.
func StartWith(tb testing.TB, text string, opts gateway.Options) *Server {
	tb.Helper()
	return StartConfig(tb, Load(tb, text), opts)
}

// StartConfig is [StartWith] for a configuration that was loaded before.
func StartConfig(tb testing.TB, cfg *config.Config, opts gateway.Options) *Server {
	tb.Helper()
	g, err := gateway.New(cfg, opts)
	if err != nil {
		tb.Fatal(err)
	}
	stop := Run(tb, g)
	endpoint := NewUnstartedServer(g)
	endpoint.Start()
	admin := httptest.NewServer(g.Admin(http.NotFoundHandler()))
	tb.Cleanup(func() {
		g.Drain()
		endpoint.CloseClientConnections()
		endpoint.Close()
		admin.Close()
	})
	return &Server{Gateway: g, TB: tb, URL: endpoint.URL + "/mcp", AdminURL: admin.URL, Stop: stop}
}

// NewUnstartedServer returns an HTTP server for a gateway, with the same connections as in the
// program.
func NewUnstartedServer(g *gateway.Gateway) *httptest.Server {
	s := httptest.NewUnstartedServer(g.Handler())
	s.Listener = edge.New(edge.Options{}).Listen(s.Config, s.Listener, nil)
	return s
}

// Run runs a gateway until stop is called or the test ends, and fails the test if Run then returns
// an error or does not return.
func Run(tb testing.TB, g *gateway.Gateway) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err, _ := await(tb, "Run to return after the end of its context", ended); err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// AwaitUpstreams waits until the gateway has tried to list each upstream.
func (s *Server) AwaitUpstreams() {
	s.TB.Helper()
	upstreamtest.Eventually(s.TB, "each upstream was tried", func() bool {
		for _, u := range s.Ready().Upstreams {
			if u.Problem == nil && !u.Listed {
				return false
			}
		}
		return true
	})
}

// AwaitTrouble waits until the list of an upstream is not fresh.
func (s *Server) AwaitTrouble(label string) {
	s.TB.Helper()
	upstreamtest.Eventually(s.TB, label+" is in trouble", func() bool { return s.Problem(label) != nil })
}

// Problem returns that of an upstream, or nil.
func (s *Server) Problem(label string) *upstream.Problem {
	now := s.Snapshot()
	for i, state := range now.States {
		if now.Upstreams[i].Name == label {
			return state.Problem
		}
	}
	return nil
}

// Entries returns the entries that a principal sees, or all of them for nil.
func (s *Server) Entries(principal *policy.Principal) []*catalog.Entry {
	return inspect.Entries(s.Snapshot(), principal)
}

// EntryNames returns the names of [Server.Entries].
func (s *Server) EntryNames(principal *policy.Principal) []string {
	names := []string{}
	for _, e := range s.Entries(principal) {
		names = append(names, e.Name)
	}
	return names
}

// Explain returns the reasons why a principal sees a name or does not.
func (s *Server) Explain(principal policy.Principal, name string) []inspect.Explanation {
	return inspect.Explain(s.Snapshot(), principal, name)
}

// Reports returns the findings in the catalog.
func (s *Server) Reports() []catalog.Report { return s.Snapshot().Reports() }

// ReportNames returns the kind and the name of each report, separated by commas.
func ReportNames(s *snapshot.Snapshot) string {
	var all []string
	for _, r := range s.Reports() {
		all = append(all, fmt.Sprintf("%s %s", r.Kind, r.Name))
	}
	return strings.Join(all, ", ")
}

// Lock returns the lock that approves the definitions listed now.
func (s *Server) Lock() config.Lock { return inspect.Lock(s.Snapshot()) }

// Reloadable is a running gateway whose configuration the test changes.
type Reloadable struct {
	*Server

	// Path is the configuration file that reloads read.
	Path string
}

// ServeReloadable is [Serve] with other options, for a gateway that can be reloaded.
func ServeReloadable(tb testing.TB, text string, opts gateway.Options) *Reloadable {
	tb.Helper()
	r := &Reloadable{Path: filepath.Join(tb.TempDir(), "changing.hcl")}
	opts.Load = func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
		return config.LoadTolerant(r.Path, config.Options{}, inUse.TeamFiles)
	}
	r.Server = StartWith(tb, text, opts)
	r.AwaitUpstreams()
	return r
}

// TryReload reloads the gateway with another configuration and returns the error of Reload.
func (r *Reloadable) TryReload(text string) error {
	r.TB.Helper()
	if err := os.WriteFile(r.Path, []byte(text), 0o600); err != nil {
		r.TB.Fatal(err)
	}
	return r.Reload(r.TB.Context())
}

// MustReload is [Reloadable.TryReload] for a configuration that must be accepted.
func (r *Reloadable) MustReload(text string) {
	r.TB.Helper()
	if err := r.TryReload(text); err != nil {
		r.TB.Fatalf("%v\n%s", err, text)
	}
}
