package requests

import (
	"testing"

	"github.com/promptweir/promptweir/upstream/wire"
)

// A request is used again only if nothing outlasts its call: no relay, and no parked get that it came back to.
func TestRelease_OfRequestsThatNothingRefersTo(t *testing.T) {
	for _, test := range []struct {
		name, method, params string
		relay                *RelayQueue
		released             bool
	}{
		{"a list", wire.PromptsList, `{"cursor":"x"}`, nil, true},
		{"a get", wire.PromptsGet, `{"name":"a","_meta":{"x":1}}`, nil, true},
		{"a get with a relay", wire.PromptsGet, `{"name":"a"}`, NewRelayQueue(), false},
		{"a repeated get", wire.PromptsGet, `{"name":"a","requestState":"x","inputResponses":{}}`, nil, false},
		{"a completion", wire.Complete, `{"ref":{"type":"ref/prompt","name":"a"}}`, nil, false},
		{"the read of a link", wire.ResourcesRead, `{"uri":"x"}`, nil, false},
	} {
		r := read(t, `{"jsonrpc":"2.0","id":1,"method":"`+test.method+`","params":`+test.params+`}`)
		r.Relay = test.relay
		params := r.Params
		(&Scope{Request: r}).Close()
		if released := r.Message.Method == ""; released != test.released || released != (params[0].Value == nil) {
			t.Errorf("%s: released is %t, want %t; its params are %v", test.name, released, test.released, params)
		}
	}
}
