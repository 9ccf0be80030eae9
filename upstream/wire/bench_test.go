package wire_test

import (
	"testing"

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

// rename does what the gateway does to the params of a get.
func rename(params wire.Object) {
	_ = wire.AppendRequest(nil, 1, wire.PromptsGet, params.With("name", wire.Quote("code")).JSON())
}
