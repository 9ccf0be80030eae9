package wire

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ownPrefixes begin the keys of _meta that are the gateway's: clients trust what these say.
var ownPrefixes = []string{"promptweir/", "io.github.promptweir/"} //nolint:gochecknoglobals // a constant list

func isOwn(key string) bool {
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// WithoutOwnMeta returns JSON of a server without the members of each _meta in it that only the gateway
// may write. Every other byte outside of such a _meta stays as it was.
func WithoutOwnMeta(raw jsontext.Value) jsontext.Value {
	// Nearly always: such a key is nowhere, and not spelled with escapes either.
	if !bytes.Contains(raw, []byte("promptweir/")) && !bytes.Contains(raw, []byte(`\u00`)) && !bytes.Contains(raw, []byte(`\/`)) {
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
			if kept := meta.Without(isOwn); len(kept) < len(meta) {
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
