package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
)

func TestEachPrincipalHasALimit(t *testing.T) {
	p := newPeer(t, "p", "open", "own")
	s := serve(t, "gateway {\n limit {\n  rate = 0.001\n  burst = 6\n }\n}\nauth {\n anonymous = true\n"+token("ann", "eng")+token("bob")+"}\n"+team("eng", `"group:eng"`, `
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
	for who, c := range map[string]*client{"ann": s.modern("ann"), "bob": s.modern("bob"), "nobody": s.legacy("2025-11-25", "")} {
		allowed := 2 // by the expose
		if who == "ann" {
			allowed = 4 // a member's limit is the team's
		}
		for i := range allowed {
			if method := []string{"prompts/get", "completion/complete"}[i%2]; method == "prompts/get" {
				c.call(method, get("p.open")).is(t, http.StatusOK, `"from p"`)
			} else {
				c.call(method, complete("p.open")).is(t, http.StatusOK, `"from p"`)
			}
		}
		c.call("prompts/get", get("p.open")).is(t, http.StatusOK, refused...)
		c.call("completion/complete", complete("p.open")).is(t, http.StatusOK, refused...)
		// What is wrong with the arguments is not looked at.
		c.callRaw("prompts/get", `{"name":"p.open","arguments":[]}`).is(t, http.StatusOK, refused...)
		// What does not exist for a caller is not counted, and looks the same however much was asked for.
		c.call("prompts/get", get("p.none")).is(t, http.StatusOK, `"Unknown prompt: p.none"`)
		if who != "ann" {
			c.call("prompts/get", get("p.own")).is(t, http.StatusOK, `"Unknown prompt: p.own"`)
		}
		for range 6 - allowed {
			c.call("prompts/list", "").is(t, http.StatusOK, `"p.open"`)
		}
		c.call("prompts/list", "").is(t, http.StatusOK, refused...)
	}
}

func TestALimitOfConcurrency(t *testing.T) {
	p := newPeer(t, "p", "a")
	begun, proceed := make(chan struct{}), make(chan struct{})
	p.intercept(func(_ http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			begun <- struct{}{}
			<-proceed
		}
		return false
	})
	s := serve(t, team("eng", "", "limit { concurrency = 1 }", p))
	c := s.modern("")
	done := make(chan answer)
	go func() { done <- c.call("prompts/get", get("p.a")) }()
	<-begun
	c.call("prompts/get", get("p.a")).is(t, http.StatusOK, `"reason":"rate_limited"`)
	c.call("completion/complete", complete("p.a")).is(t, http.StatusOK, `"reason":"rate_limited"`)
	close(proceed)
	(<-done).is(t, http.StatusOK, `"from p"`)
	c.call("completion/complete", complete("p.a")).is(t, http.StatusOK, `"from p"`)
}

func TestALimitThatAReloadLeavesAsItIsGoesOn(t *testing.T) {
	p := newPeer(t, "p", "a", "b", "slow")
	begun, proceed := make(chan struct{}, 2), make(chan struct{})
	p.intercept(func(_ http.ResponseWriter, _ *http.Request, call heard) bool {
		if strings.Contains(string(call.Params), `"slow"`) {
			begun <- struct{}{}
			<-proceed
		}
		return false
	})
	limited := func(prompt, limit string) string { // the same label each
		return fmt.Sprintf("expose \"some\" {\n prompts = [%q]\n to = [\"*\"]\n limit {\n %s\n }\n}\n", prompt, limit)
	}
	const once, alone = "rate = 0.001\n burst = 1", "concurrency = 1"
	text := func(comment, ofB string) string {
		return comment + "auth {\n anonymous = true\n}\n" +
			team("eng", "", limited("p.a", once)+limited("p.b", ofB)+limited("p.slow", alone), p)
	}
	r := serveReloadable(t, text("", once), gateway.Options{})
	c := r.modern("")
	allowed := func(prompt string, want bool) {
		t.Helper()
		if got := !strings.Contains(c.call("prompts/get", get(prompt)).body, `"rate_limited"`); got != want {
			t.Errorf("a get of %s is let through: %t, want %t", prompt, got, want)
		}
	}
	done := make(chan answer)
	go func() { done <- c.call("prompts/get", get("p.slow")) }()
	<-begun
	for _, prompt := range []string{"p.a", "p.b"} {
		allowed(prompt, true)
		allowed(prompt, false)
	}
	r.reload(text("# moved\n\n", "rate = 0.002\n burst = 2"))
	allowed("p.slow", false)
	allowed("p.a", false)
	allowed("p.b", true)
	allowed("p.b", true)
	close(proceed)
	(<-done).is(t, http.StatusOK, `"from p"`)
}
