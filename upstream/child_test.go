package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// startScript runs a connector to the scripted child, and returns its log.
func startScript(t *testing.T, faults ...string) (*upstream.Connector, *upstreamtest.Log, func()) {
	t.Helper()
	u := upstreamtest.Child(t, "scripted", "script", faults...)
	var log upstreamtest.Log
	c := upstream.New(u, upstream.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func() {})
	return c, &log, run(t, c)
}

// number waits until the log has a number after a text, and returns the last one.
func number(t *testing.T, log *upstreamtest.Log, after string) int {
	t.Helper()
	pattern := regexp.MustCompile(after + ` (\d+)`)
	var n int
	upstreamtest.Eventually(t, after, func() bool {
		all := pattern.FindAllStringSubmatch(log.String(), -1)
		if all == nil {
			return false
		}
		n, _ = strconv.Atoi(all[len(all)-1][1])
		return true
	})
	return n
}

// exists reports whether a process exists, be it as a zombie.
func exists(pid int) bool {
	process, err := os.FindProcess(pid)
	return err == nil && !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func kill(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}

func TestChild_GetsOwnEnvironmentOnly(t *testing.T) {
	t.Setenv("PROMPTWEIR_TEST_SECRET", "s3cret")
	u := upstreamtest.Child(t, "scripted", "script")
	u.Env["OWN"] = config.NewSecret("own value")
	c := start(t, u, upstream.Options{})
	waitForNames(t, c, "scripted")
	got, err := get(t.Context(), c, "env")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := upstreamtest.Object(t, got).Text("env")
	allowed := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "OWN", "UPSTREAMTEST_ROLE", "GORACE",
	}
	var seen []string
	for variable := range strings.SplitSeq(text, "\x00") {
		name, _, _ := strings.Cut(variable, "=")
		seen = append(seen, name)
		if !slices.Contains(allowed, name) {
			t.Errorf("the child sees %s", name)
		}
	}
	if !slices.Contains(seen, "PATH") || !strings.Contains(text, "OWN=own value") {
		t.Errorf("environment: %q", text)
	}
}

func TestChild_IsStartedInItsFolderOnly(t *testing.T) {
	t.Parallel()
	own, err := filepath.EvalSymlinks(t.TempDir())
	gateways, err2 := os.Getwd()
	program, err3 := os.Executable()
	relative, err4 := filepath.Rel(gateways, program)
	file, link := filepath.Join(own, "file"), filepath.Join(own, "link")
	if err := errors.Join(err, err2, err3, err4, os.WriteFile(file, nil, 0o600), os.Symlink(own, link)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, command, want, problem string }{
		{"", program, gateways, ""},
		{own, program, own, ""},
		{own, relative, own, ""}, // which is still relative to the gateway's
		{filepath.Join(own, "gone"), program, "", "no such file or directory"},
		{file, program, "", "not a directory"},
		{link, program, "", "a link has taken its place"},
	} {
		u := upstreamtest.Child(t, "scripted", "script")
		u.Dir, u.Command[0] = test.dir, test.command
		session, err := client.Connect(t.Context(), u, client.Options{})
		if test.problem != "" {
			want := "cannot start " + u.Program() + " in its working folder: " + test.problem
			if got := client.CauseOf(err); got.Kind != client.FolderUnusable || got.Problem != want {
				t.Errorf("in %s: %+v, want %s", test.dir, got, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "folder", Params: upstreamtest.Object(t, `{"name":"folder"}`)}, nil)
		if folder, _ := wire.Members(got.JSON).Text("folder"); err != nil || folder != test.want {
			t.Errorf("%s with dir %q is in %q, %v, want %q", test.command, test.dir, folder, err, test.want)
		}
		session.Close()
	}
}

func TestChild_LogsStderrAndExitsOnClose(t *testing.T) {
	t.Parallel()
	c, log, stop := startScript(t, "pings-at-once")
	waitForNames(t, c, "scripted")
	upstreamtest.Equal(t, wire.Rev20250618, c.State().Revision, "revision")
	upstreamtest.Eventually(t, "the reply to its ping", func() bool { return strings.Contains(log.String(), `response \"early\" {}`) })
	stop()
	wantLogged(t, log, `upstream=scripted line="pid `, `line="unfinished line`, `line="stdin ended"`,
		"line from child process ignored", `notification notifications/initialized`)
	if pid := number(t, log, "pid"); exists(pid) {
		t.Errorf("process %d is still there", pid)
	}
}

func TestChild_LogsItsLinesWithoutSecretsAndRepetition(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"MODE": "fast", "SHORT": "hunter2-abc", "LONG": "hunter2-abcdefgh", "KEY": "hunter2-abcdefghijkl"}
	for i := range 8 { // in the order of the map
		secrets[fmt.Sprint("LONG", i)] = "hunter2-abc" + strings.Repeat("x", i)
	}
	for name, test := range map[string]struct {
		script string
		want   []string // in the log, once each
	}{
		"secrets": {
			`echo "mode $MODE, tokens $SHORT, $LONG" >&2`, []string{`mode fast, tokens (sensitive), (sensitive)"`},
		},
		"a secret that is cut":     {`printf '%04080d%s\nend\n' 0 "$KEY" >&2`, []string{"0(sensitive)", "line=end"}},
		"a secret that is wrapped": {`echo "the key is $KEY, then" | fold -w 14 >&2`, []string{`line="(sensitive), then"`}},
		"a line that is repeated": {
			"echo first >&2; for i in 1 2 3 4 5 6 7 8 9; do echo again >&2; done; echo last >&2; exit 1",
			[]string{"line=first", "line=again", "line=last"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := upstreamtest.Child(t, "telling", "script")
			u.Command = []string{"sh", "-c", test.script}
			for name, value := range secrets {
				u.Env[name] = config.NewSecret(value)
			}
			c, log := startLogged(t, u)
			upstreamtest.Eventually(t, "its last line is logged", func() bool {
				return c.State().Problem != nil && strings.Contains(log.String(), test.want[len(test.want)-1])
			})
			for _, want := range test.want {
				upstreamtest.Equal(t, 1, strings.Count(log.String(), want), "records of %s in\n%s", want, log)
			}
			if strings.Contains(log.String(), "ter2-") {
				t.Errorf("a part of a secret shows:\n%s", log)
			}
		})
	}
}

func TestChild_IsKilledIfItDoesNotExit(t *testing.T) {
	t.Parallel()
	for fault, bound := range map[string]time.Duration{
		"ignores-end": 2 * time.Second, "ignores-term": 4 * time.Second, "grandchild": 0,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			c, log, stop := startScript(t, fault)
			waitForNames(t, c, "scripted")
			pids := []int{number(t, log, `"pid`)}
			if fault == "grandchild" {
				pids = append(pids, number(t, log, "grandchild"))
			}
			begun := time.Now()
			stop()
			// On a busy machine it takes longer. The grandchild, which nobody is to wait for, has
			// an hour.
			if took := time.Since(begun); took < bound || took > time.Minute {
				t.Errorf("it took %s, want %s", took, bound)
			}
			if fault == "ignores-end" && !strings.Contains(log.String(), "terminated") {
				t.Errorf("it was not asked to end before it was killed:\n%s", log)
			}
			if exists(pids[0]) {
				t.Errorf("process %d is still there", pids[0])
			}
			// Whoever inherits the grandchild reaps its zombie.
			upstreamtest.Eventually(t, "the group is gone", func() bool {
				return len(pids) == 1 || !exists(pids[1]) || isZombie(pids[1])
			})
		})
	}
}

func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestChild_IsRestartedAfterKill(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "grandchild"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			c, log, _ := startScript(t, fault)
			waitForNames(t, c, "scripted")
			pid := number(t, log, `"pid`)
			var gets []<-chan error
			for range 10 {
				gets = append(gets, getting(t.Context(), c, "hang"))
			}
			upstreamtest.Eventually(t, "all are on their way", func() bool { return strings.Count(log.String(), "hanging") == 10 })
			mustGet(t, c, "x")
			if err := kill(pid); err != nil {
				t.Fatal(err)
			}
			for _, ended := range gets {
				wantUnavailable(t, <-ended, upstream.Unreachable) // before their timeout
			}
			upstreamtest.Equal(t, "scripted", names(c), "names")
			upstreamtest.Eventually(t, "the restart", func() bool {
				got, err := get(t.Context(), c, "x")
				return err == nil && !strings.Contains(got, strconv.Itoa(pid))
			})
			waitForNames(t, c, "scripted")
			wantLogged(t, log, "signal: killed")
		})
	}
}

func TestChild_IsRestartedWithoutProbeThatKillsIt(t *testing.T) {
	t.Parallel()
	c, log, _ := startScript(t, "dies-of-probe")
	waitForNames(t, c, "scripted")
	if strings.Contains(log.String(), "upstream down") {
		t.Errorf("log:\n%s", log)
	}
}

// The pipe to a child that does not read is full. Neither calls nor Run's end may be delayed by
// that.
func TestChild_ThatDoesNotReadStdinDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	u := upstreamtest.Child(t, "deaf", "script")
	u.Timeout = 3 * time.Second // the child starts within it
	c := upstream.New(u, upstream.Options{}, func() {})
	stop := run(t, c)
	waitForNames(t, c, "scripted")
	wantFailure(t, c, "deaf", upstream.Timeout)
	long := wire.Object{}.With("name", wire.Quote(strings.Repeat("x", 1<<20)))
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			_, _ = c.Call(t.Context(), &upstream.Request{Method: wire.PromptsGet, Params: long}, nil) // some may reach the next child
		})
	}
	calls.Wait()
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s to end", took)
	}
}

// A server that has answered makes nobody wait for the timeout, and opens no breaker.
func TestChild_InvalidResultEndsItsCallOnly(t *testing.T) {
	t.Parallel()
	u := upstreamtest.Child(t, "scripted", "script", "batches")
	u.Breaker.Failures, u.MaxMessage = 3, 64<<10
	c, log := startLogged(t, u)
	waitForNames(t, c, "scripted")
	ctx, cancel := context.WithCancel(t.Context())
	hanging := getting(ctx, c, "hang")
	for _, name := range []string{"surrogate", "duplicate", "truncated", "batch with a duplicate", "surrogate", "duplicate", "big"} {
		wantFailure(t, c, name, upstream.BadResponse) // and no timeout
	}
	mustGet(t, c, "logged") // a log record with the request's id is no response
	if got, err := get(t.Context(), c, "x"); err != nil || !strings.Contains(got, "wéirs") {
		t.Errorf("after that: %s, %v", got, err)
	}
	wantLogged(t, log, "line too long")
	select {
	case err := <-hanging:
		t.Errorf("another call ended: %v", err)
	default:
	}
	upstreamtest.Eventually(t, "the call is on its way", func() bool { return strings.Contains(log.String(), "hanging") })
	cancel()
	if err := <-hanging; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call: %v", err)
	}
	upstreamtest.Eventually(t, "the notification", func() bool {
		return strings.Contains(log.String(), "notification notifications/cancelled")
	})
}
