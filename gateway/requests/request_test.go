package requests_test

import (
	"testing"
)

// A server that ignores the case of names, as encoding/json does, would read the second spelling.
func TestRead_RefusesMembersThatDifferOnlyInCase(t *testing.T) {
	p := newPeer("p", "open", "secret", `{"name":"a","Name":"other.b"}`, `{"name":"c","de\u017fcription":"K"}`)
	s := serve(t, "auth {\nanonymous = true\n}\n"+teamOf("eng", "", `
  expose "open" {
    prompts = ["p.open"]
    to      = ["*"]
  }`, p), p)
	for _, c := range []*caller{s.modern(""), s.legacy("2025-11-25", "")} {
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
				c.callUnchecked(method, each).want(t, "only in case")
			}
			if heard := p.calls(method); len(heard) != 0 {
				t.Errorf("the upstream received a %s of %s", method, heard[0])
			}
		}
		// Members that the protocol does not define may be spelled in any way.
		c.call("prompts/get", `{"name":"p.open","arguments":{"a":"1","A":"2"},"x":1,"X":2}`).want(t, `"result"`)
		p.forget()
	}
	for _, entry := range s.Current().Catalog.Entries() {
		if entry.Name != "p.open" && entry.Name != "p.secret" {
			t.Errorf("%s is listed as %s", entry.Name, entry.JSON)
		}
	}
}
