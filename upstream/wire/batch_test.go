package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/wire"
)

const aPing = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestBatchesAreSplitStrictly(t *testing.T) {
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

func TestBatchesAreOfOneRevision(t *testing.T) {
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
