package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// A server that reads JSON without minding the case of names, as encoding/json does, would take the second spelling.
func TestAMemberInASecondSpellingIsRefused(t *testing.T) {
	p := newPeer(t, "p", "open", "secret", `{"name":"a","Name":"other.b"}`, `{"name":"c","de\u017fcription":"K"}`)
	s := serve(t, "auth {\nanonymous = true\n}\n"+team("eng", "", `
  expose "open" {
    prompts = ["p.open"]
    to      = ["*"]
  }`, p))
	for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", "")} {
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
				// This client makes its headers with such a reader, so that some do not match the body either.
				got := c.call(method, each)
				if !strings.Contains(got.body, "only in case") && !strings.Contains(got.body, `"code":-32020`) {
					t.Errorf("%s %s: %s", method, each, got.body)
				}
			}
			if heard := p.heard(method); len(heard) != 0 {
				t.Errorf("the upstream heard %s of %s", method, heard[0].Params)
			}
		}
		// What is not the protocol's may be spelled in any way.
		c.call("prompts/get", `{"name":"p.open","arguments":{"a":"1","A":"2"},"x":1,"X":2}`).is(t, http.StatusOK, `"result"`)
		p.forget()
	}
	for _, entry := range s.Entries(nil) {
		if entry.Name != "p.open" && entry.Name != "p.secret" {
			t.Errorf("%s is listed as %s", entry.Name, entry.JSON)
		}
	}
}

func TestOneCredentialIsEnough(t *testing.T) {
	s := serve(t, "auth {\nanonymous = true\n"+token("ann")+"}\n")
	body, h := s.modern("").envelope("1", "prompts/list", "{}")
	for _, two := range [][]string{{"", "Bearer nope"}, {"Bearer ann", "Bearer nope"}, {"Bearer nope", "Bearer ann"}, {"Bearer ann", "Bearer ann"}} {
		r := newHTTPRequest(t.Context(), t, http.MethodPost, s.url, body, h)
		r.Header["Authorization"] = two
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q is answered with %d", two, response.StatusCode)
		}
	}
}
