package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestComplete_RefusesMalformedParams(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	const ref = `"ref":{"type":"ref/prompt","name":"p.a"}`
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		for _, params := range []string{
			`{` + ref + `}`,
			`{` + ref + `,"argument":null}`,
			`{` + ref + `,"argument":[]}`,
			`{` + ref + `,"argument":{}}`,
			`{` + ref + `,"argument":{"name":"x"}}`,
			`{` + ref + `,"argument":{"name":"x","value":7}}`,
			`{` + ref + `,"argument":{"name":7,"value":""}}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":[]}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":{"arguments":[]}}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":{"arguments":{"y":7}}}`,
			`{"ref":{"type":"ref/prompt","name":"p.a","title":7},"argument":{"name":"x","value":""}}`,
		} {
			c.CallUnchecked("completion/complete", params).Want(t, http.StatusOK, `"code":-32602`)
		}
		// A prompt that the caller does not see is unknown, however malformed the rest is.
		c.CallUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"none"}}`).Want(t, http.StatusOK, `"Unknown prompt: none"`)
	}
	if n := len(p.Calls("completion/complete")); n != 0 {
		t.Errorf("%d malformed completions reached the upstream", n)
	}
}

func TestComplete_TakesNullForAbsent(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Legacy("2025-11-25", "")
	for i, context := range []string{`null`, `{"arguments":null}`} {
		c.CallUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"p.a","title":null},"argument":{"name":"x","value":""},"context":`+context+`}`).
			Want(t, http.StatusOK, `"values"`)
		if got := string(p.Calls("completion/complete")[i].Params); strings.Contains(got, "null") {
			t.Errorf("the upstream gets %s", got)
		}
	}
}
