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

// Cause says to an operator why a server cannot be used, and what to do about it. It holds no
// secrets of the configuration. It may name the server's address and quote the server, so it is not
// for clients.
type Cause struct {
	// Kind is the row of the table of causes that it comes from.
	Kind Kind
	// Problem is a clause to follow "wiki is down: ".
	Problem string
	// Remedy is a clause in the imperative.
	Remedy string
}

// String writes a cause as one clause.
func (c Cause) String() string {
	if c.Remedy == "" {
		return c.Problem
	}
	return c.Problem + "; " + c.Remedy
}

// Kind names a kind of cause.
type Kind string

// The kinds of causes; see the table of causes for what each says.
const (
	CommandNotFound   Kind = "command_not_found"
	CommandMissing    Kind = "command_missing"
	CommandNotAllowed Kind = "command_not_executable"
	CommandForeign    Kind = "command_not_a_program"
	InterpreterGone   Kind = "interpreter_missing"
	FolderUnusable    Kind = "working_folder_unusable"
	NoChildren        Kind = "no_child_processes"
	CommandFailed     Kind = "command_failed"
	ExitedAtOnce      Kind = "exited_at_once"
	Exited            Kind = "exited"
	NotMessages       Kind = "prints_no_messages"
	SilentChild       Kind = "child_silent"

	ConnectionRefused Kind = "connection_refused"
	NoRoute           Kind = "no_route"
	UnknownHost       Kind = "unknown_host"
	NameService       Kind = "name_service"
	AddressNotAllowed Kind = "address_not_allowed"
	ConnectionBroke   Kind = "connection_broke"
	ProxyFailed       Kind = "egress_proxy"
	ConnectTimeout    Kind = "timeout_connecting"
	TLSTimeout        Kind = "timeout_tls"
	AnswerTimeout     Kind = "timeout_answer"
	EndOfAnswer       Kind = "timeout_end_of_answer"
	StreamTimeout     Kind = "timeout_stream"

	CertificateName    Kind = "certificate_name"
	CertificateIssuer  Kind = "certificate_issuer"
	CertificateTime    Kind = "certificate_time"
	CertificateOther   Kind = "certificate_invalid"
	CertificateMissing Kind = "certificate_missing"
	CertificateRefused Kind = "certificate_refused"
	TLSRefused         Kind = "tls_refused"
	NoTLS              Kind = "no_tls"
	NeedsTLS           Kind = "needs_tls"

	CredentialMissing  Kind = "credential_missing"
	CredentialEmpty    Kind = "credential_empty"
	CredentialRefused  Kind = "credential_refused"
	RequestDenied      Kind = "request_denied"
	AccessDenied       Kind = "access_denied"
	TokenRefused       Kind = "token_refused"
	TokenNotFetched    Kind = "token_not_fetched"
	NothingThere       Kind = "nothing_there"
	Redirected         Kind = "redirected"
	TooManyRequests    Kind = "too_many_requests"
	PauseWanted        Kind = "pause_wanted"
	ServerFails        Kind = "server_fails"
	BehindProxy        Kind = "not_behind_proxy"
	RequestRefused     Kind = "request_refused"
	WebPage            Kind = "web_page"
	NotMCP             Kind = "not_mcp"
	AnsweredWithError  Kind = "answered_with_error"
	ListNotUsable      Kind = "list_not_usable"
	SessionLost        Kind = "session_lost"
	NoPromptsOffered   Kind = "no_prompts"
	UnexplainedFailure Kind = "other"
)

// causeText is what a kind of cause says. Problem is a format.
type causeText struct{ problem, remedy string }

// causes is the table of causes. Operators get each with its remedy.
var causes = map[Kind]causeText{ //nolint:gochecknoglobals // a constant table
	CommandNotFound:   {"cannot start %s: not found in PATH", "use the full path, or install it"},
	CommandMissing:    {"cannot start %s: no such file", "correct the path in command; a relative one starts at the gateway's working directory"},
	CommandNotAllowed: {"cannot start %s: permission denied", "make the file executable for the gateway's user"},
	CommandForeign:    {"cannot start %s: not a program for this machine", "install it for this system and processor, or begin a script with #! and its interpreter"},
	InterpreterGone:   {"cannot start %s: its interpreter does not exist", "install the interpreter, or correct the line of the script that begins with #!"},
	FolderUnusable:    {"cannot start %s in its working folder: %s", "make the folder that dir names, for the gateway's user, and reload"},
	NoChildren:        {"cannot start %s: the gateway starts no child processes on Windows", "run the gateway under WSL or in a container, or run the server by itself and set url"},
	CommandFailed:     {"cannot start %s: %s", "run the command by hand as the gateway's user"},
	ExitedAtOnce:      {"%s exits at once (%s)%s", "run the command by hand, with the arguments and env of its block"},
	Exited:            {"%s exited (%s)%s", "see its stderr in the log; it is started again"},
	NotMessages:       {"%s prints something other than MCP messages on standard output: %s", "start it in its stdio mode, and let it log to standard error"},
	SilentChild:       {"%s runs, but has not answered %s within %s", "run the command by hand: it may wait for something, or still be installing itself"},

	ConnectionRefused: {"connection refused at %s", "start the server, or correct host and port in the URL"},
	NoRoute:           {"no route to %s", "correct the host in the URL, or this machine's network"},
	UnknownHost:       {"the host name of %s does not exist", "correct the host in the URL, or this machine's DNS"},
	NameService:       {"the host name of %s cannot be resolved (%s)", "check this machine's DNS"},
	AddressNotAllowed: {"%s", "give the server another address: neither the gateway's own nor a cloud's metadata service"},
	ConnectionBroke:   {"the connection to %s broke (%s)", "see the log of the server: it may have stopped, or a proxy closed the connection"},
	ProxyFailed:       {"%s", "correct HTTPS_PROXY, HTTP_PROXY or NO_PROXY in the gateway's environment, or see the log of the proxy"},
	ConnectTimeout:    {"no connection to %s within %s", "correct host and port in the URL, or allow the connection: a firewall may drop the packets"},
	TLSTimeout:        {"%s did not finish the TLS handshake within %s", "check the server, and that the port is one for HTTPS"},
	AnswerTimeout:     {"%s took the request, but did not answer %s within %s", "find out why the server hangs, or raise timeout; set concurrency = 1 if it serves one request at a time"},
	EndOfAnswer:       {"%s began to answer %s, and did not finish within %s", "find out why the server is slow, or raise timeout"},
	StreamTimeout:     {"%s named no HTTP+SSE endpoint for messages within %s", "correct the path in the URL, or remove transport: the server may not speak HTTP+SSE"},

	CertificateName:    {"the certificate of %s is for another name%s", "correct the host in the URL, or set server_name in a tls block"},
	CertificateIssuer:  {"the certificate of %s is from an untrusted issuer%s", "set ca_file in a tls block to the issuer's certificate"},
	CertificateTime:    {"the certificate of %s %s", "renew it on the server, or correct this machine's clock"},
	CertificateOther:   {"the certificate of %s cannot be accepted: %s", "replace it on the server"},
	CertificateMissing: {"%s wants a client certificate, and the gateway has none", "set cert_file and key_file in a tls block"},
	CertificateRefused: {"%s does not accept the gateway's certificate: %s", "set cert_file and key_file in a tls block to an accepted certificate"},
	TLSRefused:         {"%s refuses the TLS connection: %s", "check the server's TLS settings: the gateway speaks TLS 1.2 and 1.3"},
	NoTLS:              {"%s does not speak TLS", "write http:// in the URL, or let the server serve HTTPS"},
	NeedsTLS:           {"%s wants HTTPS", "write https:// in the URL"},

	CredentialMissing:  {"the server wants a credential (HTTP 401%s)", "set Authorization in headers, or add an oauth block"},
	CredentialEmpty:    {"the gateway's credential is empty (HTTP 401%s)", "set the variable or file that Authorization in headers is read from"},
	CredentialRefused:  {"the server refuses the gateway's credential (HTTP 401%s)", "renew it: it may have expired, or be for another server"},
	RequestDenied:      {"the server refuses the request (HTTP 401%s), but accepted the gateway's credential when the session began", "see the log of the server; give the credential the right to list and get prompts"},
	AccessDenied:       {"the server denies access (HTTP 403%s)", "give the gateway's credential the right to list and get prompts"},
	TokenRefused:       {"no access token: %s", "check client_id, client_secret and scopes in the oauth block"},
	TokenNotFetched:    {"no access token: %s", "check token_url in the oauth block, and that the authorization server runs"},
	NothingThere:       {"nothing is at the path %s (HTTP %d)", "correct the path in the URL; many servers have /mcp or /sse"},
	Redirected:         {"the server redirects (HTTP %d%s), and redirects are not followed", "set the URL to the final address"},
	TooManyRequests:    {"the server limits the rate of requests (HTTP 429)", "lower rate or concurrency in the block, or have the limit raised"},
	PauseWanted:        {"the server wants no requests until %s (HTTP %d, Retry-After)", "nothing to do: calls resume then; if this is frequent, lower rate or concurrency in the block, or have the limit raised"},
	ServerFails:        {"the server fails (HTTP %d %s)", "see the log of the server"},
	BehindProxy:        {"HTTP %d %s: a proxy does not reach the server, or the server takes no requests", "start the server, or correct the proxy in front of it"},
	RequestRefused:     {"the server refuses the request (HTTP %d %s)", "check url and headers: the server may not speak MCP"},
	WebPage:            {"a web page answers (%s), not an MCP server", "correct the path in the URL; it may be the login page of a proxy in front of the server"},
	NotMCP:             {"the answer is not MCP: %s", "correct url, or the server; a proxy in front of it may change its answers"},
	AnsweredWithError:  {"the server answers with an error: %s", "see the log of the server"},
	ListNotUsable:      {"%s", "correct the server, or raise max_prompts"},
	SessionLost:        {"the server has forgotten the session", "nothing to do: a new one is opened; if this is frequent, see the log of the server"},
	NoPromptsOffered:   {"the server offers no prompts: %s", "remove the upstream, or turn on the server's prompts"},
	UnexplainedFailure: {"%s", "see the log of the gateway and of the server"},
}

// newCause fills in a row of the table.
func newCause(kind Kind, args ...any) Cause {
	text := causes[kind]
	return Cause{kind, fmt.Sprintf(text.problem, args...), text.remedy}
}

const (
	// maxQuoted bounds what a cause quotes of a server's text, in bytes.
	maxQuoted = 200
	// maxNames bounds the names of a certificate that a cause shows.
	maxNames = 3
)

// quoted quotes a server's text, up to maxQuoted, so that nothing in it acts on a terminal.
func quoted(text string) string { return strconv.Quote(wire.Clip(text, maxQuoted)) }

// printable replaces what people cannot see, or a terminal could act on, in a server's text up to
// maxQuoted.
func printable(text string) string { return wire.Printable(wire.Clip(text, maxQuoted)) }

// CauseOf explains an error of this package's, whatever it is wrapped in.
func CauseOf(err error) Cause {
	d := &Dialer{}
	if failed, ok := errors.AsType[*dialerError](err); ok {
		d = failed.dialer
	}
	c := d.explain(err)
	c.Problem = d.mask.Text(c.Problem)
	return c
}

// dialerError is the failure of a session or of an attempt to open one, with its dialer, which
// knows what explains it.
type dialerError struct {
	error

	dialer *Dialer
}

func (e *dialerError) Unwrap() error { return e.error }

// failure returns an error as it leaves the package: without secrets, and such that [CauseOf] can
// explain it. What a server answered explains itself.
func (d *Dialer) failure(err error) error {
	if _, answered := err.(*wire.Error); err == nil || answered { //nolint:errorlint // of a wrapped one, what it is wrapped in says more
		return d.mask.Error(err)
	}
	return &dialerError{d.mask.Error(err), d}
}

func (d *Dialer) explain(err error) Cause {
	// The more specific come first: an alert of TLS, for one, is a net.OpError as well.
	for _, explain := range []func(error) (Cause, bool){
		d.childCause, d.tokenCause, proxyCause, d.tlsCause, d.timeoutCause, d.networkCause, d.statusCause, d.answerCause,
	} {
		if c, ok := explain(err); ok {
			return c
		}
	}
	return newCause(UnexplainedFailure, err.Error())
}

// shownAddress returns host and port of the server, as far as they may be shown.
func (d *Dialer) shownAddress() string {
	u := d.visibleURL()
	if u == nil {
		return "the address in the URL"
	}
	return hostPort(u)
}

// hostPort returns host and port of a URL.
func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// visibleURL returns the server's URL, or nil if that is sensitive.
func (d *Dialer) visibleURL() *url.URL {
	if d.server.URL == "" || d.server.URL != d.server.Address() {
		return nil
	}
	u, _ := url.Parse(d.server.URL) // nil for an error
	return u
}

// childCause explains why a child process does not serve.
func (d *Dialer) childCause(err error) (Cause, bool) {
	if d.server.Transport != config.Stdio {
		return Cause{}, false
	}
	program, said := d.server.Program(), d.output.Load()
	if start, ok := errors.AsType[*startError](err); ok {
		return startCause(program, d.server.Command[0], start.err), true
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		kind := Exited
		if exit.atOnce {
			kind = ExitedAtOnce
		}
		return newCause(kind, program, exit.status, exit.said), true
	}
	waited, ok := errors.AsType[*stageError](err)
	switch {
	case !ok || !errors.Is(err, context.DeadlineExceeded):
		return Cause{}, false
	case said.garbage() != "":
		return newCause(NotMessages, program, quoted(said.garbage())), true
	}
	return newCause(SilentChild, program, waited.method, d.waited(waited)), true
}

// waited returns how long a request has been waited for.
func (d *Dialer) waited(e *stageError) time.Duration {
	switch {
	case !e.since.IsZero():
		return time.Since(e.since).Round(time.Second)
	case e.waited > 0:
		return e.waited.Round(time.Second)
	}
	return d.server.Timeout
}

// startCause explains why a program could not be started. It is shown as program, and was started
// as path.
func startCause(program, path string, err error) Cause {
	if folder, ok := errors.AsType[*folderError](err); ok {
		return newCause(FolderUnusable, program, folder.err.Error())
	}
	switch {
	case errors.Is(err, errNoChildren):
		return newCause(NoChildren, program)
	case errors.Is(err, exec.ErrNotFound):
		return newCause(CommandNotFound, program)
	case errors.Is(err, fs.ErrNotExist):
		if _, missing := os.Stat(path); missing == nil { // the system says the same of a script whose interpreter is missing
			return newCause(InterpreterGone, program)
		}
		return newCause(CommandMissing, program)
	case errors.Is(err, fs.ErrPermission):
		return newCause(CommandNotAllowed, program)
	case errors.Is(err, syscall.ENOEXEC):
		return newCause(CommandForeign, program)
	}
	return newCause(CommandFailed, program, err)
}

// tokenCause explains why there is no access token.
func (d *Dialer) tokenCause(err error) (Cause, bool) {
	failed, ok := errors.AsType[*tokenEndpointError](err)
	switch {
	case !ok:
		return Cause{}, false
	case failed.isRefusal:
		return newCause(TokenRefused, failed), true
	}
	return newCause(TokenNotFetched, failed), true
}

// proxyCause explains why there is no connection to the egress proxy, or through it.
func proxyCause(err error) (Cause, bool) {
	if failed, ok := errors.AsType[*proxyError](err); ok {
		return newCause(ProxyFailed, failed), true
	}
	return Cause{}, false
}

// tlsCause explains why there is no TLS connection.
func (d *Dialer) tlsCause(err error) (Cause, bool) {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return newCause(NoTLS, d.shownAddress()), true
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return newCause(CertificateName, d.shownAddress(), d.certificateNames(wrong.Certificate)), true
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return newCause(CertificateIssuer, d.shownAddress(), issuer(unknown.Cert)), true
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return newCause(CertificateTime, d.shownAddress(), validity(invalid.Cert)), true
		}
		return newCause(CertificateOther, d.shownAddress(), invalid), true
	}
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return newCause(CertificateOther, d.shownAddress(), unverified.Err), true
	}
	// An alert of the server's has no exported type.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		if d.http.missesCertificate.Load() { // whatever the alert is: it is "handshake failure" in TLS 1.2
			return d.certificateMissing(), true
		}
		if text := alert.Err.Error(); strings.Contains(text, "certificate") {
			return newCause(CertificateRefused, d.shownAddress(), text), true
		}
		return newCause(TLSRefused, d.shownAddress(), alert.Err), true
	}
	return Cause{}, false
}

// certificateMissing explains why a server has got no client certificate.
func (d *Dialer) certificateMissing() Cause {
	if t := d.server.TLS; t != nil && t.Certificate.Reveal() != "" {
		return newCause(CertificateRefused, d.shownAddress(), "it is from none of the server's accepted issuers")
	}
	return newCause(CertificateMissing, d.shownAddress())
}

// certificateNames says for whom a certificate is, unless that would show a sensitive address.
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
func (d *Dialer) networkCause(err error) (Cause, bool) {
	if unresolved, ok := errors.AsType[*resolveError](err); ok {
		if unresolved.cause.IsNotFound {
			return newCause(UnknownHost, d.shownAddress()), true
		}
		return newCause(NameService, d.shownAddress(), unresolved.cause.Err), true
	}
	if guarded, ok := errors.AsType[*guardError](err); ok {
		return newCause(AddressNotAllowed, guarded), true
	}
	dial, dialed := errors.AsType[*net.OpError](err)
	dialed = dialed && dial.Op == "dial"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return newCause(ConnectionRefused, d.shownAddress()), true
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return newCause(NoRoute, d.shownAddress()), true
	case dialed && dial.Timeout():
		return newCause(ConnectTimeout, d.shownAddress(), dialTimeout), true
	case errors.Is(err, http1.ErrHandshakeTimeout):
		return newCause(TLSTimeout, d.shownAddress(), dialTimeout), true
	case errors.Is(err, http1.ErrWantsTLS):
		return newCause(NeedsTLS, d.shownAddress()), true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, errStreamEnded), errors.Is(err, net.ErrClosed):
		return newCause(ConnectionBroke, d.shownAddress(), rootOf(err)), true
	}
	return Cause{}, false
}

// rootOf returns the innermost error, which names no addresses.
func rootOf(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// timeoutCause says in which step the time was over.
func (d *Dialer) timeoutCause(err error) (Cause, bool) {
	waited, ok := errors.AsType[*stageError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		return Cause{}, false
	}
	switch waited.stage {
	case stageConnect:
		return newCause(ConnectTimeout, d.shownAddress(), d.waited(waited)), true
	case stageTLS:
		return newCause(TLSTimeout, d.shownAddress(), d.waited(waited)), true
	case stageBody:
		return newCause(EndOfAnswer, d.shownAddress(), waited.method, d.waited(waited)), true
	case stageStream:
		return newCause(StreamTimeout, d.shownAddress(), d.waited(waited)), true
	case stageAnswer:
	}
	c := newCause(AnswerTimeout, d.shownAddress(), waited.method, d.waited(waited))
	if waited.method == wire.Discover && d.negotiatesEra() {
		c.Remedy = `find out why the server hangs; if it does not know the method, set protocol = "` + wire.LatestLegacy + `"`
	}
	return c, true
}

// statusCause explains an HTTP status.
func (d *Dialer) statusCause(err error) (Cause, bool) {
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return Cause{}, false
	}
	code, text := status.Status, http.StatusText(status.Status)
	switch {
	case status.tls.kind == NeedsTLS:
		return newCause(NeedsTLS, d.shownAddress()), true
	case status.tls.kind == CertificateMissing:
		return d.certificateMissing(), true
	case status.tls.kind == CertificateRefused:
		return newCause(CertificateRefused, d.shownAddress(), quoted(status.tls.text)), true
	case code == http.StatusUnauthorized && d.sendsEmptyCredential():
		return newCause(CredentialEmpty, status.shownChallenge()), true
	case code == http.StatusUnauthorized && d.sendsCredential() && !status.inHandshake:
		return newCause(RequestDenied, status.shownChallenge()), true
	case code == http.StatusUnauthorized && d.sendsCredential():
		return newCause(CredentialRefused, status.shownChallenge()), true
	case code == http.StatusUnauthorized:
		return newCause(CredentialMissing, status.shownChallenge()), true
	case code == http.StatusProxyAuthRequired:
		return newCause(ProxyFailed, "the egress proxy refuses the gateway (HTTP 407)"), true
	case code == http.StatusForbidden:
		return newCause(AccessDenied, status.shownChallenge()), true
	case code == http.StatusNotFound, code == http.StatusGone, code == http.StatusMethodNotAllowed:
		path := "in the URL"
		if u := d.visibleURL(); u != nil {
			path = cmp.Or(u.EscapedPath(), "/")
		}
		c := newCause(NothingThere, path, code)
		if d.server.TransportExplicit {
			c.Remedy += ", or remove transport: the server may speak another one"
		}
		return c, true
	case status.AsksForPause():
		return newCause(PauseWanted, status.retryAt.UTC().Format(time.RFC3339), code), true
	case code == http.StatusTooManyRequests:
		return newCause(TooManyRequests), true
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return newCause(BehindProxy, code, text), true
	case code/100 == 3:
		to := ""
		if status.location != "" && d.visibleURL() != nil {
			to = ", to " + printable(status.location)
		}
		return newCause(Redirected, code, to), true
	case code/100 == 5:
		return newCause(ServerFails, code, text), true
	}
	return newCause(RequestRefused, code, text), true
}

// sendsCredential reports whether the configuration has a credential for the server.
func (d *Dialer) sendsCredential() bool {
	if d.server.OAuth != nil {
		return true
	}
	for name := range d.server.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}

// sendsEmptyCredential reports whether the configured credential is a scheme without a token.
func (d *Dialer) sendsEmptyCredential() bool {
	for name, value := range d.server.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			token := strings.ToLower(strings.TrimSpace(value.Reveal()))
			return token == "" || token == "bearer" || token == "basic"
		}
	}
	return false
}

// answerCause explains an answer that cannot be used.
func (d *Dialer) answerCause(err error) (Cause, bool) {
	if nonsense, ok := errors.AsType[*ProtocolError](err); ok {
		if nonsense.contentType == "text/html" || nonsense.contentType == "application/xhtml+xml" {
			return newCause(WebPage, nonsense.contentType), true
		}
		c := newCause(NotMCP, nonsense.problem)
		if nonsense.isOfRevision && !d.negotiatesEra() {
			c.Remedy = "set protocol to a revision that the server speaks, or remove it"
		}
		return c, true
	}
	if list, ok := errors.AsType[*ListError](err); ok {
		return newCause(ListNotUsable, list), true
	}
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		return newCause(AnsweredWithError, fmt.Sprintf("%d %s", answer.Code, quoted(answer.Message))), true
	}
	if errors.Is(err, ErrSessionLost) {
		return newCause(SessionLost), true
	}
	return Cause{}, false
}
