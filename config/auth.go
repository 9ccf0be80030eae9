package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// anonymous is the subject of callers without a credential.
const anonymous = "anonymous"

// Auth is the auth block, with the client certificates of the gateway's tls block. All tokens together are one source
// of identities, and so are each jwt block and the certificates. If there are several sources, each has its own As.
type Auth struct {
	// Anonymous accepts callers without a credential as user:anonymous, who is in no team.
	Anonymous bool
	Tokens    []Token
	JWTs      []JWT
	// ClientCertificates is nil if clients are not asked for certificates.
	ClientCertificates *ClientCertificates
}

// ClientCertificates maps client certificates to subjects.
type ClientCertificates struct {
	// As is the prefix of the subjects, user:AS/SUBJECT. It may be empty.
	As string
}

// MayIssue reports whether a subject, such as "user:alice", may come from the token of a jwt block.
func (a *Auth) MayIssue(subject string) bool {
	return a != nil && slices.ContainsFunc(a.JWTs, func(j JWT) bool {
		return j.As == "" || strings.HasPrefix(subject, "user:"+j.As+"/")
	})
}

// Header returns the header that carries the credential, or "" if that is Authorization. If a jwt block sets a header,
// all jwt blocks must set the same one, and token blocks are refused: a client that can write one of two headers
// could otherwise choose between two identities.
func (a *Auth) Header() string {
	if a == nil || len(a.JWTs) == 0 {
		return ""
	}
	return a.JWTs[0].Header
}

// RequiresClientCertificate reports whether clients can authenticate only by certificate.
func (a *Auth) RequiresClientCertificate() bool {
	return a != nil && a.ClientCertificates != nil && !a.Anonymous && len(a.Tokens) == 0 && len(a.JWTs) == 0
}

func (a *Auth) table() []hclread.Attribute {
	return []hclread.Attribute{hclread.Plain("anonymous", hclread.Flag(&a.Anonymous),
		"Callers without a credential are `user:anonymous` and see prompts exposed to `\"*\"`. Bad credentials are refused.")}
}

func authSchema() hclread.Schema {
	return hclread.Schema{
		Attributes: new(Auth).table(),
		Blocks: []hclread.BlockSchema{
			{Type: "token", Labelled: true, Schema: hclread.Schema{Attributes: new(Token).table(nil)}, Meaning: "One static token; the label is the subject."},
			{Type: "jwt", Labelled: true, Schema: hclread.Schema{Attributes: newJWT().table(nil)}, Meaning: "One authorization server."},
		},
	}
}

func decodeAuth(b *hclread.Block, ids *identities) Auth {
	var a Auth
	b.Decode(a.table())
	for _, inner := range b.Inner("token") {
		a.Tokens = append(a.Tokens, decodeToken(inner, ids))
	}
	for _, inner := range b.Inner("jwt") {
		a.JWTs = append(a.JWTs, decodeJWT(inner, ids))
	}
	checkHeaders(b, a)
	// HasBlock also counts invalid blocks: they were reported, and their author meant to let callers in.
	if !a.Anonymous && !b.HasBlock("token", "jwt") && !asksForCertificates(b.Reader) {
		b.Error(b.Range(), "Nobody can authenticate",
			"Give auth a token or a jwt block, or set anonymous = true to show everyone the prompts exposed to \"*\".")
	}
	return a
}

// groupsOf returns the names of all groups that callers can be in, or nil if an identity provider names groups or auth
// has errors.
func groupsOf(r *hclread.Reader, auth *Auth) []string {
	if auth == nil || len(auth.JWTs) > 0 || r.Broken() || slices.ContainsFunc(r.Blocks("auth"), (*hclread.Block).HasErrors) {
		return nil
	}
	groups := []string{}
	for _, t := range auth.Tokens {
		groups = append(groups, exslices.CastFunc(t.Groups, func(group string) string { return Qualify(t.As, group) })...)
	}
	return groups
}

// checkHeaders reports token blocks, and jwt blocks for other headers, if a jwt block reads the
// header of a proxy.
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

// asksForCertificates reports whether client_ca_file is set, valid or not.
func asksForCertificates(r *hclread.Reader) bool {
	return slices.ContainsFunc(r.Blocks("gateway"), func(b *hclread.Block) bool {
		return slices.ContainsFunc(b.Inner("tls"), func(inner *hclread.Block) bool { return inner.Has("client_ca_file") })
	})
}

// withCertificates adds the client certificates of the gateway's tls block to auth, which may be nil. If
// there are none, it returns auth unchanged.
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

// identities records the sources of identities and the hashes of tokens, to report collisions.
type identities struct {
	sources []identitySource
	hashes  map[[sha256.Size]byte]Place // the locations of tokens, by hash
}

// identitySource is a block from which principals come. All token blocks have the same name, because
// together they are one source.
type identitySource struct {
	name, as string
	at       hcl.Range
}

// Qualify prefixes the name of a subject or a group with the value of as of its source.
func Qualify(as, name string) string {
	if as == "" {
		return name
	}
	return as + "/" + name
}

func (ids *identities) decodeAs(b *hclread.Block, as *string, source string) {
	// An invalid value was reported and must not count as missing.
	if hclread.Set(b, "as", as, hclread.Checked(checkAs)) || !b.Has("as") {
		ids.sources = append(ids.sources, identitySource{source, *as, b.Range()})
	}
}

func (ids *identities) field(as *string, source string) hclread.Field {
	return hclread.Custom("string", as, func(b *hclread.Block) { ids.decodeAs(b, as, source) })
}

// checkAs checks a prefix of subjects. With a slash in it, two sources could make the same subject.
func checkAs(s string) error {
	if !isName(s) {
		return errors.New(`cannot be a prefix of subjects; use letters, digits, "-" and "_"`)
	}
	return nil
}

// addToken records the hash of a token, and reports a token that would authenticate two subjects.
func (ids *identities) addToken(b *hclread.Block, t Token) {
	if first, ok := ids.hashes[t.SHA256]; ok {
		b.Error(b.ValueRange("sha256"), "Duplicate token",
			"The token at %s has the same hash; give each subject a token of its own.", first)
		return
	}
	ids.hashes[t.SHA256] = t.Place
}

// check reports sources that could make the same subject.
func (ids *identities) check(r *hclread.Reader) {
	// Token blocks, which are one source, may repeat the value of as, because their labels differ.
	several := slices.ContainsFunc(ids.sources, func(s identitySource) bool { return s.name != ids.sources[0].name })
	firsts := map[string]identitySource{}
	for _, s := range ids.sources {
		first, isUsed := firsts[s.as]
		switch {
		case several && s.as == "":
			r.Error(s.at, "Missing as", "There are several sources of identities, and alice of "+
				"one need not be alice of another; set as = \"NAME\", which turns user:alice into user:NAME/alice.")
		case isUsed && first.name != s.name:
			r.Error(s.at, "Duplicate as",
				"%q is already the prefix of another source's subjects, at %s; choose another name.", s.as, placeOf(first.at))
		case !isUsed:
			firsts[s.as] = s
		}
	}
}

// hashToken is the command in remedies that prints the hash of a token.
const hashToken = `printf %s "$token" | sha256sum`

// Token is one static bearer token. The configuration contains only its hash.
type Token struct {
	// Subject is the block's label. The principal is user:SUBJECT.
	Subject string
	SHA256  [sha256.Size]byte // of the token as it is sent
	// Groups are names without the prefix "group:".
	Groups []string
	// As is the prefix of the subject and the groups, user:AS/SUBJECT. It may be empty.
	As    string
	Place Place
}

// String names a token by its subject and hides its hash.
func (t Token) String() string { return string(User) + ":" + t.Subject }

// GoString hides the hash under %#v.
func (t Token) GoString() string { return t.String() }

// MarshalText hides the hash in JSON and in a log.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t *Token) table(ids *identities) []hclread.Attribute {
	hash := hclread.Custom("string", nil, func(b *hclread.Block) {
		if hclread.Set(b, "sha256", &t.SHA256, parseHash) {
			ids.addToken(b, *t)
		}
	})
	return []hclread.Attribute{
		hclread.Secret("sha256", hash,
			"The SHA-256 of the token, 64 hexadecimal digits.").Required("Set sha256 to the hash of the token: %s prints it.", hashToken),
		hclread.Plain("groups", hclread.Strings(&t.Groups, hclread.Checked(checkGroup)), "Names of groups, without `group:`."),
		hclread.Plain("as", ids.field(&t.As, "tokens"), "The prefix of the subject and the groups."),
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
	b.Decode(t.table(ids))
	return t
}

// checkSubject refuses unprintable subjects, and the subject of callers without a credential.
func checkSubject(s string) error {
	if s == anonymous {
		return errors.New("is the name of callers without a token; choose another label")
	}
	if !isPrintable(s) {
		return errors.New("cannot be a subject; use a label without spaces")
	}
	return nil
}

// checkGroup refuses groups that no selector can name.
func checkGroup(s string) error {
	if strings.HasPrefix(s, "group:") {
		return errors.New(`starts with "group:"; write the name alone`)
	}
	if !isPrintable(s) {
		return errors.New("is not a group; use a name without spaces")
	}
	return nil
}

// parseHash reads the SHA-256 of a token. Its errors do not quote the hash.
func parseHash(s string) (hash [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return hash, errors.New("is not 64 hexadecimal digits; " + hashToken + " prints the hash of a token")
	}
	hash = [sha256.Size]byte(b)
	if hash == sha256.Sum256(nil) { // hash of an empty text: $token was not set
		return hash, errors.New("is the hash of an empty string; `promptweir token ci` makes a token")
	}
	return hash, nil
}

// TokenBlock returns an auth block with one token. It refuses subjects, groups and prefixes that Load refuses.
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
	var text strings.Builder
	fmt.Fprintf(&text, "auth {\n  token %s {\n    sha256 = %q\n", label(t.Subject), hex.EncodeToString(t.SHA256[:]))
	if len(t.Groups) > 0 {
		fmt.Fprintf(&text, "    groups = [%s]\n", strings.Join(exslices.CastFunc(t.Groups, label), ", "))
	}
	if t.As != "" {
		fmt.Fprintf(&text, "    as = %q\n", t.As)
	}
	return string(hclwrite.Format([]byte(text.String() + "  }\n}\n"))), nil
}
