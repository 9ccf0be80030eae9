package wire

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MetaPrefix is the beginning of the gateway's own keys in _meta. Clients trust the values of these
// keys, so servers must not set them.
const MetaPrefix = "io.github.promptweir/"

// IsOwnMeta reports whether a key of _meta belongs to the gateway.
func IsOwnMeta(key string) bool { return strings.HasPrefix(key, MetaPrefix) }

// WithoutOwnMeta returns a server's JSON without the gateway's own keys in each _meta. A _meta with such a key is written again. All other
// bytes are unchanged.
func WithoutOwnMeta(raw jsontext.Value) jsontext.Value {
	// Return early: nearly all JSON contains neither the prefix nor an escape that could hide the
	// prefix.
	if !bytes.Contains(raw, []byte(MetaPrefix)) && !bytes.Contains(raw, []byte(`\u00`)) && !bytes.Contains(raw, []byte(`\/`)) {
		return raw
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var out jsontext.Value // replaces raw[:copied]
	copied, inMeta := 0, false
	for {
		if inMeta && decoder.PeekKind() == '{' {
			value, err := decoder.ReadValue()
			if err != nil {
				return raw
			}
			meta, end := Members(value), int(decoder.InputOffset())
			if cleaned := meta.Without(IsOwnMeta); len(cleaned) < len(meta) {
				out = append(append(out, raw[copied:end-len(value)]...), cleaned.JSON()...)
				copied = end
			}
		}
		token, err := decoder.ReadToken()
		if err != nil { // io.EOF, because the JSON is valid
			break
		}
		kind, length := decoder.StackIndex(decoder.StackDepth())
		inMeta = kind == '{' && length%2 == 1 && token.Kind() == '"' && token.String() == "_meta"
	}
	return append(out, raw[copied:]...)
}
