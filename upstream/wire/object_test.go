package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// nested returns a JSON value that nests arrays and objects to a depth, the outermost an object.
func nested(depth int) []byte {
	return []byte(`{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`)
}

func TestParseObject_IsStrict(t *testing.T) {
	accept := func(raw string) {
		t.Helper()
		if _, err := wire.ParseObject([]byte(raw)); err != nil {
			t.Errorf("ParseObject(%.80q): %v", raw, err)
		}
	}
	reject := func(raw, because string) {
		t.Helper()
		_, err := wire.ParseObject([]byte(raw))
		if err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("ParseObject(%.80q): got error %v, want one with %q", raw, err, because)
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("ParseObject(%.80q): the error is io.EOF, which means the end of a stream", raw)
		}
	}

	// These are the messages. TestParseObject_AgreesWithJSONText checks what else is accepted.
	accept(" \t\r\n{ \"a\" : [ 1 , 2 ] } \r\n")
	accept(string(nested(wire.MaxDepth)))
	reject(string(nested(wire.MaxDepth+1)), "nested deeper than 128")
	reject(" \n", "no JSON value")
	reject(`[{}]`, "not a JSON object")
	reject(`{"a":1,"\u0061":2}`, "duplicate")
	reject("{\"a\":\"\xff\"}", "invalid UTF-8")
	reject(`{"a":"\ud800"}`, "surrogate")
	reject(`{} null`, "bytes after the end")
	reject(`{"a":NaN}`, "invalid character")
	reject("\ufeff{}", "invalid character")
	reject(`{"a":1`, "EOF")
}

// values draws JSON that nests at most so deep. Names meet in one object now and then, in different spellings.
func values(depth int) *rapid.Generator[string] {
	flat := rapid.SampledFrom([]string{`null`, `-0`, `1e3`, `2.50`, `""`, `"[{\""`, `"\u00e9😀"`, `"\ud83d\ude00"`})
	if depth == 0 {
		return flat
	}
	space := rapid.SampledFrom([]string{"", "", " ", "\r\n\t"})
	name := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(`"%s%d"`, rapid.SampledFrom([]string{"n", `\u006e`, `\u006E`}).Draw(t, "spelling"), rapid.IntRange(0, 999).Draw(t, "name"))
	})
	list := func(of *rapid.Generator[string], open, end string) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			var all []string
			for _, element := range rapid.SliceOfN(of, 0, 20).Draw(t, "elements") {
				all = append(all, space.Draw(t, "before")+element+space.Draw(t, "after"))
			}
			return open + strings.Join(all, ",") + end
		})
	}
	inner := rapid.OneOf(flat, values(depth-1))
	member := rapid.Custom(func(t *rapid.T) string {
		return name.Draw(t, "name") + space.Draw(t, "before") + ":" + space.Draw(t, "after") + inner.Draw(t, "value")
	})
	return rapid.OneOf(list(member, "{", "}"), list(inner, "[", "]"))
}

// The scanner accepts exactly what the strict package jsontext accepts, also of JSON with a mistake.
func TestParseObject_AgreesWithJSONText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := `{"":null,"a":` + values(3).Draw(t, "JSON") + "}"
		checkParseObject(t, []byte(raw))
		at := rapid.IntRange(0, len(raw)-1).Draw(t, "at")
		for _, c := range []string{"{", "}", "[", "]", `"`, ",", ":", `\`, "0", ".", "e", "-", " ", "/", "\n", ""} {
			checkParseObject(t, []byte(raw[:at]+c+raw[at+1:]))
		}
		for _, value := range []string{`"\ud83d"`, `"\ud83dx"`, `"\ude00"`, "\"\xff\"", "\"\n\"", "01", "NaN", "{}}"} {
			checkParseObject(t, []byte(strings.Replace(raw, "null", value, 1)))
		}
	})
}

const odd = `{"\u006eame":"n","big":12345678901234567890,"half":2.50,"e":1e3,"esc":"\u00e9\/","in":{ "b" : 1,"a":[ ] }}`

func TestObject_KeepsBytesOfUnchangedMembers(t *testing.T) {
	object, err := wire.ParseObject([]byte(odd))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got wire.Object, want string) {
		t.Helper()
		upstreamtest.Equal(t, want, string(got.JSON()), "%s", what)
	}
	check("as read", object, odd)
	check("With a known name", object.With("name", wire.Quote("m")), strings.Replace(odd, `"n"`, `"m"`, 1))
	check("With a new name", object.With("né", jsontext.Value("0")), odd[:len(odd)-1]+`,"né":0}`)
	check("Without", object.Without(func(name string) bool { return name == "half" }), strings.Replace(odd, `"half":2.50,`, "", 1))
	check("Without all", object.Without(func(string) bool { return true }), "{}")
	check("afterwards", object, odd)

	upstreamtest.Equal(t, "data: "+odd, string(object.Append([]byte("data: "))), "Append after a prefix")
}

func TestWith_LeavesReceiver(t *testing.T) {
	base := wire.Object{}.With("a", jsontext.Value("1"))
	one, two := base.With("b", jsontext.Value("2")), base.With("b", jsontext.Value("3"))
	for want, object := range map[string]wire.Object{`{"a":1}`: base, `{"a":1,"b":2}`: one, `{"a":1,"b":3}`: two} {
		upstreamtest.Equal(t, want, string(object.JSON()), "object")
	}
}

func TestKindOf_AgreesWithMembers(t *testing.T) {
	for _, text := range []string{
		`{"description":"a \"messages\": [","messages":[{"role":"user"}],"_meta":{}}`, ` { "m\u0065ssages" : {} } `, `{"a":{"messages":[]}}`,
		`{"a":[1,{"b":"}"}],"messages":-1}`, `{"messages":null}`, `{}`, `[]`, `"messages"`, `7`,
	} {
		for _, name := range []string{"messages", "a", "b", "_meta"} {
			want := jsontext.Kind(0)
			if value := wire.Members(jsontext.Value(text)).Get(name); value != nil {
				want = value.Kind()
			}
			upstreamtest.Equal(t, want, wire.KindOf(jsontext.Value(text), name), "%s of %s: kind", name, text)
		}
	}
}

func TestObject_ReadsMembersByKind(t *testing.T) {
	object, err := wire.ParseObject([]byte(`{"text":"\u0061\"b","null":null,"object":{"k":[1]},"array":[1, "two",{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"text": `a"b`, "null": "", "object": "", "none": ""} {
		if got, ok := object.Text(name); got != want || ok != (want != "") {
			t.Errorf("Text(%s) = %q, %v, want %q", name, got, ok, want)
		}
	}
	if got := object.Object("object").Get("k"); string(got) != "[1]" || object.Object("array") != nil || object.Get("none") != nil {
		t.Errorf("Object(object).Get(k) = %s, Object(array) = %v, Get(none) = %s", got, object.Object("array"), object.Get("none"))
	}
	elements, err := wire.ParseArray(object.Get("array"))
	want := []jsontext.Value{jsontext.Value("1"), jsontext.Value(`"two"`), jsontext.Value("{}")}
	if diff := cmp.Diff(want, elements); err != nil || diff != "" {
		t.Errorf("ParseArray: %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"", "{}", "null", "[1,2", "[1 2]"} {
		if got, err := wire.ParseArray(jsontext.Value(bad)); err == nil {
			t.Errorf("ParseArray(%q) = %v, want an error", bad, got)
		}
	}
}

func TestQuote_EscapesAndReplacesInvalidUTF8(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, `""`}, {`a"b\`, `"a\"b\\"`}, {"\n\x00", `"\n\u0000"`}, {"é😀", `"é😀"`}, {"\xff", `"` + "\ufffd" + `"`},
	} {
		upstreamtest.Equal(t, test.want, string(wire.Quote(test.text)), "Quote(%q)", test.text)
	}
}

func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{"{}", odd, `{"a":1,"a":2}`, "{\n\"a\":\t[1,{\"b\":null}]}", `{"a":"\ud800"}`, `{}x`, `{ "a": [ 1 ] }`, string(nested(129))} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkParseObject(t, raw) })
}

func checkParseObject(t rapid.TB, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	object, err := wire.ParseObject(raw)
	if !bytes.Equal(before, raw) {
		t.Fatalf("ParseObject(%q) changed its argument to %q", before, raw)
	}
	value := jsontext.Value(raw)
	strict := value.Kind() == '{' && value.IsValid()
	switch {
	case err == nil && !strict:
		t.Fatalf("ParseObject(%q) accepts what is not an object in strict JSON", raw)
	case err != nil && strict && !strings.Contains(err.Error(), "nested deeper"):
		t.Fatalf("ParseObject(%q): %v", raw, err)
	case err != nil && strict && depth(raw) <= wire.MaxDepth, err == nil && depth(raw) > wire.MaxDepth:
		t.Fatalf("ParseObject(%q) of depth %d: %v", raw, depth(raw), err)
	case err != nil:
		return
	}
	if split := wire.Members(raw); !reflect.DeepEqual(split, object) {
		t.Errorf("Members(%q) = %s, ParseObject %s", raw, split.JSON(), object.JSON())
	}

	// Compacted, what is written is what was read.
	want := value.Clone()
	if err := want.Compact(); err != nil {
		t.Fatal(err)
	}
	got := object.JSON()
	if err := got.Compact(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("ParseObject(%q).JSON() = %s, %v, want %s", raw, got, err, want)
	}
	again, err := wire.ParseObject(object.JSON())
	if err != nil || !bytes.Equal(again.JSON(), object.JSON()) {
		t.Errorf("ParseObject(%q): read again: %s, %v", raw, again.JSON(), err)
	}
	line := wire.SingleLine(raw)
	if bytes.ContainsAny(line, "\r\n") {
		t.Errorf("SingleLine(%q) = %q", raw, line)
	}
	if line := jsontext.Value(line).Clone(); line.Compact() != nil || !bytes.Equal(line, want) {
		t.Errorf("SingleLine(%q) changes a token: %s", raw, line)
	}

	name := "new"
	if len(object) > 0 {
		name = object[len(object)-1].Name
	}
	with := object.With(name, jsontext.Value("[]"))
	if text := with.JSON(); !text.IsValid() || string(with.Get(name)) != "[]" {
		t.Errorf("ParseObject(%q).With(%q, []) = %s", raw, name, text)
	}
}

// depth is the nesting of brackets in JSON.
func depth(raw []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func TestIndented_IsForPeopleAndBounded(t *testing.T) {
	upstreamtest.Equal(t, "{\n  \"a\": [\n    1\n  ]\n}", wire.Indented(jsontext.Value(`{"a":[1]}`)), "indented")
	upstreamtest.Equal(t, `{"a":`, wire.Indented(jsontext.Value(`{"a":`)), "indented")
	nested := strings.Repeat("[", wire.MaxDepth) + strings.Repeat("1,", 1<<20) + "1" + strings.Repeat("]", wire.MaxDepth)
	upstreamtest.Equal(t, nested, wire.Indented(jsontext.Value(nested)), "indented")
}

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
		upstreamtest.Equal(t, test.want, string(wire.Edit(jsontext.Value(test.raw), []string{"a", "*", "b"}, double)), "%s", test.raw)
		same := wire.Edit(jsontext.Value(test.raw), []string{"a", "*", "b"}, func(value jsontext.Value) jsontext.Value { return value.Clone() })
		upstreamtest.Equal(t, test.raw, string(same), "%s, unchanged", test.raw)
	}
}
