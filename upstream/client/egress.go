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

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http/httpproxy"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client/http1"
)

// maxConnectResponse bounds the proxy's response to CONNECT, in bytes.
const maxConnectResponse = 64 << 10

// egress is the way to one address through the proxy that the environment names for it (HTTPS_PROXY, HTTP_PROXY and
// NO_PROXY). The dial guard sees no connection to the address itself. So names are resolved here, too, and the guard
// checks the addresses: a proxy that is asked for an address cannot reach another one. It is asked for a name only if
// the team may use all hosts, or was granted this one without a wildcard.
type egress struct {
	proxy *url.URL
	grant config.HostGrant
	guard func(address string) error
}

// dial connects to the host of a URL, which was granted so, or to the proxy for it. Addresses of this machine have
// no proxy.
func dial(ctx context.Context, target *url.URL, grant config.HostGrant, guard func(address string) error) (*http1.Link, error) {
	address, err := httpguts.PunycodeHostPort(hostPort(target))
	if err != nil {
		return nil, err
	}
	direct := func() (*http1.Link, error) {
		conn, err := newDialer(guard).DialContext(ctx, "tcp", address)
		return &http1.Link{Conn: conn}, withoutURL(err)
	}
	if config.IsLoopback(target.Hostname()) {
		return direct()
	}
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(target)
	switch isPlain := target.Scheme == "http"; {
	case err == nil && proxy == nil, isPlain && grant == config.HostByPattern: // a proxy for plain HTTP resolves the name itself
		return direct()
	case err != nil || proxy.Scheme != "http" && proxy.Scheme != "https":
		// Without the URL, which may hold a password.
		return nil, &proxyError{"in HTTPS_PROXY or HTTP_PROXY", errors.New("it is not the URL of an http or https proxy")}
	}
	e := &egress{proxy, grant, guard}
	through, err := e.route(ctx, address)
	switch {
	case err != nil:
		return nil, withoutURL(err)
	case through == "":
		return direct()
	case target.Scheme == "http":
		through = ""
	}
	link, err := e.connect(ctx, through)
	if err == nil && through == "" {
		link.Origin = "http://" + target.Host
		if authorization := e.authorization(); authorization != "" {
			link.Fields.Add("Proxy-Authorization", authorization)
		}
	}
	return link, err
}

// route returns what the proxy is asked for to reach a host and port; empty if they are to be dialed directly, since
// they are on this machine.
func (e *egress) route(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		if e.grant == config.HostByPattern {
			return "", err
		}
		return address, nil // many networks resolve outside names at the proxy only
	}
	local := false
	for i := range ips {
		ip := ips[i].Unmap()
		if e.guard != nil {
			if err := e.guard(net.JoinHostPort(ip.String(), port)); err != nil {
				return "", &guardError{err}
			}
		}
		local = local || ip.IsLoopback() || ip.IsUnspecified()
	}
	switch {
	case local:
		return "", nil
	case e.grant == config.HostByName:
		return address, nil
	}
	return net.JoinHostPort(ips[0].Unmap().String(), port), nil
}

// connect returns a connection to the proxy or, if an address is given, through it.
func (e *egress) connect(ctx context.Context, through string) (*http1.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout) // the proxy has to connect, too
	defer cancel()
	dialed, err := newDialer(nil).DialContext(ctx, "tcp", hostPort(e.proxy))
	if err != nil {
		return nil, &proxyError{hostPort(e.proxy), withoutURL(err)} // or the name would be taken for the server's
	}
	stop := context.AfterFunc(ctx, func() { _ = dialed.Close() })
	conn := dialed
	if e.proxy.Scheme == "https" {
		secured := tls.Client(dialed, &tls.Config{ServerName: e.proxy.Hostname(), MinVersion: tls.VersionTLS12})
		conn, err = secured, secured.HandshakeContext(ctx)
	}
	if err == nil && through != "" {
		err = e.askFor(conn, through)
	}
	if !stop() { // then the connection is closed, which says less
		err = ctx.Err()
	}
	if err != nil {
		_ = dialed.Close()
		return nil, &proxyError{hostPort(e.proxy), err}
	}
	return &http1.Link{Conn: conn}, nil
}

// authorization returns the credential for the proxy; empty without one.
func (e *egress) authorization() string {
	user := e.proxy.User
	if user == nil {
		return ""
	}
	password, _ := user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
}

// askFor has the proxy connect a connection to an address (RFC 9110, section 9.3.6).
func (e *egress) askFor(conn net.Conn, address string) error {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if authorization := e.authorization(); authorization != "" {
		request.Header.Set("Proxy-Authorization", authorization)
	}
	if err := request.Write(conn); err != nil {
		return err
	}
	read := bufio.NewReader(io.LimitReader(conn, maxConnectResponse))
	response, err := http.ReadResponse(read, request) //nolint:bodyclose // it is the connection, which is closed, or goes on
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

// proxyError is the failure of an egress proxy, rather than of the server behind it.
type proxyError struct {
	proxy string
	cause error
}

func (e *proxyError) Error() string { return "egress proxy " + e.proxy + ": " + e.cause.Error() }

func (e *proxyError) Unwrap() error { return e.cause }
