package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A get of a prompt in a file has only what the gateway itself allocates, without a client of a server.
func TestGet_AllocatesLittle(t *testing.T) {
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	s := newPromptFolder(t, "team \"eng\" {\n  upstream \"up\" { files = [\"*.md\"] }\n}\n", "a.md", "---\ndescription: A\n---\nHello").serve()
	for most, c := range map[float64]*gatewaytest.Client{11: s.Legacy("2025-11-25", ""), 14: s.Modern("")} {
		once, last := handled(t, c, "prompts/get", gatewaytest.GetParams("up.a"))
		if got := upstreamtest.Allocs(t, once); got > most { // one of them is this test's
			t.Errorf("%s: %v allocations, want %v at most", c.Revision, got, most)
		}
		wantGot(t, last)
	}
}

// Gets use each other's memory, once nothing refers to it any more. Under load, while clients leave in the middle of their gets,
// each gets its own answer, its server is sent its own arguments, and the audit log has who asked for what.
func TestGet_RequestsThatAreUsedAgainAreNotMixed(t *testing.T) {
	const clients, rounds = 3, 40 // for each era and principal
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	text := func(code string) string { return strings.Repeat(code+" ", 1+len(code)%2*600) } // some large, some small
	left := make(chan string, 1<<10)                                                        // the gets that a server has, and whose client is to leave
	echo := func(p *gatewaytest.Peer) *gatewaytest.Peer {
		p.OnGet(func(w http.ResponseWriter, r *http.Request, call gatewaytest.Call) bool {
			var params struct{ Arguments struct{ Code string } }
			if err := json.Unmarshal(call.Params, &params); err != nil {
				t.Error(err)
			}
			code := params.Arguments.Code
			if strings.HasSuffix(code, "leaves") {
				left <- code
				<-r.Context().Done()
				return true
			}
			if strings.HasSuffix(code, "refused") {
				p.Respond(w, call, fmt.Sprintf(`error:{"code":-32000,"message":%q}`, text(code)))
				return true
			}
			p.Respond(w, call, fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, text(code)))
			return true
		})
		return p
	}
	const review = `{"name":"review","arguments":[{"name":"code","required":true}]}`
	s, log := serveAudited(t, fmt.Sprintf("audit {\n path = %q\n arguments = \"values\"\n}\nauth {\n%s%s}\n", path, gatewaytest.Token("ann"), gatewaytest.Token("bob"))+
		gatewaytest.Team("eng", `"user:ann", "user:bob"`, "", echo(gatewaytest.NewPeer(t, "old", review)), echo(gatewaytest.NewModernPeer(t, "new", review))))
	stops := sync.Map{} // by the code of a get whose client is to leave
	go func() {
		for code := range left {
			stop, _ := stops.Load(code)
			stop.(context.CancelFunc)()
		}
	}()

	get := func(c *gatewaytest.Client, prompt, code string) {
		id, params := fmt.Sprintf("%q", "id of "+code), fmt.Sprintf(`{"name":%q,"arguments":{"code":%q}}`, prompt, code)
		want := []string{id, fmt.Sprintf("%q", text(code))}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		stops.Store(code, stop)
		body, h := c.Encode(id, "prompts/get", params)
		response, err := http.DefaultClient.Do(gatewaytest.NewRequest(ctx, t, http.MethodPost, c.URL, body, h))
		if strings.HasSuffix(code, "leaves") {
			if err == nil {
				_ = response.Body.Close()
				t.Errorf("%s was answered with %s", code, response.Status)
			}
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		for _, part := range want {
			if err != nil || !strings.Contains(string(got), part) {
				t.Errorf("%s from %s got %.300s, %v, want %s in it", code, prompt, got, err, part)
			}
		}
	}
	var group sync.WaitGroup
	for _, token := range []string{"ann", "bob"} {
		for _, c := range []*gatewaytest.Client{s.Modern(token), s.Legacy("2025-11-25", token)} {
			for i := range clients {
				group.Go(func() {
					for round := range rounds {
						kind := []string{"answered", "refused", "leaves"}[round%3]
						prompt := []string{"old.review", "new.review"}[round%2]
						get(c, prompt, fmt.Sprintf("%s-%s-%d-%d-%s", token, c.Revision, i, round, kind))
					}
				})
			}
		}
	}
	group.Wait()
	// A client that left does not wait for the line of its get.
	upstreamtest.Eventually(t, "each get is recorded", func() bool { return log.State().Written >= 2*2*clients*rounds })
	log.Close()
	lines := auditLines(t, path)
	upstreamtest.Equal(t, 2*2*clients*rounds, len(lines), "lines in the audit log")
	for _, line := range lines {
		ofAnn, ofBob := strings.Contains(line, `"subject":"user:ann"`), strings.Contains(line, `"subject":"user:bob"`)
		if ofAnn == ofBob || ofAnn && strings.Contains(line, `"bob-`) || ofBob && strings.Contains(line, `"ann-`) {
			t.Errorf("the audit log has %s", line)
		}
	}
}
