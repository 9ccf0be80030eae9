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

// The names of the session cookie. Browsers accept the prefix __Host- only over TLS, and send such a
// cookie only to the host that set it.
const (
	secureCookie = "__Host-promptweir"
	plainCookie  = "promptweir"
)

// Operators decides which callers are operators. If an admin token is configured, operators are the
// callers who send it or have signed in with it. Otherwise they are all callers on this machine, and the
// user who runs the gateway can also sign in with a link. Its methods are safe for concurrent use.
type Operators struct {
	snapshot func() *snapshot.Snapshot
	records  Records
	signIns  signIns
}

// Records are functions that record sign-ins and refusals. client is the network address of the caller.
type Records struct {
	// Acted is called after a person has signed in or out.
	Acted func(client, act string, err error)
	// Refused is called after a token or code was refused. The reason is "bad", or "rate_limited" if it
	// was not compared because of too many attempts.
	Refused func(client, reason string)
}

// NewOperators returns the operators of a gateway. current returns the current snapshot.
func NewOperators(current func() *snapshot.Snapshot, records Records) *Operators {
	return &Operators{snapshot: current, records: records, signIns: newSignIns()}
}

// presentsToken reports whether the Authorization header of a request contains the admin token. The
// attempts are not limited: other people behind the same proxy could lock the operator out.
func (o *Operators) presentsToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return o.HaveToken() && strings.EqualFold(scheme, "Bearer") && o.accept(r, token)
}

// accept reports whether a token is the admin token. It records the refusal of a wrong token.
func (o *Operators) accept(r *http.Request, token string) bool {
	sum, want := sha256.Sum256([]byte(token)), o.tokenHash()
	if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
		return true
	}
	o.records.Refused(o.Client(r), "bad")
	return false
}

// Client returns the network address of a request's client, see [identity.ClientAddress].
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

// Proven reports whether the caller has sent the admin token or has signed in with the token or a
// link. A call from this machine is not enough.
func (o *Operators) Proven(r *http.Request) bool { return o.HasSession(r) || o.presentsToken(r) }

// HaveToken reports whether an admin token is configured.
func (o *Operators) HaveToken() bool { return o.tokenHash() != [sha256.Size]byte{} }

func (o *Operators) tokenHash() [sha256.Size]byte {
	return o.snapshot().Config.Admin.TokenSHA256.Reveal()
}

// session returns the value of the request's cookie with a valid session, or "" if there is none. It looks at all
// cookies with these names: a server at another port of the same host may have set one, too.
func (o *Operators) session(r *http.Request) string {
	for _, cookie := range slices.Concat(r.CookiesNamed(secureCookie), r.CookiesNamed(plainCookie)) {
		if o.signIns.has(cookie.Value, o.tokenHash(), time.Now()) {
			return cookie.Value
		}
	}
	return ""
}

// HasSession reports whether the caller has signed in.
func (o *Operators) HasSession(r *http.Request) bool { return o.session(r) != "" }

// LinkCode returns a new code for a sign-in link, or "" if an admin token is configured. The code works
// once, within ten minutes, and only from this machine. It replaces the previous code.
func (o *Operators) LinkCode() string {
	if o.HaveToken() {
		return ""
	}
	return o.signIns.newCode(time.Now())
}

// LinkPrefix begins the name of a file that contains the code of a sign-in link.
const LinkPrefix = "promptweir-link-"

// Link is the response to POST /-/link.
type Link struct {
	// File is the name of the file with the code, in the folder for temporary files. If an admin token is
	// configured, there is no file and File is [LinkPrefix].
	File string `json:"file"`
}

// writeLink writes the code of a new link to a file that only the gateway's user can read. Other users
// of this machine must not be able to sign in.
func (o *Operators) writeLink() (Link, error) {
	if o.HaveToken() {
		return Link{LinkPrefix}, nil
	}
	if o.signIns.try(LinkPrefix, time.Now()) > 0 { // callers must not be able to fill the folder
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

// SignIn begins a session if the token is the admin token or, if code is not empty, if the code is the
// code of a link. If there were too many attempts, it compares nothing and returns the time to wait.
// SignIn sets a cookie, so call it before the response begins.
func (o *Operators) SignIn(w http.ResponseWriter, r *http.Request, token, code string) (ok bool, wait time.Duration) {
	// Codes are valid only if no admin token is configured.
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
	// Check the address first: a caller from another machine must not use up the code.
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
	// Browsers drop a secure cookie that arrives over plain HTTP.
	if o.isEncrypted(r) {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	http.SetCookie(w, cookie)
}

// Exposed reports whether the token and the session can be read on the network: the request is from
// another machine, and neither encrypted nor from a trusted proxy.
func (o *Operators) Exposed(r *http.Request) bool {
	return !o.isEncrypted(r) && !fromLoopback(r) && !o.fromTrustedProxy(r)
}

// isEncrypted reports whether the browser's connection to this process or to a trusted proxy is
// encrypted.
func (o *Operators) isEncrypted(r *http.Request) bool {
	return r.TLS != nil || o.fromTrustedProxy(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func (o *Operators) fromTrustedProxy(r *http.Request) bool {
	return identity.FromProxy(r, &o.snapshot().Config.Gateway)
}

// fromLoopback reports whether a request is from this machine. It returns false for requests with the
// headers of a proxy: a proxy on this machine may forward requests of other machines.
func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || isForwarded(r.Header) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isForwarded reports whether a request has a header that only proxies add.
func isForwarded(header http.Header) bool {
	for name := range header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// signInPath is the path of the console's sign-in page.
const signInPath = "/sign-in"

// askToSignIn redirects a browser to the sign-in page and returns true. It returns false if no admin
// token is configured or if the caller is a program.
func (o *Operators) askToSignIn(w http.ResponseWriter, r *http.Request) bool {
	// A caller that sends an Authorization header is a program: it needs the error.
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
	// formTokens is the number of attempts to sign in that one address has at once. Every formInterval,
	// it gets one more.
	formTokens   = 10
	formInterval = 6 * time.Second
	// maxAddresses bounds the addresses whose attempts are counted. Beyond the bound, the address that
	// was added first is dropped.
	maxAddresses = 4096
	// sessionLifetime is the lifetime of a session. A cookie has the same lifetime.
	sessionLifetime = 12 * time.Hour
	// maxSessions bounds the sessions. A new session ends the oldest.
	maxSessions = 64
	// linkLifetime is the time within which a link must be used.
	linkLifetime = 10 * time.Minute
)

// signIns contains the sessions, the attempts to sign in, and the code of a link. It is lost when the
// process ends. Make it with [newSignIns].
type signIns struct {
	tries *lru.Cache[string, *rate.Limiter] // by network address
	// sessions has the hashes of cookies as keys, so the time of a lookup tells nothing about the cookies.
	sessions *lru.Cache[[sha256.Size]byte, grant]
	// codes contains only the newest code of a link: its hash and its expiry.
	codes *lru.Cache[[sha256.Size]byte, time.Time]
}

// grant is a session.
type grant struct {
	expires time.Time
	// token is the hash of the admin token at sign-in. A different token in the configuration ends the
	// session.
	token [sha256.Size]byte
}

func newSignIns() signIns {
	tries, _ := lru.New[string, *rate.Limiter](maxAddresses) // fails only for a size below one
	sessions, _ := lru.New[[sha256.Size]byte, grant](maxSessions)
	codes, _ := lru.New[[sha256.Size]byte, time.Time](1)
	return signIns{tries, sessions, codes}
}

// try counts an attempt from an address. It returns 0 if the attempt is allowed, otherwise the time
// until the next attempt is allowed.
func (s signIns) try(address string, now time.Time) (wait time.Duration) {
	tries := rate.NewLimiter(rate.Every(formInterval), formTokens)
	if previous, ok, _ := s.tries.PeekOrAdd(address, tries); ok {
		tries = previous
	}
	if tries.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - tries.TokensAt(now)) * float64(formInterval))
}

// newCode returns a new code for a link. It replaces the previous code.
func (s signIns) newCode(now time.Time) string {
	code := rand.Text()
	s.codes.Add(sha256.Sum256([]byte(code)), now.Add(linkLifetime))
	return code
}

// redeem reports whether a code is valid, and removes it.
func (s signIns) redeem(code string, now time.Time) bool {
	sum := sha256.Sum256([]byte(code))
	expires, ok := s.codes.Peek(sum)
	// Remove returns true for only one of two simultaneous callers.
	return ok && s.codes.Remove(sum) && now.Before(expires)
}

// begin begins a session and returns the value of its cookie.
func (s signIns) begin(token [sha256.Size]byte, now time.Time) string {
	value := rand.Text()
	s.sessions.Add(sha256.Sum256([]byte(value)), grant{now.Add(sessionLifetime), token})
	return value
}

// has reports whether a cookie's value belongs to a valid session. token is the hash of the current
// admin token.
func (s signIns) has(value string, token [sha256.Size]byte, now time.Time) bool {
	// Peek does not change the order: the oldest session is dropped first, even if it is in use.
	g, ok := s.sessions.Peek(sha256.Sum256([]byte(value)))
	return ok && g.token == token && now.Before(g.expires)
}

func (s signIns) end(value string) { s.sessions.Remove(sha256.Sum256([]byte(value))) }
