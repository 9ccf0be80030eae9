package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/httpconn"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
)

// patience is how long a test waits for what must happen. Nothing waits that long when all is well.
const patience = 20 * time.Second

// eventually waits until the claim holds.
func eventually(t testing.TB, claim string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, claim)
		}
	}
}

// load reads a configuration as the command line does. In the text, %KEY% is a cursor key.
func load(t testing.TB, text string) *config.Config {
	t.Helper()
	return loadLocked(t, text, nil)
}

// loadLocked is load with a lock file beside the configuration.
func loadLocked(t testing.TB, text string, lock config.Lock) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	if lock != nil {
		if err := os.WriteFile(config.LockPath(path), lock.Format(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text = strings.ReplaceAll(text, "%KEY%", strings.Repeat("QUJD", 10)+"QUI=")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

// team is a team block with an HTTP upstream for each peer, by the peer's name, and what else is in the block.
func team(name, members, more string, peers ...*peer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "team %q {\n  members = [%s]\n", name, members)
	for _, p := range peers {
		settings := p.settings
		if !strings.Contains(settings, "timeout") {
			settings += "\n    timeout = \"5s\""
		}
		fmt.Fprintf(&b, "  upstream %q {\n    url = %q\n    %s\n  }\n", p.name, p.url, settings)
	}
	return b.String() + more + "\n}\n"
}

// token is an auth block's token: its secret is its label.
func token(label string, groups ...string) string {
	sum := sha256.Sum256([]byte(label))
	quoted, _ := json.Marshal(groups)
	if groups == nil {
		quoted = []byte("[]")
	}
	return fmt.Sprintf("token %q {\n sha256 = %q\n groups = %s\n}\n", label, hex.EncodeToString(sum[:]), quoted)
}

// server is a gateway at work behind a real HTTP server.
type server struct {
	*gateway.Gateway
	t     testing.TB
	url   string
	admin string
	// stop ends the gateway before the test does.
	stop func()
}

// Entries returns what a principal sees, all there is for nil.
func (s *server) Entries(principal *policy.Principal) []*catalog.Entry {
	return inspect.Entries(s.Snapshot(), principal)
}

// Explain says why a principal sees a name or not.
func (s *server) Explain(principal policy.Principal, name string) []inspect.Explanation {
	return inspect.Explain(s.Snapshot(), principal, name)
}

// Reports returns the findings in the catalog.
func (s *server) Reports() []catalog.Report { return s.Snapshot().Reports() }

// Lock returns the lock that approves what is listed now.
func (s *server) Lock() config.Lock { return inspect.Lock(s.Snapshot()) }

// serve runs a gateway until the test ends, and waits until each upstream was tried. Run must then have ended too.
func serve(t testing.TB, text string) *server {
	t.Helper()
	s := begin(t, text)
	s.settle()
	return s
}

// settle waits until each upstream was tried.
func (s *server) settle() {
	s.t.Helper()
	eventually(s.t, "every upstream was tried", func() bool {
		for _, u := range s.Ready().Upstreams {
			if u.Reason == "" && !u.Listed {
				return false
			}
		}
		return true
	})
}

// begin is serve without the wait.
func begin(t testing.TB, text string) *server {
	t.Helper()
	return beginWith(t, text, gateway.Options{Version: "1.2.3"})
}

func beginWith(t testing.TB, text string, opts gateway.Options) *server {
	t.Helper()
	return beginLoaded(t, load(t, text), opts)
}

func beginLoaded(t testing.TB, cfg *config.Config, opts gateway.Options) *server {
	t.Helper()
	g, err := gateway.New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, g)
	listener := unstarted(g)
	listener.Start()
	admin := httptest.NewServer(g.Admin(http.NotFoundHandler()))
	t.Cleanup(func() {
		g.Drain()
		listener.CloseClientConnections()
		listener.Close()
		admin.Close()
	})
	return &server{Gateway: g, t: t, url: listener.URL + "/mcp", admin: admin.URL, stop: stop}
}

// unstarted is an HTTP server of a gateway's, on the connections that the program has too.
func unstarted(g *gateway.Gateway) *httptest.Server {
	s := httptest.NewUnstartedServer(g.Handler())
	s.Listener = httpconn.Listen(s.Config, s.Listener)
	return s
}

// run runs a gateway until stop is called, or until the test ends.
func run(t testing.TB, g *gateway.Gateway) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not return after its context has ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

// answer is an HTTP response that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// is fails the test if the answer has another status or does not hold all of the parts.
func (a answer) is(t testing.TB, status int, parts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			t.Errorf("got %s\nwant %s in it", a.body, part)
		}
	}
}

// result returns a member of the answer's result.
func (a answer) result(t testing.TB, member string) json.RawMessage {
	t.Helper()
	var message struct {
		Result map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(a.body), &message); err != nil || message.Result == nil {
		t.Fatalf("no result: status %d, %s", a.status, a.body)
	}
	return message.Result[member]
}

// names returns those of the prompts on a page.
func (a answer) names(t testing.TB) []string {
	t.Helper()
	var prompts []struct{ Name string }
	if err := json.Unmarshal(a.result(t, "prompts"), &prompts); err != nil {
		t.Fatalf("no prompts: %s", a.body)
	}
	names := []string{}
	for _, p := range prompts {
		names = append(names, p.Name)
	}
	return names
}

// whole is all of an answer that two callers could compare.
func (a answer) whole() string {
	header := a.header.Clone()
	header.Del("Date")
	var b bytes.Buffer
	fmt.Fprintln(&b, a.status)
	_ = header.Write(&b) // a buffer
	return b.String() + a.body
}

// headers are alternately names and values. A value of "-" removes the header.
type headers []string

func newHTTPRequest(ctx context.Context, t testing.TB, method, url, body string, h headers) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(h); i += 2 {
		switch {
		case h[i+1] == "-":
			r.Header.Del(h[i])
		case h[i] == "Host":
			r.Host = h[i+1]
		default:
			r.Header.Set(h[i], h[i+1])
		}
	}
	return r
}

func send(t testing.TB, method, url, body string, h headers) answer {
	t.Helper()
	response, err := http.DefaultClient.Do(newHTTPRequest(t.Context(), t, method, url, body, h))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(got)}
}

// client speaks one revision with raw HTTP and JSON. What it gets is held against the revision's schema.
type client struct {
	*server
	t        testing.TB
	revision string
	headers  headers
}

const latest = "2026-07-28"

// legacyRevisions begin with initialize.
var legacyRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} //nolint:gochecknoglobals // a constant list

// bearer is the header of a token; "" is none.
func bearer(token string) headers {
	if token == "" {
		return nil
	}
	return headers{"Authorization", "Bearer " + token}
}

// modern returns a client of 2026-07-28.
func (s *server) modern(token string) *client {
	return &client{server: s, t: s.t, revision: latest, headers: bearer(token)}
}

// legacy returns a client that has initialized a session of a revision.
func (s *server) legacy(revision, token string) *client {
	s.t.Helper()
	c := &client{server: s, t: s.t, revision: revision, headers: bearer(token)}
	a := c.call("initialize", initializeParams(revision))
	a.is(s.t, http.StatusOK)
	c.headers = append(c.headers, "Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision)
	c.notify("notifications/initialized").is(s.t, http.StatusAccepted)
	return c
}

func initializeParams(revision string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"test","version":"1"}}`, revision)
}

func (c *client) notify(method string) answer {
	c.t.Helper()
	return send(c.t, http.MethodPost, c.url, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method), c.headers)
}

// meta is what each modern request carries.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}`

// envelope returns a request's body and the headers that it needs.
func (c *client) envelope(id, method, params string) (string, headers) {
	h := append(headers{}, c.headers...)
	if params == "" {
		params = "{}"
	}
	if c.revision == latest {
		if !strings.Contains(params, `"_meta"`) {
			params = strings.TrimSuffix(strings.TrimSuffix(params, "}"), ",") + "," + meta + "}"
			params = strings.Replace(params, "{,", "{", 1)
		}
		h = append(headers{"Mcp-Protocol-Version", latest, "Mcp-Method", method}, h...)
		var named struct{ Name string }
		if json.Unmarshal([]byte(params), &named) == nil && method == "prompts/get" {
			h = append(headers{"Mcp-Name", named.Name}, h...)
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params), h
}

func (c *client) call(method, params string) answer {
	c.t.Helper()
	return c.callAs("1", method, params)
}

func (c *client) callAs(id, method, params string, more ...string) answer {
	c.t.Helper()
	body, h := c.envelope(id, method, params)
	a := send(c.t, http.MethodPost, c.url, body, append(h, more...))
	conform(c.t, c.revision, method, a.body)
	return a
}

// list returns the names on all pages.
func (c *client) list() []string {
	c.t.Helper()
	names, params := []string{}, ""
	for {
		a := c.call("prompts/list", params)
		names = append(names, a.names(c.t)...)
		cursor := a.result(c.t, "nextCursor")
		if cursor == nil {
			return names
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

func get(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }

func complete(name string) string {
	return fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":""}}`, name)
}

// stream is an open stream of server-sent events.
type stream struct {
	t      testing.TB
	status int
	header http.Header
	events chan sse.Event
	close  context.CancelFunc
}

// open opens a stream: the legacy one with GET, or a modern subscription with the id.
func (c *client) open(id string, more ...string) *stream {
	c.t.Helper()
	if c.revision != latest {
		return c.openWith(http.MethodGet, "", append(append(headers{"Accept", "text/event-stream"}, c.headers...), more...))
	}
	body, h := c.envelope(id, "subscriptions/listen", `{"notifications":{"promptsListChanged":true,"toolsListChanged":true}}`)
	s := c.openWith(http.MethodPost, body, append(h, more...))
	ack := s.next()
	conform(c.t, latest, "notifications/subscriptions/acknowledged", ack.Data)
	if want := `"notifications":{"promptsListChanged":true}`; !strings.Contains(ack.Data, want) || !strings.Contains(ack.Data, `"io.modelcontextprotocol/subscriptionId":`+id) {
		c.t.Fatalf("acknowledgment %s, want %s and the id %s in it", ack.Data, want, id)
	}
	return s
}

func (c *client) openWith(method, body string, h headers) *stream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	response, err := http.DefaultClient.Do(newHTTPRequest(ctx, c.t, method, c.url, body, h)) //nolint:bodyclose // closed by the goroutine below
	if err != nil {
		c.t.Fatal(err)
	}
	s := &stream{t: c.t, status: response.StatusCode, header: response.Header, events: make(chan sse.Event, 100), close: cancel}
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		c.t.Fatalf("no stream: status %d, content type %q, %s", response.StatusCode, got, text)
	}
	ended := make(chan struct{})
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		defer close(s.events)
		for event, err := range sse.Read(response.Body, nil) {
			if err != nil {
				if ctx.Err() == nil && !c.broken(err) {
					c.t.Errorf("stream: %v", err)
				}
				return
			}
			s.events <- event
		}
	}()
	return s
}

// broken reports whether a stream's error is that the test cut all connections.
func (c *client) broken(err error) bool { return strings.Contains(err.Error(), "connection reset") }

// next returns the next event.
func (s *stream) next() sse.Event {
	s.t.Helper()
	select {
	case event, ok := <-s.events:
		if !ok {
			s.t.Fatal("the stream has ended")
		}
		return event
	case <-time.After(patience):
		s.t.Fatal("no event")
	}
	return sse.Event{}
}

// ended waits until the stream has ended without any more events.
func (s *stream) ended() {
	s.t.Helper()
	select {
	case event, ok := <-s.events:
		if ok {
			s.t.Fatalf("an event before the end: %s", event.Data)
		}
	case <-time.After(patience):
		s.t.Fatal("the stream does not end")
	}
}

// changed waits for a list_changed.
func (s *stream) changed() sse.Event {
	s.t.Helper()
	event := s.next()
	if !strings.Contains(event.Data, `"notifications/prompts/list_changed"`) {
		s.t.Fatalf("got %q, want list_changed", event.Data)
	}
	return event
}

// silent fails if anything was said up to now.
func (s *stream) silent() {
	s.t.Helper()
	select {
	case event := <-s.events:
		s.t.Fatalf("said without need: %s", event.Data)
	default:
	}
}

// callRaw is call for params that no schema allows.
func (c *client) callRaw(method, params string) answer {
	c.t.Helper()
	body, h := c.envelope("1", method, params)
	return send(c.t, http.MethodPost, c.url, body, h)
}
