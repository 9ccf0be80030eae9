package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func checkListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || strconv.FormatUint(n, 10) != port {
		return errors.New(`is not HOST:PORT; write it like "127.0.0.1:8080"`)
	}
	if host != "" && !isHost(host) {
		return errors.New(`has no valid host before the colon; write it like "127.0.0.1:8080"`)
	}
	return nil
}

func checkPath(s string) error {
	switch {
	case !strings.HasPrefix(s, "/"):
		return errors.New(`does not start with "/"; write it like "/mcp"`)
	case s != path.Clean(s) || !pathChars().MatchString(s):
		return errors.New(`is not a plain path; use letters, digits, ".", "_", "~", "-" and no slash at the end`)
	case slices.Contains([]string{"/sse", "/healthz", "/readyz", "/metrics"}, s), strings.HasPrefix(s+"/", "/.well-known/"):
		return errors.New(`is taken by the gateway itself; choose another, like "/mcp"`)
	}
	return nil
}

func pathChars() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._~/-]*$`) }

func parsePublicURL(s string) (string, error) {
	u, err := parseURL(s)
	if err != nil {
		return "", err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return "", errors.New("has a query; leave it out")
	}
	return strings.TrimRight(s, "/"), nil
}

// parseURL reads an absolute http or https URL. Its errors say nothing of the URL, which may hold a secret.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !isHost(u.Hostname()):
		return nil, errors.New(`is not an http or https URL with a host; write it like "https://mcp.example.com/mcp"`)
	case u.User != nil:
		return nil, errors.New("has a user or password in it; leave it out, and send credentials in headers")
	case strings.Contains(s, "#"):
		return nil, errors.New("has a fragment; leave out the # and what follows")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("has no valid port after the colon")
		}
	}
	return u, nil
}

// isHost reports whether s is an IP address or can be a name. A name that ends in a number is neither: some
// resolvers would read 2130706433 as 127.0.0.1.
func isHost(s string) bool {
	if strings.Contains(s, ":") {
		return net.ParseIP(strings.Split(s, "%")[0]) != nil
	}
	last := s[strings.LastIndex(strings.TrimSuffix(s, "."), ".")+1:]
	if number, _ := regexp.MatchString(`^([0-9]+|0[xX][0-9a-fA-F]*)\.?$`, last); number {
		return net.ParseIP(s) != nil
	}
	valid, _ := regexp.MatchString(`^[\pL\pN_]([\pL\pN_.-]*[\pL\pN_.])?$`, s)
	return valid && !strings.Contains(s, "..")
}

func checkHost(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), "1"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || !isHost(host) {
		return errors.New(`is not a host or HOST:PORT; write it like "prompts.example.com"`)
	}
	return nil
}

func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || s != u.Scheme+"://"+u.Host || !isHost(u.Hostname()) {
		return errors.New(`is not an origin; write scheme and host only, like "https://app.example.com"`)
	}
	return nil
}

// overlap reports whether two hosts are certain to be one machine's same address: equal, or a wildcard and
// a loopback, or localhost and a loopback.
func overlap(a, b string) bool {
	switch {
	case strings.EqualFold(a, b):
		return true
	case wildcard(a):
		return wildcard(b) || loopback(b)
	case wildcard(b):
		return loopback(a)
	case loopback(a) && loopback(b):
		return isLocalhost(a) || isLocalhost(b) || sameIP(a, b)
	default:
		return sameIP(a, b)
	}
}

func wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return isLocalhost(host) || err == nil && ip.Unmap().IsLoopback()
}

func isLocalhost(host string) bool {
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func sameIP(a, b string) bool {
	x, err := netip.ParseAddr(a)
	if err != nil {
		return false
	}
	y, err := netip.ParseAddr(b)
	return err == nil && x.Unmap() == y.Unmap()
}
