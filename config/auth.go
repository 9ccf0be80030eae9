package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Defaults and bounds of a jwt block.
const (
	// DefaultSubjectClaim is the claim that says who the token is for.
	DefaultSubjectClaim = "sub"
	// DefaultGroupsClaim is the claim with the groups of whom it is for.
	DefaultGroupsClaim = "groups"
	// DefaultLeeway is how far the clock of whoever issues tokens may be from the gateway's.
	DefaultLeeway = 30 * time.Second
	// maxLeeway bounds what can still be called the difference of two clocks.
	maxLeeway = 5 * time.Minute
)

// JWT is one jwt block: an authorization server whose access tokens are accepted.
type JWT struct {
	// Name is the block's label, for logs.
	Name string
	// Issuer is what the iss claim must be, to the letter, and where the server is discovered.
	Issuer string
	// JWKSURL is where the server's keys are; empty where discovery says that.
	JWKSURL string
	// Audience is what must be among the aud claim.
	Audience string
	// SubjectClaim and GroupsClaim name the claims that make the principal.
	SubjectClaim, GroupsClaim string
	// Algorithms are the signatures that are accepted, none of them symmetric.
	Algorithms []string
	Leeway     time.Duration
	// Scopes must all be granted to a token.
	Scopes []string
	// As goes in front of subjects and groups, with a slash: user:AS/SUBJECT. It may be empty.
	As    string
	Place Place
}

// ClientCertificates says whom the certificates of clients stand for.
type ClientCertificates struct {
	// As goes in front of subjects, with a slash: user:AS/SUBJECT. It may be empty.
	As string
}

// ServerTLS is the tls block of the gateway. What was in the files is PEM that was found sound.
type ServerTLS struct {
	// Certificate is the chain that clients are shown, and Key its private key.
	Certificate, Key Secret
	// CertFile and KeyFile are where the two were read, and can be read again when they were renewed.
	CertFile, KeyFile string
	// ClientCAs vouch for the certificates of clients; empty means that none are asked for.
	ClientCAs Secret
	// as is for the certificates of clients.
	as string
}

// signatures are the algorithms that a jwt block may accept, and does where it does not say.
func signatures() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
}

func (l *loader) jwt(f fields) JWT {
	f.items(schema{attributes: []string{
		"issuer", "jwks_url", "audience", "subject_claim", "groups_claim", "algorithms", "leeway", "scopes", "as",
	}})
	if f.labelled() {
		l.unique("jwt", f.label(), f.labelRange())
	}
	j := JWT{
		Name: f.label(), Place: f.place(), SubjectClaim: DefaultSubjectClaim, GroupsClaim: DefaultGroupsClaim, Leeway: DefaultLeeway,
	}
	for _, name := range []string{"issuer", "audience"} {
		if f.lacks(name) {
			f.error(f.block.DefRange(), "Missing "+name, "%s", missingJWT[name])
		}
	}
	field(f, "issuer", public, &j.Issuer, parseIssuer)
	field(f, "jwks_url", public, &j.JWKSURL, parseProvider)
	field(f, "audience", public, &j.Audience, checked(checkAudience))
	field(f, "subject_claim", shown, &j.SubjectClaim, checked(checkClaim))
	field(f, "groups_claim", shown, &j.GroupsClaim, checked(checkClaim))
	j.Algorithms = list(f, "algorithms", shown, parseAlgorithm)
	switch {
	case !f.has("algorithms"):
		j.Algorithms = signatures()
	case len(f.texts("algorithms", shown)) == 0:
		f.error(f.at("algorithms"), "Empty algorithms", "No token could be accepted; name those that the issuer signs with, or leave the attribute out for all that are safe.")
	}
	field(f, "leeway", shown, &j.Leeway, parseLeeway)
	j.Scopes = list(f, "scopes", shown, checked(checkScope))
	j.As = l.as(f, "jwt "+j.Place.String())
	return j
}

var missingJWT = map[string]string{ //nolint:gochecknoglobals // a constant table
	"issuer":   "A jwt block needs the issuer of its tokens: set issuer to what their iss claim says, beside a jwks_url too.",
	"audience": "A token that was made for somebody else must not be good here: set audience to what the issuer puts into the aud claim of tokens for this gateway, usually its public_url with its path.",
}

// parseIssuer keeps an issuer as it is: the iss claim must be equal to the letter.
func parseIssuer(s string) (string, error) {
	u, err := url.Parse(s)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		return "", errors.New("has a query, which no issuer has; leave it out")
	}
	return parseProvider(s)
}

// parseProvider wants an address at which nobody on the way can put keys of their own.
func parseProvider(s string) (string, error) {
	u, err := parseURL(s)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" && !loopback(u.Hostname()) {
		return "", errors.New("would let anybody on the way decide which tokens are good; write https://, or use a host on loopback")
	}
	return s, nil
}

func checkAudience(s string) error {
	if !printable(s) {
		return errors.New(`is not an audience; write what the aud claim has, like "https://prompts.example.com/mcp"`)
	}
	return nil
}

func checkClaim(s string) error {
	if !printable(s) {
		return errors.New(`is not the name of a claim; write it like "groups"`)
	}
	return nil
}

func parseAlgorithm(s string) (string, error) {
	if s == "none" || strings.HasPrefix(s, "HS") {
		return "", errors.New("lets whoever knows what is public make tokens; name an algorithm with a private key, like \"RS256\"")
	}
	return oneOf(signatures())(s)
}

func parseLeeway(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxLeeway {
		return 0, fmt.Errorf(`is not a duration from "0s" to "%gm"; write it like "30s"`, maxLeeway.Minutes())
	}
	return d, nil
}

// as reads what goes in front of the subjects of a block, which is of a source.
func (l *loader) as(f fields, source string) (as string) {
	if field(f, "as", shown, &as, checked(checkAs)) || !f.has("as") {
		l.identified = append(l.identified, identified{source, as, f.block.DefRange()})
	}
	return as
}

// checkAs wants what keeps subjects apart: with a slash in it, two sources could make one subject.
func checkAs(s string) error {
	if !isName(s) {
		return errors.New(`cannot stand in front of a subject; use letters, digits, "-" and "_"`)
	}
	return nil
}

// serverTLS reads the tls block of the gateway and the files it names.
func (f fields) serverTLS() *ServerTLS {
	f.items(schema{attributes: []string{"cert_file", "key_file", "client_ca_file", "as"}})
	if f.lacks("cert_file") && f.lacks("key_file") {
		f.error(f.block.DefRange(), "Missing cert_file", "A server shows a certificate: set cert_file and key_file.")
	}
	var pair TLS
	f.keyPair(&pair)
	t := &ServerTLS{Certificate: pair.Certificate, Key: pair.Key}
	if t.Certificate.Reveal() != "" {
		t.CertFile, t.KeyFile = f.path("cert_file"), f.path("key_file")
	}
	t.ClientCAs, _ = f.pem("client_ca_file", checkCertificates)
	if f.has("client_ca_file") {
		t.as = f.as(f, "client certificates")
	} else if f.has("as") {
		f.error(f.at("as"), "as without client_ca_file", "It goes in front of the subjects of client certificates, and none are asked for; remove it, or set client_ca_file.")
	}
	return t
}

// path is the file that an attribute names, which was read already.
func (f fields) path(name string) string {
	t, _ := f.string(name, public)
	if filepath.IsAbs(t.value) {
		return t.value
	}
	return filepath.Join(f.scope.dir, t.value)
}

// asksForCertificates reports whether clients are asked for certificates, by a file that is good or not.
func (l *loader) asksForCertificates() bool {
	return slices.ContainsFunc(l.top("gateway"), func(f fields) bool {
		return slices.ContainsFunc(f.inner("tls"), func(inner fields) bool { return inner.has("client_ca_file") })
	})
}

// identified is something that makes principals: one of several blocks of a source, or the only one.
type identified struct {
	source, as string
	at         hcl.Range
}

// checkSources adds the certificates to auth, and reports what would let two sources' subjects be taken for one.
func (l *loader) checkSources(cfg *Config) {
	if t := cfg.Gateway.TLS; t != nil && t.ClientCAs.Reveal() != "" {
		if cfg.Auth == nil {
			cfg.Auth = &Auth{}
		}
		cfg.Auth.ClientCertificates = &ClientCertificates{As: t.as}
	}
	several := slices.ContainsFunc(l.identified, func(i identified) bool { return i.source != l.identified[0].source })
	owner := map[string]identified{}
	for _, i := range l.identified {
		first, taken := owner[i.as]
		switch {
		case several && i.as == "":
			l.error(i.at, "Missing as", "Callers are known from several sources, and the alice of one need not be that of another; set as = \"NAME\", which makes user:alice user:NAME/alice.")
		case taken && first.source != i.source:
			l.error(i.at, "Duplicate as", "%q stands in front of the subjects of another source already, at %s; choose another name.", i.as, placeOf(first.at))
		case !taken:
			owner[i.as] = i
		}
	}
}

// checkPublicURL warns of clients that may be sent to the wrong place.
func (l *loader) checkPublicURL(cfg *Config) {
	host, _, _ := net.SplitHostPort(cfg.Gateway.Listen)
	gateways := l.top("gateway")
	if cfg.Auth == nil || len(cfg.Auth.JWTs) == 0 || len(gateways) == 0 || gateways[0].has("public_url") || loopback(host) {
		return
	}
	l.warning(gateways[0].at("listen"), "No public_url", "Who has no token yet is sent there to find the issuer, and without it to the host that was asked, "+
		"which is wrong behind a proxy that speaks https for the gateway. Set public_url to where clients see it.")
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
		return netip.Prefix{}, errors.New("is everybody, so that everybody could write what they like; name the proxies")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("is not where a network begins; write %q", prefix.Masked())
	}
	return prefix, nil
}

// TokenBlock returns an auth block with one token, as Load reads it.
func TokenBlock(t Token) (string, error) {
	if err := checkSubject(t.Subject); err != nil {
		return "", fmt.Errorf("label %q %w", t.Subject, err)
	}
	for _, group := range t.Groups {
		if err := checkGroup(group); err != nil {
			return "", fmt.Errorf("group %q %w", group, err)
		}
	}
	if t.As != "" {
		if err := checkAs(t.As); err != nil {
			return "", fmt.Errorf("as %q %w", t.As, err)
		}
	}
	file := hclwrite.NewEmptyFile()
	block := file.Body().AppendNewBlock("auth", nil).Body().AppendNewBlock("token", []string{t.Subject}).Body()
	block.SetAttributeValue("sha256", cty.StringVal(hex.EncodeToString(t.SHA256[:])))
	if len(t.Groups) > 0 {
		groups := make([]cty.Value, len(t.Groups))
		for i, group := range t.Groups {
			groups[i] = cty.StringVal(group)
		}
		block.SetAttributeValue("groups", cty.ListVal(groups))
	}
	if t.As != "" {
		block.SetAttributeValue("as", cty.StringVal(t.As))
	}
	return string(hclwrite.Format(file.Bytes())), nil
}

// ServerConfig returns the settings of the connections of clients, anew with each call, without the certificate that
// they are shown. A client certificate is verified where there is one, and demanded where demand says so. It fails only on what
// [Load] did not make.
func (t *ServerTLS) ServerConfig(demand bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	cas := t.ClientCAs.Reveal()
	if cas == "" {
		return c, nil
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM([]byte(cas)) {
		return nil, errors.New("no certificate of an authority in PEM")
	}
	if demand {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// MayIssue reports whether a subject, such as "user:alice", may be one of a jwt block's tokens.
func (a *Auth) MayIssue(subject string) bool {
	return a != nil && slices.ContainsFunc(a.JWTs, func(j JWT) bool {
		return j.As == "" || strings.HasPrefix(subject, "user:"+j.As+"/")
	})
}

// RequiresClientCertificate reports whether a certificate is the one way for a client to be let in.
func (a *Auth) RequiresClientCertificate() bool {
	return a != nil && a.ClientCertificates != nil && !a.Anonymous && len(a.Tokens) == 0 && len(a.JWTs) == 0
}
