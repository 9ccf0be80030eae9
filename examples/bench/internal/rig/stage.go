// Package rig has what the programs that measure the gateway, and those that break what is around it,
// have in common: stages with processes on them, a proxy that does what bad networks do, load
// generators, an MCP client and an MCP server. It needs Linux.
package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Main runs the case that the first argument names, with flags after it, or a program that cases start,
// with arguments.
func Main(flags *flag.FlagSet, cases map[string]func(context.Context) error,
	programs map[string]func(ctx context.Context, args []string) error,
) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := fmt.Errorf("want one of %v, each with -h", slices.Sorted(maps.Keys(cases)))
	if len(os.Args) > 1 {
		name, args := os.Args[1], os.Args[2:]
		if run := cases[name]; run != nil {
			if err = flags.Parse(args); err == nil {
				err = run(ctx)
			}
		} else if programs[name] != nil {
			err = programs[name](ctx, args)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flags.Name(), err)
		os.Exit(1) //nolint:gocritic // the deferred call releases only what ends with the process
	}
}

// OnlyFlag adds the flag -only.
func OnlyFlag(flags *flag.FlagSet, only *regexp.Regexp) {
	flags.TextVar(only, "only", regexp.MustCompile(""),
		"run only what has a name that matches this regular `expression`")
}

// Stage has what one case of a rig has started. Its methods, [Check] and [Must] end the case where
// something fails, as those of testing.T do, and are for the goroutine of the case only.
type Stage struct {
	ctx   context.Context //nolint:containedctx // as in testing.T
	stops []func()
}

// failure is the error that ends a case.
type failure struct{ error }

// Run carries out a case, and then stops what it has started, in reverse order.
func Run(ctx context.Context, run func(st *Stage)) (err error) {
	st := &Stage{ctx: ctx}
	defer func() {
		failed := recover()
		for _, stop := range slices.Backward(st.stops) {
			stop()
		}
		if f, ok := failed.(failure); ok {
			err = f.error
		} else if failed != nil {
			panic(failed)
		}
	}()
	run(st)
	return nil
}

// Check ends the case if there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns a value, or ends the case if there is an error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Context returns that of the rig.
func (st *Stage) Context() context.Context { return st.ctx }

// Defer has the end of the case call a function.
func (st *Stage) Defer(stop func()) { st.stops = append(st.stops, stop) }

// Pause waits for a time.
func (st *Stage) Pause(length time.Duration) {
	select {
	case <-time.After(length):
	case <-st.ctx.Done():
		Check(st.ctx.Err())
	}
}

// Dir returns a new folder.
func (st *Stage) Dir() string {
	dir := Must(os.MkdirTemp("", "rig"))
	st.Defer(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Serve serves a handler on a free port of 127.0.0.1, and returns its URL.
func (st *Stage) Serve(handler http.Handler) string {
	listener := Must(new(net.ListenConfig).Listen(st.ctx, "tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until the end
	st.Defer(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// haproxy sends each request to the next server, of those that are ready if they are checked, which a
// busy machine may say late. Streams may last. Without http-no-delay, HAProxy keeps an event back for up
// to 200 ms, in case another one follows.
const haproxy = `defaults
  mode http
  option http-no-delay
  retries 3
  retry-on conn-failure
  option redispatch 1
  option httpchk GET /readyz
  timeout connect 1s
  timeout check 2s
  timeout client 60s
  timeout server 60s
frontend front
  bind %s
  default_backend back
backend back
  balance roundrobin
  server %s
`

// HAProxy starts HAProxy in front of servers, each with its parameters.
func (st *Stage) HAProxy(servers ...string) (address string) {
	address = FreeAddress(st.ctx)
	for i := range servers {
		servers[i] = fmt.Sprintf("replica%d %s", i, servers[i])
	}
	file := filepath.Join(st.Dir(), "haproxy.cfg")
	text := fmt.Sprintf(haproxy, address, strings.Join(servers, "\n  server "))
	Check(os.WriteFile(file, []byte(text), 0o600))
	p := st.Start(Program("haproxy"), "-db", "-f", file)
	Check(Eventually(startup, func() error {
		conn, err := new(net.Dialer).DialContext(st.ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log())
		}
		return conn.Close()
	}))
	return address
}

// FreeAddress returns an address at which nobody listens, for programs that cannot choose one.
func FreeAddress(ctx context.Context) string {
	listener := Must(new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().String()
}

// Program returns the path of a program that distributions may keep in /usr/sbin, which not all users
// have in PATH.
func Program(names ...string) string {
	for _, name := range names {
		for _, candidate := range []string{name, "/usr/sbin/" + name} {
			if path, err := exec.LookPath(candidate); err == nil {
				return path
			}
		}
	}
	Check(errors.New("apt-get install " + strings.Join(names, ", or ")))
	return ""
}

// Fetch makes a request without a body, and returns the body of a successful response.
func Fetch(ctx context.Context, method, target string, header ...string) ([]byte, error) {
	response, err := (&upstreamtest.Client{}).Send(ctx, method, target, "", header...)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", target, response.Status, content)
	}
	return content, err
}

// Eventually calls check until it returns no error, for a time at most, and returns its last error.
func Eventually(bound time.Duration, check func() error) error {
	for deadline := time.Now().Add(bound); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", bound, err)
		}
	}
}
