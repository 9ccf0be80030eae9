package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// A server that ignores the case of names, as encoding/json does, would read the second spelling.
func TestRead_RefusesMembersThatDifferOnlyInCase(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "open", "secret", `{"name":"a","Name":"other.b"}`, `{"name":"c","de\u017fcription":"K"}`)
	s := gatewaytest.Serve(t, "auth {\nanonymous = true\n}\n"+gatewaytest.Team("eng", "", `
  expose "open" {
    prompts = ["p.open"]
    to      = ["*"]
  }`, p))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		for method, params := range map[string][]string{
			"prompts/get": {
				`{"name":"p.open","Name":"secret"}`, `{"NAME":"secret","name":"p.open"}`,
				`{"name":"p.open","arguments":{},"Arguments":{"a":"b"}}`, `{"name":"p.open","_META":{}}`,
			},
			"completion/complete": {
				`{"ref":{"type":"ref/prompt","name":"p.open","Name":"secret"},"argument":{"name":"a","value":""}}`,
				`{"ref":{"type":"ref/prompt","name":"p.open"},"Ref":{"type":"ref/prompt","name":"secret"},"argument":{"name":"a","value":""}}`,
				`{"ref":{"type":"ref/prompt","name":"p.open"},"argument":{"name":"a","value":"","Value":"b"}}`,
			},
		} {
			for _, each := range params {
				// The test client is such a reader, so that some of its headers do not match the body.
				got := c.Call(method, each)
				if !strings.Contains(got.Body, "only in case") && !strings.Contains(got.Body, `"code":-32020`) {
					t.Errorf("%s %s: %s, want it refused", method, each, got.Body)
				}
			}
			if heard := p.Calls(method); len(heard) != 0 {
				t.Errorf("the upstream received a %s of %s", method, heard[0].Params)
			}
		}
		// Members that the protocol does not define may be spelled in any way.
		c.Call("prompts/get", `{"name":"p.open","arguments":{"a":"1","A":"2"},"x":1,"X":2}`).Want(t, http.StatusOK, `"result"`)
		p.Forget()
	}
	for _, entry := range s.Entries(nil) {
		if entry.Name != "p.open" && entry.Name != "p.secret" {
			t.Errorf("%s is listed as %s", entry.Name, entry.JSON)
		}
	}
}
