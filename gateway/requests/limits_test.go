package requests_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestLimit_HoldsPerPrincipal(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "open", "own")
	s := gatewaytest.Serve(t, "gateway {\n limit {\n  rate = 0.001\n  burst = 6\n }\n}\nauth {\n anonymous = true\n"+gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("eng", `"group:eng"`, `
  limit {
    rate  = 0.001
    burst = 4
  }
  expose "open" {
    prompts = ["p.open"]
    to      = ["*"]
    limit {
      rate  = 0.001
      burst = 2
    }
  }
`, p))
	refused := []string{`"code":-32603`, `"reason":"rate_limited"`, `"retryAfterMs":`}
	for who, c := range map[string]*gatewaytest.Client{"ann": s.Modern("ann"), "bob": s.Modern("bob"), "nobody": s.Legacy("2025-11-25", "")} {
		allowed := 2 // by the expose block
		if who == "ann" {
			allowed = 4 // a member has the team's limit
		}
		for i := range allowed {
			if method := []string{"prompts/get", "completion/complete"}[i%2]; method == "prompts/get" {
				c.Call(method, gatewaytest.GetParams("p.open")).Want(t, http.StatusOK, `"from p"`)
			} else {
				c.Call(method, gatewaytest.CompleteParams("p.open")).Want(t, http.StatusOK, `"from p"`)
			}
		}
		c.Call("prompts/get", gatewaytest.GetParams("p.open")).Want(t, http.StatusOK, refused...)
		c.Call("completion/complete", gatewaytest.CompleteParams("p.open")).Want(t, http.StatusOK, refused...)
		// The limit comes before the arguments.
		c.CallUnchecked("prompts/get", `{"name":"p.open","arguments":[]}`).Want(t, http.StatusOK, refused...)
		// Gets of unknown and invisible prompts do not count, and look the same when the limit is used up.
		c.Call("prompts/get", gatewaytest.GetParams("p.none")).Want(t, http.StatusOK, `"Unknown prompt: p.none"`)
		if who != "ann" {
			c.Call("prompts/get", gatewaytest.GetParams("p.own")).Want(t, http.StatusOK, `"Unknown prompt: p.own"`)
		}
		for range 6 - allowed {
			c.Call("prompts/list", "").Want(t, http.StatusOK, `"p.open"`)
		}
		c.Call("prompts/list", "").Want(t, http.StatusOK, refused...)
	}
}

func TestLimit_SurvivesAReloadThatDoesNotChangeIt(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b", "slow")
	begun, proceed := make(chan struct{}, 2), make(chan struct{})
	p.Intercept(func(_ http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if strings.Contains(string(call.Params), `"slow"`) {
			begun <- struct{}{}
			<-proceed
		}
		return false
	})
	limited := func(prompt, limit string) string { // with the same label
		return fmt.Sprintf("expose \"some\" {\n prompts = [%q]\n to = [\"*\"]\n limit {\n %s\n }\n}\n", prompt, limit)
	}
	const once, alone = "rate = 0.001\n burst = 1", "concurrency = 1"
	text := func(comment, ofB string) string {
		return comment + "auth {\n anonymous = true\n}\n" +
			gatewaytest.Team("eng", "", limited("p.a", once)+limited("p.b", ofB)+limited("p.slow", alone), p)
	}
	r := gatewaytest.ServeReloadable(t, text("", once), gateway.Options{})
	c := r.Modern("")
	allowed := func(prompt string, want bool) {
		t.Helper()
		if got := !strings.Contains(c.Call("prompts/get", gatewaytest.GetParams(prompt)).Body, `"rate_limited"`); got != want {
			t.Errorf("a get of %s is allowed: %t, want %t", prompt, got, want)
		}
	}
	done := c.Begin("p.slow")
	<-begun
	for _, prompt := range []string{"p.a", "p.b"} {
		allowed(prompt, true)
		allowed(prompt, false)
	}
	r.MustReload(text("# moved\n\n", "rate = 0.002\n burst = 2"))
	allowed("p.slow", false)
	allowed("p.a", false)
	allowed("p.b", true)
	allowed("p.b", true)
	close(proceed)
	(<-done).Want(t, http.StatusOK, `"from p"`)
}
