//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Each script causes problems for real, and checks the messages for operators. Its commands are:
//
//   - peer KIND starts a server with a fault, sets URL to its address, and HOST to host and port.
//   - explains BLOCK CONDITION CAUSE REMEDY configures an upstream with the lines of a block, separated
//     by \n, and runs list and serve. The standard error of list, the log of serve and its /readyz must
//     all name the location, the cause and the remedy.
//   - reports BLOCK TEXT does the same for reports about a working upstream.
//   - upstream BLOCK only writes such a configuration.
//   - listens ADDRESS writes two configurations: in "taken" the endpoint listens at the address, in
//     "elsewhere" the admin listener.
func TestCauses_AreExplainedInTheListTheLogAndReadyz(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/causes", RequireExplicitExec: true,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"peer": startPeer(t), "explains": explains, "reports": reports, "listens": listens, "upstream": configures},
		Setup: setup,
	})
}

// explains implements the command of the same name.
func explains(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: explains BLOCK CONDITION CAUSE REMEDY")
	}
	for i := range args {
		args[i] = strings.NewReplacer("$URL", ts.Getenv("URL"), "$HOST", ts.Getenv("HOST")).Replace(args[i])
	}
	block, condition, cause, remedy := args[0], args[1], args[2], args[3]
	configureWiki(ts, block)
	const place = "conf/team.hcl:2"
	p := serveScript(ts)                                  // both wait at the same time
	_ = ts.Exec("promptweir", "list", "--config", "conf") // it fails, because this is the only upstream
	line := fmt.Sprintf("promptweir: wiki (%s) %s: %s; %s\n", place, condition, cause, remedy)
	if got := ts.ReadFile("stderr"); !contains(got, line) {
		ts.Fatalf("list prints\n%swant\n%s", got, line)
	}

	health := p.await(ts, func(r admin.Readiness) bool { return r.Upstreams[0].Cause != "" }).Upstreams[0]
	if health.Place != place || !contains(health.Cause, cause) || !contains(health.Remedy, remedy) || health.Problem == nil {
		ts.Fatalf("readyz has %+v\nwant %s: %s; %s", health, place, cause, remedy)
	}
	p.awaitLog(ts, func(r logRecord) bool {
		return r.Upstream == "wiki" && r.Place == place && contains(r.Cause, cause) && contains(r.Remedy, remedy)
	})
	p.kill()
}

// reports implements the command of the same name.
func reports(ts *testscript.TestScript, _ bool, args []string) {
	configureWiki(ts, strings.ReplaceAll(args[0], "$URL", ts.Getenv("URL")))
	const place = "(conf/team.hcl:2)"
	ts.Check(ts.Exec("promptweir", "list", "--config", "conf"))
	if got := ts.ReadFile("stderr"); !contains(got, place+"…"+args[1]) {
		ts.Fatalf("list prints\n%swant %s", got, args[1])
	}
	p := serveScript(ts)
	report := p.await(ts, func(r admin.Readiness) bool { return len(r.Reports) > 0 }).Reports[0]
	if !contains(report, place+"…"+args[1]) {
		ts.Fatalf("readyz has %s\nwant %s", report, args[1])
	}
	p.awaitLog(ts, func(r logRecord) bool { return r.Msg == "catalog" && contains(r.Report, place+"…"+args[1]) })
	p.kill()
}

// listens implements the command of the same name.
func listens(ts *testscript.TestScript, _ bool, args []string) {
	for folder, text := range map[string]string{
		"taken":     "admin { listen = \"127.0.0.1:0\" }\ngateway { listen = %q }\n",
		"elsewhere": "admin { listen = %q }\ngateway { listen = \"127.0.0.1:0\" }\n",
	} {
		ts.Check(os.MkdirAll(ts.MkAbs(folder), 0o700))
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(folder), "gateway.hcl"), fmt.Appendf(nil, text, args[0]), 0o600))
	}
}

// configures implements the command upstream.
func configures(ts *testscript.TestScript, _ bool, args []string) {
	configureWiki(ts, strings.ReplaceAll(args[0], "$URL", ts.Getenv("URL")))
}

// configureWiki writes a configuration whose only upstream has the lines of a block.
func configureWiki(ts *testscript.TestScript, block string) {
	folder := ts.MkAbs("conf")
	ts.Check(os.MkdirAll(folder, 0o700))
	ts.Check(os.WriteFile(filepath.Join(folder, "listen.hcl"), []byte(anyPort), 0o600))
	block = strings.ReplaceAll(block, `\n`, "\n    ")
	text := "team \"docs\" {\n  upstream \"wiki\" {\n    " + block + "\n  }\n}\n"
	ts.Check(os.WriteFile(filepath.Join(folder, "team.hcl"), []byte(text), 0o600))
}

// logRecord is a record of the gateway's log.
type logRecord struct{ Level, Msg, Upstream, Place, Cause, Remedy, Report string }

// awaitLog waits until the log has a matching warning.
func (p *gatewayProcess) awaitLog(ts *testscript.TestScript, fits func(logRecord) bool) {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(p.logged()) {
			var record logRecord
			if json.Unmarshal([]byte(line), &record) == nil && record.Level == "WARN" && fits(record) {
				return
			}
		}
	}
	ts.Fatalf("the log does not say it:\n%s", p.logged())
}

// contains reports whether a text contains a pattern, in which … stands for any text on one line.
func contains(text, pattern string) bool {
	for line := range strings.Lines(text + "\n") {
		rest, ok := line, true
		for part := range strings.SplitSeq(strings.TrimSuffix(pattern, "\n"), "…") {
			var found bool
			_, rest, found = strings.Cut(rest, part)
			ok = ok && found
		}
		if ok {
			return true
		}
	}
	return false
}

// serveScript starts promptweir serve with the script's conf, and waits until it listens.
func serveScript(ts *testscript.TestScript) *gatewayProcess {
	path, err := exec.LookPath("promptweir") // testscript.Main put it there
	ts.Check(err)
	p := newGatewayProcess(path, "conf")
	p.Dir, p.Env = ts.Getenv("WORK"), append(p.Env, "PATH="+ts.Getenv("PATH"), "WIKI="+ts.Getenv("WIKI"))
	ts.Defer(p.kill)
	ts.Check(p.launch())
	return p
}

// await waits until /readyz matches.
func (p *gatewayProcess) await(ts *testscript.TestScript, fits func(admin.Readiness) bool) admin.Readiness {
	var readiness admin.Readiness
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		response, err := http.Get(p.admin + "/readyz") //nolint:noctx // a script has no context
		ts.Check(err)
		err = json.NewDecoder(response.Body).Decode(&readiness)
		_ = response.Body.Close()
		ts.Check(err)
		if fits(readiness) {
			return readiness
		}
	}
	ts.Fatalf("after %v: %+v\n%s", timeout, readiness, p.logged())
	return readiness
}

// startPeer returns the command peer.
func startPeer(t *testing.T) func(*testscript.TestScript, bool, []string) {
	unused := upstreamtest.Address(t) // nothing listens there
	return func(ts *testscript.TestScript, _ bool, args []string) {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a script has no context
		ts.Check(err)
		ts.Defer(func() { _ = listener.Close() })
		scheme := "http://"
		switch kind := args[0]; kind {
		case "refused":
			ts.Check(listener.Close())
			ts.Setenv("HOST", unused)
			ts.Setenv("URL", scheme+unused+"/mcp")
			return
		case "mute": // accepts, and never responds
			go hold(listener)
		case "tls-mute":
			scheme = "https://"
			go hold(listener)
		case "deaf": // with a full queue of connections
			fill(ts, listener)
		case "resets":
			go reset(listener)
		case "plain": // HTTP where HTTPS is expected
			scheme = "https://"
			serveIll(ts, httptest.NewUnstartedServer(illHandler("404")), listener, nil)
		case "needs-tls", "other-name", "stranger", "expired", "client-certificate", "old-tls":
			settings := illTLS(t, ts, kind)
			if kind != "needs-tls" {
				scheme = "https://"
			}
			serveIll(ts, httptest.NewUnstartedServer(illHandler("404")), listener, settings)
		default:
			serveIll(ts, httptest.NewUnstartedServer(illHandler(kind)), listener, nil)
		}
		ts.Setenv("HOST", listener.Addr().String())
		ts.Setenv("URL", scheme+listener.Addr().String()+"/mcp")
	}
}

func serveIll(ts *testscript.TestScript, s *httptest.Server, listener net.Listener, settings *tls.Config) {
	_ = s.Listener.Close()
	s.Listener, s.TLS = listener, settings
	s.Config.ErrorLog = nil
	if settings != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	ts.Defer(func() { s.CloseClientConnections(); s.Close() })
}

// hold accepts connections and keeps them open.
func hold(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
	}
}

// reset accepts connections and closes each after the beginning of a request.
func reset(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(conn).ReadByte()
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// fill fills the queue of a listener that accepts nothing, so further connections time out. A client may blame
// its own machine for that.
func fill(ts *testscript.TestScript, listener net.Listener) {
	raw, err := listener.(*net.TCPListener).SyscallConn()
	ts.Check(err)
	ts.Check(raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }))
	ts.Check(err)
	for unanswered := 0; unanswered < 3; unanswered++ {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 500*time.Millisecond) //nolint:noctx // a script has no context
		if err == nil {
			ts.Defer(func() { _ = conn.Close() })
			unanswered = -1
		}
	}
}

// illHandler answers according to a kind: with a status, a web page, or faulty MCP.
func illHandler(kind string) http.Handler {
	reply := func(w http.ResponseWriter, id json.RawMessage, member string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, member)
	}
	initialized := `"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"ill","version":"1"},"capabilities":{"prompts":{}}}`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch kind {
		case "page":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<!DOCTYPE html><title>Sign in</title>")
			return
		case "redirect":
			http.Redirect(w, r, "https://elsewhere.example.com/mcp?code=secret", http.StatusFound)
			return
		case "401":
			w.Header().Set("WWW-Authenticate", `Bearer realm="wiki", scope="prompts"`)
		case "behind": // its clock is
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		case "429":
			w.Header().Set("Retry-After", "60")
		case "stream": // HTTP+SSE without an endpoint event
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		var status int
		if _, err := fmt.Sscanf(kind, "%d", &status); err == nil {
			w.WriteHeader(status)
			return
		}
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		switch {
		case request.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case request.Method == "server/discover":
			reply(w, request.ID, `"error":{"code":-32601,"message":"Method not found"}`)
		case request.Method == "initialize" && kind == "error":
			reply(w, request.ID, `"error":{"code":-32603,"message":"no database"}`)
		case request.Method == "initialize" && kind == "revision":
			reply(w, request.ID, strings.Replace(initialized, "2025-06-18", "2019-01-01", 1))
		case request.Method == "initialize" && kind == "tools":
			reply(w, request.ID, strings.Replace(initialized, "prompts", "tools", 1))
		case request.Method == "initialize":
			reply(w, request.ID, initialized)
		case request.Method == "prompts/get":
			<-r.Context().Done()
		case (kind == "get-hangs" || kind == "behind") && request.Method == "prompts/list":
			reply(w, request.ID, `"result":{"prompts":[{"name":"a"}]}`)
		case request.Method != "prompts/list":
			reply(w, request.ID, `"result":{}`)
		case kind == "half":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case kind == "hangs":
			<-r.Context().Done()
		case kind == "refuses":
			reply(w, request.ID, `"error":{"code":-32603,"message":"no database"}`)
		case kind == "many":
			reply(w, request.ID, `"result":{"prompts":[{"name":"a"},{"name":"b"},{"name":"c"}]}`)
		}
	})
}

// illTLS returns settings with a faulty certificate, and writes the certificate of its authority to ca.crt.
func illTLS(t *testing.T, ts *testscript.TestScript, kind string) *tls.Config {
	a := newAuthority(t)
	template := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	switch kind {
	case "other-name":
		template.IPAddresses, template.DNSNames = nil, []string{"wiki.example.com"}
	case "expired":
		template.NotBefore, template.NotAfter = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	ts.Check(os.MkdirAll(ts.MkAbs("conf"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("conf/ca.crt"), []byte(a.PEM), 0o600))
	settings := &tls.Config{Certificates: []tls.Certificate{a.Issue(template)}}
	switch kind {
	case "client-certificate": // one of this authority, and not the one of another that the script has
		settings.ClientAuth, settings.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool()
		certificate, key := newAuthority(t).server()
		ts.Check(os.WriteFile(ts.MkAbs("conf/other.crt"), []byte(certificate), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("conf/other.key"), []byte(key), 0o600))
	case "old-tls":
		settings.MinVersion, settings.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 //nolint:gosec // the mistake
	}
	return settings
}
