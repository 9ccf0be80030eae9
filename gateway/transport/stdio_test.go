package transport_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// opened is a client whose connection is its session.
type opened struct {
	*gatewaytest.Duplex

	// leave gives up the connection, after which nothing more may arrive.
	leave func()
}

// openDuplex opens a client of each transport on which messages travel over one connection.
func openDuplex(s *gatewaytest.Server) map[string]func() opened {
	return map[string]func() opened{
		"stdio": func() opened {
			c := s.Stdio("")
			return opened{c.Duplex, func() {
				c.Stop()
				c.WantEnd()
			}}
		},
		"HTTP+SSE": func() opened {
			c := s.SSE("")
			return opened{c.Duplex, func() {
				c.WantSilence()
				c.Close()
			}}
		},
	}
}

func TestConnection_CancelsRequests(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Settings = `timeout = "60s"`
	s := gatewaytest.Serve(t, "gateway { drain_timeout = \"10ms\" }\n"+gatewaytest.Team("eng", "", "", p))
	entered, gone := p.HoldGets()
	for _, open := range openDuplex(s) {
		c := open()
		c.Request(`"i"`, "initialize", `"protocolVersion":"2025-03-26"`)
		c.WantMessage(`"id":"i"`)
		c.Request(`"x"`, "prompts/get", `"name":"p.a"`)
		<-entered
		c.Request(`"x"`, "prompts/list", ``)
		c.WantMessage("in use")
		c.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"y"}}`)
		c.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
		<-gone
		c.Request(`1`, "ping", ``)
		c.WantMessage(`"id":1`) // and before it no response to x
		c.Request(`2`, "prompts/get", `"name":"p.a"`)
		<-entered
		c.leave() // which cancels what it has in flight
		<-gone
	}
}

func TestStdio_ServesTheModernEra(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	c := s.Stdio("")
	c.Request(`0`, "prompts/list", "")
	c.WantMessage(`"id":0`, "Begin with initialize, or send _meta with")
	c.Request(`1`, "server/discover", gatewaytest.Meta)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "server/discover", c.WantMessage(`"id":1`, `"supportedVersions":["2026-07-28"`))
	c.Request(`2`, "prompts/list", strings.Replace(gatewaytest.Meta, gatewaytest.Latest, "2027-01-01", 1))
	c.WantMessage(`"id":2`, `"code":-32022`, `"requested":"2027-01-01"`)
	c.Request(`3`, "prompts/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
	c.WantMessage(`"id":3`, `"code":-32602`)
	c.Request(`4`, "tools/list", gatewaytest.Meta)
	c.WantMessage(`"id":4`, `"code":-32601`)
	c.Request(`5`, "subscriptions/listen", gatewaytest.Meta)
	c.WantMessage(`"id":5`, `"code":-32602`)

	const all = `"notifications":{"promptsListChanged":true},` + gatewaytest.Meta
	c.Request(`7`, "subscriptions/listen", all)
	c.WantMessage(`subscriptions/acknowledged`, `"promptsListChanged":true`, `"io.modelcontextprotocol/subscriptionId":7`)
	c.Request(`"7"`, "subscriptions/listen", all)
	c.WantMessage(`subscriptions/acknowledged`, `"io.modelcontextprotocol/subscriptionId":"7"`)
	p.AwaitStream().Offer("a", "b")
	both := c.Next() + c.Next()
	for _, id := range []string{`7`, `"7"`} {
		if want := `list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`; strings.Count(both, want) != 1 {
			t.Errorf("got %s, want %s once", both, want)
		}
	}
	// Cancelling the first subscription does not end the second.
	c.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	c.Request(`7`, "prompts/list", gatewaytest.Meta)
	for line := c.Next(); strings.Contains(line, "in use"); line = c.Next() {
		c.Request(`7`, "prompts/list", gatewaytest.Meta) // the first may end after this request is read
	}
	p.Offer("a", "c")
	c.WantMessage(`list_changed`, `"io.modelcontextprotocol/subscriptionId":"7"`)
	s.Drain()
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "subscriptions/listen", c.WantMessage(`"id":"7","result":{"resultType":"complete"`, `"io.modelcontextprotocol/subscriptionId":"7"`))
	c.Stop()
	c.WantEnd()
	if line, ok := <-c.Lines; ok {
		t.Errorf("a line after the end: %s", line)
	}
}

func TestStdio_ClosingResultFreesItsID(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	s.Drain() // ends each subscription at once
	c := s.Stdio("")
	listen, _ := s.Modern("").Encode("1", "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`)
	for range 100 { // each would find the id in use only if it is faster than the end of the one before
		c.Send(listen)
		c.WantMessage("notifications/subscriptions/acknowledged")
		c.WantMessage(`"id":1`, `"result"`)
	}
}

func TestStdio_ReadsMessagesStrictly(t *testing.T) {
	c := gatewaytest.Serve(t, ``).Stdio("")
	c.Send(`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`)
	c.WantMessage(`"code":-32700`)
	c.Send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	c.WantMessage(`"code":-32600`)
	c.Send(``)
	c.Send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`)
	c.WantMessage(`too large`)
	c.Send("\t" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r")
	c.WantMessage(`"result":{}`)
	c.Send(`{"jsonrpc":"2.0","id":5,"result":{}}`) // a reply to no server request
	c.Request(`2`, "ping", ``)
	c.WantMessage(`"id":2`)
}

// The server learns why its client cancelled, also while a get of the modern era runs apart from its request.
func TestCancel_PassesTheReasonOn(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Settings = `timeout = "60s"`
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	entered, gone := p.HoldGets()
	eliciting := strings.Replace(gatewaytest.Meta, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
	long := strings.Repeat("ä", 1000)
	for i, test := range []struct{ meta, reason, want string }{
		{gatewaytest.Meta, `,"reason":"the user pressed Esc"`, `"the user pressed Esc"`},
		{eliciting, `,"reason":"the user pressed Esc"`, `"the user pressed Esc"`},
		{gatewaytest.Meta, `,"reason":7`, `"the caller gave up"`},
		{gatewaytest.Meta, `,"reason":"x` + long + `"`, `"x` + long[:1022] + `…"`}, // 1024 bytes end within a character
		{gatewaytest.Meta, ``, `"the caller gave up"`},
	} {
		c := s.Stdio("")
		c.Request(`"x"`, "prompts/get", `"name":"p.a",`+test.meta)
		<-entered
		c.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"` + test.reason + `}}`)
		<-gone
		upstreamtest.Eventually(t, "the upstream was notified", func() bool { return len(p.Calls("notifications/cancelled")) == i+1 })
		if got := string(p.Calls("notifications/cancelled")[i].Params); !strings.Contains(got, `"reason":`+test.want+`}`) {
			t.Errorf("with %.50s and %.50s the server is told %s, want %s", test.meta, test.reason, got, test.want)
		}
	}
}

func TestStdio_AnswersRequestsBeforeTheEndOfInput(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Stdio("")
	_, release := p.PauseGets()
	c.Request(`1`, "prompts/get", `"name":"p.a",`+gatewaytest.Meta)
	_ = c.In.Close()
	release()
	c.WantMessage(`"id":1`, "from p")
	c.WantEnd()
}

func TestStdio_SeesAsItsPrincipal(t *testing.T) {
	s, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	for as, want := range map[string]int{"user:bob": 2, "user:zoe,group:payments": 2, "user:zoe": 1} {
		c := s.Stdio(as)
		c.Request(`1`, "prompts/list", gatewaytest.Meta)
		upstreamtest.Equal(t, want, strings.Count(c.Next(), `"name":"billing`)+strings.Count(as, "bob"),
			"prompts of %s", as)
	}
}

// stuck is a client that never reads, and broken is one that has gone.
type (
	stuck  struct{ release chan struct{} }
	broken struct{}
)

func (s stuck) Write([]byte) (int, error) {
	<-s.release
	return 0, io.ErrClosedPipe
}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestStdio_EndsThoughItsClientDoesNotRead(t *testing.T) {
	s := gatewaytest.Serve(t, `gateway { drain_timeout = "10ms" }`)
	who := gatewaytest.Anybody()
	in, client := io.Pipe()
	defer client.Close()
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(ctx, identity.Vouched(who), in, stuck{release}) }()
	for range 3 { // the writer blocks on the first response, the reader on the second
		go io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") //nolint:errcheck // the gateway may not read it
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
		t.Errorf("ServeStdio with a client that has gone: %v, want the error of the pipe", err)
	}
}
