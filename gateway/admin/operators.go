package admin

import (
	"context"
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
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// The cookies of a session. Browsers take one of the first name only over TLS, and send it to no
// other host.
const (
	secureCookie = "__Host-promptweir"
	plainCookie  = "promptweir"
)

// Operators knows who runs the gateway: whoever has the admin token, or signed in with it, or,
// where none is configured, whoever calls from this machine. Who started the process without one
// signs in with a link, and has proven it. Its methods are safe for concurrent use.
type Operators struct {
	snapshot func() *snapshot.Snapshot
	records  Records
	signIns  signIns
}

// Records is told what operators do to become operators, with the network address that they call
// from.
type Records struct {
	// Acted is called when somebody has signed in or out.
	Acted func(client, act string, err error)
	// Refused is called when a token was refused: "bad", or "rate_limited" where the form did not
	// compare it because others came before.
	Refused func(client, reason string)
}

// NewOperators returns the operators of a gateway.
func NewOperators(current func() *snapshot.Snapshot, records Records) *Operators {
	return &Operators{snapshot: current, records: records, signIns: newSignIns()}
}

// presentsKey is that of a func() bool in a request's context, which compares the token in the
// Authorization header: once, since it records one that is wrong.
type presentsKey struct{}

// meet prepares a request for the other methods.
func (o *Operators) meet(r *http.Request) *http.Request {
	presents := sync.OnceValue(func() bool {
		// Always compared, whatever came from the address before: strangers behind the same proxy
		// or gateway of a network would otherwise lock the operator out.
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		return strings.EqualFold(scheme, "Bearer") && o.accept(r, token)
	})
	return r.WithContext(context.WithValue(r.Context(), presentsKey{}, presents))
}

// presentsToken reports whether a request has the admin token in its Authorization header.
func (o *Operators) presentsToken(r *http.Request) bool {
	if r.Header.Get("Authorization") == "" || !o.HaveToken() {
		return false
	}
	presents, _ := r.Context().Value(presentsKey{}).(func() bool) // from meet
	return presents()
}

// accept reports whether a token is the admin token, and records one that is not.
func (o *Operators) accept(r *http.Request, token string) bool {
	sum, want := sha256.Sum256([]byte(token)), o.tokenHash()
	if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
		return true
	}
	o.records.Refused(o.Client(r), "bad")
	return false
}

// Client returns the network address that a request comes from: the one that a trusted proxy says,
// see [identity.ClientAddress].
func (o *Operators) Client(r *http.Request) string {
	return identity.ClientAddress(r, o.snapshot().Config.Gateway.TrustedProxies)
}

// Include reports whether a request comes from an operator.
func (o *Operators) Include(r *http.Request) bool {
	if !o.HaveToken() {
		return fromLoopback(r)
	}
	return o.Proven(r)
}

// Proven reports whether a request comes from somebody who has the admin token, by the token or by
// a session, or by that of a link. Being on this machine is not enough.
func (o *Operators) Proven(r *http.Request) bool { return o.HasSession(r) || o.presentsToken(r) }

// HaveToken reports whether an admin token is configured.
func (o *Operators) HaveToken() bool { return o.tokenHash() != [sha256.Size]byte{} }

func (o *Operators) tokenHash() [sha256.Size]byte {
	return o.snapshot().Config.Admin.TokenSHA256.Reveal()
}

// session returns the value of the request's cookie that is that of a session that lasts, "" if
// none is. There may be several of a name: another port of the same host can set one, for a path,
// that comes first.
func (o *Operators) session(r *http.Request) string {
	for _, cookie := range slices.Concat(r.CookiesNamed(secureCookie),
		r.CookiesNamed(plainCookie)) {
		if o.signIns.has(cookie.Value, o.tokenHash(), time.Now()) {
			return cookie.Value
		}
	}
	return ""
}

// HasSession reports whether a request is one of somebody who signed in, and may sign out.
func (o *Operators) HasSession(r *http.Request) bool { return o.session(r) != "" }

// LinkCode returns the code of a link by which who reads it may sign in: once, within ten minutes,
// from this machine. It is empty where an admin token is configured, without which nobody signs in.
func (o *Operators) LinkCode() string {
	if o.HaveToken() {
		return ""
	}
	return o.signIns.newCode(time.Now())
}

// LinkPrefix begins the names of files with the code of a link.
const LinkPrefix = "promptweir-link-"

// Link is where the code of a new link is.
type Link struct {
	// File is its name in the folder for temporary files, or [LinkPrefix] alone where people sign in
	// with an admin token.
	File string `json:"file"`
}

// writeLink makes a link, and writes its code to a file that only the gateway's user can read: being on this
// machine is not enough to sign in.
func (o *Operators) writeLink() (Link, error) {
	if o.HaveToken() {
		return Link{LinkPrefix}, nil
	}
	if o.signIns.try(LinkPrefix, time.Now()) > 0 { // callers could fill the folder
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

// Secret is what somebody signs in with.
type Secret struct {
	// Token is the admin token; empty where Code is set, the code of a link.
	Token, Code string
}

// SignIn begins a session for a caller with the right secret, and reports whether it is. Wait is
// how long until the caller may try another one, where it was not compared because too many came
// before. It sets a cookie, and so comes before the response begins.
func (o *Operators) SignIn(w http.ResponseWriter, r *http.Request, given Secret) (ok bool, wait time.Duration) {
	// The token signs in where one is configured, and a code where none is.
	if o.HaveToken() == (given.Code != "") {
		return false, 0
	}
	client, now := o.Client(r), time.Now()
	if wait := o.signIns.try(edge.AddressKey(client), now); wait > 0 {
		o.records.Refused(client, "rate_limited")
		return false, wait
	}
	switch {
	case given.Code == "":
		ok = o.accept(r, given.Token)
	// In this order, or a caller from elsewhere would use the code up.
	case fromLoopback(r) && o.signIns.redeem(given.Code, now):
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
	// Over plain HTTP, browsers drop such a cookie.
	if o.isEncrypted(r) {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	http.SetCookie(w, cookie)
}

// Exposed reports whether somebody on the way may read the token and the session: the request came
// over the network, neither encrypted nor from a trusted proxy.
func (o *Operators) Exposed(r *http.Request) bool {
	return !o.isEncrypted(r) && !fromLoopback(r) && !o.fromTrustedProxy(r)
}

// isEncrypted reports whether the browser's connection is encrypted: TLS ends here, or a trusted
// proxy says that it ends there.
func (o *Operators) isEncrypted(r *http.Request) bool {
	return r.TLS != nil || o.fromTrustedProxy(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func (o *Operators) fromTrustedProxy(r *http.Request) bool {
	return identity.FromProxy(r, o.snapshot().Config.Gateway.TrustedProxies)
}

// fromLoopback reports whether a request comes from this machine.
func fromLoopback(r *http.Request) bool {
	// A forwarding proxy on this machine would hide where a request comes from, so one that says
	// that it forwards does not count.
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

// signInPath is where the console asks for the token.
const signInPath = "/sign-in"

// askToSignIn sends a browser that opens a page, or a form of one whose session has ended, to where
// the console asks for the token, and reports whether it did.
func (o *Operators) askToSignIn(w http.ResponseWriter, r *http.Request) bool {
	// Whoever sends a token is a program, which needs the error.
	if !o.HaveToken() || !wantsPage(r) || r.Header.Get("Authorization") != "" {
		return false
	}
	next := r.URL.RequestURI()
	if r.Method != http.MethodGet {
		next = "/"
		// Only within the console, since the browser goes there after signing in.
		if page, err := url.Parse(r.Referer()); err == nil && page.Host == r.Host {
			next = page.RequestURI()
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, signInPath+"?"+url.Values{"next": {next}}.Encode(), http.StatusSeeOther)
	return true
}

const (
	// formTokens is how many tokens the form compares of an address at once, and it compares one
	// more in each formInterval.
	formTokens   = 10
	formInterval = 6 * time.Second
	// maxAddresses bounds the addresses that are remembered, to those that were seen last.
	maxAddresses = 4096
	// sessionLifetime is how long a session lasts.
	sessionLifetime = 12 * time.Hour
	// maxSessions bounds the sessions. The oldest gives way.
	maxSessions = 64
	// linkLifetime is how long a code of a link can be exchanged for a session.
	linkLifetime = 10 * time.Minute
)

// signIns are the sessions of operators who signed in, and the addresses from which somebody tried
// to. They are in memory, and end with the process. Make them with [newSignIns].
type signIns struct {
	tries *lru.Cache[string, *rate.Limiter]
	// by the hash of the cookie, so that a lookup takes as long whatever is compared
	sessions *lru.Cache[[sha256.Size]byte, grant]
	// codes are those of links, by their hash, with when they expire: the newest one only.
	codes *lru.Cache[[sha256.Size]byte, time.Time]
}

// grant is what a session stands on.
type grant struct {
	expires time.Time
	// token is the hash of the token that was given. A session ends when the configuration has
	// another one.
	token [sha256.Size]byte
}

func newSignIns() signIns {
	tries, _ := lru.New[string, *rate.Limiter](maxAddresses) // errors are for sizes below one
	sessions, _ := lru.New[[sha256.Size]byte, grant](maxSessions)
	codes, _ := lru.New[[sha256.Size]byte, time.Time](1)
	return signIns{tries, sessions, codes}
}

// try counts a token from an address, and returns how long to wait where it must not be compared.
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

// newCode returns the code of a link. An earlier one is worth nothing any more.
func (s signIns) newCode(now time.Time) string {
	code := rand.Text()
	s.codes.Add(sha256.Sum256([]byte(code)), now.Add(linkLifetime))
	return code
}

// redeem reports whether a code can be exchanged for a session, and ends it if so.
func (s signIns) redeem(code string, now time.Time) bool {
	sum := sha256.Sum256([]byte(code))
	expires, known := s.codes.Peek(sum)
	// Remove says whether it was there: of two who send the code at once, one gets a session.
	return known && s.codes.Remove(sum) && now.Before(expires)
}

// begin returns the value of a new session's cookie.
func (s signIns) begin(token [sha256.Size]byte, now time.Time) string {
	value := rand.Text()
	s.sessions.Add(sha256.Sum256([]byte(value)), grant{now.Add(sessionLifetime), token})
	return value
}

// has reports whether a cookie's value is that of a session that lasts.
func (s signIns) has(value string, token [sha256.Size]byte, now time.Time) bool {
	// Peek leaves the oldest session the next to give way, however much it is used.
	g, known := s.sessions.Peek(sha256.Sum256([]byte(value)))
	return known && g.token == token && now.Before(g.expires)
}

// end ends a session.
func (s signIns) end(value string) { s.sessions.Remove(sha256.Sum256([]byte(value))) }
