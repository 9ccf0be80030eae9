package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
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
	t.Parallel()
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

// unreadStdio opens a client for ann that does not read. Get sends a get of p.a, and leave gives up the connection.
func unreadStdio(t *testing.T, s *gatewaytest.Server) (get, leave func()) {
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
	leave = sync.OnceFunc(func() {
		_ = unread.Close()
		cancel()
		<-ended
	})
	t.Cleanup(leave)
	id := 0
	return func() {
		id++
		if _, err := fmt.Fprintf(send, `{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"p.a",%s}}`+"\n", id, gatewaytest.Meta); err != nil {
			t.Fatal(err)
		}
	}, leave
}

// A response that its client does not read counts against its principal's limit.
func TestLimit_CountsARequestUntilItsResponseIsWritten(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, ofAnn("limit { concurrency = 2 }", p))
	ann := s.Modern("ann")
	get, leave := unreadStdio(t, s)
	get()
	get()
	upstreamtest.Eventually(t, "both gets are answered", func() bool { return len(p.Calls("prompts/get")) == 2 })
	for range 100 { // each takes longer than the gateway does to finish the first two
		ann.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"reason":"rate_limited"`)
	}
	s.Modern("bob").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, "from p")
	leave()
	upstreamtest.Eventually(t, "the limit is free again", func() bool {
		return strings.Contains(ann.Call("prompts/get", gatewaytest.GetParams("p.a")).Body, "from p")
	})
}

// What a principal does not read is bounded in bytes, too, and costs no one else.
func TestMaxBuffered_BoundsWhatAPrincipalDoesNotRead(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Answer("prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"`+strings.Repeat("x", size)+`"}}]}`)
	// A principal may hold 16 MiB, and of one upstream 12 MiB.
	s := gatewaytest.Serve(t, "gateway { max_buffered = 64 * 1024 * 1024 }\n"+ofAnn("", p))
	ann, bob := s.Modern("ann"), s.Modern("bob")
	get, leave := unreadStdio(t, s)
	for range 8 {
		get()
	}
	call := func(c *gatewaytest.Client) string { return c.Call("prompts/get", gatewaytest.GetParams("p.a")).Body }
	// The system takes some of what is written, so that one more may fit at any time.
	isFull := func() bool {
		get()
		return strings.Contains(call(ann), `"code":-32603,"message":"Too many bytes are unread: read the responses before you send more","data":{"reason":"overloaded","retryAfterMs":1000}`)
	}
	upstreamtest.Eventually(t, "ann's responses do not fit any more", isFull)
	if got := call(bob); !strings.Contains(got, "xxx") {
		t.Errorf("bob gets %.300s, want the result", got)
	}
	upstreamtest.Eventually(t, "ann's responses still do not fit", isFull)
	if got := len(ann.List()); got != 1 { // which is small
		t.Errorf("ann sees %d prompts, want 1", got)
	}
	leave()
	upstreamtest.Eventually(t, "ann's responses fit again", func() bool { return strings.Contains(call(ann), "xxx") })
}
