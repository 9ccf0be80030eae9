package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// exists reports whether a process has not been waited for yet.
func exists(pid int) bool {
	process, err := os.FindProcess(pid)
	return err == nil && !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// SIGINT drains likewise, see TestServe_AnswersWhatItCutsOff.
func TestServe_DrainsOnSignal(t *testing.T) {
	p := serve(t, configure(t, map[string]string{"team.hcl": greeterTeam(t)}))
	p.awaitUpstreams(t)
	child := p.get(t, "greeter.pid", "").text()
	listen := p.subscribe(t, "")
	defer listen.Body.Close()
	events := bufio.NewScanner(listen.Body)
	if event := nextEvent(events); !strings.Contains(event, "notifications/subscriptions/acknowledged") {
		t.Fatalf("the first event is %s", event)
	}
	file := filepath.Join(t.TempDir(), "slow")
	inFlight := make(chan *rpcResponse)
	go func() { inFlight <- p.get(t, "greeter.slow", "", "file", file) }()
	eventually(t, "the slow get is in flight", func() bool { _, err := os.Stat(file); return err == nil })

	p.signal(t, syscall.SIGTERM)
	if event := nextEvent(events); !strings.Contains(event, `"result":{"resultType":"complete"`) {
		t.Errorf("the stream ends with %q, want its result", event)
	}
	upstreamtest.Equal(t, "", nextEvent(events), "the event after the result")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := <-inFlight; got.text() != "done" || !got.closes {
		t.Errorf("the get in flight returned %q, want done; Connection: close is %t, want that", got.text(), got.closes)
	}
	upstreamtest.Equal(t, exitDone, p.end(t), "exit code")
	pid, err := strconv.Atoi(child)
	if err != nil {
		t.Fatal(err)
	}
	if exists(pid) {
		t.Error("the child process is still there")
	}
}

// draining returns a configuration with the given attributes for its shutdown.
func draining(t *testing.T, attributes string) string {
	t.Helper()
	folder := configure(t, map[string]string{"team.hcl": greeterTeam(t)})
	text := strings.Replace(anyPort, `drain_delay = "0s"`, attributes, 1)
	writeFile(t, folder, "listen.hcl", text)
	return folder
}

// Until the delay ends, clients are served by the current configuration.
func TestServe_AnnouncesItsEndAndServesUntilThen(t *testing.T) {
	folder := draining(t, `drain_delay = "1h"`)
	p := serve(t, folder)
	listen := p.subscribe(t, "")
	defer listen.Body.Close()
	p.awaitStatus(t, "/readyz", http.StatusOK)
	p.awaitUpstreams(t)
	p.signal(t, syscall.SIGTERM)
	p.awaitStatus(t, "/readyz", http.StatusServiceUnavailable)
	if _, body := p.page(t, "/readyz"); !strings.Contains(body, `"draining": true`) {
		t.Errorf("/readyz is %s", body)
	}
	http.DefaultClient.CloseIdleConnections()
	if got := p.get(t, "greeter.pid", "").text(); got == "" {
		t.Error("a client that connects after SIGTERM is not served")
	}
	writeFile(t, folder, "hide.hcl", "hide \"all\" { prompts = [\"*\"] }\n")
	eventually(t, "the reload", func() bool { return strings.Contains(p.logged(), "configuration reloaded") })
	if got := p.get(t, "greeter.pid", ""); got.Error == nil {
		t.Errorf("a prompt that is hidden now is got: %s", got.text())
	}
	if code := p.stop(t); code != -1 { // the second signal
		t.Errorf("exit code %d, want an end by the signal", code)
	}
}

// SIGINT skips the delay.
func TestServe_AnswersWhatItCutsOff(t *testing.T) {
	p := serve(t, draining(t, "drain_delay = \"1h\"\ndrain_timeout = \"100ms\""))
	p.awaitUpstreams(t)
	file := filepath.Join(t.TempDir(), "slow")
	inFlight := make(chan *rpcResponse)
	go func() { inFlight <- p.get(t, "greeter.slow", "", "file", file) }()
	eventually(t, "the slow get is in flight", func() bool { _, err := os.Stat(file); return err == nil })
	p.signal(t, syscall.SIGINT)
	if got := (<-inFlight).Error; got == nil || got.Code != -32603 || got.Data.Reason != "shutting_down" {
		t.Errorf("the get is answered with %+v", got)
	}
	upstreamtest.Equal(t, exitDone, p.end(t), "exit code")
}

func TestStdio_AnswersGetsInFlight(t *testing.T) {
	for name, c := range map[string]struct{ attributes, want string }{
		"that end in time":   {`drain_timeout = "1h"`, `"text":"done"`},
		"that take too long": {`drain_timeout = "100ms"`, `"reason":"shutting_down"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := startStdio(t, draining(t, c.attributes), os.Stderr)
			eventually(t, "the upstream is listed", func() bool {
				p.send(t, `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{`+modernMeta+"}}")
				return p.lines.Scan() && strings.Contains(p.lines.Text(), "greeter.slow")
			})
			file := filepath.Join(t.TempDir(), "slow")
			p.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"greeter.slow","arguments":{"file":%q},%s}}`, file, modernMeta))
			eventually(t, "the slow get is in flight", func() bool { _, err := os.Stat(file); return err == nil })
			p.signal(t, syscall.SIGTERM)
			if strings.Contains(c.want, "done") {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if !p.lines.Scan() || !strings.Contains(p.lines.Text(), c.want) {
				t.Errorf("got %s, want %s in it", p.lines.Text(), c.want)
			}
			if p.lines.Scan() {
				t.Errorf("got %s after that, want the end", p.lines.Text())
			}
			if err := p.Wait(); err != nil {
				t.Errorf("the process ends with %v", err)
			}
		})
	}
}

// nextEvent returns the data of the next server-sent event, or "" at the end.
func nextEvent(lines *bufio.Scanner) string {
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

func TestServe_AdminListenerShowsHealthAndMetrics(t *testing.T) {
	p := serve(t, configure(t, map[string]string{"team.hcl": fmt.Sprintf(`
team "greeters" {
  upstream "greeter" { command = [%q] }
  upstream "absent" { command = ["no-such-command"] }
}`, program(t, "greeter"))}))
	page := func(path string) (int, string) { return p.page(t, path) }
	p.awaitStatus(t, "/readyz", http.StatusOK)
	if _, text := page("/readyz"); !strings.Contains(text, `"name": "absent"`) || !strings.Contains(text, `"reason": "unreachable"`) {
		t.Errorf("/readyz does not name the upstream that is down:\n%s", text)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/": http.StatusOK, "/debug/pprof/": http.StatusNotFound} {
		if status, _ := page(path); status != want {
			t.Errorf("%s answers %d, want %d", path, status, want)
		}
	}
	p.awaitUpstreams(t)
	p.get(t, "greeter.hello", "", "who", "metrics")
	status, text := page("/metrics")
	for _, want := range []string{
		"mcp_server_operation_duration_seconds_count{", "mcp_client_operation_duration_seconds_count{",
		`promptweir_upstream_healthy{`, "promptweir_catalog_entries", "go_goroutines",
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("/metrics (%d) lacks %s", status, want)
		}
	}
	if _, _, code := runHere(t, "healthcheck", "--admin", p.admin); code != exitDone {
		t.Errorf("healthcheck exits with %d", code)
	}
	// The endpoint for clients is not mistaken for the admin listener, and the other way round.
	if _, said, code := runHere(t, "healthcheck", "--admin", p.endpoint); code != exitFailed || !strings.Contains(said, p.endpoint+" is not an admin listener (HTTP 404): name it with --admin") {
		t.Errorf("healthcheck of the endpoint exits with %d: %s", code, said)
	}
	for _, command := range []string{"list", "get"} {
		args := []string{command, "greeter.hello", "--url", p.admin}
		if _, said, code := runHere(t, args...); code != exitFailed || !strings.Contains(said, p.admin+" is a gateway's admin listener: use its endpoint for clients, for example http://127.0.0.1:8080/mcp") {
			t.Errorf("%s of the admin listener exits with %d: %s", command, code, said)
		}
	}
	p.stop(t) // an exporter would try a last export now
	for line := range strings.SplitSeq(p.logged(), "\n") {
		if strings.Contains(line, "telemetry") || strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("no OTEL_* variable is set, but the log has %s", line)
		}
	}
	if _, _, code := runHere(t, "healthcheck", "--admin", p.admin); code != exitFailed {
		t.Errorf("healthcheck of a stopped gateway exits with %d", code)
	}
}

func TestHealthcheck_TakesTheAddressFromTheConfiguration(t *testing.T) {
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.NotFound(w, r)
		}
	}))
	port := alive.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	for _, host := range []string{"127.0.0.1", "0.0.0.0", ""} {
		for _, more := range []string{"", "nonsense {}", "team {", `team "t" { upstream "u" {} }`} { // errors made after the gateway started
			folder := t.TempDir()
			writeFile(t, folder, "gateway.hcl", fmt.Sprintf("admin { listen = \"%s:%d\" }\n", host, port))
			writeFile(t, folder, "more.hcl", more)
			if _, said, code := runHere(t, "healthcheck", "--config", folder); code != exitDone {
				t.Errorf("admin listener on host %q, other file %q: exit code %d, %s", host, more, code, said)
			}
		}
	}
	alive.Close()
	missing := filepath.Join(t.TempDir(), "missing.hcl")
	if _, said, code := runHere(t, "healthcheck", "--config", missing); code != exitFailed || !strings.Contains(said, "missing.hcl does not exist; correct --config") {
		t.Errorf("a configuration that does not exist: exit code %d, %s", code, said)
	}
	folder := configure(t, map[string]string{"admin.hcl": ""})
	if _, _, code := runHere(t, "healthcheck", "--config", folder); code != exitFailed {
		t.Errorf("no gateway runs: exit code %d", code)
	}
}

func TestServe_ServesProfilesWithPprof(t *testing.T) {
	p := serveWith(t, []string{"--pprof"}, configure(t, map[string]string{}))
	holds := func(path, want string) bool {
		status, text := p.page(t, path)
		return status == http.StatusOK && strings.Contains(text, want)
	}
	for path, want := range map[string]string{
		"/debug/pprof/cmdline":           "--pprof",
		"/debug/pprof/goroutine?debug=1": "listeners).serve",
		"/debug/pprof/mutex?debug=1":     "sampling period=100",
	} {
		if !holds(path, want) {
			t.Errorf("%s does not hold %q", path, want)
		}
	}
	eventually(t, "something has blocked", func() bool { return holds("/debug/pprof/block?debug=1", " @ 0x") })
}

func TestListAndGet_ReportDegradedUpstreamsOfAGateway(t *testing.T) {
	const degraded = `promptweir: down is down \(\d+ s\): its prompts are missing here\n`
	p := serve(t, configure(t, map[string]string{"team.hcl": fmt.Sprintf("team \"a\" {\n upstream \"up\" { command = [%q] }\n"+
		" upstream \"down\" { command = [\"no-such-command\"] }\n}\n", program(t, "greeter"))}))
	eventually(t, "the upstreams were tried", func() bool {
		_, page := p.page(t, "/readyz")
		return strings.Contains(page, "unreachable") && p.list(t, "").names() != ""
	})
	for _, format := range []string{"table", "json"} {
		stdout, stderr, code := runHere(t, "list", "--url", p.endpoint, "-o", format)
		if code != exitDone || !regexp.MustCompile("^"+degraded+"$").MatchString(stderr) {
			t.Errorf("-o %s exits with %d and says %q", format, code, stderr)
		}
		var result struct {
			Prompts []any
			Meta    map[string][]struct{ Upstream, Reason string } `json:"_meta"`
		}
		if format == "json" {
			if err := json.Unmarshal([]byte(stdout), &result); err != nil {
				t.Fatal(err)
			}
			partial := result.Meta["io.github.promptweir/partial"]
			if len(result.Prompts) == 0 || len(partial) != 1 || partial[0].Upstream != "down" || partial[0].Reason != "unreachable" {
				t.Errorf("the JSON has %+v", result)
			}
		}
	}

	// This may be the reason of a failed get. A get that succeeds is complete.
	for name, want := range map[string]string{
		"down.hello": "^" + degraded + "promptweir: .*down.hello.*\n$",
		"up.hello":   "^$",
	} {
		_, stderr, code := runHere(t, "get", name, "who=World", "--url", p.endpoint)
		if (code == exitDone) != (want == "^$") || !regexp.MustCompile(want).MatchString(stderr) {
			t.Errorf("get %s: exit code %d, and says %q, want %q", name, code, stderr, want)
		}
	}
}
