package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// gaugesOfP returns the gauges of the upstream p of the team eng: whether it is healthy, the state of
// its breaker, and since when it is in trouble for a reason, 0 if it is not.
func gaugesOfP(t *testing.T, reader *metric.ManualReader, reason string) (healthy, breaker, since int64) {
	t.Helper()
	const p = "team=eng upstream=p"
	return collect(t, reader, "promptweir.upstream.healthy")[p], collect(t, reader, "promptweir.breaker.state")[p],
		collect(t, reader, "promptweir.upstream.problem.timestamp")["reason="+reason+" "+p]
}

// A server whose list is fresh, and whose gets fail, is ill in /readyz, on the page, in the metrics, in lists and in the log, 3
// seconds after the first failure at the latest, until a get succeeds.
func TestHealth_GetsThatFailAreSeenInAllPlaces(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	for name, test := range map[string]struct {
		failure func(w http.ResponseWriter)
		reason  string
		breaker int64
		cause   string
	}{
		"denied": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, "denied", 0, "the server wants a credential (HTTP 401)"},
		"told to wait": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "rate_limited", 0, "the server wants no requests until 20"},
		"no messages":  {nil, "bad_response", 0, "the result of prompts/get has no array of messages"},
		"open breaker": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, "breaker_open", 2, "no more are sent for a while: the server fails (HTTP 500 Internal Server Error)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := gatewaytest.NewPeer(t, "p", "a")
			p.Settings = "breaker {\n cooldown = \"500ms\"\n}"
			s, log := gatewaytest.ServeLogged(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
				gatewaytest.Team("eng", `"user:ann", "user:bob"`, "", p))
			c, other := s.Modern("ann"), s.Modern("bob") // a breaker opens over the calls of several
			well := func() bool {
				ready := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Body
				page := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Body
				healthy, breaker, since := gaugesOfP(t, reader, test.reason)
				return !strings.Contains(ready, `"reason"`) && strings.Contains(page, "All is well") &&
					healthy == 1 && breaker == 0 && since == 0 && !strings.Contains(c.Call("prompts/list", "").Body, "partial")
			}
			if !well() {
				t.Fatal("it is ill from the start")
			}
			p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
				if test.failure == nil {
					p.Respond(w, call, `{"description":"nothing else"}`)
					return true
				}
				w.Header().Set("Content-Type", "application/json")
				test.failure(w)
				return true
			})
			begun := time.Now()
			upstreamtest.Eventually(t, "it is ill", func() bool {
				c.Call("prompts/get", gatewaytest.GetParams("p.a"))
				other.Call("prompts/get", gatewaytest.GetParams("p.a"))
				return strings.Contains(c.Call("prompts/list", "").Body, "partial")
			})
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it is seen after %s", took)
			}
			c.Call("prompts/list", "").Want(t, http.StatusOK, `"name":"p.a"`,
				`"io.github.promptweir/partial":[{"upstream":"p","reason":"`+test.reason+`","since":"20`, `"stale":false,"failing":true}]`)
			gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusOK,
				`"connected": true`, `"reason": "`+test.reason+`"`, `"since": "20`, `"failing": true`,
				`"cause": "`, test.cause, `"remedy": "`)
			gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Want(t, http.StatusOK,
				"Upstream p is connected, but gets fail", test.reason+` since <time datetime="20`, test.cause)
			healthy, breaker, since := gaugesOfP(t, reader, test.reason)
			if healthy != 0 || since < begun.Unix() || since > time.Now().Unix() {
				t.Errorf("healthy = %d, since %d", healthy, since)
			}
			upstreamtest.Equal(t, test.breaker, breaker, "the breaker's state")
			if test.breaker == 0 && (log.Count(`msg="gets fail" upstream=p team=eng `) != 1 || log.Count(" reason="+test.reason+" ") == 0) {
				t.Errorf("not logged once:\n%s", log.String())
			}
			if opened := `msg=breaker upstream=p team=eng from=closed to=open error=`; test.breaker != 0 && log.Count(opened) != 1 {
				t.Errorf("not logged once with its cause:\n%s", log.String())
			}
			p.Intercept(nil)
			upstreamtest.Eventually(t, "a get succeeds", func() bool {
				return strings.Contains(c.Call("prompts/get", gatewaytest.GetParams("p.a")).Body, "messages")
			})
			upstreamtest.Eventually(t, "it is well", well)
			if !strings.Contains(log.String(), `msg="upstream healthy" upstream=p team=eng`) {
				t.Errorf("that is not logged:\n%s", log.String())
			}
		})
	}
}

// Anybody can get a prompt of a server that is ill, thousands of times a second.
func TestGet_FailuresAreLoggedOnceForEachUpstreamAndReason(t *testing.T) {
	denied, broken := gatewaytest.NewPeer(t, "denied", "a"), gatewaytest.NewPeer(t, "broken", "b")
	s, log := gatewaytest.ServeLogged(t, gatewaytest.Team("eng", "", "", denied, broken))
	denied.OnGet(answer(http.StatusForbidden))
	broken.OnGet(answer(http.StatusNotFound))
	c, begun := s.Modern(""), time.Now()
	for range 50 {
		c.Call("prompts/get", gatewaytest.GetParams("denied.a")).Want(t, http.StatusOK, `"reason":"denied"`)
		c.Call("prompts/get", gatewaytest.GetParams("broken.b")).Want(t, http.StatusOK, `"code":-32603`)
	}
	for upstream, reason := range map[string]string{"denied": "denied", "broken": "bad_response"} {
		record := `msg="upstream unavailable" upstream=` + upstream + " reason=" + reason
		most := 1 + int(time.Since(begun)/(10*time.Second)) // with the number of those that were not
		if n := log.Count(record); n == 0 || n > most {
			t.Errorf("50 gets that failed have %d records, want %d at most:\n%s", n, most, log.String())
		}
	}
}

// A server that refuses the gateway's credential is not down: its prompts stay, whatever when_down says.
func TestHealth_RefusedIsNotDown(t *testing.T) {
	t.Parallel()
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Settings = "when_down = \"hide\"\ngrace = \"1s\""
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	c := s.Modern("")
	c.WantList("p.a")
	stream := c.Listen("1")
	p.Stop()
	stream.WantChange()
	c.WantList()
	p.Intercept(answer(http.StatusForbidden))
	p.Restart()
	upstreamtest.Eventually(t, "it is up, and listed again", func() bool { return len(s.Entries(nil)) == 1 })
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"name":"p.a"`, `"reason":"denied"`, `"stale":true`)
	c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"reason":"denied"`)
}

// answer answers requests with an HTTP status.
func answer(status int) func(http.ResponseWriter, *http.Request, gatewaytest.Call) bool {
	return func(w http.ResponseWriter, _ *http.Request, _ gatewaytest.Call) bool {
		w.WriteHeader(status)
		return true
	}
}
