package config

import (
	"errors"
	"math"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Defaults and bounds of a jwt block.
const (
	// DefaultSubjectClaim is the claim with the subject of a token.
	DefaultSubjectClaim = "sub"
	// DefaultGroupsClaim is the claim with the groups of the subject.
	DefaultGroupsClaim = "groups"
	// DefaultLeeway is the tolerated difference between the clocks of the issuer and the gateway.
	DefaultLeeway = 30 * time.Second

	maxLeeway = 5 * time.Minute // a larger difference means a broken clock
)

// JWT is one jwt block: an authorization server whose access tokens are accepted. The meaning of its
// attributes is in [JWT.table].
type JWT struct {
	Name                      string // the block's label, for logs
	Issuer                    string
	JWKSURL                   string
	Header                    string // in canonical form; empty means Authorization, see [Auth.Header]
	Audience                  string
	SubjectClaim, GroupsClaim string
	Algorithms                []string // only asymmetric algorithms
	Leeway                    time.Duration
	Scopes, RequestScopes     []string
	ClientID                  string
	CallbackPort              int
	As                        string
	Place                     Place
}

func newJWT() *JWT {
	return &JWT{SubjectClaim: DefaultSubjectClaim, GroupsClaim: DefaultGroupsClaim, Algorithms: asymmetricAlgorithms(), Leeway: DefaultLeeway}
}

func (j *JWT) table(ids *identities) []hclread.Attribute {
	issuer := hclread.Custom("string", nil, func(b *hclread.Block) { hclread.Set(b, "issuer", &j.Issuer, issuerParser(b)) })
	const noAlgorithm = "No token could be accepted; list the issuer's signing algorithms, or leave the attribute out to accept all safe ones."
	return []hclread.Attribute{
		hclread.FromEnvironment("issuer", issuer,
			"The exact `iss` claim; `https`, or a host on loopback. Keys are discovered from it. With `header` and `jwks_url`, it may be a host name.").
			Required("A jwt block needs the issuer of its tokens: set issuer to their iss claim, even if jwks_url is set."),
		hclread.FromEnvironment("audience", hclread.String(&j.Audience, hclread.Checked(checkAudience)),
			"In the `aud` claim: usually `public_url` with `path`. That covers its variants, and `/sse` beside it.").
			Required("Without it, the gateway would accept tokens for other services: set audience to the aud claim of its own tokens, " +
				"usually public_url with the path."),
		hclread.FromEnvironment("jwks_url", hclread.String(&j.JWKSURL, ParseProvider), "The address of the keys, instead of discovery."),
		hclread.Plain("subject_claim", hclread.String(&j.SubjectClaim, hclread.Checked(checkClaim)),
			"A claim whose name ends in `mail` counts only if `email_verified` is true, or with `header`."),
		hclread.Plain("groups_claim", hclread.String(&j.GroupsClaim, hclread.Checked(checkClaim)), "A list of strings, or one string."),
		hclread.Plain("algorithms", hclread.Filled(&j.Algorithms, parseAlgorithm, noAlgorithm),
			"`RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `ES512`, `EdDSA`.").Or("all of these"),
		hclread.Plain("leeway", hclread.String(&j.Leeway, parseLeeway), "Tolerated difference of clocks, `\"0s\"` to `\"5m\"`."),
		hclread.Plain("scopes", hclread.Strings(&j.Scopes, hclread.Checked(checkScope)), "Required scopes; a token without one of them gets 403."),
		hclread.Plain("request_scopes", hclread.Strings(&j.RequestScopes, hclread.Checked(checkScope)),
			"The scopes that clients request, where a provider names them differently in tokens: Entra wants `\"https://prompts.example.com/mcp/prompts.read\"` and puts `prompts.read` into the "+
				"token.").Or("`scopes`"),
		hclread.FromEnvironment("client_id", hclread.String(&j.ClientID, hclread.Checked(checkCredential)),
			"A public client that is registered for MCP clients, where the provider takes no unknown ones. [`promptweir client`](../gateway/clientsetup/README.md#registered-clients) and the "+
				"endpoint's page put it into clients' settings."),
		hclread.Plain("callback_port", hclread.Count(&j.CallbackPort, math.MaxUint16),
			"The port of that client's redirect URIs, for clients that would choose any."),
		hclread.Plain("header", hclread.String(&j.Header, parseHeaderName),
			"For a gateway behind Cloudflare Access, Pomerium or Google IAP: the header in which that proxy sends its JWT, which then is the only credential. `Authorization` is ignored. All `jwt` "+
				"blocks have the same, and there are no `token` blocks."),
		hclread.Plain("as", ids.field(&j.As, "jwt "+j.Place.String()), "The prefix of subjects and groups."),
	}
}

func decodeJWT(b *hclread.Block, ids *identities) JWT {
	if b.Labelled() {
		b.Unique("jwt", b.Label(), b.LabelRange())
	}
	j := newJWT()
	j.Name, j.Place = b.Label(), placeOf(b.Range())
	b.Decode(j.table(ids))
	for _, name := range []string{"request_scopes", "client_id"} {
		if j.Header != "" && b.Has(name) {
			b.Error(b.ValueRange(name), name+" beside header",
				"The proxy that sets %s signs people in, and tells clients how; remove %s.", j.Header, name)
		}
	}
	if !b.Has("request_scopes") {
		j.RequestScopes = j.Scopes
		if j.Header == "" && isEntra(j.Issuer) {
			b.Warning(b.ValueRange("issuer"), "No request_scopes", "Entra wants a scope to be requested by its full name, but "+
				"its tokens have the short one: for scopes = [\"prompts.read\"], set "+
				"request_scopes = [\"https://prompts.example.com/mcp/prompts.read\"].")
		}
	}
	if b.Has("callback_port") && b.Lacks("client_id") {
		b.Error(b.ValueRange("callback_port"), "callback_port without client_id",
			"It is the port that the registration of a client names; set client_id, or remove it.")
	}
	return *j
}

// issuerParser returns a parser that accepts a host name as issuer if header is set: Pomerium's
// issuer is a host name.
func issuerParser(b *hclread.Block) func(string) (string, error) {
	return func(s string) (string, error) {
		switch {
		case !b.Has("header") || !isHostName(s):
			return parseIssuer(s)
		case b.Lacks("jwks_url"):
			return "", errors.New("is a host name, from which no keys are discovered; set jwks_url")
		}
		return s, nil
	}
}

// parseHeaderName returns the canonical name of a header. It refuses headers that have a meaning in HTTP or MCP.
func parseHeaderName(s string) (string, error) {
	name := textproto.CanonicalMIMEHeaderKey(s)
	switch {
	case !httpguts.ValidHeaderFieldName(s):
		return "", errors.New(`is not a header name; use letters, digits and "-"`)
	case IsReservedHeader(name), strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "Proxy-"),
		slices.Contains([]string{"Authorization", "Cookie", "Forwarded", "Origin"}, name):
		return "", errors.New(`has a meaning of its own in HTTP or MCP; name a header that carries only a JWT, like "Cf-Access-Jwt-Assertion"`)
	}
	return name, nil
}

// isEntra reports whether an issuer is Microsoft Entra. Its tokens of version 1 and 2 have different issuers.
func isEntra(issuer string) bool {
	u, err := url.Parse(issuer)
	return err == nil && (hostOf(u) == "login.microsoftonline.com" || hostOf(u) == "sts.windows.net")
}

// asymmetricAlgorithms returns all accepted algorithms, which are also the default.
func asymmetricAlgorithms() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
}

// parseAlgorithm accepts asymmetric algorithms only.
func parseAlgorithm(s string) (string, error) {
	// Everyone who can verify a symmetric signature can also make it, and an issuer's keys are
	// public.
	if s == "none" || strings.HasPrefix(s, "HS") {
		return "", errors.New("would accept tokens that anyone can make from public values; " +
			"list an algorithm with a private key, like \"RS256\"")
	}
	return hclread.OneOf(asymmetricAlgorithms()...)(s)
}

// parseIssuer checks an issuer and returns it unchanged, because iss claims must equal it exactly.
func parseIssuer(s string) (string, error) {
	u, err := url.Parse(s)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		return "", errors.New("has a query, which an issuer cannot have; leave it out")
	}
	return ParseProvider(s)
}

// ParseProvider accepts https URLs, and http URLs on loopback: an attacker on the network cannot forge their
// responses. Its errors continue a sentence that begins with the URL.
func ParseProvider(s string) (string, error) {
	u, err := parseURL(s)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" && !IsLoopback(u.Hostname()) {
		return "", errors.New("would let anyone on the network path forge tokens; write https://, or use a host on loopback")
	}
	return s, nil
}

func checkAudience(s string) error {
	if !isPrintable(s) {
		return errors.New(`is not an audience; write the value of the aud claim, like "https://prompts.example.com/mcp"`)
	}
	return nil
}

func checkClaim(s string) error {
	if !isPrintable(s) {
		return errors.New(`is not the name of a claim; write it like "groups"`)
	}
	return nil
}

// checkScope accepts the characters of a scope-token in RFC 6749.
func checkScope(s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return errors.New(`is not a scope; write each as an element of its own, like ["prompts:read", "prompts:list"]`)
	}
	return nil
}

func parseLeeway(s string) (time.Duration, error) { return durationUpTo(s, maxLeeway, "5m", "30s") }
