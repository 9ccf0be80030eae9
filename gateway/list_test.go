package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// What a server gives as ttlMs counts if it would not report a change, and for those who see something of it.
func TestList_IsGoodForAsLongAsServersSay(t *testing.T) {
	const quiet, notifying = `{"prompts":{}}`, `{"prompts":{"listChanged":true}}`
	polled := func(name, capabilities, ttl string) *gatewaytest.Peer {
		p := gatewaytest.NewModernPeer(t, name, "x")
		p.Declare(capabilities)
		p.Answer("prompts/list", `{"resultType":"complete","prompts":[{"name":"x"}],"cacheScope":"public","ttlMs":`+ttl+`}`)
		return p
	}
	for ttl, want := range map[string]string{"20000": "20000", "1": "5000", "4999": "5000", "59999": "59999", "300000": "60000", "0": "60000"} {
		c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", polled("p", quiet, ttl))).Modern("")
		for range 2 {
			c.Call("prompts/list", "").Want(t, http.StatusOK, `"ttlMs":`+want+`,`)
		}
	}
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", polled("p", notifying, "20000"))).Modern("")
	upstreamtest.Eventually(t, "the server is watched", func() bool {
		return strings.Contains(c.Call("prompts/list", "").Body, `"ttlMs":60000`)
	})

	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("eng", `"user:ann"`,
		gatewaytest.Expose("some", `"a.*", "c.*"`, `"*"`), polled("a", quiet, "30000"), polled("b", quiet, "10000"), polled("c", quiet, "40000")))
	s.Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"ttlMs":10000`)
	s.Modern("bob").Call("prompts/list", "").Want(t, http.StatusOK, `"ttlMs":30000`)
}
