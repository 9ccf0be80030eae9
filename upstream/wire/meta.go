package wire

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MetaPrefix begins the gateway's keys in _meta. Clients trust their values, so no server may set them.
const MetaPrefix = "io.github.promptweir/"

// IsOwnMeta reports whether a key of _meta belongs to the gateway.
func IsOwnMeta(key string) bool { return strings.HasPrefix(key, MetaPrefix) }

// WithoutOwnMeta removes the gateway's keys from each _meta in a server's JSON. Every other byte outside of
// such a _meta stays.
func WithoutOwnMeta(raw jsontext.Value) jsontext.Value {
	// Nearly all JSON contains neither the prefix nor an escape that could hide it.
	if !bytes.Contains(raw, []byte(MetaPrefix)) && !bytes.Contains(raw, []byte(`\u00`)) && !bytes.Contains(raw, []byte(`\/`)) {
		return raw
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var out jsontext.Value // for raw[:copied]
	copied, inMeta := 0, false
	for {
		if inMeta && decoder.PeekKind() == '{' {
			value, err := decoder.ReadValue()
			if err != nil {
				return raw
			}
			meta, end := Members(value), int(decoder.InputOffset())
			if kept := meta.Without(IsOwnMeta); len(kept) < len(meta) {
				out = append(append(out, raw[copied:end-len(value)]...), kept.JSON()...)
				copied = end
			}
		}
		token, err := decoder.ReadToken()
		if err != nil { // the end, since the JSON is valid
			break
		}
		kind, length := decoder.StackIndex(decoder.StackDepth())
		inMeta = kind == '{' && length%2 == 1 && token.Kind() == '"' && token.String() == "_meta"
	}
	return append(out, raw[copied:]...)
}
