package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// The cookies of a session. Browsers accept the first name only over TLS, and send it to no other
// host.
const (
	secureCookie = "__Host-promptweir"
	plainCookie  = "promptweir"
)

// Operators decides who is an operator: callers who have the admin token or signed in with it. If
// no token is configured, every caller on this machine is an operator, and the person who started
// the process can prove it by signing in with a link. Its methods are safe for concurrent use.
type Operators struct {
	snapshot func() *snapshot.Snapshot
	records  Records
	signIns  signIns
}

// Records receives sign-ins and refusals, with the caller's network address.
type Records struct {
	// Acted is called after a person has signed in or out.
	Acted func(client, act string, err error)
	// Refused is called after a token was refused: "bad", or "rate_limited" if the form did not
	// compare it because of earlier attempts.
	Refused func(client, reason string)
}

// NewOperators returns the operators of a gateway.
func NewOperators(current func() *snapshot.Snapshot, records Records) *Operators {
	return &Operators{snapshot: current, records: records, signIns: newSignIns()}
}

// presentsToken reports whether a request has the admin token in its Authorization header. It
// compares the token regardless of earlier attempts from the address: otherwise other people behind
// the same proxy could lock the operator out.
func (o *Operators) presentsToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return o.HaveToken() && strings.EqualFold(scheme, "Bearer") && o.accept(r, token)
}

// accept reports whether a token is the admin token, and records a wrong token.
func (o *Operators) accept(r *http.Request, token string) bool {
	sum, want := sha256.Sum256([]byte(token)), o.tokenHash()
	if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
		return true
	}
	o.records.Refused(o.Client(r), "bad")
	return false
}

// Client returns the network address of a request. Behind a trusted proxy it is the address that
// the proxy reports, see [identity.ClientAddress].
func (o *Operators) Client(r *http.Request) string {
	return identity.ClientAddress(r, &o.snapshot().Config.Gateway)
}

// Include reports whether a request comes from an operator.
func (o *Operators) Include(r *http.Request) bool {
	if !o.HaveToken() {
		return fromLoopback(r)
	}
	return o.Proven(r)
}

// Proven reports whether the caller has the admin token, or a session from the token or a link.
// Being on this machine is not enough.
func (o *Operators) Proven(r *http.Request) bool { return o.HasSession(r) || o.presentsToken(r) }

// HaveToken reports whether an admin token is configured.
func (o *Operators) HaveToken() bool { return o.tokenHash() != [sha256.Size]byte{} }

func (o *Operators) tokenHash() [sha256.Size]byte {
	return o.snapshot().Config.Admin.TokenSHA256.Reveal()
}

// session returns the value of the request's cookie with a valid session, or "". A request may have
// several cookies with the name: another port of the same host can set one for a path, which comes
// first.
func (o *Operators) session(r *http.Request) string {
	for _, cookie := range slices.Concat(r.CookiesNamed(secureCookie),
		r.CookiesNamed(plainCookie)) {
		if o.signIns.has(cookie.Value, o.tokenHash(), time.Now()) {
			return cookie.Value
		}
	}
	return ""
}

// HasSession reports whether the caller has signed in, and so may sign out.
func (o *Operators) HasSession(r *http.Request) bool { return o.session(r) != "" }

// LinkCode returns the code of a sign-in link. It works once, within ten minutes, from this
// machine. It is empty if an admin token is configured.
func (o *Operators) LinkCode() string {
	if o.HaveToken() {
		return ""
	}
	return o.signIns.newCode(time.Now())
}

// LinkPrefix is the beginning of the names of files with a link's code.
const LinkPrefix = "promptweir-link-"

// Link is the location of the code of a new link.
type Link struct {
	// File is the file's name in the folder for temporary files. If people sign in with an admin
	// token, it is [LinkPrefix] and there is no file.
	File string `json:"file"`
}

// writeLink makes a link, and writes its code to a file that only the gateway's user can read:
// being on this machine is not enough to sign in.
func (o *Operators) writeLink() (Link, error) {
	if o.HaveToken() {
		return Link{LinkPrefix}, nil
	}
	if o.signIns.try(LinkPrefix, time.Now()) > 0 { // otherwise callers could fill the folder
		return Link{}, &QueryError{"too many links at once; try again in a few seconds"}
	}
	file, err := os.CreateTemp("", LinkPrefix)
	if err != nil {
		return Link{}, err
	}
	time.AfterFunc(linkLifetime, func() { _ = os.Remove(file.Name()) })
	_, err = file.WriteString(o.LinkCode())
	return Link{filepath.Base(file.Name())}, errors.Join(err, file.Close())
}

// SignIn begins a session if the secret is right, and reports whether it is: the admin token or, if
// it is not empty, the code of a link. wait is positive if the secret was not compared because of
// earlier attempts. SignIn sets a cookie, so call it before the response begins.
func (o *Operators) SignIn(w http.ResponseWriter, r *http.Request, token, code string) (ok bool, wait time.Duration) {
	// If an admin token is configured, only it signs in; otherwise only a code does.
	if o.HaveToken() == (code != "") {
		return false, 0
	}
	client, now := o.Client(r), time.Now()
	if wait := o.signIns.try(edge.AddressKey(client), now); wait > 0 {
		o.records.Refused(client, "rate_limited")
		return false, wait
	}
	switch {
	case code == "":
		ok = o.accept(r, token)
	// Check the address first, so that a caller from elsewhere does not use up the code.
	case fromLoopback(r) && o.signIns.redeem(code, now):
		ok = true
	default:
		o.records.Refused(client, "bad")
	}
	if !ok {
		return false, 0
	}
	o.setCookie(w, r, o.signIns.begin(o.tokenHash(), now), int(sessionLifetime/time.Second))
	o.records.Acted(client, "sign-in", nil)
	return true, 0
}

// SignOut ends the caller's session.
func (o *Operators) SignOut(w http.ResponseWriter, r *http.Request) {
	if session := o.session(r); session != "" {
		o.signIns.end(session)
		o.records.Acted(o.Client(r), "sign-out", nil)
	}
	o.setCookie(w, r, "", -1)
}

func (o *Operators) setCookie(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	cookie := &http.Cookie{
		Name: plainCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
	// Over plain HTTP, browsers would drop a secure cookie.
	if o.isEncrypted(r) {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	http.SetCookie(w, cookie)
}

// Exposed reports whether the token and the session could be read on the way: the request came over
// the network, and was neither encrypted nor sent by a trusted proxy.
func (o *Operators) Exposed(r *http.Request) bool {
	return !o.isEncrypted(r) && !fromLoopback(r) && !o.fromTrustedProxy(r)
}

// isEncrypted reports whether the browser's connection is encrypted, up to this process or to a
// trusted proxy.
func (o *Operators) isEncrypted(r *http.Request) bool {
	return r.TLS != nil || o.fromTrustedProxy(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func (o *Operators) fromTrustedProxy(r *http.Request) bool {
	return identity.FromProxy(r, &o.snapshot().Config.Gateway)
}

// fromLoopback reports whether a request comes from this machine.
func fromLoopback(r *http.Request) bool {
	// A forwarding proxy on this machine would hide the caller's address, so forwarded requests do
	// not count.
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
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// signInPath is the console's sign-in page.
const signInPath = "/sign-in"

// askToSignIn redirects a browser without a session to the sign-in page, and reports whether it
// did.
func (o *Operators) askToSignIn(w http.ResponseWriter, r *http.Request) bool {
	// A caller with a token is a program, and needs the error.
	if !o.HaveToken() || !wantsPage(r) || r.Header.Get("Authorization") != "" {
		return false
	}
	next := "/"
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, signInPath+"?"+url.Values{"next": {next}}.Encode(), http.StatusSeeOther)
	return true
}

const (
	// formTokens is the number of tokens from one address that the form compares at once. After that it
	// compares one per formInterval.
	formTokens   = 10
	formInterval = 6 * time.Second
	// maxAddresses bounds the remembered addresses. The least recently seen are dropped.
	maxAddresses = 4096
	// sessionLifetime is the lifetime of a session.
	sessionLifetime = 12 * time.Hour
	// maxSessions bounds the sessions. A new session ends the oldest.
	maxSessions = 64
	// linkLifetime is the lifetime of the code of a link.
	linkLifetime = 10 * time.Minute
)

// signIns contains the sessions, and the addresses of attempts to sign in. It is in memory and ends
// with the process. Make it with [newSignIns].
type signIns struct {
	tries *lru.Cache[string, *rate.Limiter]
	// The key is the hash of the cookie, so that every lookup takes the same time.
	sessions *lru.Cache[[sha256.Size]byte, grant]
	// codes contains the newest code of a link: the hash of the code, and its expiry.
	codes *lru.Cache[[sha256.Size]byte, time.Time]
}

// grant is the basis of a session.
type grant struct {
	expires time.Time
	// token is the hash of the admin token at sign-in. The session ends when the configuration has
	// another token.
	token [sha256.Size]byte
}

func newSignIns() signIns {
	tries, _ := lru.New[string, *rate.Limiter](maxAddresses) // fails only for a size below one
	sessions, _ := lru.New[[sha256.Size]byte, grant](maxSessions)
	codes, _ := lru.New[[sha256.Size]byte, time.Time](1)
	return signIns{tries, sessions, codes}
}

// try counts an attempt from an address, and returns the wait before the next attempt is compared.
func (s signIns) try(address string, now time.Time) (wait time.Duration) {
	tries := rate.NewLimiter(rate.Every(formInterval), formTokens)
	if before, known, _ := s.tries.PeekOrAdd(address, tries); known {
		tries = before
	}
	if tries.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - tries.TokensAt(now)) * float64(formInterval))
}

// newCode returns the code of a link. It replaces the previous code.
func (s signIns) newCode(now time.Time) string {
	code := rand.Text()
	s.codes.Add(sha256.Sum256([]byte(code)), now.Add(linkLifetime))
	return code
}

// redeem reports whether a code is valid, and uses it up.
func (s signIns) redeem(code string, now time.Time) bool {
	sum := sha256.Sum256([]byte(code))
	expires, known := s.codes.Peek(sum)
	// Remove reports whether the code was there, so only one of two simultaneous callers gets a
	// session.
	return known && s.codes.Remove(sum) && now.Before(expires)
}

// begin returns the value of a new session's cookie.
func (s signIns) begin(token [sha256.Size]byte, now time.Time) string {
	value := rand.Text()
	s.sessions.Add(sha256.Sum256([]byte(value)), grant{now.Add(sessionLifetime), token})
	return value
}

// has reports whether a cookie's value belongs to a valid session.
func (s signIns) has(value string, token [sha256.Size]byte, now time.Time) bool {
	// Peek does not change the order: the oldest session is dropped first, however much it is used.
	g, known := s.sessions.Peek(sha256.Sum256([]byte(value)))
	return known && g.token == token && now.Before(g.expires)
}

// end ends a session.
func (s signIns) end(value string) { s.sessions.Remove(sha256.Sum256([]byte(value))) }
