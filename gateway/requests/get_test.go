package requests_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestHandle_ReturnsIDsUnchanged(t *testing.T) {
	s := serve(t, teamOf("eng", "", "", newPeer("p", "a")), newPeer("p", "a"))
	for _, c := range []*caller{s.modern(""), s.legacy("2025-06-18", "")} {
		for _, id := range []string{`0`, `-1`, `1.5`, `1e3`, `9007199254740993`, `12345678901234567890`, `""`, `"a\u0062\/\"é"`} {
			for method, params := range map[string]string{"prompts/list": "", "prompts/get": gatewaytest.GetParams("p.a"), "completion/complete": gatewaytest.CompleteParams("none"), "no/such": ""} {
				if got := c.callWithID(id, method, params); !strings.HasPrefix(got.Body, `{"jsonrpc":"2.0","id":`+id+`,`) {
					t.Errorf("%s with id %s: %s", method, id, got.Body)
				}
			}
		}
	}
}

func TestGet_RefusesWhatIsNoResultOfAGet(t *testing.T) {
	p := newPeer("p", "a")
	s := serve(t, teamOf("eng", "", "", p), p)
	p.answer("prompts/get", `"text"`)
	s.modern("").call("prompts/get", gatewaytest.GetParams("p.a")).want(t, `"code":-32603`, `"reason":"bad_response"`)
	p.answer("prompts/get", `{"resultType":"input_required","inputRequests":{}}`)
	s.modern("").call("prompts/get", gatewaytest.GetParams("p.a")).want(t, `"code":-32603`)
}

func TestComplete_NeedsAnUpstreamThatCompletes(t *testing.T) {
	with, without, lies := newPeer("with", "a"), newPeer("without", "a"), newPeer("lies", "a")
	without.NoCompletions = true
	lies.answer("completion/complete", `error:{"code":-32601,"message":"Method not found"}`)
	s := serve(t, teamOf("eng", "", "", with, without, lies), with, without, lies)
	for _, c := range []*caller{s.modern(""), s.legacy("2025-03-26", "")} {
		c.call("completion/complete", gatewaytest.CompleteParams("with.a")).want(t, `"values":["from with"]`)
		c.call("completion/complete", gatewaytest.CompleteParams("without.a")).want(t, `"completion":{"values":[]}`)
		c.call("completion/complete", gatewaytest.CompleteParams("lies.a")).want(t, `"completion":{"values":[]}`)
		c.call("completion/complete", gatewaytest.CompleteParams("with.b")).want(t, `"code":-32602`, "Unknown prompt: with.b")
		for _, ref := range []string{`{"type":"ref/resource","uri":"x"}`, `{"type":"ref/none","name":"with.a"}`, `{"type":"ref/prompt"}`, `7`} {
			c.callUnchecked("completion/complete", `{"ref":`+ref+`,"argument":{"name":"a","value":""}}`).want(t, `"code":-32602`)
		}
	}
	upstreamtest.Equal(t, 0, len(without.calls("completion/complete")), "requests at an upstream without completions")
}

func TestComplete_RefusesMalformedParams(t *testing.T) {
	p := newPeer("p", "a")
	s := serve(t, teamOf("eng", "", "", p), p)
	const ref = `"ref":{"type":"ref/prompt","name":"p.a"}`
	for _, c := range []*caller{s.modern(""), s.legacy("2025-11-25", "")} {
		for _, params := range []string{
			`{` + ref + `}`,
			`{` + ref + `,"argument":null}`,
			`{` + ref + `,"argument":[]}`,
			`{` + ref + `,"argument":{}}`,
			`{` + ref + `,"argument":{"name":"x"}}`,
			`{` + ref + `,"argument":{"name":"x","value":7}}`,
			`{` + ref + `,"argument":{"name":7,"value":""}}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":[]}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":{"arguments":["y"]}}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":{"arguments":{"y":7}}}`,
			`{"ref":{"type":"ref/prompt","name":"p.a","title":7},"argument":{"name":"x","value":""}}`,
		} {
			c.callUnchecked("completion/complete", params).want(t, `"code":-32602`)
		}
		// A prompt that the caller does not see is unknown, however malformed the rest is.
		c.callUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"none"}}`).want(t, `"Unknown prompt: none"`)
	}
	upstreamtest.Equal(t, 0, len(p.calls("completion/complete")), "malformed completions at the upstream")
}

func TestComplete_TakesNullForAbsent(t *testing.T) {
	p := newPeer("p", "a")
	c := serve(t, teamOf("eng", "", "", p), p).legacy("2025-11-25", "")
	for i, context := range []string{`null`, `{"arguments":null}`, `{"arguments":[]}`} {
		c.callUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"p.a","title":null},"argument":{"name":"x","value":""},"context":`+context+`}`).
			want(t, `"values"`)
		if got := p.calls("completion/complete")[i]; strings.Contains(got, "null") || strings.Contains(got, "[]") {
			t.Errorf("the upstream gets %s", got)
		}
	}
}

func TestList_TreatsNullAsAbsent(t *testing.T) {
	p := newPeer("p", `{"name":"a","title":null,"arguments":[{"name":"x","description":null}]}`, `{"name":"b","icons":null}`)
	s := serve(t, teamOf("eng", "", "", p), p)
	for _, revision := range gatewaytest.LegacyRevisions {
		s.legacy(revision, "").wantList("p.a", "p.b")
	}
	// Call checks the response against the schema.
	s.modern("").call("prompts/list", "").want(t, `[{"name":"p.a","arguments":[{"name":"x"}]},{"name":"p.b"}]`)
}

func TestParams_NullIsAbsent(t *testing.T) {
	p := newPeer("p", "a")
	s := serve(t, teamOf("eng", "", "", p), p)
	legacy := s.legacy("2025-11-25", "")
	legacy.callUnchecked("prompts/list", `{"cursor":null,"_meta":null}`).want(t, `"name":"p.a"`)
	legacy.callUnchecked("prompts/list", `null`).want(t, `"name":"p.a"`)
	legacy.callUnchecked("prompts/get", `{"name":"p.a","arguments":null,"_meta":null}`).want(t, `"from p"`)
	legacy.callUnchecked("completion/complete",
		`{"ref":{"type":"ref/prompt","name":"p.a"},"argument":{"name":"x","value":""},"context":null}`).want(t, `"from p"`)
	s.modern("").callUnchecked("prompts/get", `{"name":"p.a","arguments":null,"requestState":null,"inputResponses":null,`+gatewaytest.Meta+`}`).
		want(t, `"from p"`)
	for _, method := range []string{"prompts/get", "completion/complete"} {
		for _, call := range p.calls(method) {
			if strings.Contains(call, "null") {
				t.Errorf("the upstream heard %s", call)
			}
		}
	}
}
