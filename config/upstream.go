package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Defaults and bounds of an upstream block.
const (
	// DefaultTimeout bounds one call to an upstream.
	DefaultTimeout = 10 * time.Second
	// DefaultRefresh is how often an upstream that cannot notify is listed again.
	DefaultRefresh = 5 * time.Minute
	// MinRefresh is the shortest interval between two lists, whatever the configuration or the
	// server says.
	MinRefresh = 10 * time.Second
	// DefaultConcurrency bounds the calls in flight to one upstream.
	DefaultConcurrency = 256
	// DefaultAttempts is how often a call is tried in all: once, without a retry.
	DefaultAttempts = 1
	// DefaultMaxPrompts bounds the prompts taken from one upstream's list.
	DefaultMaxPrompts = 10_000
	// DefaultMaxMessage bounds one message from an upstream, in bytes.
	DefaultMaxMessage = 4 << 20
	// DefaultBreakerFailures is how many calls in a row must go unanswered before the breaker
	// opens.
	DefaultBreakerFailures = 5
	// DefaultBreakerCooldown is how long an open breaker refuses calls before it lets two callers
	// try.
	DefaultBreakerCooldown = 5 * time.Second

	defaultGrace = time.Minute
	maxAttempts  = 10
	// maxTimeout bounds a call, because what waits for calls to end must not wait for ever.
	maxTimeout = time.Hour
	// maxDuration is as good as never, and far from the longest time that can be added to another.
	maxDuration = 366 * 24 * time.Hour
)

// Upstream is one upstream block: a named MCP server.
type Upstream struct {
	// Name is the block's label, which no other upstream of the configuration has.
	Name string
	// Team is the name of the team whose file has the block.
	Team string
	// Transport is how the server is reached; it decides whether URL or Command is set.
	Transport Transport
	// TransportExplicit means that the transport attribute is written: no other transport is tried.
	TransportExplicit bool
	// URL is the address of the server.
	URL string
	// HostGrant says how the team was granted the host of URL.
	HostGrant HostGrant
	// Headers are sent with every request, Env is added to the environment of Command.
	Headers map[string]Secret
	// TLS is nil without a tls block: https is verified with the system's certificates.
	TLS *TLS
	// OAuth is nil without an oauth block: no access tokens are sent.
	OAuth *OAuth
	// Assertion is nil without an assertion block: the server does not learn who calls.
	Assertion *Assertion
	// Command is a program and its arguments.
	Command []string
	Env     map[string]Secret
	// Dir is the working folder of Command, absolute and without links; empty for the gateway's.
	Dir string
	// Files is nil for a server. Without a server, URL and Command are empty.
	Files *Files
	// Format is that of Files; if it is empty, signs tell that of each.
	Format FileFormat
	// Texts says that the definition of a prompt from files carries the hash of its text.
	Texts bool
	// Skills says whether the skills that the server declares are served.
	Skills SkillsMode
	// Resources says which of the server's resources can be read.
	Resources ResourcesMode
	// Protocol is "auto" or the one revision to speak.
	Protocol string
	// Prefix stands before the separator in exposed names; empty means that names have no prefix.
	Prefix string
	// Timeout bounds a call, Refresh is how often a server that cannot notify is listed again.
	Timeout time.Duration
	Refresh time.Duration
	// Concurrency bounds the calls in flight.
	Concurrency int
	// Rate is calls per second; 0 is no bound.
	Rate float64
	// Attempts is how often a call is tried in all.
	Attempts int
	// MaxPrompts bounds the list, MaxMessage a message in bytes.
	MaxPrompts int
	MaxMessage int
	// WhenDown says what happens to the prompts while the upstream is down; WhenDownHide applies
	// after Grace.
	WhenDown WhenDown
	Grace    time.Duration
	Breaker  Breaker
	Place    Place

	// shown is URL, or Command, with masks. It is nil if neither holds a sensitive value.
	shown []string
	// hidesDir means that Dir has a sensitive value in it.
	hidesDir bool
}

// Address returns where the upstream is, for logs and pages: its URL, the command line, or the
// patterns of its files. Values from env or file are masked here, but not in URL and Command.
func (u Upstream) Address() string {
	switch {
	case u.Files != nil:
		return u.Files.shownPatterns()
	case u.Transport == Stdio:
		return strings.Join(hideWords(u.shownWords()), " ")
	}
	return strings.Join(u.shownWords(), "") // a user or password in a URL is an error
}

// words returns the URL, or the words of the command.
func (u Upstream) words() []string {
	if u.URL != "" {
		return []string{u.URL}
	}
	return u.Command
}

// shownWords returns the words with masks.
func (u Upstream) shownWords() []string {
	if u.shown != nil {
		return u.shown
	}
	return u.words()
}

// Program returns the program of Command, masked like [Upstream.Address].
func (u Upstream) Program() string {
	if u.shown != nil {
		return u.shown[0]
	}
	return u.Command[0]
}

// SameConnection reports whether a connection that one upstream block made can serve another. The
// location of the block, the prefix, which resources can be read, whether the server learns who calls and what
// happens while it is down make no difference to a connection.
func (u Upstream) SameConnection(other Upstream) bool {
	for _, u := range []*Upstream{&u, &other} {
		// Both are copies.
		u.Place, u.Prefix, u.WhenDown, u.Grace, u.Resources, u.Assertion = Place{}, "", "", 0, "", nil
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
	// The default for a url; unless it is written, SSE is tried too.
	StreamableHTTP Transport = "streamable-http"
	SSE            Transport = "sse" // HTTP+SSE of 2024-11-05
	Stdio          Transport = "stdio"
	NoServer       Transport = "files" // prompts from files; not a value of the attribute
)

// WhenDown says what happens to the prompts of an upstream that is down.
type WhenDown string

// The values of the when_down attribute.
const (
	WhenDownKeep WhenDown = "keep" // keep listing them
	WhenDownHide WhenDown = "hide" // list them for the grace period only
)

// ResourcesMode says which of a server's resources can be read through the gateway.
type ResourcesMode string

// ResourcesLinked is the value of the resources attribute: those that results of gets link to. The
// zero value is for none.
const ResourcesLinked ResourcesMode = "linked"

// Breaker is the breaker block of an upstream.
type Breaker struct {
	// Failures is how many calls in a row must go unanswered to open the breaker.
	Failures int
	// Cooldown is how long an open breaker refuses calls.
	Cooldown time.Duration
}

func upstreamSchema() hclread.Schema {
	return hclread.Schema{
		Plain: []string{
			"transport", "protocol", "prefix", "timeout", "refresh", "concurrency", "rate", "max_prompts", "max_message", "when_down", "grace",
			"files", "format", "texts", "skills", "resources",
		},
		External: []string{"url", "command", "dir"},
		Secret:   []string{"headers", "env"},
		Blocks: []hclread.BlockSchema{
			{Type: "breaker", Schema: hclread.Schema{Plain: []string{"failures", "cooldown"}}},
			{Type: "retry", Schema: hclread.Schema{Plain: []string{"attempts"}}},
			{Type: "tls", Schema: tlsSchema()},
			{Type: "oauth", Schema: oauthSchema()},
			{Type: "assertion", Schema: assertionSchema()},
		},
		Misplaced: map[string]string{
			"members": "the team block", "lock": "the team block", "expose": "the team block", "hide": "the team block",
			"limit": "the team block", "prompt": "the team block", "screen": "the team block",
			"args": "command, after the program",
		},
		Foreign: foreignAttributes(),
	}
}

// foreignAttributes are the words that the configurations of MCP clients have for a server, and
// promptweir does not.
func foreignAttributes() map[string]string {
	const tools = "It controls a server's tools, which the gateway does not serve; remove it."
	const url = "Write url."
	return map[string]string{
		"urls": `Write an upstream block for each address, all with one prefix: url = "https://a.example.com/mcp" and ` +
			`prefix = "NAME" in the first, url = "https://b.example.com/mcp" and prefix = "NAME" in the second.`,
		"type":      `Remove it: url or command already says so. For a server that speaks only HTTP+SSE, write transport = "sse".`,
		"cwd":       `Write dir; a path is relative to the folder of this file.`,
		"disabled":  `Remove the block, or make it a comment; hide "WHY" { prompts = ["PREFIX.*"] } in the team block only hides its prompts.`,
		"enabled":   `Remove it; to disable an upstream, remove its block or make it a comment.`,
		"envFile":   `Write the variables in env, for example { TOKEN = env("TOKEN") }, and set them for the gateway.`,
		"name":      "The label of the block is the name of the upstream, and prefix stands before the names of its prompts.",
		"serverUrl": url, "httpUrl": url, "baseUrl": url, "endpoint": url,
		"autoApprove": tools, "alwaysAllow": tools, "disabledTools": tools, "tools": tools, "trust": tools,
		"environment": "Write env.",
		"token":       `Write headers = { Authorization = "Bearer ${env("TOKEN")}" }.`,
	}
}

func decodeUpstream(b *hclread.Block, team string, names *namespace, r reach) Upstream {
	checkName("upstream", b)
	u := Upstream{
		Name:        b.Label(),
		Team:        team,
		Place:       placeOf(b.Range()),
		Protocol:    "auto",
		Prefix:      b.Label(),
		Timeout:     DefaultTimeout,
		Refresh:     DefaultRefresh,
		Concurrency: DefaultConcurrency,
		MaxPrompts:  DefaultMaxPrompts,
		MaxMessage:  DefaultMaxMessage,
		Attempts:    DefaultAttempts,
		WhenDown:    WhenDownKeep,
		Grace:       defaultGrace,
		Breaker:     Breaker{DefaultBreakerFailures, DefaultBreakerCooldown},
	}
	decodeEndpoint(b, &u, r) // sets the transport, which protocol must fit
	names.decodePrefix(b, &u, r.grants)
	hclread.Set(b, "protocol", &u.Protocol, hclread.OneOf("auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"))
	if u.Transport == SSE && u.Protocol == "2026-07-28" {
		b.Error(b.ValueRange("protocol"), "Protocol does not fit", "Revision 2026-07-28 has no "+
			"HTTP+SSE; change protocol or transport.")
	}
	hclread.Set(b, "timeout", &u.Timeout, parseTimeout)
	hclread.Set(b, "refresh", &u.Refresh, parseRefresh)
	hclread.Set(b, "skills", &u.Skills, parseSkills)
	hclread.Set(b, "resources", &u.Resources, hclread.OneOf(ResourcesLinked))
	r.decodeCounts(b, &u)
	hclread.Float(b, "rate", minRate, maxRate, &u.Rate)
	decodeWhenDown(b, &u)
	for _, inner := range b.Inner("breaker") {
		hclread.Int(inner, "failures", maxCount, &u.Breaker.Failures)
		hclread.Set(inner, "cooldown", &u.Breaker.Cooldown, parseDuration)
	}
	for _, inner := range b.Inner("retry") {
		inner.Require("attempts", `A retry block without attempts has no effect; `+
			"write attempts = 3 to try a call three times in all.")
		hclread.Int(inner, "attempts", maxAttempts, &u.Attempts)
	}
	return u
}

// decodeWhenDown refuses a grace period that would have no effect.
func decodeWhenDown(b *hclread.Block, u *Upstream) {
	isKnown := hclread.Set(b, "when_down", &u.WhenDown, hclread.OneOf(WhenDownKeep, WhenDownHide)) || !b.Has("when_down")
	hclread.Set(b, "grace", &u.Grace, parseDuration)
	if isKnown && b.Has("grace") && u.WhenDown != WhenDownHide {
		b.Error(b.ValueRange("grace"), "grace without hide",
			"The prompts are kept for as long as the upstream is down; set when_down = %q or remove grace.", WhenDownHide)
	}
}

// parseDuration reads a duration that is more than zero.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New(`is not a duration; write a number and a unit, like "10s" or "5m"`)
	}
	if d <= 0 {
		return 0, errors.New(`is not positive; write it like "10s"`)
	}
	if d > maxDuration {
		return 0, errors.New(`is longer than a year; write a shorter one, like "24h"`)
	}
	return d, nil
}

// parseTimeout reads how long a call may take.
func parseTimeout(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil && d > maxTimeout {
		return 0, errors.New(`is longer than an hour; write it like "30s" (waiting for a ` +
			`client's input does not count)`)
	}
	return parseDuration(s)
}

// parseRefresh keeps a gateway from burdening a server with lists.
func parseRefresh(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && d < MinRefresh {
		return 0, fmt.Errorf(`is less than %s, the shortest interval; write it like "5m"`, MinRefresh)
	}
	return d, err
}
