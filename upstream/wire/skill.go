package wire

import (
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
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
