package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
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
		upstreamtest.Equal(t, want, fmt.Sprintf("%s", wire.ClaimedIDs([]byte(text))), "ClaimedIDs(%s)", text)
	}
}

// Every message is of one kind, a batch is an array in strict JSON that is split between its elements, and a list that is
// read tolerantly differs from one that is read strictly only if it has elements that are not strict.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`, `{"jsonrpc":"2.0","id":"a","result":{"x":1e3}}`, `{"jsonrpc":"2.0","id":null,"error":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"a":1,"a":2}]}}`, `[{"id":1,"result":{"a":"\ud800"}}]`, `[]`, `[1,]`, `[{"a":1,"a":2}]`,
		` [ {"jsonrpc":"2.0","method":"a"} , {"a":[1,2]} ] `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		wire.ClaimedIDs(raw)
		message, strictErr := wire.Parse(raw)
		list, listErr := wire.ParseList(raw, "prompts")
		batch, batchErr := wire.ParseBatch(raw)
		for _, err := range []error{strictErr, batchErr} {
			if refusal, ok := errors.AsType[*wire.Error](err); err != nil && (!ok || refusal.Code != wire.ParseError && refusal.Code != wire.InvalidRequest) {
				t.Errorf("%q: %v", raw, err)
			}
		}
		if strictErr == nil {
			is := []bool{message.IsRequest(), message.IsNotification(), message.IsResponse() && (message.Result == nil) != (message.Error == nil)}
			if kinds := len(slices.DeleteFunc(is, func(claim bool) bool { return !claim })); kinds != 1 {
				t.Errorf("Parse(%q) = %+v, which is %d kinds of message", raw, message, kinds)
			}
			if listErr != nil || string(list.Result) != string(message.Result) {
				t.Errorf("ParseList(%q) = %s, %v, want what Parse returns", raw, list.Result, listErr)
			}
		} else if elements, err := wire.ParseArray(wire.Members(list.Result).Get("prompts")); listErr == nil && (err != nil || len(elements) == 0) {
			t.Errorf("ParseList(%q) passed a text without elements: %v", raw, err)
		}
		whole := jsontext.Value(raw).Clone()
		if batchErr != nil {
			return
		}
		if whole.Kind() != '[' || whole.Compact() != nil {
			t.Fatalf("ParseBatch(%q) splits what is not an array in strict JSON", raw)
		}
		var joined []string
		for _, element := range batch {
			joined = append(joined, string(element))
		}
		again := jsontext.Value("[" + strings.Join(joined, ",") + "]")
		if again.Compact() != nil || !bytes.Equal(again, whole) {
			t.Errorf("ParseBatch(%q), joined again: %s", raw, again)
		}
	})
}
