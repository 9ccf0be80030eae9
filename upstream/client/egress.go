package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http/httpproxy"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client/http1"
)

// maxConnectResponse bounds the proxy's response to CONNECT, in bytes.
const maxConnectResponse = 64 << 10

// dial connects to the host of a URL, or to the proxy that the environment configures for it
// (HTTPS_PROXY, HTTP_PROXY and NO_PROXY). grant is the kind of permission that the team has for the host. Addresses of
// this machine are dialed without a proxy.
//
// The dial guard does not see the connection from the proxy to the server. So dial resolves the host name, and the guard
// checks the addresses. The proxy receives a checked address. It receives a host name only if the team may use all
// hosts, or was granted this host without a wildcard.
func dial(ctx context.Context, target *url.URL, grant config.HostGrant, guard func(address string) error) (*http1.Link, error) {
	address, err := httpguts.PunycodeHostPort(hostPort(target))
	if err != nil {
		return nil, err
	}
	direct := func() (*http1.Link, error) {
		conn, err := newDialer(guard).DialContext(ctx, "tcp", address)
		return &http1.Link{Conn: conn}, withoutURL(err)
	}
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(target)
	switch isPlain := target.Scheme == "http"; {
	// For plain HTTP, a proxy would resolve the host name itself, unseen by the guard.
	case config.IsLoopback(strings.TrimSuffix(target.Hostname(), ".")), err == nil && proxy == nil, isPlain && grant == config.HostByPattern:
		return direct()
	case err != nil || proxy.Scheme != "http" && proxy.Scheme != "https":
		// The URL may contain a password.
		return nil, &proxyError{"in HTTPS_PROXY or HTTP_PROXY", errors.New("it is not the URL of an http or https proxy")}
	}
	through, err := route(ctx, address, grant, guard)
	switch {
	case err != nil:
		return nil, withoutURL(err)
	case through == "":
		return direct()
	case target.Scheme == "http":
		through = ""
	}
	link, err := connectVia(ctx, proxy, through)
	if err == nil && through == "" {
		link.Origin = "http://" + target.Host
		if authorization := basicAuth(proxy); authorization != "" {
			link.Fields.Add("Proxy-Authorization", authorization)
		}
	}
	return link, err
}

// route returns the address to request from the proxy. It returns "" if the host is on this machine, for a direct dial.
func route(ctx context.Context, address string, grant config.HostGrant, guard func(address string) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		if grant == config.HostByPattern {
			return "", err
		}
		return address, nil // in many networks only the proxy can resolve external names
	}
	local := false
	for i := range ips {
		ip := ips[i].Unmap()
		if guard != nil {
			if err := guard(net.JoinHostPort(ip.String(), port)); err != nil {
				return "", &guardError{err}
			}
		}
		local = local || ip.IsLoopback() || ip.IsUnspecified()
	}
	switch {
	case local:
		return "", nil
	case grant == config.HostByName:
		return address, nil
	}
	return net.JoinHostPort(ips[0].Unmap().String(), port), nil
}

// connectVia returns a connection to the proxy. If through is not empty, the connection leads
// through the proxy to that address.
func connectVia(ctx context.Context, proxy *url.URL, through string) (*http1.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout) // twice, because it also covers the proxy's own connection to the server
	defer cancel()
	dialed, err := newDialer(nil).DialContext(ctx, "tcp", hostPort(proxy))
	if err != nil {
		return nil, &proxyError{hostPort(proxy), withoutURL(err)}
	}
	stop := context.AfterFunc(ctx, func() { _ = dialed.Close() })
	conn := dialed
	if proxy.Scheme == "https" {
		secured := tls.Client(dialed, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12})
		conn, err = secured, secured.HandshakeContext(ctx)
	}
	if err == nil && through != "" {
		err = askFor(conn, proxy, through)
	}
	if !stop() { // the context's error explains more than the closed connection
		err = ctx.Err()
	}
	if err != nil {
		_ = dialed.Close()
		return nil, &proxyError{hostPort(proxy), err}
	}
	return &http1.Link{Conn: conn}, nil
}

// basicAuth returns the value of Proxy-Authorization, or "" if the proxy's URL has no credential.
func basicAuth(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// askFor makes the proxy connect to an address (RFC 9110, section 9.3.6).
func askFor(conn net.Conn, proxy *url.URL, address string) error {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if authorization := basicAuth(proxy); authorization != "" {
		request.Header.Set("Proxy-Authorization", authorization)
	}
	if err := request.Write(conn); err != nil {
		return err
	}
	read := bufio.NewReader(io.LimitReader(conn, maxConnectResponse))
	response, err := http.ReadResponse(read, request) //nolint:bodyclose // the body is the connection, which the caller closes or uses
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("HTTP %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	case read.Buffered() > 0:
		return errors.New("it speaks before the server could")
	}
	return nil
}

// proxyError is the failure of an egress proxy, not of the server behind it.
type proxyError struct {
	proxy string
	cause error
}

func (e *proxyError) Error() string { return "egress proxy " + e.proxy + ": " + e.cause.Error() }

func (e *proxyError) Unwrap() error { return e.cause }
