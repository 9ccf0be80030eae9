package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// anonymous is the subject of callers without a credential.
const anonymous = "anonymous"

// Auth is the auth block, together with the client certificates of the gateway's tls block. Tokens,
// each jwt block and the certificates are one source of identities each. If there are several, each
// has an As that no other has.
type Auth struct {
	// Anonymous lets a caller without a credential in as user:anonymous, a member of no team.
	Anonymous bool
	Tokens    []Token
	JWTs      []JWT
	// ClientCertificates is nil if clients are not asked for certificates.
	ClientCertificates *ClientCertificates
}

// ClientCertificates says which subjects the certificates of clients give.
type ClientCertificates struct {
	// As goes in front of subjects, with a slash: user:AS/SUBJECT. It may be empty.
	As string
}

// MayIssue reports whether a subject, such as "user:alice", may come from the token of a jwt block.
func (a *Auth) MayIssue(subject string) bool {
	return a != nil && slices.ContainsFunc(a.JWTs, func(j JWT) bool {
		return j.As == "" || strings.HasPrefix(subject, "user:"+j.As+"/")
	})
}

// Header returns the header that carries the credential; empty means Authorization. All jwt blocks have the
// same, and there is no token block beside another one: who may write one of two headers must not be able to
// choose between two identities.
func (a *Auth) Header() string {
	if a == nil || len(a.JWTs) == 0 {
		return ""
	}
	return a.JWTs[0].Header
}

// RequiresClientCertificate reports whether a certificate is the only way for a client to
// authenticate.
func (a *Auth) RequiresClientCertificate() bool {
	return a != nil && a.ClientCertificates != nil && !a.Anonymous && len(a.Tokens) == 0 && len(a.JWTs) == 0
}

func authSchema() hclread.Schema {
	return hclread.Schema{
		Plain: []string{"anonymous"},
		Blocks: []hclread.BlockSchema{
			{Type: "token", Labelled: true, Schema: tokenSchema()},
			{Type: "jwt", Labelled: true, Schema: jwtSchema()},
		},
	}
}

func decodeAuth(b *hclread.Block, ids *identities) Auth {
	var a Auth
	hclread.Bool(b, "anonymous", &a.Anonymous)
	for _, inner := range b.Inner("token") {
		a.Tokens = append(a.Tokens, decodeToken(inner, ids))
	}
	for _, inner := range b.Inner("jwt") {
		a.JWTs = append(a.JWTs, decodeJWT(inner, ids))
	}
	checkHeaders(b, a)
	// A wrong block counts as well: it was reported, and its author did mean to let someone in.
	if !a.Anonymous && !b.HasBlock("token", "jwt") && !asksForCertificates(b.Reader) {
		b.Error(b.Range(), "Nobody can authenticate", "Give auth a token or a jwt block, or "+
			"set anonymous = true to show everyone the prompts exposed to \"*\".")
	}
	return a
}

// checkHeaders reports sources of identities that read another header than those with a header of a proxy.
func checkHeaders(b *hclread.Block, a Auth) {
	with := slices.IndexFunc(a.JWTs, func(j JWT) bool { return j.Header != "" })
	if with < 0 {
		return
	}
	others := b.Inner("token")
	for i, inner := range b.Inner("jwt") {
		if a.JWTs[i].Header != a.JWTs[with].Header && (!inner.Has("header") || a.JWTs[i].Header != "") {
			others = append(others, inner)
		}
	}
	for _, inner := range others {
		inner.Error(inner.Range(), "Two credentials", "jwt %q reads %s alone, and Authorization belongs to the proxy that sets it; "+
			"remove this block, or give it that header.", a.JWTs[with].Name, a.JWTs[with].Header)
	}
}

// asksForCertificates reports whether the gateway asks clients for certificates, even if the file
// named for that is wrong.
func asksForCertificates(r *hclread.Reader) bool {
	return slices.ContainsFunc(r.Blocks("gateway"), func(b *hclread.Block) bool {
		return slices.ContainsFunc(b.Inner("tls"), func(inner *hclread.Block) bool { return inner.Has("client_ca_file") })
	})
}

// withCertificates returns auth with the client certificates of the gateway's tls block; there need
// not be an auth block.
func withCertificates(auth *Auth, t *ServerTLS) *Auth {
	if t == nil || t.ClientCAs.Reveal() == "" {
		return auth
	}
	if auth == nil {
		auth = &Auth{}
	}
	auth.ClientCertificates = &ClientCertificates{As: t.as}
	return auth
}

// identities knows the sources of identities and their tokens, to keep the subjects of different
// sources apart.
type identities struct {
	sources []identitySource
	hashes  map[[sha256.Size]byte]Place // of tokens
}

// identitySource is a block that makes principals. Blocks of the same source have the same name.
type identitySource struct {
	name, as string
	at       hcl.Range
}

// Qualify returns the name of a subject or a group as policy knows it: prefixed with the as of its
// source.
func Qualify(as, name string) string {
	if as == "" {
		return name
	}
	return as + "/" + name
}

// decodeAs decodes what goes in front of the subjects of a block.
func (ids *identities) decodeAs(b *hclread.Block, source string) (as string) {
	// A wrong one was reported, and must not be reported as missing, too.
	if hclread.Set(b, "as", &as, hclread.Checked(checkAs)) || !b.Has("as") {
		ids.sources = append(ids.sources, identitySource{source, as, b.Range()})
	}
	return as
}

// checkAs refuses a slash in particular: with it, two sources could make the same subject.
func checkAs(s string) error {
	if !isName(s) {
		return errors.New(`cannot be a prefix of subjects; use letters, digits, "-" and "_"`)
	}
	return nil
}

// addToken reports a token that would authenticate two subjects.
func (ids *identities) addToken(b *hclread.Block, t Token) {
	if first, ok := ids.hashes[t.SHA256]; ok {
		b.Error(b.ValueRange("sha256"), "Duplicate token", "The token at %s has the same hash; "+
			"give each subject a token of its own.", first)
		return
	}
	ids.hashes[t.SHA256] = t.Place
}

// check reports sources whose subjects could be mistaken for one another.
func (ids *identities) check(r *hclread.Reader) {
	// The same as twice is fine within a source: two tokens cannot have the same label.
	several := slices.ContainsFunc(ids.sources, func(s identitySource) bool { return s.name != ids.sources[0].name })
	firsts := map[string]identitySource{}
	for _, s := range ids.sources {
		first, taken := firsts[s.as]
		switch {
		case several && s.as == "":
			r.Error(s.at, "Missing as", "There are several sources of identities, and alice of "+
				"one need not be alice of another; set as = \"NAME\", which turns user:alice into user:NAME/alice.")
		case taken && first.name != s.name:
			r.Error(s.at, "Duplicate as", "%q is already the prefix of another source's "+
				"subjects, at %s; choose another name.", s.as, placeOf(first.at))
		case !taken:
			firsts[s.as] = s
		}
	}
}

// hashToken is the command that prints the hash of a token, for remedies.
const hashToken = `printf %s "$token" | sha256sum`

// Token is one static bearer token, known by its hash only.
type Token struct {
	// Subject is the block's label; the principal is user:SUBJECT.
	Subject string
	SHA256  [sha256.Size]byte // of the token as it is sent
	// Groups are without the "group:" in front.
	Groups []string
	// As goes in front of the subject and the groups, with a slash: user:AS/SUBJECT. It may be
	// empty.
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

func tokenSchema() hclread.Schema {
	return hclread.Schema{
		Plain:  []string{"groups", "as"},
		Secret: []string{"sha256"},
	}
}

func decodeToken(b *hclread.Block, ids *identities) Token {
	t := Token{Subject: b.Label(), Place: placeOf(b.Range())}
	if b.Labelled() {
		b.Unique("token", t.Subject, b.LabelRange())
		if err := checkSubject(t.Subject); err != nil {
			b.Error(b.LabelRange(), "Invalid token label", "%q %s.", t.Subject, err)
		}
	}
	b.Require("sha256", "Set sha256 to the hash of the token: %s prints it.", hashToken)
	if hclread.Set(b, "sha256", &t.SHA256, parseHash) {
		ids.addToken(b, t)
	}
	t.Groups = hclread.List(b, "groups", hclread.Checked(checkGroup))
	t.As = ids.decodeAs(b, "tokens")
	return t
}

// checkSubject keeps a token from making the principal of callers without one.
func checkSubject(s string) error {
	if s == anonymous {
		return errors.New("is the name of callers without a token; choose another label")
	}
	if !isPrintable(s) {
		return errors.New("cannot be a subject; use a label without spaces")
	}
	return nil
}

// checkGroup reports a group that no selector could name.
func checkGroup(s string) error {
	if strings.HasPrefix(s, "group:") {
		return errors.New(`starts with "group:"; write the name alone`)
	}
	if !isPrintable(s) {
		return errors.New("is not a group; use a name without spaces")
	}
	return nil
}

// parseHash reads the SHA-256 of a token. Its errors do not quote it.
func parseHash(s string) (hash [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return hash, errors.New("is not 64 hexadecimal digits; " + hashToken + " prints the hash of a token")
	}
	hash = [sha256.Size]byte(b)
	if hash == sha256.Sum256(nil) { // where $token was not set
		return hash, errors.New("is the hash of an empty string; `promptweir token ci` makes a token")
	}
	return hash, nil
}

// TokenBlock returns an auth block with one token, which Load accepts.
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
