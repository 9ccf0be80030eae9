package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit calls edit for each value at a path, and returns raw with the results in place of the
// values. All other bytes are unchanged. In the path, "*" selects each element of an array. Any
// other text selects the member with that name. raw must be checked, see [Members].
func Edit(raw jsontext.Value, path []string, edit func(jsontext.Value) jsontext.Value) jsontext.Value {
	if len(path) == 0 {
		return edit(raw)
	}
	var (
		out    jsontext.Value // replaces raw[:copied], or is nil before the first change
		copied int
		s      = &scanner{raw: raw, lax: true}
		err    error
	)
	visit := func(value []byte) {
		// The scanner calls visit at the end of a value, so the value ends at s.at.
		edited := Edit(value, path[1:], edit)
		if !bytes.Equal(edited, value) {
			out = append(append(out, raw[copied:s.at-len(value)]...), edited...)
			copied = s.at
		}
	}
	switch s.space(); {
	case s.peek() == '{':
		err = s.object(func(quoted, value []byte) {
			if string(unquote(quoted)) == path[0] {
				visit(value)
			}
		})
	case s.peek() == '[' && path[0] == "*":
		err = s.array(visit)
	}
	if out == nil || err != nil {
		return raw
	}
	return append(out, raw[copied:]...)
}
