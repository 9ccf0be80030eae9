package wire

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// SkillFile is the name of the file that makes its folder a skill.
const SkillFile = "SKILL.md"

// The bounds within which hosts accept every skill (Skills extension, "Limits").
const (
	MaxSkillFiles = 512
	MaxSkillBytes = 16 << 20
)

// skillName matches the names that the Agent Skills specification allows, except for their length.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckSkillName returns an error for a name that violates the Agent Skills specification, or differs from the name of the skill's folder.
func CheckSkillName(name, folder string) error {
	switch {
	case len(name) > 64 || !skillName.MatchString(name):
		return fmt.Errorf("the name %q must be 1 to 64 of a to z, 0 to 9 and single hyphens "+
			"between them", Clip(name, maxQuotedName))
	case name != folder:
		return fmt.Errorf("the name %q must be that of the skill's folder, %q", name, Clip(folder, maxQuotedName))
	}
	return nil
}

// maxQuotedName bounds a quoted name in a message, in bytes.
const maxQuotedName = 256

// device matches the names of Windows devices, in lower case and with any extension.
var device = regexp.MustCompile(`^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9])([ .].*)?$`)

// FoldPath returns a URI's path as the least careful reader may understand it: decoded repeatedly,
// in Unicode's compatibility form, in lower case. It returns an error if a segment of the result
// leads out of its folder, or is not a valid file name on every system.
func FoldPath(path string) (folded string, err error) {
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		name, err := url.PathUnescape(segment)
		for before := ""; before != name; {
			before, name = name, norm.NFKC.String(name) // normalization may form another escape
			if decoded, err := url.PathUnescape(name); err == nil {
				name = decoded
			}
		}
		name = strings.ToLower(name)
		if err != nil || !isFileName(name) || strings.ContainsAny(segment, "?#") {
			return "", fmt.Errorf("the segment %q of the uri is not the name of a file or a folder", Clip(segment, maxQuotedName))
		}
		segments = append(segments, name)
	}
	return strings.Join(segments, "/"), nil
}

// isFileName reports whether a name denotes a visible file, and the same one on every system.
func isFileName(name string) bool {
	isOdd := func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(`/\:`, r) }
	// Windows drops dots and spaces at the end.
	return name != "" && strings.TrimRight(name, ". ") == name && !strings.HasPrefix(strings.TrimLeft(name, " "), ".") &&
		!strings.ContainsFunc(name, isOdd) && !device.MatchString(name)
}

// IsSkillFile reports whether any reader may take the file at a URI's path for a SKILL.md, see
// [FoldPath].
func IsSkillFile(path string) bool {
	folded, err := FoldPath(path[strings.LastIndexByte(path, '/')+1:])
	return err == nil && folded == strings.ToLower(SkillFile)
}

// Longer reports whether a checked JSON array has more than n elements. For another value it
// returns false. It reads at most n+1 elements and allocates nothing.
func Longer(array jsontext.Value, n int) bool {
	if array.Kind() != '[' {
		return false
	}
	s := &scanner{raw: array, lax: true}
	s.space()
	empty, err := s.open(']')
	for last := empty; !last && err == nil; last, err = s.next(']') {
		if n--; n < 0 {
			return true
		}
		if s.value() != nil {
			return false
		}
	}
	return false
}

// EscapeSegment escapes a text for use as the authority or a path segment of a URI.
func EscapeSegment(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// UnescapeSegment decodes a segment of a URI's path for people. If that fails, it returns the
// segment unchanged.
func UnescapeSegment(segment string) string {
	if text, err := url.PathUnescape(segment); err == nil {
		return text
	}
	return segment
}

// Hash returns the SHA-256 of a value in canonical form (RFC 8785), except that integers keep their
// spelling. RFC 8785 would round integers beyond 2⁵³, so that different values could have the same
// hash.
func Hash(value jsontext.Value) ([sha256.Size]byte, error) {
	canonical := value.Clone()
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(canonical), nil
}
