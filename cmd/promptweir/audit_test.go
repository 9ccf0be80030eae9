package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// auditTrail counts the lines of audit logs by their trace.
func auditTrail(t *testing.T, pattern string) (traces, events map[string]int) {
	t.Helper()
	traces, events = map[string]int{}, map[string]int{}
	files, _ := filepath.Glob(pattern)
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var line struct {
				Event, Outcome string
				TraceID        string `json:"trace_id"`
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Errorf("%s: %v: %s", path, err, lines.Bytes())
			}
			events[line.Event+" "+line.Outcome]++
			if line.TraceID != "" {
				traces[line.TraceID]++
			}
		}
	}
	return traces, events
}

// Each answered request is in the log exactly once, of any kind and during any change of the log. The
// exceptions are refusals that any client can cause.
func TestServe_RecordsEachRequestOnce(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint("required = ", required), func(t *testing.T) {
			t.Parallel()
			recordMixedRequests(t, required)
		})
	}
}

func recordMixedRequests(t *testing.T, required bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	folder := configure(t, map[string]string{
		"audit.hcl": fmt.Sprintf("audit {\n path = %q\n required = %t\n access = true\n}\n"+
			"auth {\n anonymous = true\n token \"ann\" { sha256 = sha256(\"ann\") }\n}\n", path, required),
		"team.hcl": `team "a" {
  members = ["user:ann"]
  upstream "a" { files = ["*.md"] }
  hide "wip" { prompts = ["a.wip"] }
}`,
		"one.md": "One.", "wip.md": "Not yet.",
	})
	p := serve(t, folder)
	const (
		workers  = 16
		requests = 3_000
	)
	var (
		next, answered atomic.Int64
		group          sync.WaitGroup
		over           = make(chan struct{})
		mu             sync.Mutex // guards status
		status         = map[string]int{}
	)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	for range workers {
		group.Go(func() {
			for i := next.Add(1); ; i = next.Add(1) {
				select {
				case <-over:
					return
				default:
				}
				trace := fmt.Sprintf("%032x", i)
				code, err := sendMixed(client, p.endpoint, int(i), trace)
				mu.Lock()
				if status[trace] = code; err != nil {
					status[trace] = 0
				}
				mu.Unlock()
				if err == nil {
					answered.Add(1)
				}
			}
		})
	}
	eventually(t, "half of the requests are answered", func() bool { return answered.Load() > requests/2 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	eventually(t, "all requests are answered", func() bool { return answered.Load() > requests })
	if exit := p.stop(t); exit != 0 { // while further requests are in flight
		t.Errorf("exit code %d", exit)
	}
	close(over)
	group.Wait()

	traces, events := auditTrail(t, path+"*")
	for trace, code := range status {
		switch n := traces[trace]; {
		case n == 0 && code == 0: // in flight when the gateway ended
		case n == 0 && (code == http.StatusUnauthorized || code == http.StatusBadRequest):
		case n != 1:
			t.Errorf("request %s, answered with status %d, is recorded %d times", strings.TrimLeft(trace, "0"), code, n)
		}
	}
	if rotated, _ := auditTrail(t, path+".1"); len(rotated) == 0 || len(rotated) == len(traces) {
		t.Errorf("%d of %d lines are in the file that was renamed", len(rotated), len(traces))
	}
	for _, event := range []string{
		"get ok", "get denied", "get unknown", "list ok", "completion ok", "request refused", "reload ok",
	} {
		if events[event] == 0 {
			t.Errorf("no %s in %v", event, events)
		}
	}
}

// sendMixed sends the i-th request, of some kind, and reads its response to the end.
func sendMixed(client *http.Client, endpoint string, i int, trace string) (status int, err error) {
	method, params, token := "prompts/get", fmt.Sprintf(`"name":"a.gone%d"`, i), "ann"
	switch i % 8 {
	case 0, 1:
		params = `"name":"a.one"`
	case 2:
		params = `"name":"a.wip"`
	case 3:
		method, params = "prompts/list", `"cursor":null`
	case 4:
		method, params = "completion/complete", `"ref":{"type":"ref/prompt","name":"a.one"},"argument":{"name":"x","value":""}`
	case 5:
		token = "eve"
	case 6:
		method, params = "made/up", `"a":1`
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + modernMeta + "," + params + `}}`
	r := modernRequest(context.Background(), endpoint, method, body, token) // it ends with the gateway
	r.Header.Set("Traceparent", "00-"+trace+"-1111111111111111-01")
	if name, ok := strings.CutPrefix(params, `"name":"`); ok && i%80 != 0 { // without the header, its transport refuses a get
		r.Header.Set("Mcp-Name", strings.TrimSuffix(name, `"`))
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
