package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

// pipes is a client at the other end of ServeStdio, line by line.
type pipes struct {
	t     testing.TB
	in    *io.PipeWriter
	lines chan string
	// ended has what ServeStdio returned.
	ended chan error
	stop  context.CancelFunc
}

// anybody is who calls where there is no auth block.
func anybody() policy.Principal {
	return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}
}

// stdio serves a client as a principal, such as "user:ann".
func (s *server) stdio(as string) *pipes {
	s.t.Helper()
	who := anybody()
	if as != "" {
		var err error
		if who, err = identity.ParsePrincipal(as); err != nil {
			s.t.Fatal(err)
		}
	}
	in, inWriter := io.Pipe()
	outReader, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipes{t: s.t, in: inWriter, lines: make(chan string, 100), ended: make(chan error, 1), stop: cancel}
	go func() {
		err := s.ServeStdio(ctx, identity.Vouched(who), in, out)
		_ = out.Close()
		p.ended <- err
	}()
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(outReader); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		_ = inWriter.Close()
	})
	return p
}

func (p *pipes) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipes) next() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatal("the output has ended")
		}
		return line
	case <-time.After(patience):
		p.t.Fatal("no line")
	}
	return ""
}

// expect waits for a line with all of the parts in it.
func (p *pipes) expect(parts ...string) string {
	p.t.Helper()
	line := p.next()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			p.t.Fatalf("got %s, want %s in it", line, part)
		}
	}
	return line
}

func (p *pipes) request(id, method, params string) {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// over waits for ServeStdio's return.
func (p *pipes) over() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("ServeStdio: %v", err)
		}
	case <-time.After(patience):
		p.t.Fatal("ServeStdio does not return")
	}
}

func TestStdioOfTheLegacyEra(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	for _, revision := range legacyRevisions {
		c := s.stdio("")
		c.request(`0`, "prompts/list", ``)
		c.expect(`"id":0`, `"code":-32600`)
		c.request(`0`, "ping", ``)
		c.expect(`{"jsonrpc":"2.0","id":0,"result":{}}`)
		c.request(`"i"`, "initialize", `"protocolVersion":"`+revision+`"`)
		conform(t, revision, "initialize", c.expect(`"id":"i"`, `"protocolVersion":"`+revision+`"`))
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.request(`-1`, "prompts/list", ``)
		conform(t, revision, "prompts/list", c.expect(`"id":-1`, `"name":"p.a"`))
		c.request(`9007199254740993`, "prompts/get", `"name":"p.a"`)
		c.expect(`"id":9007199254740993,`, "from p")
		c.request(`1.5`, "ping", ``)
		c.expect(`"id":1.5,`)
		c.request(`2`, "tools/list", ``)
		c.expect(`{"tools":[]}`)
		c.request(`3`, "no/such", ``)
		c.expect(`"id":3`, `-32601`)
		p.watched().offer("a", "b")
		if diff := cmp.Diff(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`, c.next()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		c.request(`4`, "prompts/list", ``)
		c.expect(`"name":"p.b"`)
		_ = c.in.Close()
		c.over()
		p.offer("a")
		eventually(t, "the list is as before", func() bool { return len(s.modern("").list()) == 1 })
	}
}

func TestStdioOfTheModernEra(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	c := s.stdio("")
	c.request(`1`, "server/discover", meta)
	conform(t, latest, "server/discover", c.expect(`"id":1`, `"supportedVersions":["2026-07-28"`))
	c.request(`2`, "prompts/list", strings.Replace(meta, latest, "2027-01-01", 1))
	c.expect(`"id":2`, `"code":-32022`, `"requested":"2027-01-01"`)
	c.request(`3`, "prompts/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
	c.expect(`"id":3`, `"code":-32602`)
	c.request(`4`, "tools/list", meta)
	c.expect(`"id":4`, `"code":-32601`)
	c.request(`5`, "subscriptions/listen", meta)
	c.expect(`"id":5`, `"code":-32602`)

	const all = `"notifications":{"promptsListChanged":true},` + meta
	c.request(`7`, "subscriptions/listen", all)
	c.expect(`subscriptions/acknowledged`, `"promptsListChanged":true`, `"io.modelcontextprotocol/subscriptionId":7`)
	c.request(`"7"`, "subscriptions/listen", all)
	c.expect(`subscriptions/acknowledged`, `"io.modelcontextprotocol/subscriptionId":"7"`)
	p.watched().offer("a", "b")
	both := c.next() + c.next()
	for _, id := range []string{`7`, `"7"`} {
		if want := `list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`; strings.Count(both, want) != 1 {
			t.Errorf("got %s, want %s once", both, want)
		}
	}
	// The first is cancelled, the second goes on.
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	c.request(`7`, "prompts/list", meta)
	for line := c.next(); strings.Contains(line, "in use"); line = c.next() {
		c.request(`7`, "prompts/list", meta) // the end of the first is not ordered with what follows
	}
	p.offer("a", "c")
	c.expect(`list_changed`, `"io.modelcontextprotocol/subscriptionId":"7"`)
	s.Drain()
	conform(t, latest, "subscriptions/listen", c.expect(`"id":"7","result":{"resultType":"complete"`, `"io.modelcontextprotocol/subscriptionId":"7"`))
	c.stop()
	c.over()
	if line, ok := <-c.lines; ok {
		t.Errorf("said at the end: %s", line)
	}
}

func TestStdioEndsSubscriptionsInAnOrderlyWay(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "p", "a")))
	for name, end := range map[string]func(*pipes){
		"the input ends": func(c *pipes) { _ = c.in.Close() },
		"ctx ends":       func(c *pipes) { c.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			c := s.stdio("")
			c.request(`1`, "subscriptions/listen", `"notifications":{},`+meta)
			c.expect("acknowledged", `"notifications":{}`)
			end(c)
			c.expect(`"id":1,"result":`)
			c.over()
		})
	}
}

func TestStdioIsReadStrictly(t *testing.T) {
	c := serve(t, ``).stdio("")
	c.send(`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`)
	c.expect(`"code":-32700`)
	c.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	c.expect(`"code":-32600`)
	c.send(``)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`)
	c.expect(`too large`)
	c.send("\t" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r")
	c.expect(`"result":{}`)
	c.send(`{"jsonrpc":"2.0","id":5,"result":{}}`) // an answer to nothing
	c.request(`2`, "ping", ``)
	c.expect(`"id":2`)
}

func TestStdioCancels(t *testing.T) {
	p := newPeer(t, "p", "a")
	p.settings = `timeout = "60s"`
	s := serve(t, team("eng", "", "", p))
	entered, gone := hold(p)
	c := s.stdio("")
	c.request(`"x"`, "prompts/get", `"name":"p.a",`+meta)
	<-entered
	c.request(`"x"`, "prompts/list", meta)
	c.expect("in use")
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"y"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
	<-gone
	c.request(`1`, "ping", meta)
	c.expect(`"id":1`) // and nothing about x before
	c.request(`2`, "prompts/get", `"name":"p.a",`+meta)
	<-entered
	c.stop()
	<-gone
	c.over()
}

func TestStdioAnswersWhatWasAskedBeforeTheInputEnded(t *testing.T) {
	p := newPeer(t, "p", "a")
	c := serve(t, team("eng", "", "", p)).stdio("")
	release := make(chan struct{})
	p.intercept(func(_ http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			<-release
		}
		return false
	})
	c.request(`1`, "prompts/get", `"name":"p.a",`+meta)
	_ = c.in.Close()
	close(release)
	c.expect(`"id":1`, "from p")
	c.over()
}

func TestStdioIsWhoItIs(t *testing.T) {
	s, _, _ := twoTeams(t, "auth {\n"+token("ann", "payments")+token("bob")+"}")
	for as, want := range map[string]int{"user:bob": 2, "user:zoe,group:payments": 2, "user:zoe": 1} {
		c := s.stdio(as)
		c.request(`1`, "prompts/list", meta)
		if got := strings.Count(c.next(), `"name":"billing`) + strings.Count(as, "bob"); got != want {
			t.Errorf("%s sees %d prompts, want %d", as, got, want)
		}
	}
}

// stuck is a client that never reads, broken one that has gone.
type (
	stuck  struct{ release chan struct{} }
	broken struct{}
)

func (s stuck) Write([]byte) (int, error) {
	<-s.release
	return 0, io.ErrClosedPipe
}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestStdioDoesNotHangOnAClientThatDoesNotRead(t *testing.T) {
	s := serve(t, ``)
	who := anybody()
	in, client := io.Pipe()
	defer client.Close()
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(ctx, identity.Vouched(who), in, stuck{release}) }()
	for range 3 { // the writer is stuck with the first, the reader with the second
		go io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") //nolint:errcheck // it may stay unread
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}

	in, client = io.Pipe()
	defer client.Close()
	go func() { ended <- s.ServeStdio(t.Context(), identity.Vouched(who), in, broken{}) }()
	if _, err := io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ServeStdio with a client that has gone: %v, want its error", err)
	}
}
