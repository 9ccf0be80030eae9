package config

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

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
	// A wrong block counts as well: it was reported, and its author did mean to let someone in.
	if !a.Anonymous && !b.HasBlock("token", "jwt") && !asksForCertificates(b.Reader) {
		b.Error(b.Range(), "Nobody can authenticate", "Give auth a token or a jwt block, or set "+
			"anonymous = true to let everyone see what is exposed to \"*\".")
	}
	return a
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

// decodeAs decodes what goes in front of the subjects of a block.
func (ids *identities) decodeAs(b *hclread.Block, source string) (as string) {
	if hclread.Set(b, "as", &as, hclread.Checked(checkAs)) || !b.Has("as") {
		ids.sources = append(ids.sources, identitySource{source, as, b.Range()})
	}
	return as
}

// checkAs refuses a slash in particular: with it, two sources could make the same subject.
func checkAs(s string) error {
	if !isName(s) {
		return errors.New(`cannot go in front of a subject; use letters, digits, "-" and "_"`)
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
				"one need not be alice of another; set as = \"NAME\", which turns user:alice "+
				"into user:NAME/alice.")
		case taken && first.name != s.name:
			r.Error(s.at, "Duplicate as", "%q already goes in front of the subjects of another "+
				"source, at %s; choose another name.", s.as, placeOf(first.at))
		case !taken:
			firsts[s.as] = s
		}
	}
}
