package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestHTTP_NegotiatesContentTypes(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	c := s.Legacy("2025-11-25", "")
	status := func(want int, h ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodPost, c.URL, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(append(gatewaytest.Headers{}, c.Headers...), h...)).Want(t, want)
	}
	status(http.StatusOK)
	status(http.StatusOK, "Content-Type", "application/json; charset=utf-8")
	status(http.StatusOK, "Content-Type", "Application/JSON")
	status(http.StatusUnsupportedMediaType, "Content-Type", "text/plain")
	status(http.StatusUnsupportedMediaType, "Content-Type", "-")
	status(http.StatusUnsupportedMediaType, "Content-Type", "application/jsonp")
	status(http.StatusNotAcceptable, "Accept", "application/json")
	status(http.StatusNotAcceptable, "Accept", "text/event-stream")
	status(http.StatusNotAcceptable, "Accept", "text/html")
	status(http.StatusOK, "Accept", "*/*")
	status(http.StatusOK, "Accept", "TEXT/*;q=0.5, application/json;q=0.9")
}

func TestHTTP_ChecksHostAndOrigin(t *testing.T) {
	s := gatewaytest.Serve(t, `gateway {
  public_url      = "https://prompts.example.com"
  allowed_hosts   = ["weir.internal"]
  allowed_origins = ["https://app.example.com"]
}`)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		status := func(forbidden bool, h ...string) {
			t.Helper()
			a := gatewaytest.Send(t, method, s.URL, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, h)
			upstreamtest.Equal(t, forbidden, a.Status == http.StatusForbidden, "%s with %q is forbidden, status %d", method, h, a.Status)
		}
		status(false)
		status(true, "Host", "evil.example.com")
		status(true, "Origin", "http://evil.example.com")
		status(true, "Origin", "null")
		status(true, "Origin", "http://127.0.0.1.evil.example.com")
		status(true, "Host", "localhost.evil.example.com:8080")
		status(true, "Host", "evil.example.com", "Origin", "http://localhost")
		status(false, "Host", "localhost:1")
		status(false, "Host", "[::1]:8080")
		status(false, "Host", "PROMPTS.example.com")
		status(false, "Host", "weir.internal:443")
		status(false, "Origin", "http://localhost:3000")
		status(false, "Origin", "https://prompts.example.com")
		status(false, "Origin", "https://app.example.com")
		status(true, "Origin", "https://app.example.com.evil.com")
		status(true, "Origin", "http://app.example.com")
	}
}

// A request may name the address that it arrived at as its host: unlike a name, nobody can make an address point elsewhere.
func TestHTTP_ServesItsPathAtItsOwnAddress(t *testing.T) {
	g, err := gateway.New(gatewaytest.Load(t, `gateway { path = "/prompts" }`), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{
		"http://192.0.2.7:8080/prompts": http.StatusUnsupportedMediaType, "http://192.0.2.8:8080/prompts": http.StatusForbidden,
		"http://localhost/prompts/": http.StatusUnsupportedMediaType, "http://localhost/mcp": http.StatusNotFound, "http://localhost/prompts/x": http.StatusNotFound,
	} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 8080})
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, url, nil))
		upstreamtest.Equal(t, want, w.Code, "%s: status", url)
	}
}

// timeout is how long [serveOverPipes] lets a request take to arrive, and a response to be written.
const timeout = 500 * time.Millisecond

// overPipes is a gateway to which clients connect by pipes, and the certificate that they have, if any.
type overPipes struct {
	*gateway.Gateway

	t           *testing.T
	listener    *bubble.Listener
	client      *http.Client
	certificate *x509.Certificate
}

// serveOverPipes serves a gateway with an upstream that has not started, which the first requests wait for.
func serveOverPipes(t *testing.T, p *gatewaytest.Peer, auth *config.Auth) *overPipes {
	t.Helper()
	cfg := gatewaytest.Load(t, gatewaytest.Team("eng", "", "", p))
	cfg.Auth = auth
	g, err := gateway.New(cfg, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &overPipes{Gateway: g, t: t, listener: bubble.NewListener()}
	dial := func(context.Context, string, string) (net.Conn, error) { return s.listener.Connect() }
	s.client = &http.Client{Transport: &http.Transport{DialContext: dial}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.certificate != nil {
			r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{s.certificate}}}
		}
		g.Handler().ServeHTTP(w, r)
	})
	server := &http.Server{Handler: handler, ReadTimeout: timeout, WriteTimeout: timeout}
	go func() { _ = server.Serve(edge.New(edge.Options{}).Listen(server, s.listener, nil)) }()
	t.Cleanup(func() {
		g.Drain()
		_ = server.Close()
		time.Sleep(time.Second) // the server closes a connection half a second after a request that did not arrive, and the bubble waits for it
	})
	return s
}

func (s *overPipes) send(method, path, body string, h gatewaytest.Headers) (http.Header, *bufio.Reader) {
	response, err := s.client.Do(gatewaytest.NewRequest(s.t.Context(), s.t, method, "http://localhost"+path, body, h))
	if err != nil {
		s.t.Error(err)
		return nil, bufio.NewReader(http.NoBody)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	return response.Header, bufio.NewReader(response.Body)
}

// begin opens a legacy session.
func (s *overPipes) begin(revision string) *gatewaytest.Client {
	c := &gatewaytest.Client{TB: s.t, Revision: revision}
	initialize, _ := c.Encode("1", "initialize", gatewaytest.InitializeParams(c.Revision))
	initialized, _ := s.send(http.MethodPost, "/mcp", initialize, nil)
	c.Headers = gatewaytest.Headers{"Mcp-Session-Id", initialized.Get("Mcp-Session-Id")}
	return c
}

func TestHTTP_ReadTimeoutBoundsTheArrivalOfARequest(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "p")
	bubble.Test(t, func(t *testing.T) {
		half, _ := serveOverPipes(t, p, nil).listener.Connect()
		defer half.Close()
		begun := time.Now()
		if _, err := half.Write([]byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 1000)
		n, err := half.Read(answer)
		if err != nil || !strings.Contains(string(answer[:n]), "did not arrive in full") {
			t.Errorf("half of a request: got %q, %v, want that it did not arrive in full", answer[:n], err)
		}
		upstreamtest.Equal(t, timeout, time.Since(begun), "it was answered after")
	})
}

// A proxy or a client that waits for the first byte of a stream has it at once.
func TestStream_SendsSomethingAtOnce(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "p")
	bubble.Test(t, func(t *testing.T) {
		s := serveOverPipes(t, p, nil)
		for _, revision := range gatewaytest.LegacyRevisions {
			_, stream := s.send(http.MethodGet, "/mcp", "", s.begin(revision).Headers)
			begun := time.Now()
			if _, err := stream.ReadByte(); err != nil || time.Since(begun) > 0 {
				t.Errorf("%s: the first byte after %v, %v", revision, time.Since(begun), err)
			}
		}
	})
}

// Gets and streams of each kind take longer than the server's timeouts.
func TestHTTP_TimeoutsDoNotBoundResponses(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "p")
	bubble.Test(t, func(t *testing.T) {
		s := serveOverPipes(t, p, nil)
		await := func(stream *bufio.Reader, part string) (line string) {
			t.Helper()
			for !strings.Contains(line, part) {
				var err error
				if line, err = stream.ReadString('\n'); err != nil {
					t.Fatalf("the stream has ended before %s: %v", part, err)
				}
			}
			return line
		}
		legacy, modern := s.begin("2025-11-25"), &gatewaytest.Client{TB: t, Revision: gatewaytest.Latest}

		begun := time.Now()
		var slow sync.WaitGroup
		for _, c := range []*gatewaytest.Client{legacy, modern} {
			get, h := c.Encode("1", "prompts/get", gatewaytest.GetParams("up.p"))
			slow.Go(func() {
				_, got := s.send(http.MethodPost, "/mcp", get, h)
				body, err := io.ReadAll(got)
				if err != nil || !strings.Contains(string(body), "Unknown prompt: up.p") {
					t.Errorf("%s: got %q, %v, want that the prompt is unknown", c.Revision, body, err)
				}
			})
		}
		_, old := s.send(http.MethodGet, "/mcp", "", legacy.Headers)
		listen, h := modern.Encode("2", "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`)
		_, subscription := s.send(http.MethodPost, "/mcp", listen, h)
		_, sse := s.send(http.MethodGet, "/sse", "", nil)
		endpoint := strings.TrimSpace(strings.TrimPrefix(await(sse, "data: "), "data: "))
		slow.Wait()
		if took := time.Since(begun); took < 3*timeout {
			t.Errorf("the responses took %v, want more than %v", took, 3*timeout)
		}
		time.Sleep(3 * timeout)
		initialize, _ := legacy.Encode("1", "initialize", gatewaytest.InitializeParams(legacy.Revision))
		s.send(http.MethodPost, endpoint, initialize, nil)
		await(sse, `"protocolVersion"`)
		gatewaytest.Run(t, s.Gateway)
		await(old, "list_changed")
		await(subscription, "list_changed")
	})
}
