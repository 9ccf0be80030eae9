package requests_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestOverrides_ValueThatBreaksItsSchemaLeavesPromptOut(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a","arguments":[{"name":"n","schema":{"type":"integer"}}]}`,
		`{"name":"b","arguments":[{"name":"n","schema":{"type":"integer"}}]}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", `
  prompt "p.a" { defaults  = { n = "seven" } }
  prompt "p.b" { arguments = { n = 7 } }
`, p))
	s.Modern("").WantList("p.b")
	if got := s.ReportNames(); got != "misfit p.a" || !strings.Contains(s.Reports()[0].Text, `"n" breaks its schema`) {
		t.Errorf("reports %q: %+v", got, s.Reports())
	}
}
