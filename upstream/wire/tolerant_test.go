package wire_test

import (
	"fmt"
	"testing"

	"github.com/promptweir/promptweir/upstream/wire"
)

func TestParseList_IsStrictButForElements(t *testing.T) {
	t.Parallel()
	for text, accepted := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1}]}}`:                                true,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}]}}`:                          true,
		` {"jsonrpc":"2.0", "id":1,"result":{"x":[1],"prompts":["\ud800", {} ,"\xff"], "y":2}} `: true,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":{"b":[{"c":1,"c":2}]}}]}}`:            true,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":tru}]}}`:                              false,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}],"x":"\ud800"}}`:             false,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}],"prompts":[]}}`:             false,
		`{"jsonrpc":"2.0","id":1,"id":2,"result":{"prompts":[{"a":1,"a":2}]}}`:                   false,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}]},"x":{"y":1,"y":1}}`:        false,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}]}}{}`:                        false,
		`{"jsonrpc":"2.0","id":1,"result":{"others":[{"a":1,"a":2}]}}`:                           false,
		`{"jsonrpc":"1.0","id":1,"result":{"prompts":[{"a":1,"a":2}]}}`:                          false,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}`:                             false,
		`[]`: false,
	} {
		m, err := wire.ParseList([]byte(text), "prompts")
		if accepted != (err == nil) {
			t.Errorf("ParseList(%q) = %v, want accepted = %v", text, err, accepted)
		}
		if accepted && (string(m.ID) != "1" || m.Result.Kind() != '{') {
			t.Errorf("ParseList(%q) = %s, %s", text, m.ID, m.Result)
		}
	}
}

func TestClaimedIDs_OfInvalidResponses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}`:              "[7]",
		`{"result":"\ud800","id":"x","jsonrpc":"2.0"}`:                 `["x"]`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":`:                       "[7]",
		`{"jsonrpc":"2.0","id":7,"error":{"a":1,"a":2}}`:               "[7]",
		`{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2},"id":8}`:       "[]",
		`{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":1,"a":2}}`: "[]",
		`{"jsonrpc":"2.0","id":7,"params":{"a":tru},"method":"x"}`:     "[]",
		`{"jsonrpc":"2.0","result":{"a":`:                              "[]",
		`{"jsonrpc":"2.0","id":"\ud800","result":{}}`:                  "[]",
		`{"level":"info","id":7,"msg":"served"}`:                       "[]",
		`{"level":"error","id":7,"error":"no such file"}`:              "[]",
		`{"level":"error","id":7,"error":"jsonrpc`:                     "[]",
		`{"jsonrpc":"2.0","id":7}`:                                     "[]",
		`no JSON`:                                                      "[]",
		`[{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}},{"jsonrpc":"2.0","id":2,"method":"x"},{"jsonrpc":"2.0","id":3,"error":{}}]`: "[1 3]",
		``: "[]",
	} {
		if got := fmt.Sprintf("%s", wire.ClaimedIDs([]byte(text))); got != want {
			t.Errorf("ClaimedIDs(%s) = %s, want %s", text, got, want)
		}
	}
}

// What a text claims must not matter beyond the texts that are refused, and reading it must not fail.
func FuzzParseList(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}]}}`))
	f.Add([]byte(`[{"id":1,"result":{"a":"\ud800"}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		wire.ClaimedIDs(text)
		strict, strictErr := wire.Parse(text)
		list, err := wire.ParseList(text, "prompts")
		if strictErr == nil && (err != nil || string(list.Result) != string(strict.Result)) {
			t.Errorf("ParseList(%q) = %s, %v, want what Parse returns", text, list.Result, err)
		}
		if err != nil {
			return
		}
		if elements, err := wire.ParseArray(wire.Members(list.Result).Get("prompts")); strictErr != nil && (err != nil || len(elements) == 0) {
			t.Errorf("ParseList(%q) passed a text without elements: %v", text, err)
		}
	})
}
