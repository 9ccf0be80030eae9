// Package proctest answers: how does a test build this module's programs and run them as a user would?
//
// When the test ends, each process that it started gets SIGINT, after which a gateway waits for no load balancer, and must exit with
// code 0 in time, or it is killed and the test fails. If the test failed, the logs of its processes are printed.
package proctest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// startup bounds how long a process may take to log where it listens.
	startup = time.Minute
	// shutdown bounds how long a process may take to exit after SIGINT.
	shutdown = time.Minute
)

// Root returns the project's directory: the folder above that of the test with the configuration of the linters.
func Root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, ".golangci.yml")); missing == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	panic("proctest: the test does not run in the project's directory")
}

// building lets one call of Build run at a time.
var building sync.Mutex //nolint:gochecknoglobals // the go command's builds are the process's

// Build builds packages of the module, such as "./cmd/promptweir", as make build does, and links to them in a directory. They are
// in bin, in a folder for each package of tests, so that the tests of one package link each program once.
func Build(tb testing.TB, dir string, packages ...string) {
	tb.Helper()
	building.Lock()
	defer building.Unlock()
	built := filepath.Join(Root(), "bin", "tests", filepath.Base(os.Args[0]))
	goCommand(tb, slices.Concat([]string{"build", "-tags=grpcnotrace", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", built + string(filepath.Separator)}, packages))
	names := goCommand(tb, slices.Concat([]string{"list", "-f", "{{.ImportPath}}"}, packages))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	for name := range strings.FieldsSeq(names) {
		name = path.Base(name)
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			tb.Fatal(err)
		}
	}
}

// goCommand runs the go command in the module and returns what it prints.
func goCommand(tb testing.TB, args []string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "go", args...)
	cmd.Dir = Root()
	// Tests with the race detector have cgo. With it, all that uses the network would be compiled once more.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// CopyExample copies an example's configuration to another directory. In the copy, the gateway listens on free ports, and
// each old text of the pairs in oldnew is replaced by the new one.
func CopyExample(tb testing.TB, to, name string, oldnew ...string) {
	tb.Helper()
	from := filepath.Join(Root(), "examples", name)
	replace := strings.NewReplacer(slices.Concat(oldnew, []string{
		"127.0.0.1:8080", "127.0.0.1:0",
		"127.0.0.1:8081", "127.0.0.1:0",
	})...)
	for _, pattern := range []string{"*.hcl", "teams/*.hcl", "teams/*/*.md", "teams/*/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			tb.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				tb.Fatal(err)
			}
			target := filepath.Join(to, strings.TrimPrefix(file, from))
			if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
				tb.Fatal(err)
			}
			if err := os.WriteFile(target, []byte(replace.Replace(string(text))), 0o600); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// Output runs a command and returns its standard output. The error includes its standard error.
func Output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// Process is a program that runs until its test ends.
type Process struct {
	log log
}

// Start starts a program in the directory dir.
func Start(tb testing.TB, dir, name string, args ...string) *Process {
	tb.Helper()
	p := &Process{log: log{grown: make(chan struct{})}}
	// The test's own context ends before the cleanup, and would kill the process instead of stopping it.
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), name, args...)
	cmd.Dir = dir
	cmd.Stderr = &p.log
	cmd.WaitDelay = 10 * time.Second // for what it left behind
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	tb.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			tb.Errorf("stop %s: %v", name, err)
		}
		overdue := time.AfterFunc(shutdown, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			tb.Errorf("%s after SIGINT: %v", name, err)
		}
		overdue.Stop()
		if tb.Failed() {
			text, _ := p.log.read()
			tb.Logf("log of %s:\n%s", name, text)
		}
	})
	return p
}

// Attr returns the value of an attribute in the process's log, in slog's text format, once it is logged.
func (p *Process) Attr(tb testing.TB, name string) string {
	tb.Helper()
	return p.Logged(tb, `\b`+regexp.QuoteMeta(name)+`="?([^"\s]+)"?(\s.*)?\n`)
}

// Logged returns what the first group of a pattern matches in the process's log, once anything matches.
func (p *Process) Logged(tb testing.TB, expression string) string {
	tb.Helper()
	pattern := regexp.MustCompile(expression)
	timeout := time.After(startup)
	for {
		text, grown := p.log.read()
		if match := pattern.FindStringSubmatch(text); match != nil {
			return match[1]
		}
		select {
		case <-grown:
		case <-timeout:
			tb.Fatalf("nothing in the log matches %s after %s:\n%s", expression, startup, text)
		}
	}
}

// log is the output of a process so far.
type log struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // closed, and replaced, with each write
}

// Write appends to the log and wakes those who wait for more.
func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.grown)
	l.grown = make(chan struct{})
	return l.text.Write(b)
}

// read returns the log so far, and a channel that is closed when there is more.
func (l *log) read() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.grown
}
