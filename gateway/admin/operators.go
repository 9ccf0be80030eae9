package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// The cookies of a session. Browsers take one of the first name only over TLS, and send it to no other host.
const (
	secureCookie = "__Host-promptweir"
	plainCookie  = "promptweir"
)

// Operators knows who runs the gateway: whoever has the admin token, or signed in with it, or, where none is configured, whoever calls
// from this machine. Its methods are safe for concurrent use.
type Operators struct {
	snapshot func() *snapshot.Snapshot
	// refused is called with the address of a caller whose token was refused.
	refused  func(client string)
	sessions sessions
}

// NewOperators returns the operators of a gateway. Refused is called with the address of a caller whose token was refused.
func NewOperators(current func() *snapshot.Snapshot, refused func(client string)) *Operators {
	return &Operators{snapshot: current, refused: refused}
}

// Include reports whether a request comes from an operator.
func (o *Operators) Include(r *http.Request) bool {
	if !o.HaveToken() {
		return fromLoopback(r)
	}
	return o.Proven(r)
}

// Proven reports whether a request comes from somebody who has the admin token, by the token or by a session. Being on this machine
// is not enough.
func (o *Operators) Proven(r *http.Request) bool {
	if !o.HaveToken() {
		return false
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && o.isToken(token) {
		return true
	}
	return o.session(r) != ""
}

// HaveToken reports whether an admin token is configured.
func (o *Operators) HaveToken() bool { return o.tokenHash() != [sha256.Size]byte{} }

func (o *Operators) tokenHash() [sha256.Size]byte {
	return o.snapshot().Config.Admin.TokenSHA256.Reveal()
}

func (o *Operators) isToken(token string) bool {
	sum, want := sha256.Sum256([]byte(token)), o.tokenHash()
	return o.HaveToken() && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

// session returns the value of the request's cookie if it is that of a session that lasts, else "".
func (o *Operators) session(r *http.Request) string {
	for _, name := range []string{secureCookie, plainCookie} {
		cookie, err := r.Cookie(name)
		if err == nil && o.sessions.has(cookie.Value, o.tokenHash(), time.Now()) {
			return cookie.Value
		}
	}
	return ""
}

// HasSession reports whether a request is one of somebody who signed in, and may sign out.
func (o *Operators) HasSession(r *http.Request) bool { return o.session(r) != "" }

// SignIn begins a session for a caller who gives the admin token, and reports whether it is the right one.
func (o *Operators) SignIn(w http.ResponseWriter, r *http.Request, token string) bool {
	if !o.isToken(token) {
		o.refused(r.RemoteAddr)
		return false
	}
	o.setCookie(w, r, o.sessions.begin(o.tokenHash(), time.Now()), int(sessionBound/time.Second))
	return true
}

// SignOut ends the caller's session.
func (o *Operators) SignOut(w http.ResponseWriter, r *http.Request) {
	o.sessions.end(o.session(r))
	o.setCookie(w, r, "", -1)
}

func (o *Operators) setCookie(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	cookie := &http.Cookie{
		Name: plainCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if o.isEncrypted(r) {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	http.SetCookie(w, cookie)
}

// Exposed reports whether somebody on the way may read the token and the session: the request came over the network, neither
// encrypted nor from a trusted proxy.
func (o *Operators) Exposed(r *http.Request) bool {
	return !o.isEncrypted(r) && !fromLoopback(r) && !o.fromTrustedProxy(r)
}

// isEncrypted reports whether the browser's connection is encrypted: TLS ends here, or a trusted proxy says that it ends there.
func (o *Operators) isEncrypted(r *http.Request) bool {
	return r.TLS != nil || o.fromTrustedProxy(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func (o *Operators) fromTrustedProxy(r *http.Request) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(o.snapshot().Config.Gateway.TrustedProxies, func(proxy netip.Prefix) bool {
		return proxy.Contains(ip.Unmap())
	})
}

// fromLoopback reports whether a request comes from this machine. A forwarding proxy on this machine would hide where a
// request comes from, so one that says that it forwards does not count.
func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || isForwarded(r.Header) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isForwarded reports whether a header shows that a proxy forwarded the request.
func isForwarded(header http.Header) bool {
	for name := range header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return true
		}
	}
	return false
}

// signInPath is where the console asks for the token.
const signInPath = "/sign-in"

// askToSignIn sends a browser that opens a page to where the console asks for the token, and reports whether it did.
func (o *Operators) askToSignIn(w http.ResponseWriter, r *http.Request) bool {
	if !o.HaveToken() || r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") || r.Header.Get("Authorization") != "" {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, signInPath+"?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	return true
}
