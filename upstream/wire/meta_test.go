package wire_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestWithoutOwnMeta_LeavesOnlyWhatServersMayWrite(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a": "promptweir/x"}`: `{"a": "promptweir/x"}`,
		`{ "_meta": {"io.github.promptweir/template": true} , "b":1.0}`:                                                     `{ "_meta": {} , "b":1.0}`,
		`{"_meta":{"x":1,"io.github.promptweir/partial":[],"y":{}}}`:                                                        `{"_meta":{"x":1,"y":{}}}`,
		`{"_meta":{"io.github.prompt\u0077eir\/template":true,"promptweir/x":1}}`:                                           `{"_meta":{"promptweir/x":1}}`,
		`{"\u005fmeta":{"io.github.promptweir/template":true}}`:                                                             `{"\u005fmeta":{}}`,
		`{"messages":[{"content":{"_meta":{"io.github.promptweir/a":1}}},{"_meta":{"io.github.promptweir/a":1,"b":"\n"}}]}`: `{"messages":[{"content":{"_meta":{}}},{"_meta":{"b":"\n"}}]}`,
		`{"text":"_meta","x":{"io.github.promptweir/template":true},"_meta":"io.github.promptweir/"}`:                       `{"text":"_meta","x":{"io.github.promptweir/template":true},"_meta":"io.github.promptweir/"}`,
		`["_meta",{"io.github.promptweir/template":true}]`:                                                                  `["_meta",{"io.github.promptweir/template":true}]`,
		`"io.github.promptweir/"`: `"io.github.promptweir/"`,
	} {
		upstreamtest.Equal(t, want, string(wire.WithoutOwnMeta(jsontext.Value(raw))), "%s", raw)
		message, err := wire.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":` + raw + `}`))
		if err != nil || raw != want && !message.HasOwnMeta {
			t.Errorf("%s: HasOwnMeta %t, error %v", raw, message.HasOwnMeta, err)
		}
	}
}
