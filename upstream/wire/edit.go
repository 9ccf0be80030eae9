package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit returns a JSON value that has been checked, as for [Members], with what edit makes of each
// value at a path. Every other byte stays as it was. In the path, "*" stands for each element of an
// array, anything else for the member of that name.
func Edit(raw jsontext.Value, path []string, edit func(jsontext.Value) jsontext.Value) jsontext.Value {
	if len(path) == 0 {
		return edit(raw)
	}
	var (
		out    jsontext.Value // of raw[:copied]; nil while nothing has changed
		copied int
		s      = &scanner{raw: raw, rigor: splitting}
		err    error
	)
	visit := func(value []byte) {
		// The scanner calls back as soon as it has read a value, which therefore ends at s.at.
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
