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
	// DefaultListen is where clients connect.
	DefaultListen = "127.0.0.1:8080"
	// DefaultPath is the path of the MCP endpoint.
	DefaultPath = "/mcp"
	// SSEPath is where HTTP+SSE of 2024-11-05 is served, beside the MCP endpoint.
	SSEPath = "/sse"
	// DefaultDrainDelay and DefaultDrainTimeout are how long the end takes after SIGTERM: time for
	// load balancers to notice, and for requests in flight.
	DefaultDrainDelay   = 5 * time.Second
	DefaultDrainTimeout = 30 * time.Second
	// DefaultPageSize bounds the entries of one prompts/list page. It is so large because many
	// clients read the first page only, and make nothing of the rest.
	DefaultPageSize = 1000
	// DefaultMaxFiles is what all prompt files of one team may hold in memory, in bytes.
	DefaultMaxFiles = 64 << 20
	// DefaultSeparator stands between an upstream's prefix and the prompt's own name.
	DefaultSeparator = "."

	maxPageSize  = 10_000
	maxSeparator = 8 // characters
)

// Gateway is the gateway block.
type Gateway struct {
	// Listen is HOST:PORT. It is beyond loopback only with an Auth.
	Listen string
	// Path is the path of the MCP endpoint, without a slash at the end.
	Path string
	// PublicURL is the address that clients use, without a slash at the end; empty if it is not
	// set.
	PublicURL string
	// PageSize bounds the entries of one prompts/list page.
	PageSize int
	// Separator stands between an upstream's prefix and the prompt's own name. No prefix contains
	// it.
	Separator string
	// CursorKeys are 32 bytes each: the first seals, and each of them opens. Empty means a fresh
	// random key per process.
	CursorKeys []Key
	// SigningKeys are PEM texts of private keys, for assertions: the first signs, and the public keys of all are
	// published. See [Gateway.Signers].
	SigningKeys []Secret
	// AllowedHosts and AllowedOrigins are what requests may have in Host and Origin, besides the
	// gateway's own addresses.
	AllowedHosts   []string
	AllowedOrigins []string
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// TLS is nil without a tls block: clients are served plain HTTP.
	TLS      *ServerTLS
	Conflict Conflict
	// Instructions are sent to every client when it connects.
	Instructions string
	// SSE says whether HTTP+SSE, which the protocol deprecates, is served at /sse.
	SSE bool
	// Variants are the further endpoints, at /VARIANT beneath Path.
	Variants []Variant
	// StateDir is the folder in which the last good lists are kept, relative to the working
	// directory; empty means that they are not kept. It may be below the configuration, of which
	// only *.hcl files are read.
	StateDir string
	// DrainDelay is how long the gateway serves on as before after SIGTERM, unready; DrainTimeout
	// is how long requests in flight may take after that.
	DrainDelay, DrainTimeout time.Duration
	// MaxBuffered bounds what requests and responses hold at once, as a share of the memory limit.
	MaxBuffered Share
	// MaxFiles bounds what all prompt files of one team hold in memory, in bytes. See [Files.Max].
	MaxFiles int
	// Lock holds for all teams, each of which may ask for more. See [Config.LockFor].
	Lock LockSetting
	// Limit is for all requests of a principal; nil without a limit block.
	Limit *Limit
	// Screens hold for all teams. See [Config.ScreensFor].
	Screens []Screen
	// Place is the zero value without a block.
	Place Place
}

// PublicEndpoint returns the URL of the MCP endpoint by public_url, which may be with the
// endpoint's path or without; nil where there is no public_url.
func (g *Gateway) PublicEndpoint() *url.URL {
	u, err := url.Parse(g.PublicURL)
	if err != nil || u.Host == "" {
		return nil
	}
	if strings.HasSuffix(u.Path, g.Path) {
		return u
	}
	if u.Path == "" { // JoinPath would make a path without a slash in front
		u.Path = "/"
	}
	return u.JoinPath(g.Path)
}

// SSEBeside returns the URL at which HTTP+SSE is served, for an endpoint's URL.
func (g *Gateway) SSEBeside(endpoint *url.URL) *url.URL {
	u := *endpoint
	u.Path = strings.TrimSuffix(u.Path, g.Path) + SSEPath
	u.RawPath = strings.TrimSuffix(endpoint.EscapedPath(), g.Path) + SSEPath
	return &u
}

// Endpoint returns where clients find the gateway: at its public_url, else where it listens, which
// is at a host of the caller's choice where it listens on all addresses.
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

// Variant is a form in which an endpoint serves prompts; empty is that of the protocol.
type Variant string

// The values of the variants attribute.
const (
	VariantFlat  Variant = "flat"  // each prompt is one text, with one argument at most
	VariantTools Variant = "tools" // two tools beside the prompts, for clients that know tools only
)

// Conflict says what happens to an exposed name with two definitions.
type Conflict string

// The values of the conflict attribute.
const (
	ConflictDrop  Conflict = "drop"  // leave out both
	ConflictFirst Conflict = "first" // keep the first in configuration order
)

func gatewaySchema() hclread.Schema {
	return hclread.Schema{
		Plain: []string{
			"page_size", "separator", "conflict", "lock", "variants", "sse", "max_buffered", "max_files", "drain_delay", "drain_timeout",
		},
		External: []string{
			"listen", "path", "public_url", "allowed_hosts", "allowed_origins", "trusted_proxies", "instructions", "state_dir",
		},
		Secret:  []string{"cursor_keys", "signing_keys"},
		Foreign: map[string]string{"card": "Remove it: clients are given the endpoint's URL."},
		Blocks: []hclread.BlockSchema{
			{Type: "tls", Schema: serverTLSSchema()},
			{Type: "limit", Schema: limitSchema()},
			{Type: "screen", Labelled: true, Schema: screenSchema()},
		},
	}
}

func decodeGateway(b *hclread.Block, ids *identities, keys *hclread.Uses) Gateway {
	g := Gateway{
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
		Place:        placeOf(b.Range()),
	}
	hclread.Set(b, "listen", &g.Listen, hclread.Checked(checkListen))
	hclread.Set(b, "path", &g.Path, hclread.Checked(checkPath))
	hclread.Set(b, "public_url", &g.PublicURL, parsePublicURL)
	hclread.Int(b, "page_size", maxPageSize, &g.PageSize)
	if !hclread.Set(b, "separator", &g.Separator, hclread.Checked(checkSeparator)) && b.Has("separator") {
		// Empty rather than the default: a prefix may fit the separator that was meant and not the
		// default.
		g.Separator = ""
	}
	// What the keys are made of is withheld from teams, see [allowed].
	*keys = b.Record(func() {
		g.CursorKeys = hclread.List(b, "cursor_keys", parseKey)
		g.SigningKeys = hclread.List(b, "signing_keys", func(s string) (Secret, error) {
			_, err := parseAssertionKey(s)
			return NewSecret(s), err
		})
	})
	g.AllowedHosts = hclread.List(b, "allowed_hosts", hclread.Checked(checkHost))
	g.AllowedOrigins = hclread.List(b, "allowed_origins", hclread.Checked(checkOrigin))
	g.TrustedProxies = hclread.List(b, "trusted_proxies", parseProxy)
	for _, inner := range b.Inner("tls") {
		g.TLS = decodeServerTLS(inner, ids)
	}
	hclread.Set(b, "conflict", &g.Conflict, hclread.OneOf(ConflictDrop, ConflictFirst))
	g.Variants = hclread.List(b, "variants", hclread.OneOf(VariantFlat, VariantTools))
	if len(g.Variants) > len(slices.Compact(slices.Sorted(slices.Values(g.Variants)))) {
		b.Error(b.ValueRange("variants"), "Two endpoints at one path", "Each variant has an "+
			"endpoint of its own beneath path: write it only once.")
	}
	hclread.Bool(b, "sse", &g.SSE)
	hclread.Set(b, "instructions", &g.Instructions, hclread.AnyText)
	hclread.Set(b, "state_dir", &g.StateDir, hclread.Checked(checkFolder))
	hclread.Set(b, "max_buffered", &g.MaxBuffered, parseShare)
	hclread.Int(b, "max_files", maxCount, &g.MaxFiles)
	hclread.Set(b, "drain_delay", &g.DrainDelay, parseDrain)
	hclread.Set(b, "drain_timeout", &g.DrainTimeout, parseDrain)
	g.Lock = decodeLock(b)
	if g.Limit = decodeLimit(b); g.Limit != nil {
		g.Limit.Block = "gateway"
	}
	g.Screens = decodeScreens(b)
	return g
}

// maxDrain keeps a gateway from outliving the signal that ends it by much.
const maxDrain = time.Hour

// parseDrain reads a duration that may be zero.
func parseDrain(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxDrain {
		return 0, errors.New(`is not a duration from "0s" to "1h"; write it like "10s"`)
	}
	return d, nil
}

// checkPublicURL warns if clients may be sent to the wrong address to authenticate.
func checkPublicURL(r *hclread.Reader, cfg *Config) {
	gateways := r.Blocks("gateway")
	host, _, _ := net.SplitHostPort(cfg.Gateway.Listen)
	if cfg.Auth == nil || len(cfg.Auth.JWTs) == 0 || cfg.Auth.Header() != "" || len(gateways) == 0 || gateways[0].Has("public_url") || IsLoopback(host) {
		return
	}
	r.Warning(gateways[0].ValueRange("listen"), "No public_url", "Clients without a token are "+
		"sent to public_url to find the issuer. Without it they are sent to the "+
		"host of their request, which is wrong behind a proxy that terminates TLS. Set public_url to the address that clients use.")
}

// checkAudiences warns of an audience that is nearly the endpoint's URL, for which clients request tokens
// (RFC 8707). Another host may be what the issuer calls the gateway.
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

// checkOpaqueOrigins reports an origin that is no proof of anything unless the caller has a credential,
// which no page of another has.
func checkOpaqueOrigins(r *hclread.Reader, cfg *Config) {
	for _, origin := range cfg.Gateway.AllowedOrigins {
		isProtected := len(r.Blocks("auth")) > 0 && cfg.Auth != nil && !cfg.Auth.Anonymous
		if slices.Contains(opaqueOrigins, origin) && !isProtected {
			r.Error(r.Blocks("gateway")[0].ValueRange("allowed_origins"), "Origin of any page", "Any web page can send "+
				"requests with the origin %q; add an auth block without anonymous, or remove the origin.", origin)
		}
	}
}

// checkSeparator bounds the separator, which is part of every name.
func checkSeparator(s string) error {
	if n := utf8.RuneCountInString(s); n < 1 || n > maxSeparator || !isPrintable(s) {
		return fmt.Errorf(`is not 1 to %d characters without white space; write it like "."`, maxSeparator)
	}
	return nil
}

// checkFolder does not look for the folder, which may be created later.
func checkFolder(s string) error {
	if s == "" || strings.Contains(s, "\x00") {
		return errors.New(`is not the path of a folder; write it like "/var/lib/promptweir", or ` +
			`leave it out to keep nothing`)
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

// parseProxy reads an address or a network in CIDR notation.
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
		// If every peer is trusted, every client can write the header that names its address.
		return netip.Prefix{}, errors.New("covers every address, so any client could forge its own; name the proxies")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("has host bits set; write %q", prefix.Masked())
	}
	return prefix, nil
}

// DefaultMaxBuffered bounds what requests and responses hold at once.
const DefaultMaxBuffered = "25%"

const (
	// minBuffered and maxBuffered bound max_buffered in bytes: a quarter of the least is a prompt
	// of usual size.
	minBuffered, maxBuffered = 1 << 20, 1 << 50
	// maxBufferedPercent leaves memory for everything else.
	maxBufferedPercent = 90
)

// Share is an amount of memory: a number of bytes or, like "25%", a part of what there is.
type Share string

// Of returns the bytes that the share is of a memory. The zero Share is none.
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
