package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const aPing = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestParseBatch_IsStrict(t *testing.T) {
	for batch, want := range map[string]int{
		"[" + aPing + "]": 1, " [ " + aPing + " ,\n" + aPing + "\t] \r\n": 2, `[{},1,"x",null,[]]`: 5,
	} {
		messages, err := wire.ParseBatch([]byte(batch))
		if err != nil || len(messages) != want {
			t.Errorf("ParseBatch(%s) = %d messages, %v, want %d", batch, len(messages), err, want)
		}
	}
	for batch, code := range map[string]int64{
		`[]`:                            wire.InvalidRequest,
		`[` + aPing:                     wire.ParseError,
		`[` + aPing + `,]`:              wire.ParseError,
		`[` + aPing + `]]`:              wire.ParseError,
		`[` + aPing + `] x`:             wire.ParseError,
		`[{"id":1,"id":1}]`:             wire.ParseError,
		"[\"\xff\"]":                    wire.ParseError,
		`["\ud800"]`:                    wire.ParseError,
		`{}`:                            wire.ParseError,
		``:                              wire.ParseError,
		strings.Repeat("[", 200):        wire.ParseError,
		"[" + strings.Repeat("{}", 200): wire.ParseError,
	} {
		_, err := wire.ParseBatch([]byte(batch))
		if refusal, ok := errors.AsType[*wire.Error](err); !ok || refusal.Code != code {
			t.Errorf("ParseBatch(%s) = %v, want %d", batch, err, code)
		}
	}
}

func TestParseAll_AcceptsBatchInItsRevisionOnly(t *testing.T) {
	for _, revision := range append(wire.Revisions(), "") {
		messages, err := wire.ParseAll([]byte("["+aPing+","+aPing+"]"), revision)
		if has := revision == wire.Rev20250326; has != wire.Batches(revision) || has != (err == nil) || (has && len(messages) != 2) {
			t.Errorf("%s: %d messages, %v", revision, len(messages), err)
		}
		if messages, err := wire.ParseAll([]byte(aPing), revision); err != nil || len(messages) != 1 || messages[0].Method != "ping" {
			t.Errorf("%s: %v, %v", revision, messages, err)
		}
	}
	if _, err := wire.ParseAll([]byte("["+aPing+",{}]"), wire.Rev20250326); err == nil {
		t.Error("a batch with what is no message is one")
	}
}

// Joined again, the messages that ParseBatch splits are what was read; and it splits exactly strict JSON arrays.
func FuzzParseBatch(f *testing.F) {
	for _, seed := range []string{`[]`, `[1]`, ` [ {"jsonrpc":"2.0","method":"a"} , {"a":[1,2]} ] `, `[{}]x`, `[{"a":1,"a":2}]`, `{}`, `[`, `[1,]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		batch, err := wire.ParseBatch(raw)
		value := jsontext.Value(raw).Clone()
		strict := value.Kind() == '[' && value.IsValid()
		if refusal, ok := errors.AsType[*wire.Error](err); err != nil && (!ok || refusal.Code != wire.ParseError && refusal.Code != wire.InvalidRequest) {
			t.Errorf("ParseBatch(%q): %v", raw, err)
		}
		if err != nil {
			if empty := strict && value.Compact() == nil && string(value) == "[]"; strict && !empty && !strings.Contains(err.Error(), "nested deeper") {
				t.Errorf("ParseBatch(%q): %v", raw, err)
			}
			return
		}
		if !strict {
			t.Fatalf("ParseBatch(%q) splits what is not an array in strict JSON", raw)
		}
		joined := jsontext.Value("[" + string(bytes.Join(toBytes(batch), []byte(","))) + "]")
		if joined.Compact() != nil || value.Compact() != nil || !bytes.Equal(joined, value) {
			t.Errorf("ParseBatch(%q), joined again: %s", raw, joined)
		}
	})
}

func toBytes(values []jsontext.Value) [][]byte {
	all := make([][]byte, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}
