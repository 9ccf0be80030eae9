package gateway_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// drain drains an upstream as an operator does, or lets it serve again.
func drain(t *testing.T, s *gatewaytest.Server, name string, drained bool) {
	t.Helper()
	body := fmt.Sprintf(`{"upstream":%q,"drained":%t}`, name, drained)
	gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/api/drain", body, nil).Want(t, http.StatusOK, fmt.Sprintf(`"drained": %t`, drained))
}

// wantDraining fails the test unless a response refuses the request because an upstream is drained.
func wantDraining(t *testing.T, r gatewaytest.Response, upstream string) {
	t.Helper()
	r.Want(t, http.StatusOK, `"code":-32603`, `"data":{"upstream":"`+upstream+`","reason":"draining","retryAfterMs":1000}`)
}

func TestDrain_GetsInFlightFinishAndNewOnesAreRefused(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	entered, release := p.PauseGets()
	c := s.Modern("")
	inFlight := c.Begin("p.a")
	<-entered
	drain(t, s, "p", true)
	wantDraining(t, c.Call("prompts/get", gatewaytest.GetParams("p.a")), "p")
	wantDraining(t, c.Call("completion/complete", gatewaytest.CompleteParams("p.a")), "p")
	release()
	(<-inFlight).Want(t, http.StatusOK, `"messages"`)
	if gets, completions := len(p.Calls("prompts/get")), len(p.Calls("completion/complete")); gets != 1 || completions != 0 {
		t.Errorf("the drained server received %d gets and %d completions", gets, completions)
	}
	drain(t, s, "p", false)
	c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"messages"`)
}

func TestDrain_IsSeenInAllPlaces(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	p := gatewaytest.NewPeer(t, "p", "a")
	s, log := gatewaytest.ServeLogged(t, gatewaytest.Team("eng", "", "", p))
	c := s.Modern("")
	look := func() (ready, page, list string, healthy, since int64) {
		healthy, _, since = gaugesOfP(t, reader, "draining")
		return gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Body,
			gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Body,
			c.Call("prompts/list", "").Body, healthy, since
	}
	for range 2 { // the second time changes nothing
		drain(t, s, "p", true)
		ready, page, list, healthy, since := look()
		if !strings.Contains(ready, `"reason": "draining"`) || !strings.Contains(ready, `"cause": "an operator has drained it"`) || !strings.Contains(ready, `"ready": true`) {
			t.Errorf("/readyz: %s", ready)
		}
		if !strings.Contains(page, "drained by an operator") {
			t.Errorf("page: %s", page)
		}
		if !strings.Contains(list, `"p.a"`) || !strings.Contains(list, `"reason":"draining"`) || !strings.Contains(list, `"stale":false,"failing":true`) {
			t.Errorf("list: %s", list)
		}
		if healthy != 0 || since == 0 {
			t.Errorf("healthy = %d, since = %d", healthy, since)
		}
	}
	p.Stop()
	upstreamtest.Eventually(t, "what else is wrong is said as well", func() bool {
		ready, _, list, _, _ := look()
		return strings.Contains(ready, `"cause": "an operator has drained it; besides, connection refused`) && strings.Contains(list, `"stale":true}`)
	})
	p.Restart()
	drain(t, s, "p", false)
	upstreamtest.Eventually(t, "all is well again", func() bool {
		ready, page, list, healthy, since := look()
		return !strings.Contains(ready+page+list, "drain") && healthy == 1 && since == 0
	})
	if log.Count(`msg="upstream drained" upstream=p team=eng`) != 1 || log.Count(`msg="upstream serves again" upstream=p team=eng`) != 1 {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestDrain_OtherOwnersServe(t *testing.T) {
	a, b := gatewaytest.NewPeer(t, "a", "x"), gatewaytest.NewPeer(t, "b", "x")
	a.Settings, b.Settings = `prefix = "p"`, `prefix = "p"`
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", a, b))
	s.AwaitUpstreams()
	get := func() gatewaytest.Response { return s.Modern("").Call("prompts/get", gatewaytest.GetParams("p.x")) }
	get().Want(t, http.StatusOK, "from a")
	drain(t, s, "a", true)
	get().Want(t, http.StatusOK, "from b")
	drain(t, s, "b", true)
	wantDraining(t, get(), "a")
	drain(t, s, "a", false)
	get().Want(t, http.StatusOK, "from a")
	a.Stop()
	s.AwaitTrouble("a")
	get().Want(t, http.StatusOK, `"upstream":"a","reason":"unreachable"`) // rather than that b is drained
}

func TestDrain_HidesPromptsIfWhenDownSaysSo(t *testing.T) {
	p, other := gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "other", "b")
	p.Settings = "when_down = \"hide\"\n grace = \"1ms\""
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p, other))
	c := s.Modern("")
	stream := c.Listen("1")
	drain(t, s, "p", true)
	stream.WantChange()
	c.WantList("other.b")
	drain(t, s, "p", false)
	stream.WantChange()
	c.WantList("other.b", "p.a")
}

// A get that waits for its client when its server is drained is in flight, too.
func TestDrain_GetsThatWaitForInputAreFinished(t *testing.T) {
	t.Run("both modern", func(t *testing.T) {
		s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", gatewaytest.NewInputRequiredPeer(t, `"own"`)))
		call := s.ModernWith("", `{"elicitation":{}}`)
		asked := call("prompts/get", gatewaytest.GetParams("up.ask"))
		drain(t, s, "up", true)
		wantDraining(t, call("prompts/get", gatewaytest.GetParams("up.ask")), "up")
		call("prompts/get", gatewaytest.RetryParams("up.ask", asked.RequestState(t), "")).Want(t, http.StatusOK, `"resultType":"complete"`)
	})
	t.Run("parked", func(t *testing.T) {
		s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation).Peer))
		call := s.ModernWith("", `{"elicitation":{}}`)
		asked := call("prompts/get", gatewaytest.GetParams("up.ask"))
		drain(t, s, "up", true)
		wantDraining(t, call("prompts/get", gatewaytest.GetParams("up.ask")), "up")
		again := fmt.Sprintf(`{"name":"up.ask","requestState":%q,"inputResponses":%s}`,
			asked.RequestState(t), asked.InputResponses(t, `{"action":"accept","content":{"name":"ann"}}`))
		call("prompts/get", again).Want(t, http.StatusOK, `"resultType":"complete"`, "ann")
	})
}

func TestDrain_OutlastsAReloadButNotTheName(t *testing.T) {
	p, other, moved := gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "other", "b"), gatewaytest.NewPeer(t, "p", "a")
	text := gatewaytest.Team("eng", "", "", p, other)
	s := gatewaytest.ServeReloadable(t, text, gateway.Options{})
	c := s.Modern("")
	get := func() gatewaytest.Response { return c.Call("prompts/get", gatewaytest.GetParams("p.a")) }
	drain(t, s.Server, "p", true)
	s.MustReload(gatewaytest.Team("eng", "", "", other, p))
	wantDraining(t, get(), "p")
	s.MustReload(gatewaytest.Team("eng", "", "", other, moved))
	wantDraining(t, get(), "p")
	s.MustReload(gatewaytest.Team("eng", "", "", other))
	s.MustReload(text)
	s.AwaitUpstreams() // p is new: only a reload that replaces an upstream waits for it
	get().Want(t, http.StatusOK, `"messages"`)
	c.Call("prompts/get", gatewaytest.GetParams("other.b")).Want(t, http.StatusOK, `"messages"`)

	drain(t, s.Server, "p", true)
	gatewaytest.Serve(t, text).Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"messages"`) // a restart forgets it
}

func TestDrain_IsAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	p := gatewaytest.NewPeer(t, "billing", "review")
	s, log := serveAudited(t, auditedConfig(t, path, "", p))
	drain(t, s, "billing", true)
	s.Modern("ann").Call("prompts/get", gatewaytest.GetParams("billing.review"))
	drain(t, s, "billing", false)
	gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/api/drain", `{"upstream":"biling","drained":true}`, nil).
		Want(t, http.StatusNotFound, `the configuration has no such upstream: "biling". Did you mean "billing"?`)
	log.Close()
	want := []string{
		`{"event":"operator","upstream":"billing","team":"payments","act":"drain","outcome":"ok"}`,
		`"prompt":"billing.review","upstream":"billing","team":"payments",`,
		`{"event":"operator","upstream":"billing","team":"payments","act":"undrain","outcome":"ok"}`,
		`{"event":"operator","upstream":"biling","act":"drain","outcome":"failed"}`,
	}
	lines := auditLines(t, path)
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %s", len(lines), len(want), lines)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("got %s\nwant %s in it", lines[i], want[i])
		}
	}
	if !strings.Contains(lines[1], `"outcome":"failed","reason":"draining"`) {
		t.Errorf("got %s", lines[1])
	}
}
