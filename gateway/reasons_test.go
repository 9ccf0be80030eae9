package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// reasonsIn returns the reasons that a metric has.
func reasonsIn(series map[string]int64) (reasons []string) {
	for labels := range series {
		for label := range strings.FieldsSeq(labels) {
			if reason, ok := strings.CutPrefix(label, "reason="); ok && !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	slices.Sort(reasons)
	return reasons
}

// Each reason that a client can be told is on the histogram of requests, and each for which a call failed on that of calls.
func TestMetrics_HaveEachReason(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	peer := func(name, settings string) *gatewaytest.Peer {
		p := gatewaytest.NewPeer(t, name, "x")
		p.Settings = settings
		return p
	}
	status := func(p *gatewaytest.Peer, code int) *gatewaytest.Peer {
		p.OnGet(answer(code))
		return p
	}
	away, slow, busy, cut := peer("away", ""), peer("slow", `timeout = "3s"`), peer("busy", "rate = 0.001"), peer("cut", "")
	odd, loud := peer("odd", ""), peer("loud", "")
	odd.Answer("prompts/get", `{"description":"nothing else"}`)
	loud.Answer("prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"SECRET"}}]}`)
	slow.HoldGets()
	s := gatewaytest.Serve(t, "gateway { page_size = 1 }\nauth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:ann", "user:bob"`, "screen \"s\" { patterns = [\"SECRET\"] }",
			away, slow, busy, cut, odd, loud, status(peer("denies", ""), http.StatusForbidden), status(peer("limits", ""), http.StatusTooManyRequests),
			status(peer("broken", ""), http.StatusInternalServerError)))
	ann, bob := s.Modern("ann"), s.Modern("bob")
	get := func(c *gatewaytest.Client, upstream string) string {
		return c.Call("prompts/get", gatewaytest.GetParams(upstream+".x")).Body
	}
	away.Stop()
	get(ann, "busy")
	for reason, upstream := range map[string]string{
		"unreachable": "away", "timeout": "slow", "overloaded": "busy", "bad_response": "odd", "screened": "loud", "denied": "denies",
		"rate_limited": "limits",
	} {
		if body := get(ann, upstream); !strings.Contains(body, `"reason":"`+reason+`"`) {
			t.Errorf("%s: %s", upstream, body)
		}
	}
	upstreamtest.Eventually(t, "the breaker is open", func() bool {
		return strings.Contains(get(ann, "broken")+get(bob, "broken"), `"breaker_open"`)
	})

	other := gatewaytest.Serve(t, "gateway { page_size = 1 }\nauth {\n"+gatewaytest.Token("ann")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, "", gatewaytest.NewPeer(t, "p", "a", "b")))
	cursor := func(c *gatewaytest.Client) string { return string(c.Call("prompts/list", "").Result(t, "nextCursor")) }
	for reason, value := range map[string]string{"malformed": `"x"`, "expired_key": cursor(other.Modern("ann")), "wrong_principal": cursor(bob)} {
		ann.Call("prompts/list", `{"cursor":`+value+`}`).Want(t, http.StatusOK, reason)
	}

	starting := gatewaytest.Start(t, gatewaytest.Team("eng", "", "", gatewaytest.NewSilentPeer(t, "silent")))
	starting.Modern("").Call("prompts/list", "").Want(t, http.StatusOK, `"starting"`)
	cutOff(t, s, cut, ann)
	refuseUnrecorded(t)

	served, called := collect(t, reader, "mcp.server.operation.duration"), collect(t, reader, "mcp.client.operation.duration")
	wantKnownReasons(t, served)
	wantKnownReasons(t, called)
	want := strings.Fields("audit bad_response breaker_open denied expired_key malformed overloaded rate_limited screened shutting_down starting timeout unreachable wrong_principal")
	if got := reasonsIn(served); !slices.Equal(got, want) {
		t.Errorf("requests have the reasons %q, want %q", got, want)
	}
	want = strings.Fields("bad_response breaker_open denied overloaded rate_limited timeout unreachable") // the rest is about no call
	if got := reasonsIn(called); !slices.Equal(got, want) {
		t.Errorf("calls have the reasons %q, want %q", got, want)
	}
}

// cutOff ends a get in the way that the end of the gateway does.
func cutOff(t *testing.T, s *gatewaytest.Server, p *gatewaytest.Peer, c *gatewaytest.Client) {
	t.Helper()
	entered, _ := p.HoldGets()
	body, headers := c.Encode("1", "prompts/get", gatewaytest.GetParams("cut.x"))
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-entered
		cancel(gateway.ErrShuttingDown)
	}()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, gatewaytest.NewRequest(ctx, t, http.MethodPost, s.URL, body, headers))
	if !strings.Contains(w.Body.String(), `"shutting_down"`) {
		t.Errorf("the get that is cut off is answered %s", w.Body)
	}
}

// refuseUnrecorded makes a get that a required audit log cannot record.
func refuseUnrecorded(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	s, _ := serveAudited(t, auditedConfig(t, path, "required = true", gatewaytest.NewPeer(t, "up", "review")))
	s.Modern("ann").Call("prompts/get", gatewaytest.GetParams("up.review")).Want(t, http.StatusOK, `"audit"`)
}
