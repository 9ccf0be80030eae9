package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func value(text string) jsontext.Value {
	if text == "" {
		return nil
	}
	return jsontext.Value(text)
}

func TestParse_ReadsMessages(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want wire.Message
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, wire.Message{ID: value("1"), Method: "ping"}},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":[ ]}`, wire.Message{ID: value(`1`), Method: "x", Params: value(`{}`)}},
		{`{"id":"a\u0062","params":{"x": 2.50},"method":"p\u0069ng","jsonrpc":"2.0","more":[]}`, wire.Message{ID: value(`"a\u0062"`), Method: "ping", Params: value(`{"x": 2.50}`)}},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, wire.Message{ID: value("1"), Method: "ping", HasNull: true}},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":null}],"c":"null"}}`, wire.Message{ID: value("1"), Result: value(`{"a":[{"b":null}],"c":"null"}`), HasNull: true}},
		{`{"jsonrpc":"2.0","id":1,"result":{"null":"null"}}`, wire.Message{ID: value("1"), Result: value(`{"null":"null"}`)}},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, wire.Message{Method: "notifications/initialized"}},
		{`{"jsonrpc":"2.0","id":12345678901234567890,"result":{}}`, wire.Message{ID: value("12345678901234567890"), Result: value("{}")}},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, wire.Message{ID: value("1"), Error: value(`{"code":-32601,"message":"no"}`)}},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`, wire.Message{Error: value(`{"code":-32700}`), HasNull: true}},
		{`{"jsonrpc":"2.0","error":{"code":-32700}}`, wire.Message{Error: value(`{"code":-32700}`)}},
	} {
		got, err := wire.Parse([]byte(test.raw))
		if err != nil {
			t.Errorf("Parse(%s): %v", test.raw, err)
		}
		upstreamtest.Equal(t, test.want, got, "Parse(%s)", test.raw)
	}
}

func TestParse_RejectsButReturnsID(t *testing.T) {
	refuse := func(raw string, code int64, id, because string) {
		t.Helper()
		message, err := wire.Parse([]byte(raw))
		var refusal *wire.Error
		if !errors.As(err, &refusal) {
			t.Errorf("Parse(%.80s): error %v, want a *wire.Error", raw, err)
			return
		}
		if refusal.Code != code || !strings.Contains(refusal.Message, because) {
			t.Errorf("Parse(%.80s): %v, want %d with %q", raw, refusal, code, because)
		}
		upstreamtest.Equal(t, wire.Message{ID: value(id)}, message, "Parse(%.80s)", raw)
	}
	refuse(``, wire.ParseError, "", "no JSON value")
	refuse(`{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`, wire.ParseError, "", "duplicate")
	refuse(strings.Repeat("[", 200), wire.ParseError, "", "nested deeper")
	refuse(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, wire.InvalidRequest, "", "Batches")

	refuse(`{"id":7,"method":"x"}`, wire.InvalidRequest, "7", "jsonrpc")
	refuse(`{"jsonrpc":"1.0","id":7,"method":"x"}`, wire.InvalidRequest, "7", "jsonrpc")
	refuse(`{"jsonrpc":"2.0","id":7}`, wire.InvalidRequest, "7", "must have a method")
	refuse(`{"jsonrpc":"2.0","id":7,"result":{},"error":{}}`, wire.InvalidRequest, "7", "both")
	refuse(`{"jsonrpc":"2.0","id":7,"method":"x","result":{}}`, wire.InvalidRequest, "7", "both a method and a result")
	refuse(`{"jsonrpc":"2.0","result":{}}`, wire.InvalidRequest, "", "must have an id")
	refuse(`{"jsonrpc":"2.0","id":7,"method":"x","params":["y"]}`, wire.InvalidRequest, "7", "params")
	refuse(`{"jsonrpc":"2.0","id":7,"error":"no"}`, wire.InvalidRequest, "7", "error")
	refuse(`{"jsonrpc":"2.0","id":7,"method":""}`, wire.InvalidRequest, "7", "method")
	refuse(`{"jsonrpc":"2.0","id":true,"method":"x"}`, wire.InvalidRequest, "", "id must be")

	// The id counts also where it stands after what is wrong.
	refuse(`{"jsonrpc":"2.0","method":5,"id":7}`, wire.InvalidRequest, "7", "method")
	refuse(`{"params":[{}],"method":"x","id":"a","jsonrpc":"2.0"}`, wire.InvalidRequest, `"a"`, "params")
	// Read as a notification it would never be answered.
	refuse(`{"jsonrpc":"2.0","id":null,"method":"x"}`, wire.InvalidRequest, "", "null")
}

func TestAppend_ReadsBack(t *testing.T) {
	read := func(raw []byte, want wire.Message) {
		t.Helper()
		got, err := wire.Parse(raw)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Parse(%s): %v (-want +got):\n%s", raw, err, diff)
		}
	}
	read(wire.AppendRequest(nil, 3, `a"b`, nil), wire.Message{ID: value("3"), Method: `a"b`})
	read(wire.AppendRequest(nil, 3, "x", value(odd)), wire.Message{ID: value("3"), Method: "x", Params: value(odd), HasOwnMeta: true})
	read(wire.AppendNotification(nil, "x", nil), wire.Message{Method: "x"})
	read(wire.AppendNotification(nil, "x", value("{}")), wire.Message{Method: "x", Params: value("{}")})
	read(wire.AppendResult(nil, value(`"\u0061"`), value(odd)), wire.Message{ID: value(`"\u0061"`), Result: value(odd), HasOwnMeta: true})
	refusal := wire.NewError(wire.InvalidParams, "no").WithData(value(`{"n":2.50}`))
	object := value(`{"code":-32602,"message":"no","data":{"n":2.50}}`)
	read(wire.AppendError(nil, value("1"), refusal), wire.Message{ID: value("1"), Error: object})
	read(wire.AppendError(nil, nil, refusal), wire.Message{Error: object})
}

func TestReadError_KeepsBytes(t *testing.T) {
	for _, test := range []struct {
		raw     string
		code    int64
		message string
		data    jsontext.Value
	}{
		{`{"message":"\u006eo", "code":-32001,"data":12345678901234567890,"more":1}`, -32001, "no", value("12345678901234567890")},
		{`{"code":0,"message":""}`, 0, "", nil},
	} {
		got, err := wire.ReadError(value(test.raw))
		if err != nil {
			t.Errorf("ReadError(%s): %v", test.raw, err)
			continue
		}
		if got.Code != test.code || got.Message != test.message || string(got.Data) != string(test.data) {
			t.Errorf("ReadError(%s) = %d %q %s", test.raw, got.Code, got.Message, got.Data)
		}
		upstreamtest.Equal(t, test.raw, string(got.JSON()), "ReadError(%s).JSON()", test.raw)
	}
	for _, none := range []string{`{"code":"x","message":"m"}`, `{"code":1.5,"message":"m"}`, `{"code":1,"message":7}`, `{"message":"m"}`, `{"code":1}`, `[]`} {
		if got, err := wire.ReadError(value(none)); err == nil {
			t.Errorf("ReadError(%s) = %v, want an error", none, got)
		}
	}
}

func TestRevisions_BelongToTheirEra(t *testing.T) {
	for revision, modern := range map[string]bool{
		wire.Rev20241105: false, wire.LatestLegacy: false, wire.Rev20260728: true, "2027-01-01": true, "": false,
	} {
		upstreamtest.Equal(t, modern, wire.Modern(revision), "Modern(%q)", revision)
	}
	for revision, known := range map[string]bool{wire.Rev20241105: true, wire.Rev20251125: true, wire.Rev20260728: false, "2025-01-01": false} {
		upstreamtest.Equal(t, known, wire.KnownLegacy(revision), "KnownLegacy(%q)", revision)
	}
}

func TestLabel_IsBounded(t *testing.T) {
	for code, want := range map[int64]string{-32602: "-32602", -32000: "-32000", -32768: "-32768", -31999: "_OTHER", 0: "_OTHER", -32769: "_OTHER", 7: "_OTHER"} {
		upstreamtest.Equal(t, want, wire.NewError(code, "").Label(), "label of %d", code)
	}
}

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
		`[]`:                     wire.InvalidRequest,
		`[` + aPing + `] x`:      wire.ParseError,
		`[{"id":1,"id":1}]`:      wire.ParseError,
		`{}`:                     wire.ParseError,
		``:                       wire.ParseError,
		strings.Repeat("[", 200): wire.ParseError,
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
