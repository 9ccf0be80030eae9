package requests_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// Each evaluation is within its own bound, so that it decides. Many of them are more than one request may spend.
func TestList_FailsWhenConditionsTakeTooLong(t *testing.T) {
	const prompts = 400
	var definitions []string
	for i := range prompts {
		definitions = append(definitions, fmt.Sprintf(`{"name":"n%03d","description":%q}`, i, strings.Repeat("x", 400)))
	}
	costly := gatewaytest.NewPeer(t, "costly", definitions...)
	cheap := gatewaytest.NewPeer(t, "cheap", "x")
	s, log := gatewaytest.ServeLogged(t, "auth {\n"+gatewaytest.Token("alice")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:bob"`, `
  expose "some" {
    prompts = ["*"]
    to      = ["user:alice"]
    when    = !can(regex(".{0,999}y", "${principal.subject}${prompt.description}"))
  }
`, costly)+gatewaytest.Team("docs", `"user:alice", "user:bob"`, "", cheap))
	alice, bob := s.Modern("alice"), s.Modern("bob")
	bob.WantList(append([]string{"cheap.x"}, names("costly.n", prompts)...)...)
	for method, params := range map[string]string{"prompts/list": "", "prompts/get": `{"name":"cheap.x"}`} {
		alice.Call(method, params).Want(t, http.StatusOK, `"code":-32603`, `"reason":"overloaded"`, `"retryAfterMs"`)
	}
	if got := log.Count("when expressions take too long"); got != 1 {
		t.Errorf("%d reports, want 1 in a minute", got)
	}
	// What was evaluated stays, so that the client gets through, and sees what the condition says.
	for range prompts {
		if got := alice.Call("prompts/get", `{"name":"cheap.x"}`); !strings.Contains(got.Body, "overloaded") {
			alice.WantList(append([]string{"cheap.x"}, names("costly.n", prompts)...)...)
			return
		}
	}
	t.Error("the client never gets through")
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%03d", prefix, i))
	}
	return all
}
