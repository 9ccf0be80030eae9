package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

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
