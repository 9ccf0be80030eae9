package config

import (
	"errors"
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// maxEndpoints bounds the replicas of one upstream.
const maxEndpoints = 64

// endpoint reads how an upstream is reached.
func (l *loader) endpoint(f fields, u *Upstream) {
	l.oneWay(f)
	remote, local := f.has("url") || f.has("urls"), f.has("command")
	if remote {
		u.Transport = StreamableHTTP
		l.remote(f, u)
	}
	if local {
		u.Transport = Stdio
		l.local(f, u)
	}
	l.transport(f, u, remote, local)
	u.Headers = f.secrets("headers", checkHeader)
	u.Env = f.secrets("env", f.scope.grants.checkVariable)
	for _, b := range f.inner("tls") {
		u.TLS = b.tls()
	}
	for _, b := range f.inner("oauth") {
		u.OAuth = b.oauth(u)
	}
	if remote != local {
		l.onlyFor(f, remote)
	}
}

// oneWay reports an upstream that is reached in no way or in several.
func (l *loader) oneWay(f fields) {
	ways := slices.DeleteFunc([]string{"url", "urls", "command"}, f.lacks)
	if len(ways) == 0 {
		f.error(f.block.DefRange(), "No way to the upstream", "Set url to reach it by HTTP, or command to start it.")
		return
	}
	for _, further := range ways[1:] {
		f.error(f.at(further), "Two ways to one upstream", "%s and %s exclude each other; remove one.", ways[0], further)
	}
}

// transport reads which of the two over HTTP it is, and no other is then tried. With command it is only worth writing
// down for the reader.
func (l *loader) transport(f fields, u *Upstream, remote, local bool) {
	var t Transport
	if !field(f, "transport", shown, &t, oneOf([]Transport{StreamableHTTP, SSE, Stdio})) || remote == local {
		return
	}
	if (t == Stdio) != local {
		f.error(f.at("transport"), "Transport does not fit", "%s and %s go with url, %s with command; change one or leave transport out.", StreamableHTTP, SSE, Stdio)
		return
	}
	u.Transport, u.TransportExplicit = t, true
}

// onlyFor reports what is for the other kind of upstream.
func (l *loader) onlyFor(f fields, remote bool) {
	if remote {
		if f.has("env") {
			f.error(f.block.Body.Attributes["env"].NameRange, "env without command", "A server behind a url gets no environment; use headers.")
		}
		return
	}
	if f.has("headers") {
		f.error(f.block.Body.Attributes["headers"].NameRange, "headers without url", "A child process gets no headers; use env.")
	}
	for _, b := range f.inner("tls") {
		f.error(b.block.DefRange(), "tls without url", "A child process is not reached through TLS; remove the block.")
	}
	for _, b := range f.inner("oauth") {
		f.error(b.block.DefRange(), "oauth without url", "A child process is sent no tokens; give it what it needs in env.")
	}
}

// remote reads url or urls and checks that the team may reach what is there.
func (l *loader) remote(f fields, u *Upstream) {
	given := f.addresses()
	u.shown = concealed(given)
	seen := map[string]bool{}
	for _, t := range given {
		if t.unset {
			continue
		}
		parsed, err := parseURL(t.value)
		if err != nil {
			f.error(t.at, "Invalid upstream URL", "%s %s", f.withoutPassword(t), sentence(err))
			continue
		}
		u.URLs = append(u.URLs, t.value)
		if key := canonical(parsed); seen[key] {
			f.error(t.at, "Duplicate upstream URL", "%s stands in the list already; remove one.", t)
		} else {
			seen[key] = true
			l.checkAddress(f, t, parsed)
		}
	}
}

// addresses returns what url and urls give, unchecked.
func (f fields) addresses() []text {
	before := len(f.diags)
	given := f.texts("urls", public)
	if t, ok := f.string("url", public); ok {
		given = append(given, t)
	}
	name := "urls"
	if !f.has(name) {
		name = "url"
	}
	switch {
	case len(given) == 0 && len(f.diags) == before:
		f.error(f.at(name), "Invalid "+name, `There is no address in it; write one like "https://mcp.example.com/mcp".`)
	case len(given) > maxEndpoints:
		f.error(f.at(name), "Invalid "+name, "An upstream has at most %d addresses and these are %d; remove some.", maxEndpoints, len(given))
		return nil
	}
	return given
}

// checkAddress reports an address that the team may not use, or that the upstream cannot be at.
func (l *loader) checkAddress(f fields, t text, u *url.URL) {
	if f.holds("tls") && u.Scheme != "https" {
		f.error(t.at, "tls without https", "%s is not reached through TLS; write https:// or remove the tls block.", t)
	}
	l.checkReach(t.at, hostOf(u), portOf(u))
	if err := f.scope.grants.allowHost(hostOf(u), t); err != nil {
		f.invalid("url", t, err)
	}
}

// canonical returns one text for all ways to write an address.
func canonical(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return u.Scheme + "://" + net.JoinHostPort(hostOf(u), portOf(u)) + path + "?" + u.RawQuery
}

func hostOf(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// local reads command and checks that the team may start it.
func (l *loader) local(f fields, u *Upstream) {
	before := len(f.diags)
	words := f.texts("command", public)
	for _, w := range words {
		u.Command = append(u.Command, w.value)
		if strings.Contains(w.value, "\x00") {
			f.invalid("command", w, errors.New("has a zero byte in it"))
		}
	}
	u.shown = concealed(words)
	switch {
	case len(words) == 0 && len(f.diags) == before:
		f.error(f.at("command"), "Invalid command", "The list is empty; write the program first, its arguments after it.")
	case len(words) == 0 || words[0].unset:
	case words[0].value == "":
		f.invalid("command", words[0], errors.New("is no program; write it first, its arguments after it"))
	default:
		if err := f.scope.grants.allowCommand(words[0]); err != nil {
			f.invalid("command", words[0], err)
		}
	}
}

// concealed returns texts with a mask in place of each that is sensitive, or nil when none is.
func concealed(texts []text) []string {
	if !slices.ContainsFunc(texts, func(t text) bool { return t.sensitive }) {
		return nil
	}
	shown := make([]string, len(texts))
	for i, t := range texts {
		shown[i] = t.value
		if t.sensitive {
			shown[i] = masked
		}
	}
	return shown
}

// checkHeader never speaks of the value.
func checkHeader(name, value string) error {
	switch {
	case !validToken(name):
		return errors.New("is not a header name; use letters, digits and \"-\"")
	case reservedHeader(textproto.CanonicalMIMEHeaderKey(name)):
		return errors.New("is set by the gateway itself; remove it")
	case !validHeaderValue(value):
		return errors.New("has a value with a line break or control character; use trimspace() around file()")
	}
	return nil
}

// reservedHeader knows what belongs to the protocol and what net/http would drop or misread.
func reservedHeader(canonical string) bool {
	switch canonical {
	case "Host", "Accept", "Accept-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Mcp-") || strings.HasPrefix(canonical, "Content-")
}

// validToken reports whether s is a token of RFC 9110, which names of headers are.
func validToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > '~' || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// validHeaderValue reports whether s is a field value of RFC 9110.
func validHeaderValue(s string) bool {
	return s == strings.TrimFunc(s, func(r rune) bool { return r == ' ' || r == '\t' }) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func checkVariable(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
		return errors.New("cannot be in an environment; names have no \"=\", and no zero byte may be anywhere")
	}
	return nil
}
