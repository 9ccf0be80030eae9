package wire_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/wire"
)

const aGet = `{"jsonrpc":"2.0","id":17,"method":"prompts/get","params":{"name":"reviews.code","arguments":{"diff":"-a +b","style":"short"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// What is read of a message is cut from its bytes: a list of params costs the room for its members, an envelope nothing.
// What is written where there is room for it costs nothing either, but for what a changed name needs.
func TestReadingAllocatesOnce(t *testing.T) {
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
		{"Parse", 0, func() { _, _ = wire.Parse(raw) }},
		{"ParseObject", 1, func() { _, _ = wire.ParseObject(message.Params) }},
		{"Members", 1, func() { wire.Members(message.Params) }},
		{"AppendResult", 0, func() { wire.AppendResult(room, message.ID, message.Params) }},
		{"rename", 7, func() { rename(params) }},
	} {
		if got := testing.AllocsPerRun(100, test.read); got > test.want {
			t.Errorf("%s allocates %v times, want at most %v", test.name, got, test.want)
		}
	}
}

// BenchmarkParse is the reading of an envelope: a request as clients send it, and a response of a megabyte, with escapes
// and without. It does not allocate.
func BenchmarkParse(b *testing.B) {
	large := `{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"text","text":"` + strings.Repeat("All work {and} no \\\"play\\\". ", 40_000) + `"}}]}}`
	plain := `{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"text","text":"` + strings.Repeat("All work and no play. ", 50_000) + `"}}]}}`
	for _, test := range []struct{ name, text string }{{"get", aGet}, {"1MB", large}, {"1MB/plain", plain}} {
		b.Run(test.name, func(b *testing.B) {
			raw := []byte(test.text)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParseObject is the reading of params: 1 allocation.
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

// rename is what becomes of a client's params on the way up.
func rename(params wire.Object) {
	_ = wire.AppendRequest(nil, 1, wire.PromptsGet, params.With("name", wire.Quote("code")).JSON())
}

// BenchmarkRename writes a request with another name: 7 allocations, for the name, the members and the
// params once each, and for a request that grows.
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
