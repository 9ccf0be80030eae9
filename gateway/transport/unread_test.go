package transport_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// maxInFlight is the bound that the gateway has for one connection.
const maxInFlight = 256

// heldPeer returns a peer whose gets wait until proceed is called.
func heldPeer(t *testing.T) (p *gatewaytest.Peer, proceed func()) {
	t.Helper()
	p = gatewaytest.NewPeer(t, "p", "a")
	p.Settings = `timeout = "60s"`
	_, proceed = p.PauseGets()
	return p, proceed
}

// A client that sends requests without waiting for their responses has a bounded number in flight; the rest is refused, and
// those in flight are answered.
func TestConnection_BoundsItsRequestsInFlight(t *testing.T) {
	const more = 44
	for _, name := range []string{"stdio", "HTTP+SSE"} {
		t.Run(name, func(t *testing.T) {
			p, proceed := heldPeer(t)
			c := openDuplex(gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)))[name]()
			c.Request(`"i"`, "initialize", `"protocolVersion":"2025-03-26"`)
			c.WantMessage(`"id":"i"`)
			for i := range maxInFlight {
				c.Request(strconv.Itoa(i), "prompts/get", `"name":"p.a"`)
			}
			for i := range more {
				c.Request(strconv.Itoa(maxInFlight+i), "prompts/get", `"name":"p.a"`)
				c.WantMessage(fmt.Sprintf(`"id":%d,`, maxInFlight+i), `"reason":"overloaded"`)
			}
			c.Request(`"p"`, "ping", "") // costs nothing
			c.WantMessage(`"id":"p","result"`)
			proceed()
			for range maxInFlight {
				c.WantMessage("from p")
			}
			c.Request(`"again"`, "prompts/get", `"name":"p.a"`)
			c.WantMessage(`"id":"again","result"`)
		})
	}
}

// What a request in flight keeps in memory is all of its message, of which its params may be the least.
func TestConnection_CountsWholeMessages(t *testing.T) {
	const most = 4 // in a quarter of max_buffered
	p, proceed := heldPeer(t)
	defer proceed()
	c := gatewaytest.Serve(t, `gateway { max_buffered = "16777216" }`+"\n"+ofAnn("", p)).SSESession("2025-03-26", "ann")
	blanks := strings.Repeat(" ", 1<<20-1000)
	for i := range most + 1 {
		c.Request(blanks+strconv.Itoa(i), "prompts/get", `"name":"p.a"`)
	}
	c.Request(`"p"`, "ping", "") // which is answered in any case
	if got := c.Next().Data; !strings.Contains(got, fmt.Sprintf(`"id":%d,`, most)) || !strings.Contains(got, `"reason":"overloaded"`) {
		t.Errorf("got %.200s, want that the gateway is overloaded", got)
	}
}

// ofAnn is a team with a member ann, who calls over HTTP with her token.
func ofAnn(more string, peers ...*gatewaytest.Peer) string {
	return "auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n" +
		gatewaytest.Team("eng", `"user:ann", "user:bob"`, more, peers...)
}

// unreader is a client that sends requests and reads no response.
type unreader struct {
	// get sends a get of p.a.
	get func()
	// leave gives up the connection.
	leave func()
}

// openUnread opens a client of each transport for ann, none of which reads what it is sent.
func openUnread() map[string]func(*testing.T, *gatewaytest.Server) unreader {
	return map[string]func(*testing.T, *gatewaytest.Server) unreader{
		"stdio": unreadStdio, "HTTP+SSE": unreadSSE, "HTTP/2": unreadHTTP2,
	}
}

func unreadStdio(t *testing.T, s *gatewaytest.Server) unreader {
	t.Helper()
	ann, err := identity.ParsePrincipal("user:ann")
	if err != nil {
		t.Fatal(err)
	}
	in, send := io.Pipe()
	unread, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.ServeStdio(ctx, identity.Vouched(ann), in, out)
	}()
	leave := sync.OnceFunc(func() {
		_ = unread.Close()
		cancel()
		<-ended
	})
	t.Cleanup(leave)
	id := 0
	return unreader{
		get: func() {
			id++
			if _, err := fmt.Fprintf(send, `{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"p.a",%s}}`+"\n", id, gatewaytest.Meta); err != nil {
				t.Fatal(err)
			}
		},
		leave: leave,
	}
}

// unreadSSE is a client that does not read its stream: the system takes a few MiB for it.
func unreadSSE(t *testing.T, s *gatewaytest.Server) unreader {
	t.Helper()
	headers := append(gatewaytest.Headers{"Accept", "*/*"}, gatewaytest.Bearer("ann")...)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := http.DefaultClient.Do(gatewaytest.NewRequest(ctx, t, http.MethodGet, s.SSEURL(), "", headers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Body.Close() })
	first := make([]byte, 200)
	n, err := stream.Body.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	_, query, ok := strings.Cut(strings.TrimSpace(string(first[:n])), "?")
	if !ok {
		t.Fatalf("the first event is %q, want the endpoint", first[:n])
	}
	id := 0
	request := func(method, params string) {
		id++
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
		gatewaytest.Send(t, http.MethodPost, s.SSEURL()+"?"+query, body, headers).Want(t, http.StatusAccepted)
	}
	request("initialize", gatewaytest.InitializeParams("2025-03-26"))
	return unreader{get: func() { request("prompts/get", `{"name":"p.a"}`) }, leave: cancel}
}

// unreadHTTP2 is a client whose streams have a window of 0.
func unreadHTTP2(t *testing.T, s *gatewaytest.Server) unreader {
	t.Helper()
	server := gatewaytest.NewUnstartedServer(s.Gateway)
	server.EnableHTTP2 = true
	server.StartTLS()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}} //nolint:gosec // a test
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	leave := sync.OnceFunc(func() { _ = conn.Close() })
	t.Cleanup(func() {
		leave()
		server.CloseClientConnections()
		server.Close()
	})
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for { // the server's settings come first
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			break
		}
	}
	if err := framer.WriteSettingsAck(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	stream := uint32(1)
	return unreader{get: func() { postHTTP2(t, framer, &stream, conn.RemoteAddr()) }, leave: leave}
}

// postHTTP2 sends a get of p.a for ann on the next stream.
func postHTTP2(t *testing.T, framer *http2.Framer, stream *uint32, address net.Addr) {
	t.Helper()
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: address.String()},
		{Name: ":path", Value: "/mcp"},
		{Name: "content-type", Value: "application/json"},
		{Name: "authorization", Value: "Bearer ann"},
		{Name: "mcp-protocol-version", Value: gatewaytest.Latest},
		{Name: "mcp-method", Value: "prompts/get"},
		{Name: "mcp-name", Value: "p.a"},
	} {
		if err := encoder.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	headers := http2.HeadersFrameParam{StreamID: *stream, BlockFragment: []byte(block.String()), EndHeaders: true}
	if err := framer.WriteHeaders(headers); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p.a",%s}}`, gatewaytest.Meta)
	if err := framer.WriteData(*stream, true, []byte(body)); err != nil {
		t.Fatal(err)
	}
	*stream += 2
}

// A response that its client does not read counts against its principal's limit, whatever it arrives by.
func TestLimit_CountsARequestUntilItsResponseIsWritten(t *testing.T) {
	transports := openUnread()
	delete(transports, "HTTP+SSE") // where the system takes small responses
	for name, open := range transports {
		t.Run(name, func(t *testing.T) {
			p := gatewaytest.NewPeer(t, "p", "a")
			s := gatewaytest.Serve(t, ofAnn("limit { concurrency = 2 }", p))
			ann := s.Modern("ann")
			client := open(t, s)
			client.get()
			client.get()
			upstreamtest.Eventually(t, "both gets are answered", func() bool { return len(p.Calls("prompts/get")) == 2 })
			for range 100 { // each takes longer than the gateway does to finish the first two
				ann.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"reason":"rate_limited"`)
			}
			s.Modern("bob").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, "from p")
			client.leave()
			upstreamtest.Eventually(t, "the limit is free again", func() bool {
				return strings.Contains(ann.Call("prompts/get", gatewaytest.GetParams("p.a")).Body, "from p")
			})
		})
	}
}

// What a principal does not read is bounded in bytes, too, and costs no one else.
func TestMaxBuffered_BoundsWhatAPrincipalDoesNotRead(t *testing.T) {
	const size = 3 << 20
	for name, open := range openUnread() {
		t.Run(name, func(t *testing.T) {
			p := gatewaytest.NewPeer(t, "p", "a")
			p.Answer("prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"`+strings.Repeat("x", size)+`"}}]}`)
			// A principal may hold 16 MiB, and of one upstream 12 MiB.
			s := gatewaytest.Serve(t, "gateway { max_buffered = 64 * 1024 * 1024 }\n"+ofAnn("", p))
			ann, bob := s.Modern("ann"), s.Modern("bob")
			client := open(t, s)
			for range 8 {
				client.get()
			}
			call := func(c *gatewaytest.Client) string { return c.Call("prompts/get", gatewaytest.GetParams("p.a")).Body }
			upstreamtest.Eventually(t, "ann's responses do not fit any more", func() bool {
				return strings.Contains(call(ann), `"code":-32603,"message":"Too many bytes are unread: read the responses before you send more","data":{"reason":"overloaded","retryAfterMs":1000}`)
			})
			if got := call(bob); !strings.Contains(got, "xxx") {
				t.Errorf("bob gets %.300s, want the result", got)
			}
			if got := call(ann); !strings.Contains(got, "overloaded") {
				t.Errorf("ann gets %.300s, want that it is still too much", got)
			}
			if got := len(ann.List()); got != 1 { // which is small
				t.Errorf("ann sees %d prompts, want 1", got)
			}
			client.leave()
			upstreamtest.Eventually(t, "ann's responses fit again", func() bool { return strings.Contains(call(ann), "xxx") })
		})
	}
}

// So is what a server has to say to it before the response.
func TestMaxBuffered_BoundsServerRequestsThatNobodyReads(t *testing.T) {
	const requests, most = 8, 4 // beside what a quarter holds, some are being sent
	p, left := gatewaytest.NewPeer(t, "p", "a"), make(chan struct{})
	p.OnGet(func(w http.ResponseWriter, r *http.Request, _ gatewaytest.Call) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range requests {
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"roots/list\",\"params\":{\"x\":%q}}\n\n", i, strings.Repeat("x", 1<<20-100))
		}
		_ = http.NewResponseController(w).Flush() // an error fails the test
		select {
		case <-left:
		case <-r.Context().Done():
		}
		return true
	})
	s := gatewaytest.Serve(t, "gateway { max_buffered = 8 * 1024 * 1024 }\n"+gatewaytest.Team("eng", "", "", p))
	in, send := io.Pipe()
	unread, out := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.ServeStdio(t.Context(), identity.Vouched(policy.Principal{Subject: "user:ann"}), in, out)
	}()
	defer func() {
		close(left)
		_, _ = unread.Close(), send.Close()
		<-ended
	}()
	_, _ = fmt.Fprintln(send, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}}}}`)
	if _, err := unread.Read(make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(send, `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p.a"}}`)
	upstreamtest.Eventually(t, "the server hears that most are not sent", func() bool { return len(p.Calls("")) >= requests-most })
	for _, reply := range p.Calls("") {
		if !strings.Contains(string(reply.Error), "The client does not read") {
			t.Errorf("the server received the reply %s%s, want an error", reply.Result, reply.Error)
		}
	}
	if got := s.Modern("").Call("prompts/list", "{}"); got.Status != http.StatusOK {
		t.Errorf("another client's list: %d %s", got.Status, got.Body)
	}
}
