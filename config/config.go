package config

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Defaults. Each is what holds when the attribute is absent.
const (
	// DefaultListen is where clients connect.
	DefaultListen = "127.0.0.1:8080"
	// DefaultPath is the path of the MCP endpoint.
	DefaultPath = "/mcp"
	// DefaultAdminListen is where health and metrics are served.
	DefaultAdminListen = "127.0.0.1:8081"
	// DefaultPageSize bounds the entries of one prompts/list page.
	DefaultPageSize = 100
	// DefaultSeparator stands between an upstream's prefix and the prompt's own name.
	DefaultSeparator = "."
	// DefaultTimeout bounds one call to an upstream.
	DefaultTimeout = 10 * time.Second
	// DefaultRefresh is how often an upstream that cannot notify is listed again.
	DefaultRefresh = 5 * time.Minute
	// MinRefresh is how often it may be listed at most, whatever the configuration or the server says.
	MinRefresh = 10 * time.Second
	// DefaultConcurrency bounds the calls in flight to one upstream.
	DefaultConcurrency = 256
	// DefaultAttempts is how often a call is tried in all: once, and not again.
	DefaultAttempts = 1
	// DefaultGrace is how long an upstream is down before when_down = "hide" hides its prompts.
	DefaultGrace = time.Minute
	// DefaultMaxPrompts bounds the prompts taken from one upstream's list.
	DefaultMaxPrompts = 10_000
	// DefaultMaxMessage bounds one message from an upstream, in bytes.
	DefaultMaxMessage = 4 << 20
	// DefaultBreakerFailures is how many calls in a row must go unanswered before the breaker opens.
	DefaultBreakerFailures = 5
	// DefaultBreakerCooldown is how long an open breaker refuses before it lets one call try.
	DefaultBreakerCooldown = 5 * time.Second
)

// Config is one checked configuration. After [Load] nobody checks it again, and nobody changes it.
type Config struct {
	Gateway Gateway
	Admin   Admin
	// Auth is nil when there is neither an auth block nor a client_ca_file: everybody is anonymous and in every team.
	Auth *Auth
	// Hides are the gateway-wide hide blocks, in configuration order.
	Hides []Rule
	// Teams are in configuration order.
	Teams []Team
	// Lock is what the lock file approves; empty where nothing asks for one, or where there is none.
	Lock Lock
}

// Upstreams returns the upstreams of all teams in configuration order.
func (c *Config) Upstreams() []Upstream {
	var all []Upstream
	for _, t := range c.Teams {
		all = append(all, t.Upstreams...)
	}
	return all
}

// Gateway is the gateway block.
type Gateway struct {
	Listen string
	Path   string
	// PublicURL is the address that clients use, without a path's trailing slash; empty when it was not given.
	PublicURL string
	PageSize  int
	Separator string
	// CursorKeys are 32 bytes each: the first seals, all open. Empty means a fresh random key per process.
	CursorKeys     []Key
	AllowedHosts   []string
	AllowedOrigins []string
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// TLS is nil when there is no tls block: clients are served plain HTTP.
	TLS          *ServerTLS
	Conflict     Conflict
	Instructions string
	// StateDir is the folder where the last good lists are kept, relative to the working directory; empty
	// means nowhere. It may be below the configuration, where only *.hcl is read.
	StateDir string
	// Lock holds for all teams, each of which may ask for more. See [Config.LockFor].
	Lock LockSetting
	// Limit is for all requests of a principal; nil where there is none.
	Limit *Limit
	// Screens hold for all teams. See [Config.ScreensFor].
	Screens []Screen
}

// Conflict says what becomes of one exposed name with two definitions.
type Conflict string

// The values of the conflict attribute.
const (
	ConflictDrop  Conflict = "drop"  // leave all claimants out
	ConflictFirst Conflict = "first" // keep the first in configuration order
)

// Admin is the admin block.
type Admin struct {
	Listen string
	// TokenSHA256 is the hash of the token that opens the pages for callers beyond loopback; zero when nothing does.
	TokenSHA256 Key
}

// Auth is the auth block, and the client certificates of the gateway's tls block. It has one to three kinds of
// source: all tokens are one, each jwt block is one, the certificates are one. With more than one source, everything
// in them has an As, and no two sources share one.
type Auth struct {
	// Anonymous lets a caller without a credential in as user:anonymous, member of no team.
	Anonymous bool
	Tokens    []Token
	JWTs      []JWT
	// ClientCertificates is nil when no client certificates are asked for.
	ClientCertificates *ClientCertificates
}

// Token is one static bearer token, known by its hash only.
type Token struct {
	// Subject is the block's label; the principal is user:SUBJECT.
	Subject string
	SHA256  [sha256.Size]byte
	// Groups are without the "group:" in front.
	Groups []string
	// As goes in front of the subject and the groups, with a slash: user:AS/SUBJECT. It may be empty.
	As    string
	Place Place
}

// String names a token by its subject and hides its hash.
func (t Token) String() string { return string(User) + ":" + t.Subject }

// GoString hides the hash under %#v.
func (t Token) GoString() string { return t.String() }

// LogValue hides the hash in a log.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText hides the hash in JSON.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Team is one team block.
type Team struct {
	Name      string
	Members   []Selector
	Upstreams []Upstream
	Exposes   []Rule
	Hides     []Rule
	Overrides []Override
	Screens   []Screen
	// Limit is for gets and completions of the team's prompts; nil where there is none.
	Limit *Limit
	Lock  LockSetting
	Place Place
}

// Upstream is one upstream block: a named MCP server.
type Upstream struct {
	Name string
	// Team is the name of the team whose file holds the block.
	Team string
	// Transport is how the server is reached; it decides whether URLs or Command is set.
	Transport Transport
	// TransportExplicit says that the transport attribute was written: the server is reached in no other way.
	TransportExplicit bool
	// URLs are the addresses of the replicas of one server, in configuration order; one when url was written.
	URLs    []string
	Headers map[string]Secret
	// TLS is nil when there is no tls block: https is verified as usual.
	TLS *TLS
	// OAuth is nil when there is no oauth block: no tokens are got.
	OAuth   *OAuth
	Command []string
	Env     map[string]Secret
	// Protocol is "auto" or the one revision to speak.
	Protocol string
	// Prefix stands before the separator in exposed names; empty means the prompt's name alone.
	Prefix      string
	Timeout     time.Duration
	Refresh     time.Duration
	Concurrency int
	// Rate is calls per second; 0 means as many as there are.
	Rate float64
	// Attempts is how often a call is tried in all.
	Attempts   int
	MaxPrompts int
	MaxMessage int
	// WhenDown says what becomes of the prompts while the upstream is down, with WhenDownHide after Grace.
	WhenDown WhenDown
	Grace    time.Duration
	Breaker  Breaker
	Place    Place

	// shown is set when URLs or Command hold something from env or file: the same with a mask in its place.
	shown []string
}

// Addresses are where the upstream is, for logs and pages: each of its URLs or the one command line, with what came
// from env or file masked. URLs and Command themselves may hold secrets.
func (u Upstream) Addresses() []string {
	shown := u.shown
	if shown == nil {
		shown = slices.Concat(u.URLs, u.Command)
	}
	if u.Transport == Stdio {
		return []string{strings.Join(shown, " ")}
	}
	return shown
}

// Address is all of [Upstream.Addresses] in one line.
func (u Upstream) Address() string { return strings.Join(u.Addresses(), ", ") }

// SameConnection reports whether what was connected by one upstream block does as well for another: where the blocks stand, the
// names under which prompts are exposed, and what becomes of these while the server is down do not matter for that.
func (u Upstream) SameConnection(other Upstream) bool {
	for _, u := range []*Upstream{&u, &other} {
		u.Place, u.Prefix, u.WhenDown, u.Grace = Place{}, "", "", 0
	}
	return reflect.DeepEqual(u, other)
}

// String shows an upstream by name and [Upstream.Address].
func (u Upstream) String() string { return u.Name + " (" + u.Address() + ")" }

// GoString masks like String under %#v.
func (u Upstream) GoString() string { return u.String() }

// LogValue masks like String in a log.
func (u Upstream) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText masks like String in JSON.
func (u Upstream) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Transport is how an upstream is reached.
type Transport string

// The values of the transport attribute.
const (
	StreamableHTTP Transport = "streamable-http" // unless given, SSE where the server only knows that
	SSE            Transport = "sse"             // HTTP+SSE, of 2024-11-05
	Stdio          Transport = "stdio"
)

// WhenDown says what becomes of the prompts of an upstream that is down.
type WhenDown string

// The values of the when_down attribute.
const (
	WhenDownKeep WhenDown = "keep" // go on listing them
	WhenDownHide WhenDown = "hide" // list them for the grace period, and no longer
)

// Breaker is the breaker block of an upstream.
type Breaker struct {
	Failures int
	Cooldown time.Duration
}

// Rule is an expose or a hide block.
type Rule struct {
	Label   string
	Prompts []Pattern
	// To is whom an expose block adds; empty in a hide block, which is for everybody.
	To []Selector
	// When is nil where the rule holds always.
	When *Condition
	// Limit is for gets and completions of what an expose block shows; nil where there is none.
	Limit *Limit
	Place Place
}

// Matches reports whether one of the rule's patterns matches an exposed name.
func (r *Rule) Matches(name string) bool {
	for _, p := range r.Prompts {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// SelectorKind is what a [Selector] compares.
type SelectorKind string

// The kinds of selector, as they are written before the colon.
const (
	User        SelectorKind = "user"
	Group       SelectorKind = "group"
	TeamMembers SelectorKind = "team"
	Anybody     SelectorKind = "*"
)

// Selector is one element of members or to: "user:alice", "group:payments", "team:search" or "*".
type Selector struct {
	Kind SelectorKind
	// Name is what follows the colon; empty for [Anybody].
	Name string
}

func (s Selector) String() string {
	if s.Kind == Anybody {
		return string(Anybody)
	}
	return string(s.Kind) + ":" + s.Name
}

// Place is where something stands in the configuration.
type Place struct {
	// File is the path as it was found from the --config argument.
	File string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

const masked = "(sensitive)"

// Secret is a value that never shows itself: every way of printing it gives a mask.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value, for the one place that puts it on the wire.
func (s Secret) Reveal() string { return s.value }

func (Secret) String() string { return masked }

// GoString masks the value under %#v.
func (Secret) GoString() string { return masked }

// LogValue masks the value in a log.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the value in JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// Key is 32 bytes of key material that never show themselves.
type Key struct{ bytes [32]byte }

// NewKey wraps key material.
func NewKey(bytes [32]byte) Key { return Key{bytes} }

// Reveal returns the key material.
func (k Key) Reveal() [32]byte { return k.bytes }

func (Key) String() string { return masked }

// GoString masks the key under %#v.
func (Key) GoString() string { return masked }

// LogValue masks the key in a log.
func (Key) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the key in JSON.
func (Key) MarshalText() ([]byte, error) { return []byte(masked), nil }
