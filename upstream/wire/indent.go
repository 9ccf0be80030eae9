package wire

import "github.com/go-json-experiment/json/jsontext"

// maxIndented bounds what is indented, in bytes.
const maxIndented = 64 << 10

// Indented returns a JSON value as people read it. A large one stays as it is: whoever nests it as
// deep as [MaxDepth] would make it 130 times as large.
func Indented(value jsontext.Value) string {
	if len(value) > maxIndented {
		return string(value)
	}
	text := value.Clone()
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(value)
	}
	return string(text)
}
