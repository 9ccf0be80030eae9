package config

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// checkListen accepts HOST:PORT with a port in plain decimal.
func checkListen(s string) error {
	// The comparison with FormatUint refuses leading zeros: other programs may read "080" as another port.
	host, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || strconv.FormatUint(n, 10) != port {
		return errors.New(`is not HOST:PORT; write it like "127.0.0.1:8080"`)
	}
	if host != "" && !isHost(host) {
		return errors.New(`has no valid host before the colon; write it like "127.0.0.1:8080"`)
	}
	return nil
}

// checkPath checks the path of the MCP endpoint, which must not be one of the gateway's own paths.
func checkPath(s string) error {
	switch {
	case !strings.HasPrefix(s, "/"):
		return errors.New(`does not start with "/"; write it like "/mcp"`)
	case s == "/":
		return errors.New(`would match every path; write it like "/mcp"`)
	// http.ServeMux would redirect a path that is not clean, and read braces as wildcards.
	case s != path.Clean(s) || !pathChars().MatchString(s):
		return errors.New(`is not a plain path; use letters, digits, ".", "_", "~", "-" and no slash at the end`)
	case slices.Contains([]string{SSEPath, "/healthz", "/readyz", "/metrics"}, s), strings.HasPrefix(s+"/", "/.well-known/"):
		return errors.New(`is reserved by the gateway; choose another, like "/mcp"`)
	}
	return nil
}

func pathChars() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._~/-]*$`) }

// parsePublicURL reads a URL, refuses a query and removes slashes at the end.
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

// parseURL reads an absolute http or https URL. Its errors do not quote the URL, which may contain
// a secret.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !isHost(u.Hostname()):
		return nil, errors.New(`is not an http or https URL with a host; write it like "https://mcp.example.com/mcp"`)
	// With a zone, two spellings of one host would not compare equal.
	case strings.Contains(u.Hostname(), "%"):
		return nil, errors.New("has a zone after its address; leave the zone out, or give the server another address")
	case u.User != nil:
		return nil, errors.New("has a user or password in it; leave it out, and send credentials in headers")
	case strings.Contains(s, "#"): // u.Fragment is empty for a lone "#"
		return nil, errors.New("has a fragment; leave out the # and the rest")
	}
	if hasPort(u) && !validPort(u.Port()) {
		return nil, errors.New("has no valid port after the colon; write one from 1 to 65535")
	}
	return u, nil
}

// isHost reports whether s is an IP address or a possible host name. A name that ends in a number is neither:
// some resolvers read 2130706433 as 127.0.0.1.
func isHost(s string) bool {
	if strings.Contains(s, ":") { // IPv6, perhaps with a zone, which net.ParseIP does not accept
		return net.ParseIP(strings.Split(s, "%")[0]) != nil
	}
	last := s[strings.LastIndex(strings.TrimSuffix(s, "."), ".")+1:]
	if isNumber(strings.TrimSuffix(last, ".")) {
		return net.ParseIP(s) != nil
	}
	return isHostName(s)
}

const digits = "0123456789"

// isNumber reports whether a label is a decimal or hexadecimal number, or just 0x.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, digits+"abcdef") == ""
	}
	return label != "" && strings.Trim(label, digits) == ""
}

// isHostName reports whether s consists of letters and digits of any script, with _, - and dots between them
// and an optional dot at the end.
func isHostName(s string) bool {
	isForeign := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_-.", r)
	}
	return s != "" && !strings.ContainsFunc(s, isForeign) && !strings.ContainsAny(s[:1], "-.") && !strings.HasSuffix(s, "-") && !strings.Contains(s, "..")
}

// checkHost accepts a host to compare with Host headers, whose port is ignored.
func checkHost(s string) error {
	if host, port, err := net.SplitHostPort(s); err == nil && isHost(host) && strings.Trim(port, digits) == "" {
		return errors.New(`has a port, and ports are ignored; write the host alone, like "prompts.example.com"`)
	}
	// People copy IPv6 addresses with their brackets from URLs.
	if bare, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(bare, "]") && strings.Contains(bare, ":") {
		s = strings.TrimSuffix(bare, "]")
	}
	if !isHost(s) || strings.Contains(s, "%") {
		return errors.New(`is not a host; write it like "prompts.example.com"`)
	}
	return nil
}

// opaqueOrigins are origins that any page can send. See checkOpaqueOrigins.
var opaqueOrigins = []string{"null", "file://"} //nolint:gochecknoglobals // a constant list

// checkOrigin accepts an origin, which is compared with Origin headers as text. An extension of a browser or an
// editor has another host in each installation, so its host may be a wildcard.
func checkOrigin(s string) error {
	if slices.Contains(opaqueOrigins, s) {
		return nil
	}
	scheme, isWild := strings.CutSuffix(s, "://*")
	if isWild && scheme != "http" && scheme != "https" {
		s = scheme + "://any"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme == "" || s != u.Scheme+"://"+u.Host || !isHost(u.Hostname()) || strings.Contains(s, "%"):
		return errors.New(`is not an origin; write scheme and host only, like "https://app.example.com"`)
	// Browsers send host names in punycode.
	case s != strings.ToLower(s) || strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }):
		return errors.New(`is not in the form browsers send; write it in lower case and ASCII, like "https://app.example.com"`)
	case hasPort(u) && !validPort(u.Port()), slices.Contains([]string{"http:80", "https:443"}, u.Scheme+":"+u.Port()):
		return errors.New(`has a port browsers never send; leave it out, or write it like "http://localhost:3000"`)
	}
	return nil
}

// hasPort reports whether a URL has the colon of a port, with or without a number after it.
func hasPort(u *url.URL) bool { return u.Port() != "" || strings.HasSuffix(u.Host, ":") }

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// sameHost reports whether two hosts are certainly the same address of this machine: equal hosts, two
// wildcards, a wildcard and a loopback address, or localhost and a loopback address.
func sameHost(a, b string) bool {
	// A zone only selects the interface, so it is ignored.
	a, _, _ = strings.Cut(a, "%")
	b, _, _ = strings.Cut(b, "%")
	switch {
	case strings.EqualFold(a, b):
		return true
	case isWildcard(a):
		return isWildcard(b) || IsLoopback(b)
	case isWildcard(b):
		return IsLoopback(a)
	}
	return isLocalhost(a) && IsLoopback(b) || IsLoopback(a) && isLocalhost(b) || sameIP(a, b)
}

// isWildcard reports whether listening on a host means listening on all addresses.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

// IsLoopback reports whether a host is localhost or a loopback address, which only this machine can reach.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return isLocalhost(host) || err == nil && ip.Unmap().IsLoopback()
}

// isLocalhost reports whether a name stands for a loopback address (RFC 6761).
func isLocalhost(host string) bool {
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func sameIP(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap() == y.Unmap()
}

// hostOf returns the host of a URL for comparisons: in lower case, without a dot at the end.
func hostOf(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(u *url.URL) string {
	if u.Port() == "" && u.Scheme == "https" {
		return "443"
	}
	return cmp.Or(u.Port(), "80")
}
