package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"go.mau.fi/util/confusable"
	"golang.org/x/net/idna"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

const maxPrefix = 64 // bytes

const summaryPrefixTaken = "Prefix belongs to another team"

// namespace records the owner of each prefix: the first team that uses it.
type namespace struct {
	separator string           // empty if the attribute is wrong; then prefixes are not checked
	owners    map[string]claim // the first claim of each prefix, by its [Bare] form
}

// claim is a team's use of a prefix.
type claim struct {
	prefix, team string
	at           hcl.Range
	// isLabel is true if the prefix is the label of an upstream.
	isLabel bool
}

// owner returns the claim of a name's longest prefix. A name without any other prefix has the empty
// prefix, if a team claims that.
func (n namespace) owner(name string) (claim, bool) {
	o, isOwned := n.owners[n.longestPrefix(name)]
	return o, isOwned
}

// startsOf lists the prefixes of a team, with separators, for a sentence such as "begins with …".
func (n namespace) startsOf(team string) string {
	var starts []string
	for _, prefix := range slices.Sorted(maps.Keys(n.owners)) {
		if prefix != "" && n.owners[prefix].team == team {
			starts = append(starts, prefix+n.separator)
		}
	}
	if starts == nil {
		return "the prefix of an upstream of the team"
	}
	return alternatives(starts)
}

// longestPrefix returns the longest prefix of a name, or "" if it has none.
func (n namespace) longestPrefix(name string) (longest string) {
	name = Bare(name)
	for prefix := range n.owners {
		if strings.HasPrefix(name, prefix+n.separator) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return longest
}

// decodePrefix decodes the prefix of an upstream and claims it for the team.
func (n *namespace) decodePrefix(b *hclread.Block, u *Upstream, g *grants) {
	// A wrong label was reported; as the default prefix, it would be reported again.
	if b.Has("prefix") && !hclread.Set(b, "prefix", &u.Prefix, hclread.Checked(checkPrefix)) || !isName(b.Label()) {
		return
	}
	at, subject := b.ValueRange("prefix"), fmt.Sprintf("prefix %q", u.Prefix)
	if !b.Has("prefix") {
		at, subject = b.LabelRange(), fmt.Sprintf("label %q, which is the prefix,", u.Prefix)
	}
	// The first separator in a name must end the prefix. Otherwise the prefix "a-" with the separator "--"
	// would reach into the namespace of "a".
	if u.Prefix != "" && n.separator != "" && strings.Index(u.Prefix+n.separator, n.separator) != len(u.Prefix) {
		b.Error(at, "Separator in prefix", "The %s contains the separator %q; set prefix to something else.", subject, n.separator)
		return
	}
	if err := g.allowPrefix(u.Prefix); err != nil { // without a grant, do not claim the prefix: another team may have it
		b.Invalid("prefix", hclread.Text{Value: u.Prefix, At: at}, err)
		return
	}
	n.claim(b.Reader, claim{u.Prefix, u.Team, at, !b.Has("prefix")})
}

// prefixOf returns the prefix of a new name in a prompt block: the longest prefix of an upstream,
// or the part before the separator.
func (n namespace) prefixOf(name string) string {
	longest := n.longestPrefix(name)
	if before, _, found := strings.Cut(name, n.separator); longest == "" && found {
		return before
	}
	return longest
}

// claim records the first claim of a prefix. If another team has claimed it, the error is one of both files:
// [LoadTolerant] leaves out files with errors, and must prefer neither team.
func (n *namespace) claim(r *hclread.Reader, c claim) {
	first, isOwned := n.owners[Bare(c.prefix)]
	switch {
	case !isOwned:
		n.owners[Bare(c.prefix)] = c
	case first.team == c.team || first.isLabel && c.isLabel && first.prefix == c.prefix: // equal labels are reported as duplicates
	default:
		r.Conflict(c.at, first.at, summaryPrefixTaken, "%q is a prefix of team %q (%s); set prefix to something else.",
			c.prefix, first.team, placeOf(first.at))
	}
}

// checkLookalikes reports prefixes of different teams that look alike, at the later block.
func (n namespace) checkLookalikes(r *hclread.Reader) {
	shapes, reported := n.shapes(), map[[2]string]bool{}
	for _, prefix := range slices.Sorted(maps.Keys(n.owners)) {
		for _, other := range n.lookalikes(shapes, prefix+n.separator, n.owners[prefix].team) {
			pair := [2]string{prefix, other}
			slices.SortFunc(pair[:], func(a, b string) int {
				at, than := n.owners[a].at, n.owners[b].at
				return cmp.Or(strings.Compare(at.Filename, than.Filename), cmp.Compare(at.Start.Byte, than.Start.Byte))
			})
			if first := n.owners[pair[0]]; !reported[pair] {
				reported[pair] = true
				r.Conflict(n.owners[pair[1]].at, first.at, "Prefix looks like another team's",
					"People cannot tell %+q from %+q, a prefix of team %q (%s); set prefix to something else.",
					pair[1], pair[0], first.team, placeOf(first.at))
			}
		}
	}
}

// shapes groups all prefixes by their appearance, including the separator. Names look alike if they have the same
// skeleton (UTS 39, section 4).
func (n namespace) shapes() map[string][]string {
	shapes := map[string][]string{}
	for _, prefix := range slices.Sorted(maps.Keys(n.owners)) {
		if prefix != "" {
			shape := confusable.Skeleton(prefix + n.separator)
			shapes[shape] = append(shapes[shape], prefix)
		}
	}
	return shapes
}

// lookalikes returns other teams' prefixes that look like the beginning of a name but are not its
// beginning. It tries each position at which the name looks like the separator.
func (n namespace) lookalikes(shapes map[string][]string, name, team string) (prefixes []string) {
	name = Bare(name)
	shape, separator := confusable.Skeleton(name), confusable.Skeleton(n.separator)
	for end := 0; ; {
		next := strings.Index(shape[end:], separator)
		if separator == "" || next < 0 {
			return prefixes
		}
		end += next + len(separator)
		for _, prefix := range shapes[shape[:end]] {
			if n.owners[prefix].team != team && !strings.HasPrefix(name, prefix+n.separator) {
				prefixes = append(prefixes, prefix)
			}
		}
	}
}

// checkPrefix checks a prefix, which may be empty.
func checkPrefix(s string) error {
	if s != "" && (!isPrintable(s) || len(s) > maxPrefix) {
		return fmt.Errorf("is not a prefix; use up to %d bytes without white space", maxPrefix)
	}
	return checkCharacters(s)
}

// checkCharacters refuses invisible characters, and symbols beyond ASCII: with them, one team could imitate the
// names of another. HCL has composed s (NFC), so each letter has one spelling.
func checkCharacters(s string) error {
	hidden, hides := HiddenIn(s)
	for _, r := range s {
		// Many symbols beyond ASCII look like letters, so they are refused.
		isPlain := r < unicode.MaxASCII && unicode.IsPrint(r) || unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.P)
		isPlain = isPlain || IsInvisible(r)
		if !isPlain || hides && r == hidden {
			return fmt.Errorf("contains %U, which people cannot see or tell from other "+
				"characters; use letters, marks, digits and punctuation", r)
		}
	}
	return nil
}

// IsInvisible reports whether a character shows nothing or changes the display of other characters:
// controls, format characters, private use, variation selectors, and fillers, which Unicode counts
// as letters.
func IsInvisible(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Cc, unicode.Co, unicode.Variation_Selector)
}

// Invisible characters that emoji and some scripts need. They change the display of the character before
// them, or join two characters.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	textStyle          = '\ufe0e'
	emojiStyle         = '\ufe0f'
)

// withEmoji are the Unicode blocks with emoji forms.
var withEmoji = &unicode.RangeTable{ //nolint:gochecknoglobals // a constant table
	R16: []unicode.Range16{
		{'#', '#', 1},
		{'*', '*', 1},
		{'0', '9', 1},
		{0xa9, 0xa9, 1},
		{0xae, 0xae, 1},
		{0x203c, 0x203c, 1},
		{0x2049, 0x2049, 1},
		{0x2122, 0x2122, 1},
		{0x2139, 0x2139, 1},
		{0x2194, 0x21aa, 1},
		{0x231a, 0x23ff, 1},
		{0x24c2, 0x24c2, 1},
		{0x25aa, 0x27bf, 1},
		{0x2934, 0x2935, 1},
		{0x2b05, 0x2b55, 1},
		{0x3030, 0x3030, 1},
		{0x303d, 0x303d, 1},
		{0x3297, 0x3299, 2},
	},
	R32: []unicode.Range32{{0x1f004, 0x1faff, 1}}, LatinOffset: 5,
}

// joiners implements only the rules of RFC 5892 for joiners (appendix A.1 and A.2).
var joiners = idna.New(idna.CheckJoiners(true)) //nolint:gochecknoglobals // immutable

// HiddenIn returns the first character of a name that [IsInvisible] reports. It accepts a style
// selector after a character with an emoji form, and a joiner between characters that need it.
// Compare names by their [Bare] form, which lacks these characters.
func HiddenIn(name string) (hidden rune, ok bool) {
	if !strings.ContainsFunc(name, IsInvisible) {
		return 0, false
	}
	all := []rune(name)
	at := func(i int) rune {
		if i < 0 || i >= len(all) {
			return 0
		}
		return all[i]
	}
	isEmoji := func(r rune) bool { return r > unicode.MaxASCII && unicode.Is(withEmoji, r) }
	word, joiner := []rune{'x'}, rune(0) // word is the name without selectors and joiners of emoji
	for i, r := range all {
		before := at(i - 1)
		if r == zeroWidthJoiner && before == emojiStyle {
			before = at(i - 2)
		}
		switch {
		case !IsInvisible(r):
			word = append(word, r)
		case (r == textStyle || r == emojiStyle) && unicode.Is(withEmoji, before):
		case r == zeroWidthJoiner && isEmoji(before) && isEmoji(at(i+1)):
		case (r == zeroWidthJoiner || r == zeroWidthNonJoiner) && unicode.In(at(i+1), unicode.L, unicode.M):
			word, joiner = append(word, r), r
		default:
			return r, true
		}
	}
	if joiner == 0 {
		return 0, false
	}
	// For package idna, word is one label of a host name: it has no dots, and begins with the letter x
	// because a label must not begin with a mark.
	_, err := joiners.ToUnicode(strings.ReplaceAll(string(word), ".", " "))
	return joiner, err != nil
}

// Bare returns a name without joiners and style selectors. People cannot see whether a name has them.
func Bare(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case zeroWidthJoiner, zeroWidthNonJoiner, textStyle, emojiStyle:
			return -1
		}
		return r
	}, name)
}

// teamNames are the labels of all team blocks, including those in broken files.
type teamNames []string

// anyTeam is the element of teamNames that makes check accept every name. No team can have this label.
const anyTeam = "*"

// check returns an error for an unknown team.
func (n teamNames) check(name string) error {
	if slices.Contains(n, name) || slices.Contains(n, anyTeam) {
		return nil
	}
	return fmt.Errorf("names a team that no team block declares%s", hclread.SuggestOr(name, n, "correct it, or declare the team"))
}

// checkName reports a label that is not a name or not unique.
func checkName(kind string, b *hclread.Block) {
	if !b.Labelled() {
		return
	}
	if !isName(b.Label()) {
		b.Error(b.LabelRange(), "Invalid "+kind+" name", "%q is not a name; use letters, digits, \"-\" and \"_\".", b.Label())
		return
	}
	b.Unique(kind, b.Label(), b.LabelRange())
}

// isName reports whether s can be the label of a team or an upstream.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
}

// isPrintable reports whether s is not empty and has no white space, control or replacement characters.
func isPrintable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
	})
}
