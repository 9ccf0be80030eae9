package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestList_TreatsNullAsAbsent(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a","title":null,"arguments":[{"name":"x","description":null}]}`, `{"name":"b","icons":null}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	for _, revision := range gatewaytest.LegacyRevisions {
		s.Legacy(revision, "").WantList("p.a", "p.b")
	}
	// Call checks the response against the schema.
	s.Modern("").Call("prompts/list", "").Want(t, http.StatusOK, `[{"name":"p.a","arguments":[{"name":"x"}]},{"name":"p.b"}]`)
	if got := s.ReportNames(); got != "null_members p" {
		t.Errorf("reports %q, want one for all nulls of an upstream", got)
	}
	if text := s.Reports()[0].Text; !strings.Contains(text, `2 prompts`) || !strings.Contains(text, `title of prompt "a"`) {
		t.Errorf("the report does not say where: %s", text)
	}
}

func TestLock_ApprovesDefinitionWithoutNulls(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a"}`)
	lock := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Lock()
	p.SetPrompts(`{"name":"a","description":null}`)
	s := gatewaytest.ServeLocked(t, gatewaytest.Team("eng", "", "lock = \"enforce\"\n", p), lock)
	s.Modern("").WantList("p.a")
}

func TestParams_NullIsAbsent(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	legacy := s.Legacy("2025-11-25", "")
	legacy.CallUnchecked("prompts/list", `{"cursor":null,"_meta":null}`).Want(t, http.StatusOK, `"name":"p.a"`)
	legacy.CallUnchecked("prompts/list", `null`).Want(t, http.StatusOK, `"name":"p.a"`)
	legacy.CallUnchecked("prompts/get", `{"name":"p.a","arguments":null,"_meta":null}`).Want(t, http.StatusOK, `"from p"`)
	legacy.CallUnchecked("completion/complete",
		`{"ref":{"type":"ref/prompt","name":"p.a"},"argument":{"name":"x","value":""},"context":null}`).Want(t, http.StatusOK, `"from p"`)
	s.Modern("").CallUnchecked("prompts/get", `{"name":"p.a","arguments":null,"requestState":null,"inputResponses":null,`+gatewaytest.Meta+`}`).
		Want(t, http.StatusOK, `"from p"`)
	for _, method := range []string{"prompts/get", "completion/complete"} {
		for _, call := range p.Calls(method) {
			if strings.Contains(string(call.Params), "null") {
				t.Errorf("the upstream heard %s", call.Params)
			}
		}
	}
}
