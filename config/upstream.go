package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Defaults and bounds of an upstream block.
const (
	// DefaultTimeout bounds one call to an upstream.
	DefaultTimeout = 10 * time.Second
	// DefaultRefresh is the interval between lists of an upstream that sends no notifications.
	DefaultRefresh = 5 * time.Minute
	// MinRefresh is the shortest interval between two lists. It is the minimum for refresh and for
	// the server's ttlMs.
	MinRefresh = 10 * time.Second
	// DefaultConcurrency bounds the calls in flight to one upstream.
	DefaultConcurrency = 256
	// DefaultAttempts means no retry.
	DefaultAttempts = 1
	// DefaultMaxPrompts bounds the prompts taken from one upstream's list.
	DefaultMaxPrompts = 10_000
	// DefaultMaxMessage bounds one message from an upstream, in bytes.
	DefaultMaxMessage = 4 << 20
	// DefaultBreakerFailures is the number of unanswered calls in a row that opens the breaker.
	DefaultBreakerFailures = 5
	// DefaultBreakerCooldown is the time for which an open breaker refuses calls. Then it lets two callers try.
	DefaultBreakerCooldown = 5 * time.Second

	defaultGrace = time.Minute
	maxAttempts  = 10
	// maxTimeout bounds the timeout attribute.
	maxTimeout = time.Hour
	// maxDuration bounds every duration: long enough to mean never, short enough that adding it to a time
	// cannot overflow.
	maxDuration = 366 * 24 * time.Hour
)

// Upstream is one upstream block: a named MCP server, or files. The meaning of its attributes is in
// [Upstream.table].
type Upstream struct {
	// Name is the block's label, which no other upstream of the configuration has.
	Name string
	// Team is the name of the team whose file contains the block.
	Team string
	// Transport decides which of URL, Command and Files is set.
	Transport Transport
	// TransportExplicit is true if the transport attribute is set. Then the gateway tries no other transport.
	TransportExplicit bool
	URL               string
	HostGrant         HostGrant // of the host in URL
	Headers           map[string]Secret
	TLS               *TLS       // if nil, https is verified with the system's certificates
	OAuth             *OAuth     // if nil, no access tokens are sent
	Assertion         *Assertion // if nil, no assertion identifies the caller to the server
	Command           []string
	Env               map[string]Secret
	Dir               string     // absolute and without links, or empty
	Files             *Files     // nil for a server
	Format            FileFormat // of Files; if it is empty, the format of each file is detected
	Texts             bool       // adds a hash of each file's text to the definition of its prompt
	Skills            SkillsMode
	Resources         ResourcesMode
	Protocol          string // "auto" or a revision
	Prefix            string // may be empty
	Timeout, Refresh  time.Duration
	Concurrency       int
	Rate              float64 // 0 means no bound
	Attempts          int     // of a call, including the first attempt
	MaxPrompts        int
	MaxMessage        int
	WhenDown          WhenDown
	Grace             time.Duration
	Breaker           Breaker
	Place             Place

	// maskedWords is URL or Command with masks. It is nil if neither has a sensitive value.
	maskedWords []string
	// hidesDir is true if Dir has a sensitive value.
	hidesDir bool
}

// Address returns the URL, the command line, or the patterns of files, for logs and pages. It masks values from
// env and file, and secrets in a command line.
func (u Upstream) Address() string {
	switch {
	case u.Files != nil:
		return strings.Join(exslices.CastFunc(u.Files.Patterns, PathPattern.String), " ")
	case u.Transport == Stdio:
		return strings.Join(hideWords(u.printableWords()), " ")
	}
	return strings.Join(u.printableWords(), "") // no user or password to hide: parseURL refuses them
}

// words returns the URL as one word, or the words of the command.
func (u Upstream) words() []string {
	if u.URL != "" {
		return []string{u.URL}
	}
	return u.Command
}

// printableWords returns the words, masked if they are sensitive.
func (u Upstream) printableWords() []string {
	if u.maskedWords != nil {
		return u.maskedWords
	}
	return u.words()
}

// Program returns the program of Command, masked like [Upstream.Address].
func (u Upstream) Program() string { return u.printableWords()[0] }

// SameConnection reports whether the connection of one upstream can also serve another: all their values are
// equal, except values that the connection does not use.
func (u Upstream) SameConnection(other Upstream) bool {
	for _, u := range []*Upstream{&u, &other} { // both point to copies
		u.Place, u.Assertion = Place{}, nil
		for _, a := range u.table(nil, reach{}) {
			if a.Connection == keepsConnection {
				reflect.ValueOf(a.Target).Elem().SetZero()
			}
		}
	}
	return reflect.DeepEqual(u, other)
}

// String shows an upstream by name and [Upstream.Address].
func (u Upstream) String() string { return u.Name + " (" + u.Address() + ")" }

// GoString masks the upstream as String does, under %#v.
func (u Upstream) GoString() string { return u.String() }

// MarshalText masks the upstream as String does, in JSON and in a log.
func (u Upstream) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Transport is the way to reach an upstream.
type Transport string

// The values of the transport attribute.
const (
	// StreamableHTTP is the default for an upstream with a url. Unless the attribute is set, the gateway falls back
	// to SSE.
	StreamableHTTP Transport = "streamable-http"
	SSE            Transport = "sse" // HTTP+SSE of 2024-11-05
	Stdio          Transport = "stdio"
	NoServer       Transport = "files" // prompts from files; the attribute does not accept this value
)

// WhenDown decides what happens to the prompts of an upstream that is down.
type WhenDown string

// The values of the when_down attribute.
const (
	WhenDownKeep WhenDown = "keep" // lists the prompts
	WhenDownHide WhenDown = "hide" // lists the prompts only for the grace period
)

// ResourcesMode selects the resources of a server that clients can read through the gateway. The
// zero value selects no resources.
type ResourcesMode string

// ResourcesLinked selects the resources to which results of gets link.
const ResourcesLinked ResourcesMode = "linked"

// Breaker is the breaker block of an upstream.
type Breaker struct {
	Failures int
	Cooldown time.Duration
}

func newUpstream() *Upstream {
	return &Upstream{
		Protocol:    "auto",
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
}

// Each [row] of an upstream has one of the first two values, and one of the last two.
const serversOnly, filesToo, newConnection, keepsConnection = 1, 2, 3, 4

// row returns an attribute of an upstream. files is filesToo if the attribute affects prompts from files. connection
// is keepsConnection if the connection can stay when the attribute changes.
func row(files, connection int, a hclread.Attribute) hclread.Attribute {
	a.Files, a.Connection = files, connection
	return a
}

// table returns the attributes of an upstream block. Decoding claims the prefix in names, and checks the address and
// the command against r.
func (u *Upstream) table(names *namespace, r reach) []hclread.Attribute {
	skills := hclread.String(&u.Skills, parseSkills)
	skills.Type = "true, false or `\"only\"`"
	formats := hclread.OneOf(FormatClaude, FormatCursor, FormatGemini, FormatOpenCode, FormatVSCode, FormatSkill, FormatNative)
	revisions := hclread.OneOf("auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
	return []hclread.Attribute{
		row(serversOnly, newConnection, hclread.FromEnvironment("url", hclread.Custom("string", nil, func(b *hclread.Block) { decodeURL(b, u, r) }),
			"The address of a server; `http` or `https`, without user or password.").Or("one of three")),
		row(serversOnly, newConnection, hclread.FromEnvironment("command", hclread.Custom("list", nil, func(b *hclread.Block) { decodeCommand(b, u, r) }),
			"A program and its arguments, to start and speak to over stdio. A relative path begins at the gateway's working folder.").Or("one of three")),
		row(filesToo, newConnection, hclread.Plain("files", hclread.Custom("list", nil, func(b *hclread.Block) { decodeFiles(b, u, r) }),
			"Up to 64 patterns of [prompt files](#prompts-from-files), relative to this file's folder. Goes with `format`, `texts`, `skills`, `prefix` and `max_prompts` only.").Or("one of three")),
		row(filesToo, newConnection, hclread.Plain("format", hclread.String(&u.Format, formats),
			"With `files`: `\"claude\"`, `\"cursor\"`, `\"gemini\"`, `\"opencode\"`, `\"vscode\"`, `\"skill\"` or `\"promptweir\"`, in place of the format that [signs](#prompts-from-files) tell.")),
		row(filesToo, newConnection, hclread.Plain("texts", hclread.Flag(&u.Texts),
			"With `files`: texts count as parts of definitions, for the [lock file](#the-lock-file) and notifications.")),
		row(filesToo, newConnection, hclread.Plain("skills", skills,
			"Also serves [skills](#skills): the server's, or one for each `SKILL.md` of `files`; with `\"only\"`, no prompts.")),
		row(serversOnly, keepsConnection, hclread.Plain("resources", hclread.String(&u.Resources, hclread.OneOf(ResourcesLinked)),
			"`\"linked\"`: clients can read what its results [link to](#links).")),
		row(serversOnly, newConnection, hclread.Secret("headers", secretMap(&u.Headers, "headers", strings.ToLower, checkHeader), "Sent with every request, with `url`.")),
		row(serversOnly, newConnection, hclread.Secret("env", secretMap(&u.Env, "env", hclread.SameKey, r.checkVariable), "Added to the environment, with `command`.")),
		row(serversOnly, newConnection, hclread.FromEnvironment("dir", hclread.Custom("string", &u.Dir, func(b *hclread.Block) { decodeDir(b, u, r) }),
			"The working folder of `command` in place of the gateway's: one that exists, relative to this file's folder.")),
		row(serversOnly, newConnection, hclread.Plain("transport", hclread.Custom("string", nil, func(b *hclread.Block) { decodeTransport(b, u) }),
			"`\"streamable-http\"`, `\"sse\"` or `\"stdio\"`. Unless set, a `url` falls back to HTTP+SSE.").Or("inferred")),
		row(serversOnly, newConnection, hclread.Plain("protocol", hclread.String(&u.Protocol, revisions),
			"Or one revision: `\"2024-11-05\"`, `\"2025-03-26\"`, `\"2025-06-18\"`, `\"2025-11-25\"`, `\"2026-07-28\"`.")),
		row(filesToo, keepsConnection, hclread.Plain("prefix", hclread.Custom("string", &u.Prefix, func(b *hclread.Block) { names.decodePrefix(b, u, r.grants) }),
			"In front of the names of its prompts; up to 64 bytes, `\"\"` for none.").Or("the label")),
		row(serversOnly, newConnection, hclread.Plain("timeout", hclread.String(&u.Timeout, parseTimeout), "Bounds a call, up to `\"1h\"`; waits for a client's input do not count.")),
		row(serversOnly, newConnection, hclread.Plain("refresh", hclread.String(&u.Refresh, parseRefresh),
			"How often to list a server, unless it has no notifications and its list a `ttlMs`; at least `\"10s\"`.")),
		row(serversOnly, newConnection, hclread.Plain("concurrency", r.count("concurrency", &u.Concurrency),
			"The most calls in flight; [fewer](../upstream/README.md#retry-and-failover) while they time out. Others queue, fairly between callers, for half of `timeout`.")),
		row(serversOnly, newConnection, hclread.Plain("rate", hclread.Number(&u.Rate, minRate, maxRate), "Calls per second, 0.000001 to 1000000. Others queue for half of `timeout`.")),
		row(filesToo, newConnection, hclread.Plain("max_prompts", r.count("max_prompts", &u.MaxPrompts), "Bounds the list.")),
		row(serversOnly, newConnection, hclread.Plain("max_message", r.count("max_message", &u.MaxMessage), "Bounds a message, in bytes.")),
		row(serversOnly, keepsConnection, hclread.Plain("when_down", hclread.Custom("string", &u.WhenDown, func(b *hclread.Block) { decodeWhenDown(b, u) }),
			"Its prompts while it is down: `\"keep\"` lists them, `\"hide\"` hides them after `grace`. One that refuses the gateway (HTTP 401, 403, 429) is not down.")),
		row(serversOnly, keepsConnection, hclread.Plain("grace", hclread.String(&u.Grace, parseDuration), "With `when_down = \"hide\"`.")),
	}
}

func (br *Breaker) table() []hclread.Attribute {
	return []hclread.Attribute{
		hclread.Plain("failures", hclread.Count(&br.Failures, maxCount),
			"Unanswered calls in a row that open it; a JSON-RPC error is an answer. One principal's alone do not open it."),
		hclread.Plain("cooldown", hclread.String(&br.Cooldown, parseDuration), "How long it refuses calls before it lets two callers try."),
	}
}

func (u *Upstream) retryTable() []hclread.Attribute {
	return []hclread.Attribute{
		hclread.Plain("attempts", hclread.Count(&u.Attempts, maxAttempts), "Attempts of a call that gets no answer, 1 to 10.").
			Required("A retry block without attempts has no effect; write attempts = 3 to try a call three times in all."),
	}
}

func (u *Upstream) schema(names *namespace, r reach) hclread.Schema {
	return hclread.Schema{
		Attributes: u.table(names, r),
		Blocks: []hclread.BlockSchema{
			{Type: "breaker", Schema: hclread.Schema{Attributes: u.Breaker.table()}, Meaning: "When to stop calling a server that does not answer."},
			{Type: "retry", Schema: hclread.Schema{Attributes: u.retryTable()}, Meaning: "How often to try a call."},
			{Type: "tls", Schema: tlsSchema(), Meaning: "For `https`."},
			{Type: "oauth", Schema: hclread.Schema{Attributes: new(OAuth).table(r)}, Meaning: "Gets access tokens."},
			{Type: "assertion", Schema: hclread.Schema{Attributes: newAssertion().table("", r)}, Meaning: "Tells the server who calls."},
		},
		Misplaced: map[string]string{
			"members": "the team block", "lock": "the team block", "expose": "the team block", "hide": "the team block",
			"limit": "the team block", "prompt": "the team block", "screen": "the team block",
			"args": "command, after the program",
		},
		Foreign: foreignAttributes(),
	}
}

// foreignAttributes returns a remedy for each name by which MCP clients call a setting of a server.
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
	u := newUpstream()
	u.Name, u.Team, u.Prefix, u.Place = b.Label(), team, b.Label(), placeOf(b.Range())
	b.Decode(u.table(names, r))
	if u.Transport == SSE && u.Protocol == "2026-07-28" {
		b.Error(b.ValueRange("protocol"), "Protocol does not fit", "Revision 2026-07-28 has no HTTP+SSE; change protocol or transport.")
	}
	for _, inner := range b.Inner("breaker") {
		inner.Decode(u.Breaker.table())
	}
	for _, inner := range b.Inner("retry") {
		inner.Decode(u.retryTable())
	}
	for _, inner := range b.Inner("tls") {
		u.TLS = decodeTLS(inner)
	}
	for _, inner := range b.Inner("oauth") {
		u.OAuth = decodeOAuth(inner, u, r)
	}
	for _, inner := range b.Inner("assertion") {
		u.Assertion = decodeAssertion(inner, u, r)
	}
	checkEndpoint(b)
	return *u
}

// decodeWhenDown decodes when_down, and refuses a grace period that would have no effect.
func decodeWhenDown(b *hclread.Block, u *Upstream) {
	isValid := hclread.Set(b, "when_down", &u.WhenDown, hclread.OneOf(WhenDownKeep, WhenDownHide)) || !b.Has("when_down")
	if isValid && b.Has("grace") && u.WhenDown != WhenDownHide {
		b.Error(b.ValueRange("grace"), "grace without hide",
			"The prompts are kept for as long as the upstream is down; set when_down = %q or remove grace.", WhenDownHide)
	}
}

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

// durationUpTo reads a duration from 0 to maximum. written is the spelling of maximum for messages.
func durationUpTo(s string, maximum time.Duration, written, example string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maximum {
		return 0, fmt.Errorf("is not a duration from \"0s\" to %q; write it like %q", written, example)
	}
	return d, nil
}

// parseTimeout reads a duration of at most maxTimeout.
func parseTimeout(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil && d > maxTimeout {
		return 0, errors.New(`is longer than an hour; write it like "30s" (waiting for a client's input does not count)`)
	}
	return parseDuration(s)
}

// parseRefresh reads a duration of at least [MinRefresh], so that lists do not overload a server.
func parseRefresh(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && d < MinRefresh {
		return 0, fmt.Errorf(`is less than %s, the shortest interval; write it like "5m"`, MinRefresh)
	}
	return d, err
}
