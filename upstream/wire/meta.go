package wire

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MetaPrefix begins the keys of _meta that are the gateway's. Clients trust their values, so no server
// may write them.
const MetaPrefix = "io.github.promptweir/"

// IsOwnMeta reports whether a key of _meta is the gateway's.
func IsOwnMeta(key string) bool { return strings.HasPrefix(key, MetaPrefix) }

// WithoutOwnMeta returns JSON of a server without the members of each _meta in it that only the gateway
// may write. Every other byte outside of such a _meta stays as it was.
func WithoutOwnMeta(raw jsontext.Value) jsontext.Value {
	// Nearly always: such a key is nowhere, and not spelled with escapes either.
	if !bytes.Contains(raw, []byte(MetaPrefix)) && !bytes.Contains(raw, []byte(`\u00`)) && !bytes.Contains(raw, []byte(`\/`)) {
		return raw
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var out jsontext.Value // of raw[:copied]
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
		if err != nil { // the end: it was read before
			break
		}
		kind, length := decoder.StackIndex(decoder.StackDepth())
		inMeta = kind == '{' && length%2 == 1 && token.Kind() == '"' && token.String() == "_meta"
	}
	return append(out, raw[copied:]...)
}
