package config

import (
	"errors"
	"fmt"
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
	// DefaultLeeway is how far the clock of the issuer may be from the gateway's.
	DefaultLeeway = 30 * time.Second

	maxLeeway = 5 * time.Minute // a larger difference is not one of clocks
)

// JWT is one jwt block: an authorization server whose access tokens are accepted.
type JWT struct {
	// Name is the block's label, for logs.
	Name string
	// Issuer must equal the iss claim exactly. It is also where the server's metadata is
	// discovered.
	Issuer string
	// JWKSURL is where the server's keys are; empty means that discovery says where.
	JWKSURL string
	// Header is the request header in which a proxy in front of the gateway sends the token, in canonical form;
	// empty means the bearer token of Authorization. See [Auth.Header].
	Header string
	// Audience must be in the aud claim.
	Audience string
	// SubjectClaim and GroupsClaim name the claims that make the principal.
	SubjectClaim, GroupsClaim string
	// Algorithms are the accepted signature algorithms, none of them symmetric.
	Algorithms []string
	Leeway     time.Duration
	// Scopes must all be granted to a token.
	Scopes []string
	// RequestScopes are what clients are told to request. They are the Scopes, unless the tokens name
	// these in another way.
	RequestScopes []string
	// ClientID is the public client that is registered for MCP clients, and CallbackPort the port at
	// which they await the answer of a sign-in; each may be empty.
	ClientID     string
	CallbackPort int
	// As goes in front of subjects and groups, with a slash: user:AS/SUBJECT. It may be empty.
	As    string
	Place Place
}

func jwtSchema() hclread.Schema {
	return hclread.Schema{
		Plain:    []string{"subject_claim", "groups_claim", "algorithms", "leeway", "scopes", "request_scopes", "callback_port", "header", "as"},
		External: []string{"issuer", "jwks_url", "audience", "client_id"},
	}
}

func decodeJWT(b *hclread.Block, ids *identities) JWT {
	if b.Labelled() {
		b.Unique("jwt", b.Label(), b.LabelRange())
	}
	j := JWT{
		Name: b.Label(), Place: placeOf(b.Range()), SubjectClaim: DefaultSubjectClaim, GroupsClaim: DefaultGroupsClaim, Leeway: DefaultLeeway,
	}
	b.Require("issuer", "A jwt block needs the issuer of its tokens: set issuer to their iss "+
		"claim, even if jwks_url is set.")
	b.Require("audience", "Without it, the gateway would accept tokens for other services: set "+
		"audience to the aud claim of its own tokens, usually public_url with the path.")
	decodeHeader(b, &j)
	hclread.Set(b, "issuer", &j.Issuer, func(s string) (string, error) {
		switch {
		case j.Header == "" || !isHostName(s): // Pomerium's issuer is its host name
			return parseIssuer(s)
		case b.Lacks("jwks_url"):
			return "", errors.New("is a host name, from which no keys are discovered; set jwks_url")
		}
		return s, nil
	})
	hclread.Set(b, "jwks_url", &j.JWKSURL, ParseProvider)
	hclread.Set(b, "audience", &j.Audience, hclread.Checked(checkAudience))
	hclread.Set(b, "subject_claim", &j.SubjectClaim, hclread.Checked(checkClaim))
	hclread.Set(b, "groups_claim", &j.GroupsClaim, hclread.Checked(checkClaim))
	j.Algorithms = asymmetricAlgorithms()
	if b.Has("algorithms") {
		j.Algorithms = hclread.NonEmptyList(b, "algorithms", parseAlgorithm, "No token could be accepted; "+
			"list the issuer's signing algorithms, or leave the attribute out to accept all safe ones.")
	}
	hclread.Set(b, "leeway", &j.Leeway, parseLeeway)
	j.Scopes = hclread.List(b, "scopes", hclread.Checked(checkScope))
	if j.RequestScopes = j.Scopes; b.Has("request_scopes") {
		j.RequestScopes = hclread.List(b, "request_scopes", hclread.Checked(checkScope))
	} else if j.Header == "" && isEntra(j.Issuer) {
		b.Warning(b.ValueRange("issuer"), "No request_scopes", "Entra wants a scope to be requested by its full name, but "+
			"its tokens have the short one: for scopes = [\"prompts.read\"], set "+
			"request_scopes = [\"https://prompts.example.com/mcp/prompts.read\"].")
	}
	hclread.Set(b, "client_id", &j.ClientID, hclread.Checked(checkCredential))
	if hclread.Int(b, "callback_port", math.MaxUint16, &j.CallbackPort); b.Has("callback_port") && b.Lacks("client_id") {
		b.Error(b.ValueRange("callback_port"), "callback_port without client_id", "It is the port that the registration "+
			"of a client names; set client_id, or remove it.")
	}
	j.As = ids.decodeAs(b, "jwt "+j.Place.String())
	return j
}

// decodeHeader decodes the header of a block whose tokens a proxy sends, which also signs people in.
func decodeHeader(b *hclread.Block, j *JWT) {
	if !hclread.Set(b, "header", &j.Header, parseHeaderName) {
		return
	}
	for _, name := range []string{"request_scopes", "client_id"} {
		if b.Has(name) {
			b.Error(b.ValueRange(name), name+" beside header", "The proxy that sets %s signs people in, and tells clients how; "+
				"remove %s.", j.Header, name)
		}
	}
}

// parseHeaderName reads the name of a header that a proxy adds, and that means nothing else.
func parseHeaderName(s string) (string, error) {
	name := textproto.CanonicalMIMEHeaderKey(s)
	switch {
	case !httpguts.ValidHeaderFieldName(s):
		return "", errors.New(`is not a header name; use letters, digits and "-"`)
	case isReservedHeader(name), strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "Proxy-"),
		slices.Contains([]string{"Authorization", "Cookie", "Forwarded", "Origin"}, name):
		return "", errors.New(`has a meaning of its own; name the one in which the proxy sends its JWT, like "Cf-Access-Jwt-Assertion"`)
	}
	return name, nil
}

// isEntra reports whether an issuer is Microsoft's, for tokens of either version.
func isEntra(issuer string) bool {
	u, err := url.Parse(issuer)
	return err == nil && (hostOf(u) == "login.microsoftonline.com" || hostOf(u) == "sts.windows.net")
}

// asymmetricAlgorithms returns the algorithms that a jwt block may accept, and accepts by default.
func asymmetricAlgorithms() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
}

// parseAlgorithm accepts asymmetric algorithms only.
func parseAlgorithm(s string) (string, error) {
	// A symmetric signature is made with the key that verifies it, and the keys of an issuer are
	// public.
	if s == "none" || strings.HasPrefix(s, "HS") {
		return "", errors.New("would accept tokens that anyone can make from public values; " +
			"list an algorithm with a private key, like \"RS256\"")
	}
	return hclread.OneOf(asymmetricAlgorithms()...)(s)
}

// parseIssuer keeps the spelling of an issuer, since the iss claim must equal it exactly.
func parseIssuer(s string) (string, error) {
	u, err := url.Parse(s)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		return "", errors.New("has a query, which an issuer cannot have; leave it out")
	}
	return ParseProvider(s)
}

// ParseProvider accepts only addresses at which no one on the network path can insert keys of their
// own. Its errors continue a sentence that begins with the address.
func ParseProvider(s string) (string, error) {
	u, err := parseURL(s)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" && !IsLoopback(u.Hostname()) {
		return "", errors.New("would let anyone on the network path forge tokens; write https://, " +
			"or use a host on loopback")
	}
	return s, nil
}

func checkAudience(s string) error {
	if !isPrintable(s) {
		return errors.New(`is not an audience; write the value of the aud claim, like ` +
			`"https://prompts.example.com/mcp"`)
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

func parseLeeway(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxLeeway {
		return 0, fmt.Errorf(`is not a duration from "0s" to "%gm"; write it like "30s"`, maxLeeway.Minutes())
	}
	return d, nil
}
