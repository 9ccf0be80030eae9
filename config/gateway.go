package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Defaults and bounds of the gateway block.
const (
	// DefaultListen is the address for clients.
	DefaultListen = "127.0.0.1:8080"
	// DefaultPath is the path of the MCP endpoint.
	DefaultPath = "/mcp"
	// SSEPath is the path of HTTP+SSE (2024-11-05), beside the MCP endpoint.
	SSEPath = "/sse"
	// DefaultDrainDelay and DefaultDrainTimeout bound the shutdown after SIGTERM: first the time for load
	// balancers to notice, then the time for requests in flight.
	DefaultDrainDelay   = 5 * time.Second
	DefaultDrainTimeout = 30 * time.Second
	// DefaultPageSize bounds the entries of one prompts/list page. It is large because many clients read only
	// the first page.
	DefaultPageSize = 1000
	// DefaultMaxFiles bounds the memory for all prompt files of one team, in bytes.
	DefaultMaxFiles = 64 << 20
	// DefaultSeparator stands between an upstream's prefix and the prompt's name.
	DefaultSeparator = "."

	maxPageSize  = 10_000
	maxSeparator = 8 // characters
)

// Gateway is the gateway block. The meaning of its attributes is in [Gateway.table].
type Gateway struct {
	Listen    string // on loopback, unless the Config has an Auth
	Path      string // without a slash at the end
	PublicURL string // without a slash at the end; may be empty
	PageSize  int
	Separator string // no prefix contains it
	// CursorKeys may be empty. Then each process makes a random key. The first key seals, and all keys open.
	CursorKeys []Key
	// SigningKeys are PEM texts. See [Gateway.Signers].
	SigningKeys                  []Secret
	AllowedHosts, AllowedOrigins []string
	TrustedProxies               []netip.Prefix
	TLS                          *ServerTLS // nil for plain HTTP
	Conflict                     Conflict
	Instructions                 string
	SSE                          bool // serves HTTP+SSE at [SSEPath]
	Variants                     []Variant
	StateDir                     string // relative to the working directory
	DrainDelay, DrainTimeout     time.Duration
	MaxBuffered                  Share
	MaxFiles                     int         // see [Files.Max]
	Lock                         LockSetting // see [Config.LockFor]
	Limit                        *Limit      // nil if the block has none
	Screens                      []Screen    // see [Config.ScreensFor]
	Place                        Place       // the zero value if there is no block
}

// IsProxy reports whether a trusted proxy has the address.
func (g *Gateway) IsProxy(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(g.TrustedProxies, func(p netip.Prefix) bool {
		return p.Contains(ip.Unmap().WithZone(""))
	})
}

// PublicEndpoint returns the URL of the MCP endpoint according to public_url, which may end with
// the endpoint's path. Without a public_url, it returns nil.
func (g *Gateway) PublicEndpoint() *url.URL {
	u, err := url.Parse(g.PublicURL)
	if err != nil || u.Host == "" {
		return nil
	}
	if strings.HasSuffix(u.Path, g.Path) {
		return u
	}
	if u.Path == "" { // otherwise JoinPath omits the slash in front of the path
		u.Path = "/"
	}
	return u.JoinPath(g.Path)
}

// SSEBeside returns the URL of HTTP+SSE that belongs to the URL of an endpoint.
func (g *Gateway) SSEBeside(endpoint *url.URL) *url.URL {
	u := *endpoint
	u.Path = strings.TrimSuffix(u.Path, g.Path) + SSEPath
	u.RawPath = strings.TrimSuffix(endpoint.EscapedPath(), g.Path) + SSEPath
	return &u
}

// Endpoint returns the URL for clients: the public_url, or the listener's address. If the gateway listens on
// all addresses, host takes their place.
func (g *Gateway) Endpoint(host string) *url.URL {
	if public := g.PublicEndpoint(); public != nil {
		return public
	}
	u := &url.URL{Scheme: "http", Host: g.Listen, Path: g.Path}
	if g.TLS != nil {
		u.Scheme = "https"
	}
	if isWildcard(u.Hostname()) {
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u
}

// Variant is another form of the endpoint, at a path below it. The empty Variant is the endpoint itself.
type Variant string

// The values of the variants attribute.
const (
	VariantFlat  Variant = "flat"  // each prompt is one text with at most one argument
	VariantTools Variant = "tools" // two tools beside the prompts, for clients without prompts
)

// Conflict decides which prompt is served if several upstreams have different prompts with the same name.
type Conflict string

// The values of the conflict attribute.
const (
	ConflictDrop  Conflict = "drop"  // none of them
	ConflictFirst Conflict = "first" // the first in configuration order
)

func newGateway() *Gateway {
	return &Gateway{
		Listen:       DefaultListen,
		Path:         DefaultPath,
		PageSize:     DefaultPageSize,
		Separator:    DefaultSeparator,
		Conflict:     ConflictDrop,
		SSE:          true,
		MaxBuffered:  DefaultMaxBuffered,
		MaxFiles:     DefaultMaxFiles,
		DrainDelay:   DefaultDrainDelay,
		DrainTimeout: DefaultDrainTimeout,
	}
}

// table returns the attributes of a gateway block. Decoding the keys records their variables and files in
// keyReferences.
func (g *Gateway) table(keyReferences hclread.References) []hclread.Attribute {
	parseSigningKey := func(s string) (Secret, error) {
		_, err := parseAssertionKey(s)
		return NewSecret(s), err
	}
	return []hclread.Attribute{
		hclread.FromEnvironment("listen", hclread.String(&g.Listen, hclread.Checked(checkListen)),
			"`HOST:PORT`. Without an `auth` block, only loopback is allowed."),
		hclread.FromEnvironment("path", hclread.String(&g.Path, hclread.Checked(checkPath)),
			"The MCP endpoint. `/sse`, `/healthz`, `/readyz`, `/metrics` and `/.well-known/` are reserved."),
		hclread.FromEnvironment("public_url", hclread.String(&g.PublicURL, parsePublicURL), "The address for clients. Set it behind a proxy, and with `jwt`."),
		hclread.Plain("page_size", hclread.Count(&g.PageSize, maxPageSize),
			"Entries per page, 1 to 10000, within 4 MiB. Many clients [read the first page only](../cmd/promptweir/README.md#pages)."),
		hclread.Plain("separator", hclread.Custom("string", &g.Separator, g.decodeSeparator),
			"Between prefix and name; 1 to 8 characters without white space."),
		hclread.Secret("cursor_keys", hclread.Strings(&g.CursorKeys, parseKey).Recorded(keyReferences),
			"Base64 of 32 bytes each (`openssl rand -base64 32`). The first seals cursors and session tokens; all open them. Replicas need the same; by default, each process makes its own."),
		hclread.Secret("signing_keys", hclread.Strings(&g.SigningKeys, parseSigningKey).Recorded(keyReferences),
			"PEM texts of Ed25519 or P-256 keys (`openssl genpkey -algorithm ed25519`), for [assertions](#assertion-in-upstream). The first signs; the public keys of all are at "+
				"`/.well-known/jwks.json`."),
		hclread.FromEnvironment("allowed_hosts", hclread.Strings(&g.AllowedHosts, hclread.Checked(checkHost)),
			"`Host` headers to accept besides loopback, `listen` and `public_url`."),
		hclread.FromEnvironment("allowed_origins", hclread.Strings(&g.AllowedOrigins, hclread.Checked(checkOrigin)),
			"Origins of web apps (CORS), such as `\"https://app.example.com\"`. `*` is any extension: `\"vscode-webview://*\"`, `\"moz-extension://*\"`, `\"chrome-extension://*\"`. `\"null\"` and "+
				"`\"file://\"` need an `auth` block without `anonymous`, since any page can send them."),
		hclread.FromEnvironment("trusted_proxies", hclread.Strings(&g.TrustedProxies, parseProxy),
			"Addresses or networks whose `X-Forwarded-For` tells clients apart, in logs too."),
		hclread.Plain("conflict", hclread.String(&g.Conflict, hclread.OneOf(ConflictDrop, ConflictFirst)),
			"For a name of [different prompts](#names-and-who-owns-them): `\"drop\"` leaves out all, `\"first\"` keeps the configuration's first."),
		hclread.FromEnvironment("instructions", hclread.String(&g.Instructions, hclread.AnyText), "Sent to every client."),
		hclread.Plain("variants", hclread.Strings(&g.Variants, hclread.OneOf(VariantFlat, VariantTools)),
			"Further endpoints beneath `path`, for [clients that lose prompts](#variants): `\"flat\"`, `\"tools\"`."),
		hclread.Plain("sse", hclread.Flag(&g.SSE), "Serves HTTP+SSE (deprecated) at `/sse`."),
		hclread.FromEnvironment("state_dir", hclread.String(&g.StateDir, hclread.Checked(checkFolder)),
			"A folder that keeps good lists for restarts; relative to the working directory."),
		hclread.Plain("drain_delay", hclread.String(&g.DrainDelay, parseDrain),
			"How long to serve after SIGTERM, with `/readyz` at 503, `\"0s\"` to `\"1h\"`."),
		hclread.Plain("drain_timeout", hclread.String(&g.DrainTimeout, parseDrain),
			"How long requests in flight then have, `\"0s\"` to `\"1h\"`; the rest get `shutting_down`."),
		hclread.Plain("max_buffered", hclread.String(&g.MaxBuffered, parseShare),
			"Memory for requests and responses: part of the memory limit, or bytes, at least 1048576. An upstream or principal holds a quarter at most."),
		hclread.Plain("max_files", hclread.Count(&g.MaxFiles, maxCount),
			"Size of one team's [prompt files](#prompts-from-files) with their images and sounds, in bytes."),
		hclread.Plain("lock", g.Lock.field(), "`\"enforce\"` or `\"warn\"`: see [the lock file](#the-lock-file)."),
	}
}

func gatewaySchema() hclread.Schema {
	return hclread.Schema{
		Attributes: newGateway().table(hclread.References{}),
		Foreign:    map[string]string{"card": "Remove it: clients are given the endpoint's URL."},
		Blocks: []hclread.BlockSchema{
			{Type: "tls", Schema: hclread.Schema{Attributes: new(ServerTLS).table(nil)}, Meaning: "Serves HTTPS."},
			{Type: "limit", Schema: limitSchema(), Meaning: "For a principal's lists, gets and completions."},
			{Type: "screen", Labelled: true, Schema: screenSchema(), Meaning: "For the prompts of all teams."},
		},
	}
}

func decodeGateway(b *hclread.Block, ids *identities, keyReferences hclread.References) Gateway {
	g := newGateway()
	g.Place = placeOf(b.Range())
	b.Decode(g.table(keyReferences))
	if len(g.Variants) > len(slices.Compact(slices.Sorted(slices.Values(g.Variants)))) {
		b.Error(b.ValueRange("variants"), "Two endpoints at one path",
			"Each variant has an endpoint of its own beneath path: write it only once.")
	}
	for _, inner := range b.Inner("tls") {
		g.TLS = decodeServerTLS(inner, ids)
	}
	if g.Limit = decodeLimit(b); g.Limit != nil {
		g.Limit.Block = "gateway"
	}
	g.Screens = decodeScreens(b)
	return *g
}

// decodeSeparator replaces an invalid separator by "", with which prefixes are not checked. The default
// would cause errors for prefixes that fit the intended separator.
func (g *Gateway) decodeSeparator(b *hclread.Block) {
	if !hclread.Set(b, "separator", &g.Separator, hclread.Checked(checkSeparator)) && b.Has("separator") {
		g.Separator = ""
	}
}

// maxDrain bounds drain_delay and drain_timeout.
const maxDrain = time.Hour

func parseDrain(s string) (time.Duration, error) { return durationUpTo(s, maxDrain, "1h", "10s") }

// checkPublicURL warns if the gateway may send clients to a wrong address to authenticate.
func checkPublicURL(r *hclread.Reader, cfg *Config) {
	gateways := r.Blocks("gateway")
	host, _, _ := net.SplitHostPort(cfg.Gateway.Listen)
	if cfg.Auth == nil || len(cfg.Auth.JWTs) == 0 || cfg.Auth.Header() != "" || len(gateways) == 0 || r.Has("gateway", "public_url") || IsLoopback(host) {
		return
	}
	r.Warning(gateways[0].ValueRange("listen"), "No public_url",
		"Clients without a token are sent to public_url to find the issuer. Without it they are sent to the "+
			"host of their request, which is wrong behind a proxy that terminates TLS. Set public_url to the address that clients use.")
}

// checkAudiences warns if an audience has the endpoint's host but is another URL: clients request tokens for the
// endpoint's URL (RFC 8707). An audience with another host may be the issuer's name for the gateway.
func checkAudiences(r *hclread.Reader, cfg *Config) {
	endpoint := cfg.Gateway.PublicEndpoint()
	for _, auth := range r.Blocks("auth") {
		for _, b := range auth.Inner("jwt") {
			written, _ := b.Text("audience")
			u, err := url.Parse(written.Value)
			if endpoint == nil || err != nil || u.Host != endpoint.Host || written.Value == endpoint.String() ||
				written.Value == cfg.Gateway.SSEBeside(endpoint).String() || b.Has("header") {
				continue
			}
			b.Warning(b.ValueRange("audience"), "Audience is not the endpoint", "Clients request tokens for %s, the endpoint by public_url "+
				"and path, and tokens with another aud than audience are refused. Set audience = %q.", endpoint, endpoint)
		}
	}
}

// checkOpaqueOrigins reports an origin that any page can send, unless callers need a credential.
func checkOpaqueOrigins(r *hclread.Reader, cfg *Config) {
	for _, origin := range cfg.Gateway.AllowedOrigins {
		isProtected := len(r.Blocks("auth")) > 0 && cfg.Auth != nil && !cfg.Auth.Anonymous
		if slices.Contains(opaqueOrigins, origin) && !isProtected {
			r.Error(r.Blocks("gateway")[0].ValueRange("allowed_origins"), "Origin of any page",
				"Any web page can send requests with the origin %q; add an auth block without anonymous, or remove the origin.", origin)
		}
	}
}

// checkSeparator accepts 1 to maxSeparator printable characters.
func checkSeparator(s string) error {
	if n := utf8.RuneCountInString(s); n < 1 || n > maxSeparator || !isPrintable(s) {
		return fmt.Errorf(`is not 1 to %d characters without white space; write it like "."`, maxSeparator)
	}
	return nil
}

// checkFolder checks a path without looking for the folder, which may be created later.
func checkFolder(s string) error {
	if s == "" || strings.Contains(s, "\x00") {
		return errors.New(`is not the path of a folder; write it like "/var/lib/promptweir", or leave it out to keep nothing`)
	}
	return nil
}

// parseKey reads a cursor key. Its error does not quote the key.
func parseKey(s string) (Key, error) {
	b, err := hclread.DecodeBase64(s)
	if err != nil || len(b) != len(Key{}.value) {
		return Key{}, errors.New("is not base64 of 32 bytes; make one with: openssl rand -base64 32")
	}
	key := Key{[32]byte(b)}
	if key == (Key{}) {
		return Key{}, errors.New("is all zeros, which anyone can guess; make one with: openssl rand -base64 32")
	}
	return key, nil
}

func parseProxy(s string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		var ip netip.Addr
		if ip, err = netip.ParseAddr(s); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			prefix = netip.PrefixFrom(ip, ip.BitLen())
		}
	}
	switch {
	case err != nil || !prefix.IsValid():
		return netip.Prefix{}, errors.New(`is not an address or a network; write it like "10.0.0.7" or "10.0.0.0/8"`)
	case prefix.Bits() == 0:
		// The gateway believes X-Forwarded-For from these addresses, so every client could forge its own address.
		return netip.Prefix{}, errors.New("covers every address, so any client could forge its own; name the proxies")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("has host bits set; write %q", prefix.Masked())
	}
	return prefix, nil
}

// DefaultMaxBuffered is the default of max_buffered: a quarter of the memory limit.
const DefaultMaxBuffered = "25%"

const (
	// minBuffered and maxBuffered bound max_buffered in bytes. A usual prompt fits into a quarter of
	// minBuffered, the share of one upstream or principal.
	minBuffered, maxBuffered = 1 << 20, 1 << 50
	// maxBufferedPercent bounds a percentage. The gateway needs the remaining memory for itself.
	maxBufferedPercent = 90
)

// Share is an amount of memory: a number of bytes, or a percentage of the memory limit such as "25%".
type Share string

// Of returns the share of a memory in bytes. The zero Share is 0 bytes.
func (s Share) Of(memory int64) int64 {
	if percent, ok := strings.CutSuffix(string(s), "%"); ok {
		n, _ := strconv.ParseInt(percent, 10, 64)
		return memory / 100 * n
	}
	n, _ := strconv.ParseInt(string(s), 10, 64)
	return n
}

func parseShare(s string) (Share, error) {
	number, least, most := s, int64(minBuffered), int64(maxBuffered)
	percent, isPercent := strings.CutSuffix(s, "%")
	if isPercent {
		number, least, most = percent, 1, maxBufferedPercent
	}
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		return "", errors.New(`is neither a percentage of the memory nor a number of bytes; write it like "25%" or 268435456`)
	case n < least || n > most:
		return "", fmt.Errorf("is not between %d and %d bytes, or 1%% and %d%% of the "+
			"memory", minBuffered, int64(maxBuffered), maxBufferedPercent)
	}
	return Share(s), nil
}
