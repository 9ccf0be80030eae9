package wire_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

func TestIndented_IsForPeopleAndBounded(t *testing.T) {
	if got, want := wire.Indented(jsontext.Value(`{"a":[1]}`)), "{\n  \"a\": [\n    1\n  ]\n}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := wire.Indented(jsontext.Value(`{"a":`)); got != `{"a":` {
		t.Errorf("got %s", got)
	}
	nested := strings.Repeat("[", wire.MaxDepth) + strings.Repeat("1,", 1<<20) + "1" + strings.Repeat("]", wire.MaxDepth)
	if got := wire.Indented(jsontext.Value(nested)); got != nested {
		t.Errorf("%d bytes become %d", len(nested), len(got))
	}
}
