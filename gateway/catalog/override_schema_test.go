package catalog_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
)

func TestOverride_ChecksValuesAgainstSchemas(t *testing.T) {
	p := parse(t, `{"name":"a","arguments":[{"name":"n","schema":{"type":"integer","maximum":9}},`+
		`{"name":"external","schema":{"$ref":"https://example.com/s"}},{"name":"broken","schema":{"type":7}}]}`)
	for _, test := range []struct{ argument, value, problem string }{
		{"n", `7`, ""},
		{"n", `10`, `argument "n" breaks its schema: `},
		{"n", `"7"`, `argument "n" breaks its schema: `},
		{"external", `"x"`, ""}, // the server decides
		{"broken", `"x"`, ""},
	} {
		values := []catalog.ArgumentValue{{Name: test.argument, Value: jsontext.Value(test.value)}}
		for kind, overrides := range map[string]catalog.ArgumentOverrides{"fixed": {Fixed: values}, "default": {Defaults: values}} {
			_, err := p.Override(t.Context(), &catalog.Override{Arguments: overrides})
			if fits := test.problem == ""; fits != (err == nil) || !fits && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s %s = %s: error %v, want %q", kind, test.argument, test.value, err, test.problem)
			}
		}
	}
}
