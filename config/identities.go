package config

import (
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// identities knows the sources of identities and their tokens, to keep the subjects of different sources apart.
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
		b.Error(b.ValueRange("sha256"), "Duplicate token", "The token at %s has the same hash; give each subject a token of its own.", first)
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
			r.Error(s.at, "Missing as", "There are several sources of identities, and alice of one need not be alice of another; set as = \"NAME\", which turns user:alice into user:NAME/alice.")
		case taken && first.name != s.name:
			r.Error(s.at, "Duplicate as", "%q already goes in front of the subjects of another source, at %s; choose another name.", s.as, placeOf(first.at))
		case !taken:
			firsts[s.as] = s
		}
	}
}
