package wire

import (
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

// The bounds of a skill that each host accepts (Skills extension, "Limits").
const (
	MaxSkillFiles = 512
	MaxSkillBytes = 16 << 20
)

// skillName is what the Agent Skills specification allows for a name, beside its length.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckSkillName refuses a name that the Agent Skills specification does, or that is not that of
// the skill's folder.
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

// maxQuotedName bounds how much of a name a message quotes, in bytes.
const maxQuotedName = 256

// device is the name of a device on Windows, whatever its extension.
var device = regexp.MustCompile(`^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9])([ .].*)?$`)

// FoldPath returns a path in a URI as the least careful reader may understand it: decoded until nothing
// changes, in Unicode's compatibility form, and in lower case. The error is about a segment that could
// lead out of its folder then, or that is no plain name on some system.
func FoldPath(path string) (folded string, err error) {
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		name, err := url.PathUnescape(segment)
		for before := ""; before != name; {
			before, name = name, norm.NFKC.String(name) // which may make an escape of other characters
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

// isFileName reports whether a name is that of one file on every system.
func isFileName(name string) bool {
	isOdd := func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(`/\:`, r) }
	// Windows drops dots and blanks at the end.
	return name != "" && strings.TrimRight(name, ". ") == name && !strings.HasPrefix(strings.TrimLeft(name, " "), ".") &&
		!strings.ContainsFunc(name, isOdd) && !device.MatchString(name)
}

// IsSkillFile reports whether some reader may take a file with this path in a URI for a SKILL.md.
func IsSkillFile(path string) bool {
	folded, err := FoldPath(path[strings.LastIndexByte(path, '/')+1:])
	return err == nil && folded == strings.ToLower(SkillFile)
}

// Longer reports whether a JSON array that has been checked has more than n elements. It reads no
// further than the first that is too many, and allocates nothing.
func Longer(array jsontext.Value, n int) bool {
	if array.Kind() != '[' {
		return false
	}
	s := &scanner{raw: array, rigor: splitting}
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
