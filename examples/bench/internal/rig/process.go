// Package rig has what the programs that measure the gateway, and those that break what is around it, have in common: how to start and
// watch processes, a load generator, an MCP client and an MCP server, and Toxiproxy. It needs Linux.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startup bounds how long a process may take to log where it listens, and a gateway to be ready.
	startup = time.Minute
	// shutdown bounds how long a process may take to exit after SIGINT.
	shutdown = 20 * time.Second
	// quiet is how long the memory of a process must stay the same to count as settled, and settling how long to wait for that.
	quiet    = 3 * time.Second
	settling = 15 * time.Second
)

// Process is a running program.
type Process struct {
	// Endpoint is the URL that it has logged, if it was started by [Listen] or [StartGateway].
	Endpoint string

	cmd *exec.Cmd

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Start starts a program. The caller must call [Process.Stop] or [Process.Kill]. When ctx ends, the program is killed.
func Start(ctx context.Context, name string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = p
	return p, p.cmd.Start()
}

// Listen starts a program and waits until it has logged its endpoint.
func Listen(ctx context.Context, name string, args ...string) (*Process, error) {
	p, err := Start(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	if p.Endpoint, err = p.Attr("endpoint"); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// Write collects the log of the program.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// Log returns the log of the program so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Attr waits until the program has logged an attribute, in the text format of slog, and returns its value.
func (p *Process) Attr(name string) (string, error) {
	pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `="?([^"\s]+)"?(\s.*)?\n`)
	var match []string
	err := Eventually(startup, func() error {
		if match = pattern.FindStringSubmatch(p.Log()); match == nil {
			return fmt.Errorf("no %s= in the log:\n%s", name, p.Log())
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return match[1], nil
}

// Address returns the host and port of the endpoint.
func (p *Process) Address() string {
	u, err := url.Parse(p.Endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}

// RSS waits until the resident memory of the process has settled and returns it, in bytes.
func (p *Process) RSS() (int64, error) {
	last, since := int64(0), time.Now()
	for deadline := time.Now().Add(settling); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		_, now, err := p.Usage()
		if err != nil {
			return 0, err
		}
		if now-last > last/200 || last-now > last/200 {
			last, since = now, time.Now()
		}
		if time.Since(since) > quiet {
			break
		}
	}
	return last, nil
}

// Usage returns the processor time of the process since its start and its resident memory now, in bytes.
func (p *Process) Usage() (cpu time.Duration, memory int64, err error) {
	// /proc counts processor time in ticks of 10 ms, too coarse for half a second. The clock of a process has nanoseconds; the process
	// ID makes its number, see clock_getcpuclockid(3).
	const schedulerClock = 2 // CPUCLOCK_SCHED
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|schedulerClock), &now); err != nil {
		return 0, 0, fmt.Errorf("processor time: %w", err)
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		return 0, 0, fmt.Errorf("statm: %q: %w", statm, err)
	}
	return time.Duration(now.Nano()), pages * int64(os.Getpagesize()), nil
}

// Descriptors returns how many file descriptors the process has open.
func (p *Process) Descriptors() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	return len(entries), err
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Stop sends SIGINT, after which a gateway waits for no load balancer, and waits until the program has exited.
func (p *Process) Stop() error { return p.end(syscall.SIGINT) }

// Terminate sends SIGTERM, as process managers do, and waits until the program has exited.
func (p *Process) Terminate() error { return p.end(syscall.SIGTERM) }

// end kills a program that takes too long.
func (p *Process) end(s syscall.Signal) error {
	if err := p.Signal(s); err != nil {
		return err
	}
	overdue := time.AfterFunc(shutdown, func() { _ = p.cmd.Process.Kill() })
	defer overdue.Stop()
	return p.cmd.Wait()
}

// Kill ends the program at once and waits until it has exited.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.cmd.Wait() // says that it was killed
	return nil
}

// Gateway is a running promptweir.
type Gateway struct {
	*Process

	// Admin is the URL of the admin listener, without a path.
	Admin string

	path string // of its configuration
}

// StartGateway starts a gateway with a configuration and waits until it is ready. Command is the program, with what goes in front
// of it, such as taskset. Files are those beside the configuration, by name. The caller must call [Gateway.Stop].
func StartGateway(ctx context.Context, configuration string, files map[string]string, command ...string) (*Gateway, error) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return nil, err
	}
	g := &Gateway{path: filepath.Join(dir, "gateway.hcl")}
	err = os.WriteFile(g.path, []byte(configuration), 0o600)
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if err == nil {
		err = g.start(ctx, append(slices.Clip(command), "serve", "--config", g.path))
	}
	if err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

func (g *Gateway) start(ctx context.Context, command []string) (err error) {
	if g.Process, err = Listen(ctx, command[0], command[1:]...); err != nil {
		return err
	}
	if g.Admin, err = g.Attr("admin"); err != nil {
		return err
	}
	return Eventually(startup, func() error {
		if _, err := Fetch(ctx, http.MethodGet, g.Admin+"/readyz"); err != nil {
			return fmt.Errorf("%w\n%s", err, g.Log())
		}
		return nil
	})
}

// Reload replaces the configuration, and waits until the gateway has loaded the new one.
func (g *Gateway) Reload(ctx context.Context, configuration string) error {
	err := errors.Join(os.WriteFile(g.path+".next", []byte(configuration), 0o600), os.Rename(g.path+".next", g.path))
	if err != nil {
		return err
	}
	_, err = Fetch(ctx, http.MethodPost, g.Admin+"/-/reload")
	return err
}

// Metric returns the value of a metric without labels, of what Prometheus scrapes.
func Metric(text []byte, name string) (float64, error) {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// Stop ends the gateway and removes its configuration.
func (g *Gateway) Stop() {
	if g.Process != nil {
		_ = g.Process.Stop() // what it says was of interest while it ran
	}
	_ = os.RemoveAll(filepath.Dir(g.path))
}

// Fetch makes a request without a body, and returns the body of a successful response.
func Fetch(ctx context.Context, method, target string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
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

// Pause waits for a time, or until ctx ends.
func Pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Serve serves a handler on a free port of 127.0.0.1 until stop is called.
func Serve(ctx context.Context, handler http.Handler) (target string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until stop
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}

// FreeAddress returns an address at which nobody listens, for programs that cannot choose one.
func FreeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// Program returns the path of a program that distributions may keep in /usr/sbin, which not all users have in PATH.
func Program(names ...string) string {
	for _, name := range names {
		for _, candidate := range []string{name, "/usr/sbin/" + name} {
			if path, err := exec.LookPath(candidate); err == nil {
				return path
			}
		}
	}
	return names[0]
}

// StartHAProxy starts HAProxy with a configuration, in which ADDRESS is where it listens.
func StartHAProxy(ctx context.Context, dir, configuration string) (p *Process, address string, err error) {
	if address, err = FreeAddress(ctx); err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(configuration, "ADDRESS", address)), 0o600); err != nil {
		return nil, "", err
	}
	if p, err = Start(ctx, Program("haproxy"), "-db", "-f", file); err != nil {
		return nil, "", fmt.Errorf("%w: apt-get install haproxy", err)
	}
	return p, address, Eventually(startup, func() error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log())
		}
		return conn.Close()
	})
}
