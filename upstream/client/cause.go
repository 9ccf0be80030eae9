package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client/http1"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Cause explains to an operator why a server cannot be used and how to fix it. It contains no secrets of the
// configuration. Clients do not get it, because it may contain the server's address and output.
type Cause struct {
	Kind Kind
	// Problem is a clause that continues "wiki is down: ".
	Problem string
	// Remedy is a clause in the imperative.
	Remedy string
}

// String returns the problem and the remedy, joined by a semicolon.
func (c Cause) String() string {
	if c.Remedy == "" {
		return c.Problem
	}
	return c.Problem + "; " + c.Remedy
}

// Kind is the template of similar causes. Problem is a format string for the arguments of [Kind.Cause].
type Kind struct{ Problem, Remedy string }

// Cause returns a cause of this kind, with args in its problem.
func (k Kind) Cause(args ...any) Cause { return Cause{k, fmt.Sprintf(k.Problem, args...), k.Remedy} }

// The kinds of causes.
//
//nolint:gochecknoglobals // constants
var (
	CommandNotFound   = Kind{"cannot start %s: not found in PATH", "use the full path, or install it"}
	CommandMissing    = Kind{"cannot start %s: no such file", "correct the path in command; a relative one starts at the gateway's working directory"}
	CommandNotAllowed = Kind{"cannot start %s: permission denied", "make the file executable for the gateway's user"}
	CommandForeign    = Kind{"cannot start %s: not a program for this machine", "install it for this system and processor, or begin a script with #! and its interpreter"}
	InterpreterGone   = Kind{"cannot start %s: its interpreter does not exist", "install the interpreter, or correct the line of the script that begins with #!"}
	FolderUnusable    = Kind{"cannot start %s in its working folder: %s", "make the folder that dir names, for the gateway's user, and reload"}
	NoChildren        = Kind{"cannot start %s: the gateway starts no child processes on Windows", "run the gateway under WSL or in a container, or run the server by itself and set url"}
	CommandFailed     = Kind{"cannot start %s: %s", "run the command by hand as the gateway's user"}
	ExitedAtOnce      = Kind{"%s exits at once (%s)%s", "run the command by hand, with the arguments and env of its block"}
	Exited            = Kind{"%s exited (%s)%s", "see its stderr in the log; it is started again"}
	NotMessages       = Kind{"%s prints something other than MCP messages on standard output: %s", "start it in its stdio mode, and let it log to standard error"}
	SilentChild       = Kind{"%s runs, but has not answered %s within %s", "run the command by hand: it may wait for something, or still be installing itself"}

	ConnectionRefused = Kind{"connection refused at %s", "start the server, or correct host and port in the URL"}
	NoRoute           = Kind{"no route to %s", "correct the host in the URL, or this machine's network"}
	UnknownHost       = Kind{"the host name of %s does not exist", "correct the host in the URL, or this machine's DNS"}
	NameService       = Kind{"the host name of %s cannot be resolved (%s)", "check this machine's DNS"}
	AddressNotAllowed = Kind{"%s", "give the server another address: neither the gateway's own nor a cloud's metadata service"}
	ConnectionBroke   = Kind{"the connection to %s broke (%s)", "see the log of the server: it may have stopped, or a proxy closed the connection"}
	ProxyFailed       = Kind{"%s", "correct HTTPS_PROXY, HTTP_PROXY or NO_PROXY in the gateway's environment, or see the log of the proxy"}
	ConnectTimeout    = Kind{"no connection to %s within %s", "correct host and port in the URL, or allow the connection: a firewall may drop the packets"}
	TLSTimeout        = Kind{"%s did not finish the TLS handshake within %s", "check the server, and that the port is one for HTTPS"}
	AnswerTimeout     = Kind{"%s took the request, but did not answer %s within %s", "find out why the server hangs, or raise timeout; set concurrency = 1 if it serves one request at a time"}
	EndOfAnswer       = Kind{"%s began to answer %s, and did not finish within %s", "find out why the server is slow, or raise timeout"}
	StreamTimeout     = Kind{"%s named no HTTP+SSE endpoint for messages within %s", "correct the path in the URL, or remove transport: the server may not speak HTTP+SSE"}

	CertificateName    = Kind{"the certificate of %s is for another name%s", "correct the host in the URL, or set server_name in a tls block"}
	CertificateIssuer  = Kind{"the certificate of %s is from an untrusted issuer%s", "set ca_file in a tls block to the issuer's certificate"}
	CertificateTime    = Kind{"the certificate of %s %s", "renew it on the server, or correct this machine's clock"}
	CertificateOther   = Kind{"the certificate of %s cannot be accepted: %s", "replace it on the server"}
	CertificateMissing = Kind{"%s wants a client certificate, and the gateway has none", "set cert_file and key_file in a tls block"}
	CertificateRefused = Kind{"%s does not accept the gateway's certificate: %s", "set cert_file and key_file in a tls block to an accepted certificate"}
	TLSRefused         = Kind{"%s refuses the TLS connection: %s", "check the server's TLS settings: the gateway speaks TLS 1.2 and 1.3"}
	NoTLS              = Kind{"%s does not speak TLS", "write http:// in the URL, or let the server serve HTTPS"}
	NeedsTLS           = Kind{"%s wants HTTPS", "write https:// in the URL"}

	CredentialMissing  = Kind{"the server wants a credential (HTTP 401%s)", "set Authorization in headers, or add an oauth block"}
	CredentialEmpty    = Kind{"the gateway's credential is empty (HTTP 401%s)", "set the variable or file that Authorization in headers is read from"}
	CredentialRefused  = Kind{"the server refuses the gateway's credential (HTTP 401%s)", "renew it: it may have expired, or be for another server"}
	RequestDenied      = Kind{"the server refuses the request (HTTP 401%s), but accepted the gateway's credential when the session began", "see the log of the server; give the credential the right to list and get prompts"}
	AccessDenied       = Kind{"the server denies access (HTTP 403%s)", "give the gateway's credential the right to list and get prompts"}
	TokenRefused       = Kind{"no access token: %s", "check client_id, client_secret and scopes in the oauth block"}
	TokenNotFetched    = Kind{"no access token: %s", "check token_url in the oauth block, and that the authorization server runs"}
	NothingThere       = Kind{"nothing is at the path %s (HTTP %d)", "correct the path in the URL; many servers have /mcp or /sse"}
	Redirected         = Kind{"the server redirects (HTTP %d%s), and redirects are not followed", "set the URL to the final address"}
	TooManyRequests    = Kind{"the server limits the rate of requests (HTTP 429)", "lower rate or concurrency in the block, or have the limit raised"}
	PauseWanted        = Kind{"the server wants no requests until %s (HTTP %d, Retry-After)", "nothing to do: calls resume then; if this is frequent, lower rate or concurrency in the block, or have the limit raised"}
	ServerFails        = Kind{"the server fails (HTTP %d %s)", "see the log of the server"}
	BehindProxy        = Kind{"HTTP %d %s: a proxy does not reach the server, or the server takes no requests", "start the server, or correct the proxy in front of it"}
	RequestRefused     = Kind{"the server refuses the request (HTTP %d %s)", "check url and headers: the server may not speak MCP"}
	WebPage            = Kind{"a web page answers (%s), not an MCP server", "correct the path in the URL; it may be the login page of a proxy in front of the server"}
	NotMCP             = Kind{"the answer is not MCP: %s", "correct url, or the server; a proxy in front of it may change its answers"}
	AnsweredWithError  = Kind{"the server answers with an error: %s", "see the log of the server"}
	ListNotUsable      = Kind{"%s", "correct the server, or raise max_prompts"}
	SessionLost        = Kind{"the server has forgotten the session", "nothing to do: a new one is opened; if this is frequent, see the log of the server"}
	NoPromptsOffered   = Kind{"the server offers no prompts: %s", "remove the upstream, or turn on the server's prompts"}
	UnexplainedFailure = Kind{"%s", "see the log of the gateway and of the server"}
)

const (
	// maxQuoted bounds a quotation of a server's text in a cause, in bytes.
	maxQuoted = 200
	// maxNames bounds the names of a certificate that a cause shows.
	maxNames = 3
)

// quoted quotes up to maxQuoted bytes of a server's text. It escapes characters that a terminal could act on.
func quoted(text string) string { return strconv.Quote(wire.Clip(text, maxQuoted)) }

// printable returns up to maxQuoted bytes of a server's text. It replaces invisible characters and characters that a
// terminal could act on.
func printable(text string) string { return wire.Printable(wire.Clip(text, maxQuoted)) }

// CauseOf explains an error that this package returned. The error may be wrapped.
func CauseOf(err error) Cause {
	d := &Dialer{}
	if failed, ok := errors.AsType[*dialerError](err); ok {
		d = failed.dialer
	}
	c := d.explain(err)
	c.Problem = d.mask.Text(c.Problem)
	return c
}

// dialerError is the failure of a session, or of an attempt to open a session. CauseOf uses its dialer.
type dialerError struct {
	error

	dialer *Dialer
}

func (e *dialerError) Unwrap() error { return e.error }

// failure prepares an error for callers: it hides secrets, and adds the dialer that [CauseOf] needs. A [*wire.Error]
// needs no dialer. A nil error stays nil.
func (d *Dialer) failure(err error) error {
	if _, answered := err.(*wire.Error); err == nil || answered { //nolint:errorlint // for a wrapped error, the wrapper explains more
		return d.mask.Error(err)
	}
	return &dialerError{d.mask.Error(err), d}
}

// explain returns the first cause that fits. Each function returns the zero Cause for an error that it does not know.
func (d *Dialer) explain(err error) Cause {
	// The more specific functions come first: a TLS alert, for example, is a net.OpError as well.
	return cmp.Or(
		d.childCause(err), helperCause(err), d.tlsCause(err), d.timeoutCause(err), d.networkCause(err), d.statusCause(err), d.answerCause(err),
		UnexplainedFailure.Cause(err.Error()),
	)
}

// shownAddress returns the host and port of the server, unless they are sensitive.
func (d *Dialer) shownAddress() string {
	u := d.visibleURL()
	if u == nil {
		return "the address in the URL"
	}
	return hostPort(u)
}

// hostPort returns the host and port of a URL. The port is the default port of the scheme if the URL has none.
func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// visibleURL returns the server's URL, or nil if it is sensitive.
func (d *Dialer) visibleURL() *url.URL {
	if d.server.URL == "" || d.server.URL != d.server.Address() {
		return nil
	}
	u, _ := url.Parse(d.server.URL) // nil after an error
	return u
}

// childCause explains why a child process did not start, has exited or does not answer.
func (d *Dialer) childCause(err error) Cause {
	if d.server.Transport != config.Stdio {
		return Cause{}
	}
	program, output := d.server.Program(), cmp.Or(d.output.Load(), new(childOutput))
	if start, ok := errors.AsType[*startError](err); ok {
		return startCause(program, d.server.Command[0], start.err)
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		kind := Exited
		if exit.atOnce {
			kind = ExitedAtOnce
		}
		return kind.Cause(program, exit.status, exit.lastWords)
	}
	waited, ok := errors.AsType[*stageError](err)
	switch {
	case !ok || !errors.Is(err, context.DeadlineExceeded):
		return Cause{}
	case output.garbage() != "":
		return NotMessages.Cause(program, quoted(output.garbage()))
	}
	return SilentChild.Cause(program, waited.method, d.waited(waited))
}

// waited returns how long a request has waited, or the server's timeout if the error does not contain it.
func (d *Dialer) waited(e *stageError) time.Duration {
	switch {
	case !e.since.IsZero():
		return time.Since(e.since).Round(time.Second)
	case e.waited > 0:
		return e.waited.Round(time.Second)
	}
	return d.server.Timeout
}

// startCause explains why a program could not be started. program is its name in messages, and path is the executable
// file.
func startCause(program, path string, err error) Cause {
	if folder, ok := errors.AsType[*folderError](err); ok {
		return FolderUnusable.Cause(program, folder.err.Error())
	}
	switch {
	case errors.Is(err, errNoChildren):
		return NoChildren.Cause(program)
	case errors.Is(err, exec.ErrNotFound):
		return CommandNotFound.Cause(program)
	case errors.Is(err, fs.ErrNotExist):
		if _, missing := os.Stat(path); missing == nil { // a script whose interpreter is missing fails with the same error
			return InterpreterGone.Cause(program)
		}
		return CommandMissing.Cause(program)
	case errors.Is(err, fs.ErrPermission):
		return CommandNotAllowed.Cause(program)
	case errors.Is(err, syscall.ENOEXEC):
		return CommandForeign.Cause(program)
	}
	return CommandFailed.Cause(program, err)
}

// helperCause explains a failure of the token endpoint or the egress proxy.
func helperCause(err error) Cause {
	if failed, ok := errors.AsType[*proxyError](err); ok { // first, because a token endpoint's error may wrap it
		return ProxyFailed.Cause(failed)
	}
	if failed, ok := errors.AsType[*tokenEndpointError](err); ok {
		if failed.isRefusal {
			return TokenRefused.Cause(failed)
		}
		return TokenNotFetched.Cause(failed)
	}
	return Cause{}
}

// tlsCause explains why there is no TLS connection.
func (d *Dialer) tlsCause(err error) Cause {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return NoTLS.Cause(d.shownAddress())
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return CertificateName.Cause(d.shownAddress(), d.certificateNames(wrong.Certificate))
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return CertificateIssuer.Cause(d.shownAddress(), issuer(unknown.Cert))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return CertificateTime.Cause(d.shownAddress(), validity(invalid.Cert))
		}
		return CertificateOther.Cause(d.shownAddress(), invalid)
	}
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return CertificateOther.Cause(d.shownAddress(), unverified.Err)
	}
	// crypto/tls exports no type for an alert of the server, so Op identifies it.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		if d.http.missesCertificate.Load() { // do not look at the alert: in TLS 1.2 it is only "handshake failure"
			return d.certificateMissing()
		}
		if text := alert.Err.Error(); strings.Contains(text, "certificate") {
			return CertificateRefused.Cause(d.shownAddress(), text)
		}
		return TLSRefused.Cause(d.shownAddress(), alert.Err)
	}
	return Cause{}
}

// certificateMissing explains that the server requires a client certificate and accepted none.
func (d *Dialer) certificateMissing() Cause {
	if t := d.server.TLS; t != nil && t.Certificate.Reveal() != "" {
		return CertificateRefused.Cause(d.shownAddress(), "it is from none of the server's accepted issuers")
	}
	return CertificateMissing.Cause(d.shownAddress())
}

// certificateNames lists the names in a certificate, unless they would show a sensitive address.
func (d *Dialer) certificateNames(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if d.visibleURL() == nil || len(names) == 0 {
		return ""
	}
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}
	return fmt.Sprintf(" (%s)", printable(strings.Join(names, ", ")))
}

func issuer(c *x509.Certificate) string {
	if c == nil || c.Issuer.CommonName == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", quoted(c.Issuer.CommonName))
}

func validity(c *x509.Certificate) string {
	if time.Now().Before(c.NotBefore) {
		return "is valid only from " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return "expired at " + c.NotAfter.UTC().Format(time.RFC3339)
}

// networkCause explains why there is no connection.
func (d *Dialer) networkCause(err error) Cause {
	if unresolved, ok := errors.AsType[*resolveError](err); ok {
		if unresolved.cause.IsNotFound {
			return UnknownHost.Cause(d.shownAddress())
		}
		return NameService.Cause(d.shownAddress(), unresolved.cause.Err)
	}
	if guarded, ok := errors.AsType[*guardError](err); ok {
		return AddressNotAllowed.Cause(guarded)
	}
	dial, dialed := errors.AsType[*net.OpError](err)
	dialed = dialed && dial.Op == "dial"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return ConnectionRefused.Cause(d.shownAddress())
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return NoRoute.Cause(d.shownAddress())
	case dialed && dial.Timeout():
		return ConnectTimeout.Cause(d.shownAddress(), dialTimeout)
	case errors.Is(err, http1.ErrHandshakeTimeout):
		return TLSTimeout.Cause(d.shownAddress(), dialTimeout)
	case errors.Is(err, http1.ErrWantsTLS):
		return NeedsTLS.Cause(d.shownAddress())
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, errStreamEnded), errors.Is(err, net.ErrClosed):
		return ConnectionBroke.Cause(d.shownAddress(), rootOf(err))
	}
	return Cause{}
}

// rootOf returns the innermost error, such as "connection reset by peer". Unlike the errors that wrap it, it contains
// no address.
func rootOf(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// timeoutCause explains in which step a request timed out.
func (d *Dialer) timeoutCause(err error) Cause {
	waited, ok := errors.AsType[*stageError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		return Cause{}
	}
	switch waited.stage {
	case stageConnect:
		return ConnectTimeout.Cause(d.shownAddress(), d.waited(waited))
	case stageTLS:
		return TLSTimeout.Cause(d.shownAddress(), d.waited(waited))
	case stageBody:
		return EndOfAnswer.Cause(d.shownAddress(), waited.method, d.waited(waited))
	case stageStream:
		return StreamTimeout.Cause(d.shownAddress(), d.waited(waited))
	case stageAnswer:
	}
	c := AnswerTimeout.Cause(d.shownAddress(), waited.method, d.waited(waited))
	if waited.method == wire.Discover && d.negotiatesEra() {
		c.Remedy = `find out why the server hangs; if it does not know the method, set protocol = "` + wire.LatestLegacy + `"`
	}
	return c
}

// statusCause explains an HTTP status that is not a success.
func (d *Dialer) statusCause(err error) Cause {
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return Cause{}
	}
	code, text := status.Status, http.StatusText(status.Status)
	switch {
	case status.tls.kind == NeedsTLS:
		return NeedsTLS.Cause(d.shownAddress())
	case status.tls.kind == CertificateMissing:
		return d.certificateMissing()
	case status.tls.kind == CertificateRefused:
		return CertificateRefused.Cause(d.shownAddress(), quoted(status.tls.text))
	case code == http.StatusUnauthorized:
		return d.credentialKind(status).Cause(status.shownChallenge())
	case code == http.StatusProxyAuthRequired:
		return ProxyFailed.Cause("the egress proxy refuses the gateway (HTTP 407)")
	case code == http.StatusForbidden:
		return AccessDenied.Cause(status.shownChallenge())
	case code == http.StatusNotFound, code == http.StatusGone, code == http.StatusMethodNotAllowed:
		path := "in the URL"
		if u := d.visibleURL(); u != nil {
			path = cmp.Or(u.EscapedPath(), "/")
		}
		c := NothingThere.Cause(path, code)
		if d.server.TransportExplicit {
			c.Remedy += ", or remove transport: the server may speak another one"
		}
		return c
	case status.AsksForPause():
		return PauseWanted.Cause(status.retryAt.UTC().Format(time.RFC3339), code)
	case code == http.StatusTooManyRequests:
		return TooManyRequests.Cause()
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return BehindProxy.Cause(code, text)
	case code/100 == 3:
		to := ""
		if status.location != "" && d.visibleURL() != nil {
			to = ", to " + printable(status.location)
		}
		return Redirected.Cause(code, to)
	case code/100 == 5:
		return ServerFails.Cause(code, text)
	}
	return RequestRefused.Cause(code, text)
}

// credentialKind returns the kind of cause for an HTTP 401.
func (d *Dialer) credentialKind(status *StatusError) Kind {
	isSent := d.server.OAuth != nil
	for name, value := range d.server.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			isSent = true
			switch strings.ToLower(strings.TrimSpace(value.Reveal())) {
			case "", "bearer", "basic":
				return CredentialEmpty
			}
		}
	}
	switch {
	case !isSent:
		return CredentialMissing
	case status.inHandshake:
		return CredentialRefused
	}
	return RequestDenied
}

// answerCause explains a response that cannot be used.
func (d *Dialer) answerCause(err error) Cause {
	if nonsense, ok := errors.AsType[*ProtocolError](err); ok {
		if nonsense.contentType == "text/html" || nonsense.contentType == "application/xhtml+xml" {
			return WebPage.Cause(nonsense.contentType)
		}
		c := NotMCP.Cause(nonsense.problem)
		if nonsense.wrongRevision && !d.negotiatesEra() {
			c.Remedy = "set protocol to a revision that the server speaks, or remove it"
		}
		return c
	}
	if list, ok := errors.AsType[*ListError](err); ok {
		return ListNotUsable.Cause(list)
	}
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		return AnsweredWithError.Cause(fmt.Sprintf("%d %s", answer.Code, quoted(answer.Message)))
	}
	if errors.Is(err, ErrSessionLost) {
		return SessionLost.Cause()
	}
	return Cause{}
}
