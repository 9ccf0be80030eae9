package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A get goes to the next owner only if the first one did not answer at all.
func TestGet_FailsOverToAnotherOwner(t *testing.T) {
	one, two := gatewaytest.NewPeer(t, "one", "a"), gatewaytest.NewPeer(t, "two", "a")
	one.Settings, two.Settings = `prefix = "same"`, `prefix = "same"`
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", one, two))
	c := s.Modern("")
	if diff := cmp.Diff([]string{"same.a"}, c.List()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	c.Call("prompts/get", gatewaytest.GetParams("same.a")).Want(t, http.StatusOK, "from one")
	one.Stop()
	c.Call("prompts/get", gatewaytest.GetParams("same.a")).Want(t, http.StatusOK, "from two")
	c.Call("completion/complete", gatewaytest.CompleteParams("same.a")).Want(t, http.StatusOK, "from two")
	one.Restart()
	one.AwaitStream() // until then, calls may find the old session, which the gateway is about to give up
	upstreamtest.Eventually(t, "the first owner is called first again", func() bool {
		return strings.Contains(c.Call("prompts/get", gatewaytest.GetParams("same.a")).Body, "from one")
	})
	for _, test := range []struct {
		status     int
		body, want string
	}{
		{http.StatusOK, `{"jsonrpc":`, `"upstream":"one","reason":"bad_response"`},
		{http.StatusInternalServerError, "", `"upstream":"one","reason":"bad_response"`},
		{http.StatusForbidden, "", `"upstream":"one","reason":"denied"`},
		{http.StatusTooManyRequests, "", `"upstream":"one","reason":"rate_limited"`},
		{http.StatusBadGateway, "", "from two"},
		{http.StatusServiceUnavailable, "", "from two"},
	} {
		one.OnGet(func(w http.ResponseWriter, _ *http.Request, _ gatewaytest.Call) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
			return true
		})
		c.Call("prompts/get", gatewaytest.GetParams("same.a")).Want(t, http.StatusOK, test.want)
	}
}
