package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const aGet = `{"jsonrpc":"2.0","id":17,"method":"prompts/get","params":{"name":"reviews.code","arguments":{"diff":"-a +b","style":"short"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// Values that are read alias their message; only names and methods are copied, and the list of members is made once.
// Appending to a buffer that is large enough allocates nothing.
func TestReading_AllocatesNamesOnly(t *testing.T) {
	raw := []byte(aGet)
	message, err := wire.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	params, room := wire.Members(message.Params), make([]byte, 0, 1<<10)
	for _, test := range []struct {
		name string
		want float64 // at most
		read func()
	}{
		{"Parse", 1, func() { _, _ = wire.Parse(raw) }},
		{"ParseObject", 4, func() { _, _ = wire.ParseObject(message.Params) }},
		{"Members", 4, func() { wire.Members(message.Params) }},
		{"AppendResult", 0, func() { wire.AppendResult(room, message.ID, message.Params) }},
		{"rename", 7, func() { rename(params) }},
	} {
		if got := testing.AllocsPerRun(100, test.read); got > test.want {
			t.Errorf("%s allocates %v times, want at most %v", test.name, got, test.want)
		}
	}
}

// BenchmarkParse compares the scanner with a jsontext.Decoder that is as strict, but for the depth of nesting. The package
// comment of scan.go says what the difference is worth.
func BenchmarkParse(b *testing.B) {
	envelope := func(text string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"text","text":"` + text + `"}}]}}`
	}
	for _, message := range []struct{ name, text string }{
		{"0.3KB", aGet},
		{"1MB", envelope(strings.Repeat("All work and no play. ", 50_000))},
		{"1MB escaped", envelope(strings.Repeat(`All work {and} no \"play\". `, 40_000))},
	} {
		for _, reader := range []struct {
			name  string
			parse func([]byte) (wire.Message, error)
		}{{"scanner", wire.Parse}, {"jsontext", parseByDecoder}} {
			b.Run(message.name+"/"+reader.name, func(b *testing.B) {
				raw := []byte(message.text)
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := reader.parse(raw); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// parseByDecoder reads a message with package jsontext alone.
func parseByDecoder(raw []byte) (m wire.Message, err error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := decoder.ReadToken(); err != nil {
		return m, err
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadValue()
		if err != nil {
			return m, err
		}
		isName := func(s string) bool { return string(name) == `"`+s+`"` }
		id, method, params, result := isName("id"), isName("method"), isName("params"), isName("result")
		value, err := decoder.ReadValue() // which overwrites name
		switch {
		case err != nil:
			return m, err
		case id:
			m.ID = value
		case method:
			m.Method, _ = wire.Text(value)
		case params:
			m.Params = value
		case result:
			m.Result = value
		}
	}
	_, err = decoder.ReadToken()
	return m, err
}

func BenchmarkParseObject(b *testing.B) {
	message, err := wire.Parse([]byte(aGet))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.ParseObject(message.Params); err != nil {
			b.Fatal(err)
		}
	}
}

// rename does what the gateway does to the params of a get.
func rename(params wire.Object) {
	_ = wire.AppendRequest(nil, 1, wire.PromptsGet, params.With("name", wire.Quote("code")).JSON())
}

func BenchmarkRename(b *testing.B) {
	message, err := wire.Parse([]byte(aGet))
	if err != nil {
		b.Fatal(err)
	}
	params := wire.Members(message.Params)
	b.ReportAllocs()
	for b.Loop() {
		rename(params)
	}
}
