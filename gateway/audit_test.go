package gateway_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// auditedConfig has prompts that ann sees, bob does not, and nobody does.
func auditedConfig(t *testing.T, path, settings string, peers ...*gatewaytest.Peer) string {
	t.Helper()
	return fmt.Sprintf("audit {\n path = %q\n %s\n}\ngateway { cursor_keys = [\"%%KEY%%\"] }\n", path, settings) +
		"auth {\n" + gatewaytest.Token("ann", "payments") + gatewaytest.Token("bob") + "}\n" +
		"hide \"never\" { prompts = [\"*.debug\"] }\n" +
		gatewaytest.Team("payments", `"group:payments"`, gatewaytest.Expose("reviews", `"*.review"`, `"*"`)+`
hide "not for contractors" {
  prompts = ["*.draft"]
  when    = principal.subject == "user:ann"
}
`, peers...)
}

// serveAudited runs a gateway with an audit log.
func serveAudited(t *testing.T, text string) (s *gatewaytest.Server, log *audit.Log) {
	t.Helper()
	cfg := gatewaytest.Load(t, text)
	log, err := audit.Open(cfg.Audit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	s = gatewaytest.StartConfig(t, cfg, gateway.Options{
		Audit: log, Load: func(*config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
			return cfg, nil, config.Diagnostics{}
		},
	})
	s.AwaitUpstreams()
	return s, log
}

// auditLines reads a log, without what differs from run to run.
func auditLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for all := bufio.NewScanner(file); all.Scan(); {
		if !json.Valid(all.Bytes()) {
			t.Errorf("not JSON: %s", all.Bytes())
		}
		line := regexp.MustCompile(`"time":"[^"]*",`).ReplaceAllString(all.Text(), "")
		line = regexp.MustCompile(`,"duration_ms":[0-9.]*`).ReplaceAllString(line, "")
		line = regexp.MustCompile(`"place":"[^"]*(:[0-9]+)"`).ReplaceAllString(line, `"place":"$1"`)
		line = regexp.MustCompile(`"session":"[0-9a-f]{32}"`).ReplaceAllString(line, `"session":"…"`)
		line = strings.ReplaceAll(line, `,"client_name":"test","client_version":"1"`, "")
		lines = append(lines, strings.ReplaceAll(line, `,"client":"127.0.0.1"`, ""))
	}
	return lines
}

func TestAudit_RecordsEachEventOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	p := gatewaytest.NewPeer(t, "up", `{"name":"review","arguments":[{"name":"code","required":true}]}`, "ledger", "debug", "draft", "broken")
	s, log := serveAudited(t, auditedConfig(t, path, `arguments = "values"`, p))
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if !strings.Contains(string(call.Params), "broken") {
			return false
		}
		p.Respond(w, call, `error:{"code":-32001,"message":"no","data":{"reason":"made up"}}`)
		return true
	})
	ann, bob := s.Modern("ann"), s.Modern("bob")
	ann.List() // is not recorded
	get := func(c *gatewaytest.Client, params string) {
		c.CallUnchecked("prompts/get", params)
	}
	get(ann, `{"name":"up.review","arguments":{"code":"x := \"1\""}}`)
	get(bob, `{"name":"up.review"}`)
	get(bob, `{"name":"up.ledger"}`)
	get(ann, `{"name":"up.debug"}`)
	get(ann, `{"name":"up.draft"}`)
	get(ann, `{"name":"up.gone"}`)
	get(ann, `{"name":"up.broken"}`)
	ann.CallUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"up.ledger"},"argument":{"name":"year","value":"20"}}`)
	legacy := s.Legacy("2025-11-25", "ann")
	legacy.CallWithID("1", "prompts/get", `{"name":"up.ledger"}`, "Traceparent", gatewaytest.TraceA)
	gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/-/reload", "", nil).Want(t, http.StatusOK)
	log.Close()

	const (
		annIs = `"subject":"user:ann","groups":["group:payments"]`
		bobIs = `"subject":"user:bob"`
		team  = `"rule":"team \"payments\"","place":":`
	)
	want := []string{
		`{"event":"get",` + annIs + `,"prompt":"up.review","upstream":"up","team":"payments",` + team + `17","arguments":["code"],"argument_values":{"code":"x := \"1\""},"outcome":"ok"}`,
		`{"event":"get",` + bobIs + `,"prompt":"up.review","team":"payments","rule":"expose \"reviews\"","place":":24","outcome":"refused","reason":"missing","code":-32602}`,
		`{"event":"get",` + bobIs + `,"prompt":"up.ledger","team":"payments","outcome":"denied","code":-32602}`,
		`{"event":"get",` + annIs + `,"prompt":"up.debug","team":"payments","rule":"hide \"never\"","place":":16","outcome":"denied","code":-32602}`,
		`{"event":"get",` + annIs + `,"prompt":"up.draft","team":"payments","rule":"hide \"not for contractors\"","place":":29","outcome":"denied","code":-32602}`,
		`{"event":"get",` + annIs + `,"prompt":"up.gone","outcome":"unknown","code":-32602}`,
		`{"event":"get",` + annIs + `,"prompt":"up.broken","upstream":"up","team":"payments",` + team + `17","outcome":"upstream_error","code":-32001}`,
		`{"event":"completion",` + annIs + `,"prompt":"up.ledger","upstream":"up","team":"payments",` + team + `17","arguments":["year"],"argument_values":{"year":"20"},"outcome":"ok"}`,
		`{"event":"get",` + annIs + `,"session":"…","prompt":"up.ledger","upstream":"up","team":"payments",` + team + `17","outcome":"ok","trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`,
		`{"event":"reload","outcome":"ok"}`,
		`{"event":"operator","act":"reload","outcome":"ok"}`,
	}
	upstreamtest.Equal(t, want, auditLines(t, path), "audit log")
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// These fields are tested elsewhere, or are not members of the JSON.
	elsewhere := []string{"", "-", "method", "anonymous", "issuer", "argument_hashes", "via", "as", "cut"}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[audit.Line]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains(elsewhere, name) && !strings.Contains(string(all), `"`+name+`":`) {
			t.Errorf("no line has the field %s", name)
		}
	}
}

func TestAudit_NamesTheClientsSoftware(t *testing.T) {
	const version = "1\u009b31m\u202e"
	long := strings.Repeat("ä", 40)
	info := fmt.Sprintf(`"clientInfo":{"name":%q,"version":"%s"}`, long, version)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s, log := serveAudited(t, auditedConfig(t, path, "", gatewaytest.NewPeer(t, "up", "review")))
	modern := strings.Replace(gatewaytest.Meta, `"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}`, `"io.modelcontextprotocol/`+info[1:], 1)
	s.Modern("ann").CallUnchecked("prompts/get", `{"name":"up.review",`+modern+`}`).Want(t, http.StatusOK, `"messages"`)
	legacy := &gatewaytest.Client{Server: s, TB: t, Revision: "2025-03-26", Headers: gatewaytest.Bearer("ann")}
	begun := legacy.CallUnchecked("initialize", `{"protocolVersion":"2025-03-26","capabilities":{},`+info+`}`)
	legacy.Headers = append(legacy.Headers, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", legacy.Revision)
	legacy.CallUnchecked("prompts/get", `{"name":"up.review"}`).Want(t, http.StatusOK, `"messages"`)
	log.Close()
	want := fmt.Sprintf(`,"client_name":"%s","client_version":"1\u009b31m\u202e"`, strings.Repeat("ä", 32))
	lines := auditLines(t, path)
	for _, line := range lines {
		if !strings.Contains(line, want) {
			t.Errorf("%s\nwant %s in it", line, want)
		}
	}
	upstreamtest.Equal(t, 2, len(lines), "lines")
}

// Requests that anybody can send any number of, and that got nothing, fill no disk: the log has them, limited in rate.
func TestAudit_StrangersFillNoDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	text := auditedConfig(t, path, "required = true\n access = true", gatewaytest.NewPeer(t, "up", "review"))
	text = strings.Replace(text, "auth {", "auth {\n anonymous = true", 1)
	text = strings.Replace(text, "gateway { cursor_keys = [\"%KEY%\"] }", "gateway {\n cursor_keys = [\"%KEY%\"]\n limit {\n rate = 0.001\n burst = 2\n }\n}", 1)
	cfg, logged := gatewaytest.Load(t, text), &gatewaytest.Log{}
	logger := slog.New(slog.NewTextHandler(logged, nil))
	log, err := audit.Open(cfg.Audit, logger)
	if err != nil {
		t.Fatal(err)
	}
	s := gatewaytest.StartConfig(t, cfg, gateway.Options{Audit: log, Logger: logger})
	s.AwaitUpstreams()
	const requests = 100
	ann, eve, nobody := s.Modern("ann"), s.Modern("eve"), s.Modern("")
	for range requests {
		eve.CallUnchecked("prompts/get", `{"name":"up.review"}`)       // no valid credential
		nobody.CallUnchecked("prompts/get", `{"name":"up.none"}`)      // nothing for anonymous callers
		ann.CallUnchecked("prompts/get", `{"name":"up.review"}`)       // over the limit, but for two
		ann.CallUnchecked("prompts/get", `{"name":"up.x","_meta":{}}`) // refused before anybody asks who it is
	}
	log.Close()
	lines := auditLines(t, path)
	if len(lines) != 2 || !strings.Contains(lines[0], `"subject":"user:ann"`) || lines[0] != lines[1] {
		t.Errorf("%d requests are recorded as %q, want two gets of ann", 4*requests, lines)
	}
	for _, want := range []string{
		`level=INFO msg="credential refused" reason=bad client=127.0.0.1`,
		`msg="request not recorded: it got nothing" outcome=unknown reason="" subject=user:anonymous client=127.0.0.1`,
		`msg="request not recorded: it got nothing" outcome=refused reason=rate_limited subject=user:ann client=127.0.0.1`,
	} {
		upstreamtest.Equal(t, 1, strings.Count(logged.String(), want), "records with %s in the log:\n%s", want, logged.String())
	}
}

func TestAudit_RecordsOtherRequestsWhereItIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s, log := serveAudited(t, auditedConfig(t, path, "access = true\n arguments = \"hash\"", gatewaytest.NewPeer(t, "up", "review")))
	bob := s.Legacy("2025-06-18", "bob")
	bob.List()
	bob.Call("ping", "")
	bob.CallUnchecked("made/up", "")
	bob.Call("prompts/get", `{"name":"up.review","arguments":{"a":"1"}}`)
	log.Close()
	const bobIs = `"subject":"user:bob","session":"…"`
	want := []string{
		`{"event":"request","method":"initialize","subject":"user:bob","outcome":"ok"}`,
		`{"event":"list",` + bobIs + `,"outcome":"ok"}`,
		`{"event":"request","method":"ping",` + bobIs + `,"outcome":"ok"}`,
		`{"event":"request","method":"_OTHER",` + bobIs + `,"outcome":"refused","code":-32601}`,
		`{"event":"get",` + bobIs + `,"prompt":"up.review","upstream":"up","team":"payments","rule":"expose \"reviews\"","place":":25","arguments":["a"],"argument_hashes":{"a":"HASH"},"outcome":"ok"}`,
	}
	got := auditLines(t, path)
	for i := range got {
		got[i] = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(got[i], "HASH")
	}
	upstreamtest.Equal(t, want, got, "audit log")
}

// The link stands for a disk: /dev/full is one without room.
func TestAudit_RequiredRefusesWhatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	lead := func(to string) {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.Symlink(to, path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("this system has no /dev/full")
	}
	p := gatewaytest.NewPeer(t, "up", "review", "debug")
	s, _ := serveAudited(t, auditedConfig(t, path, "required = true", p))
	ann := s.Modern("ann")
	const refused = `"data":{"reason":"audit","retryAfterMs":1000}`
	get := func(name string) gatewaytest.Response { return ann.Call("prompts/get", gatewaytest.GetParams(name)) }

	if problem := s.Ready(); !problem.Ready {
		t.Errorf("not ready before anything was to be recorded: %+v", problem)
	}
	get("up.review").Want(t, http.StatusOK, `"code":-32603`, refused)
	upstreamtest.Equal(t, 1, len(p.Calls("prompts/get")), "gets at the server")
	visible, unknown := get("up.review"), get("up.debug")
	visible.Want(t, http.StatusOK, refused)
	upstreamtest.Equal(t, visible.Dump(), unknown.Dump(), "prompts that are visible and hidden are refused differently")
	ann.Call("completion/complete", gatewaytest.CompleteParams("up.review")).Want(t, http.StatusOK, refused)
	if n, m := len(p.Calls("prompts/get")), len(p.Calls("completion/complete")); n != 1 || m != 0 {
		t.Errorf("the server was asked %d times for prompts and %d times for completions, want only once", n, m)
	}
	ann.List() // needs no line
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusServiceUnavailable, `"audit_problem": "write `)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Want(t, http.StatusOK, "The audit log cannot be written")

	lead(filepath.Join(dir, "room.jsonl"))
	s.ReopenAudit()
	upstreamtest.Eventually(t, "the log is written again", func() bool { return s.Ready().Ready })
	get("up.review").Want(t, http.StatusOK, `"from up"`)
	got := auditLines(t, path)
	// The line of the first get waited to be written.
	if len(got) != 2 || !strings.Contains(got[0], `"outcome":"ok"`) || !strings.Contains(got[1], `"outcome":"ok"`) {
		t.Errorf("recorded %q", got)
	}
}

// At a variant, a get is a get, with the arguments that it became, and the log says by which form it came.
func TestAudit_RecordsGetsOfVariants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	p := gatewaytest.NewPeer(t, "up", `{"name":"review","arguments":[{"name":"code","required":true},{"name":"style"}]}`)
	text := strings.Replace(auditedConfig(t, path, `arguments = "values"`, p), "gateway { cursor", "gateway {\n variants = [\"flat\", \"tools\"]\n cursor", 1)
	s, log := serveAudited(t, strings.Replace(text, "%KEY%\"] }", "%KEY%\"]\n}", 1))
	s.At("flat").Modern("bob").Call("prompts/get", `{"name":"up.review","arguments":{"input":"style: s\nx"}}`)
	const call = `{"name":"get_prompt","arguments":{"name":"up.review","arguments":{"code":"x"}}}`
	s.At("tools").Modern("bob").Call("tools/call", call)
	s.At("tools").Legacy("2025-11-25", "bob").Call("tools/call", `{"name":"get_prompt","arguments":{"name":"up.none"}}`)
	log.Close()
	const bob = `"subject":"user:bob",`
	const shown = `"prompt":"up.review","upstream":"up","team":"payments","rule":"expose \"reviews\"","place":":27",`
	want := []string{
		`{"event":"get",` + bob + `` + shown + `"arguments":["style","code"],"argument_values":{"code":"x","style":"s"},"via":"flat","outcome":"ok"}`,
		`{"event":"get",` + bob + `` + shown + `"arguments":["code"],"argument_values":{"code":"x"},"via":"tools","outcome":"ok"}`,
		`{"event":"get",` + bob + `"session":"…","prompt":"up.none","via":"tools","outcome":"unknown","code":-32602}`,
	}
	upstreamtest.Equal(t, want, auditLines(t, path), "audit log")
}
