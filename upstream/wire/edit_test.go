package wire_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

func TestEdit_ChangesNothingElse(t *testing.T) {
	double := func(value jsontext.Value) jsontext.Value { return append(value.Clone(), value...) }
	for _, test := range []struct{ raw, want string }{
		{`{}`, `{}`},
		{`[1]`, `[1]`},
		{`{"a":{"*":{"b":1}}}`, `{"a":{"*":{"b":11}}}`},
		{
			" { \"a\" :\n[ {\"b\" : 1.50 , \"c\":[ ]}, 2 ,{\"c\":1},{\"\\u0062\":\"x\\/\"} ] , \"a \":[{\"b\":1}] } ",
			" { \"a\" :\n[ {\"b\" : 1.501.50 , \"c\":[ ]}, 2 ,{\"c\":1},{\"\\u0062\":\"x\\/\"\"x\\/\"} ] , \"a \":[{\"b\":1}] } ",
		},
	} {
		if got := wire.Edit(jsontext.Value(test.raw), []string{"a", "*", "b"}, double); string(got) != test.want {
			t.Errorf("%s\nbecomes %s\nwant    %s", test.raw, got, test.want)
		}
		same := wire.Edit(jsontext.Value(test.raw), []string{"a", "*", "b"}, func(value jsontext.Value) jsontext.Value { return value.Clone() })
		if string(same) != test.raw {
			t.Errorf("%s becomes %s, though nothing was changed", test.raw, same)
		}
	}
}
