package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listening is a stream of changes.
type listening struct {
	ended chan string // all that it said, once it has ended
}

func (p *gatewayProcess) listen(t *testing.T, token string) *listening {
	t.Helper()
	response := p.post(t, "subscriptions/listen", "", `{"notifications":{"promptsListChanged":true}}`, token) //nolint:bodyclose // closed by the goroutine below
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		t.Fatalf("listen as %s: status %d: %s", token, response.StatusCode, body)
	}
	l := &listening{make(chan string, 1)}
	go func() {
		defer response.Body.Close()
		said, _ := io.ReadAll(response.Body)
		l.ended <- string(said)
	}()
	return l
}

// One principal that opens stream after stream takes nothing from others, nor do clients that
// connect and say nothing.
func TestServe_NewcomersGetInWhateverOneClientHolds(t *testing.T) {
	const descriptors, streams = 256, 400
	config := configure(t, map[string]string{
		"auth.hcl": "auth {\n  token \"ann\" { sha256 = sha256(\"ann\") }\n  token \"bob\" { sha256 = sha256(\"bob\") }\n}\n",
		"team.hcl": fmt.Sprintf("team \"greeters\" {\n  members = [\"user:ann\", \"user:bob\"]\n  upstream \"child\" { command = [%q] }\n}\n", program(t, "greeter")),
	})
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	p := startGateway(t, program(t, "promptweir"), config, func(p *gatewayProcess) {
		limited := []string{shell, "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(descriptors), p.Path}
		p.Path, p.Args = shell, append(limited, p.Args[1:]...)
	})
	eventually(t, "the upstream is listed", func() bool { return p.list(t, "bob").names() != "" })
	began := time.Now()
	bobs := p.listen(t, "bob")
	anns := make([]*listening, streams)
	for i := range anns {
		anns[i] = p.listen(t, "ann")
	}
	checkOpenToOthers := func() {
		t.Helper()
		if got := p.get(t, "child.hello", "bob", "who", "bob").text(); got != "Hello, bob" {
			t.Errorf("bob gets %q", got)
		}
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if status, text := p.page(t, path); status != http.StatusOK {
				t.Errorf("%s: status %d, %s", path, status, text)
			}
		}
	}
	checkOpenToOthers()
	select {
	case said := <-anns[0].ended:
		if !strings.Contains(said, `"resultType":"complete"`) {
			t.Errorf("ann's first stream said %s, want its result at the end", said)
		}
	case <-time.After(timeout):
		t.Error("ann's first stream goes on")
	}
	for name, l := range map[string]*listening{"bob's": bobs, "ann's last": anns[streams-1]} {
		select {
		case said := <-l.ended:
			t.Errorf("%s stream has ended: %s", name, said)
		default:
		}
	}

	for range streams { // what says nothing is closed too, for which the HTTP server would take ten seconds
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(p.endpoint, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	checkOpenToOthers()
	warned := strings.Count(p.logged(), "connection limit reached")
	// One each ten seconds of those with a credential, and one of the others.
	if most := 2 * (int(time.Since(began).Seconds()/10) + 1); warned < 1 || warned > most {
		t.Errorf("%d warnings that the limit was reached, want 1 to %d", warned, most)
	}
	if log := p.logged(); strings.Contains(log, "not accepted") {
		t.Errorf("the descriptors did not suffice: %s", log)
	}
}
