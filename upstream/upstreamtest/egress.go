package upstreamtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Proxy is the proxy by which a network is left: CONNECT for https, and absolute URLs for http. It connects to the servers
// of a test under the names and addresses that they claim.
type Proxy struct {
	// URL has the proxy's credential.
	URL string

	mu     sync.Mutex // guards what follows
	routes map[string]string
	asked  []string
	status int
}

// NewProxy starts a proxy.
func NewProxy(tb testing.TB) *Proxy {
	p := &Proxy{routes: map[string]string{}}
	server := httptest.NewServer(p)
	tb.Cleanup(server.Close)
	p.URL = "http://weir:hunter2@" + server.Listener.Addr().String()
	return p
}

// Route has the proxy connect to a server for an address of the form HOST:PORT.
func (p *Proxy) Route(address, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[address] = to
}

// Answer makes the proxy respond to all requests with a status; 0 ends that.
func (p *Proxy) Answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// Asked returns what the proxy was asked for since the last call, each once: "CONNECT HOST:PORT" or "plain HOST:PORT".
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	slices.Sort(asked)
	return slices.Compact(asked)
}

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, address := "plain ", r.Host
	if r.Method == http.MethodConnect {
		kind = "CONNECT "
	} else if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "80")
	}
	p.mu.Lock()
	p.asked = append(p.asked, kind+address)
	to, status := p.routes[address], p.status
	p.mu.Unlock()
	user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	switch {
	case user != "weir" || password != "hunter2":
		status = http.StatusProxyAuthRequired
	case to == "" && status == 0:
		status = http.StatusBadGateway
	}
	switch {
	case status != 0:
		w.WriteHeader(status)
	case r.Method == http.MethodConnect:
		tunnel(w, r, to)
	default:
		(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Host, p.Out.Host = to, p.In.Host }}).ServeHTTP(w, r)
	}
}

func tunnel(w http.ResponseWriter, r *http.Request, to string) {
	server, err := new(net.Dialer).DialContext(r.Context(), "tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered) // ends with the connection
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// Resolve makes names resolve to addresses of IPv4, and all others to nothing, until the test ends. The test must not run
// beside others.
func Resolve(tb testing.TB, names map[string]string) {
	tb.Helper()
	server, err := new(net.ListenConfig).ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		buffer := make([]byte, 1<<12)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if response := resolve(buffer[:n], names); response != nil {
				_, _ = server.WriteTo(response, from)
			}
		}
	})
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	tb.Cleanup(func() {
		net.DefaultResolver = before
		_ = server.Close()
		served.Wait()
	})
}

// resolve returns the response to a query; nil if it is none.
func resolve(query []byte, names map[string]string) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	question := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	address, known := names[question.Name.String()[:len(question.Name.String())-1]]
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
		}}
	}
	response, _ := m.Pack() // it was unpacked
	return response
}
