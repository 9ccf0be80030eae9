package requests_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream"
)

func TestLimit_HoldsPerPrincipal(t *testing.T) {
	p := newPeer("p", "open", "own")
	s := serve(t, "gateway {\n limit {\n  rate = 0.001\n  burst = 6\n }\n}\nauth {\n anonymous = true\n"+gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob")+"}\n"+teamOf("eng", `"group:eng"`, `
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
`, p), p)
	refused := []string{`"code":-32603`, `"reason":"rate_limited"`, `"retryAfterMs":`}
	for who, c := range map[string]*caller{"ann": s.modern("ann"), "bob": s.modern("bob"), "nobody": s.legacy("2025-11-25", "")} {
		allowed := 2 // by the expose block
		if who == "ann" {
			allowed = 4 // a member has the team's limit
		}
		for i := range allowed {
			if method := []string{"prompts/get", "completion/complete"}[i%2]; method == "prompts/get" {
				c.call(method, gatewaytest.GetParams("p.open")).want(t, `"from p"`)
			} else {
				c.call(method, gatewaytest.CompleteParams("p.open")).want(t, `"from p"`)
			}
		}
		c.call("prompts/get", gatewaytest.GetParams("p.open")).want(t, refused...)
		c.call("completion/complete", gatewaytest.CompleteParams("p.open")).want(t, refused...)
		// The limit comes before the arguments.
		c.callUnchecked("prompts/get", `{"name":"p.open","arguments":[]}`).want(t, refused...)
		// Gets of unknown and invisible prompts do not count, and look the same when the limit is used up.
		c.call("prompts/get", gatewaytest.GetParams("p.none")).want(t, `"Unknown prompt: p.none"`)
		if who != "ann" {
			c.call("prompts/get", gatewaytest.GetParams("p.own")).want(t, `"Unknown prompt: p.own"`)
		}
		for range 6 - allowed {
			c.call("prompts/list", "").want(t, `"p.open"`)
		}
		c.call("prompts/list", "").want(t, refused...)
	}
}

func TestLimit_SurvivesAReloadThatDoesNotChangeIt(t *testing.T) {
	p := newPeer("p", "a", "b", "slow")
	begun, proceed := make(chan struct{}, 2), make(chan struct{})
	p.hook = func(request *upstream.Request) {
		if request.Name == "slow" {
			begun <- struct{}{}
			<-proceed
		}
	}
	limited := func(prompt, limit string) string { // with the same label
		return fmt.Sprintf("expose \"some\" {\n prompts = [%q]\n to = [\"*\"]\n limit {\n %s\n }\n}\n", prompt, limit)
	}
	const once, alone = "rate = 0.001\n burst = 1", "concurrency = 1"
	text := func(comment, ofB string) string {
		return comment + "auth {\n anonymous = true\n}\n" +
			teamOf("eng", "", limited("p.a", once)+limited("p.b", ofB)+limited("p.slow", alone), p)
	}
	r := serve(t, text("", once), p)
	c := r.modern("")
	allowed := func(prompt string, want bool) {
		t.Helper()
		if got := !strings.Contains(c.call("prompts/get", gatewaytest.GetParams(prompt)).Body, `"rate_limited"`); got != want {
			t.Errorf("a get of %s is allowed: %t, want %t", prompt, got, want)
		}
	}
	done := c.begin("p.slow")
	<-begun
	for _, prompt := range []string{"p.a", "p.b"} {
		allowed(prompt, true)
		allowed(prompt, false)
	}
	r.Reload(text("# moved\n\n", "rate = 0.002\n burst = 2"))
	allowed("p.slow", false)
	allowed("p.a", false)
	allowed("p.b", true)
	allowed("p.b", true)
	close(proceed)
	(<-done).want(t, `"from p"`)
}
