package catalog_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestParsePrompt_TreatsNullAsAbsent(t *testing.T) {
	for _, test := range []struct{ raw, want string }{
		{`{"name":"a","description":null,"x":null}`, `{"name":"a","x":null}`},
		{`{"title":null,"name":"a","arguments":null,"icons":null,"_meta":null}`, `{"name":"a"}`},
		{
			`{"name":"a","arguments":[{ "name":"x" },{"title":null,"name":"y","description":null,"required":null,"z":null}]}`,
			`{"name":"a","arguments":[{ "name":"x" },{"name":"y","z":null}]}`,
		},
		{
			`{"name":"a","icons":[{"src":"s","mimeType":null,"sizes":null,"theme":null,"title":null}]}`,
			`{"name":"a","icons":[{"src":"s","title":null}]}`,
		},
		{`{"name":"a","_meta":{"title":null},"arguments":[{"name":"null"}]}`, `{"name":"a","_meta":{"title":null},"arguments":[{"name":"null"}]}`},
	} {
		got, plain := parse(t, test.raw), parse(t, test.want)
		upstreamtest.Equal(t, test.want, string(got.Definition), "%s", test.raw)
		upstreamtest.Equal(t, plain.Hash, got.Hash, "hash of %s", test.raw)
	}
}

func TestParsePrompt_RefusesIconsThatNoSchemaAllows(t *testing.T) {
	for raw, because := range map[string]string{
		`{"src":null}`:                   "icons[0]: src must be a string",
		`{"src":"a","mimeType":7}`:       "icons[0]: mimeType must be a string, not a number",
		`{"src":"a","sizes":"48x48"}`:    "icons[0]: sizes must be an array, not a string",
		`{"src":"a","sizes":["any",48]}`: "icons[0]: sizes[1] must be a string, not a number",
		`{"src":"a","theme":"neon"}`:     `icons[0]: theme must be "light" or "dark"`,
	} {
		_, err := catalog.ParsePrompt(jsontext.Value(`{"name":"a","icons":[` + raw + `]}`))
		if err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("%s: error %v, want one with %q", raw, err, because)
		}
	}
}
