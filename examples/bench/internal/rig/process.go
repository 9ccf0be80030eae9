package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	// shutdown bounds how long a process may take to exit after a signal.
	shutdown = 20 * time.Second
	// quiet is how long the memory of a process must stay the same to count as settled, and settling
	// how long to wait for that.
	quiet    = 3 * time.Second
	settling = 15 * time.Second
	// AnyAddress is a free port. The configuration of a gateway has it twice, the admin listener's last.
	AnyAddress = "127.0.0.1:0"
)

// Process is a running program.
type Process struct {
	// Endpoint is the URL that it has logged, if it was started by [Stage.Listen].
	Endpoint string

	cmd *exec.Cmd

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Start starts a program, which is killed at the end of the case.
func (st *Stage) Start(name string, args ...string) *Process {
	p := &Process{cmd: exec.CommandContext(st.ctx, name, args...)}
	p.cmd.Stderr = p
	Check(p.cmd.Start())
	st.Defer(p.Kill)
	return p
}

// pipe is the standard input and output of a program.
type pipe struct {
	io.Reader
	io.Writer

	process *Process
}

func (p pipe) Close() error {
	p.process.Kill()
	return nil
}

// Pipe starts a program that is used over its standard input and output. It is killed when these are
// closed, or ctx ends.
func Pipe(ctx context.Context, name string, args ...string) (io.ReadWriteCloser, error) {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = p
	in, errIn := p.cmd.StdinPipe()
	out, errOut := p.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	return pipe{out, in, p}, p.cmd.Start()
}

// Listen starts a program and waits until it has logged its endpoint.
func (st *Stage) Listen(name string, args ...string) *Process {
	p := st.Start(name, args...)
	p.Endpoint = p.attr("endpoint")
	return p
}

// Self starts this program with other arguments, with which it calls [Announce].
func (st *Stage) Self(args ...string) *Process {
	return st.Listen(Must(os.Executable()), args...)
}

// Announce serves at a free port until ctx ends, and logs the endpoint.
func Announce(ctx context.Context, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", AnyAddress)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	slog.InfoContext(ctx, "listening", slog.String("endpoint", fmt.Sprintf("http://%s/mcp", listener.Addr())))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
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

// attr waits until the program has logged an attribute, in the text format of slog.
func (p *Process) attr(name string) string {
	pattern := regexp.MustCompile(`\b` + name + `="?([^"\s]+)"?(\s.*)?\n`)
	var match []string
	Check(Eventually(startup, func() error {
		if match = pattern.FindStringSubmatch(p.Log()); match == nil {
			return fmt.Errorf("no %s= in the log:\n%s", name, p.Log())
		}
		return nil
	}))
	return match[1]
}

// Address returns the host and port of the endpoint.
func (p *Process) Address() string { return Must(url.Parse(p.Endpoint)).Host }

// RSS waits until the resident memory of the process has settled and returns it, in bytes.
func (p *Process) RSS() int64 {
	last, since := int64(0), time.Now()
	for begun := since; time.Since(begun) < settling && time.Since(since) < quiet; {
		_, now := p.Usage()
		if now-last > last/200 || last-now > last/200 {
			last, since = now, time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return last
}

// Usage returns the processor time of the process since its start and its resident memory now, in
// bytes.
func (p *Process) Usage() (cpu time.Duration, memory int64) {
	// /proc counts processor time in ticks of 10 ms, too coarse for half a second. The clock of a
	// process has nanoseconds; the process ID makes its number, see clock_getcpuclockid(3).
	const schedulerClock = 2 // CPUCLOCK_SCHED
	var now unix.Timespec
	Check(unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|schedulerClock), &now))
	var size, pages int64
	statm := Must(os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid)))
	Must(fmt.Sscan(string(statm), &size, &pages))
	return time.Duration(now.Nano()), pages * int64(os.Getpagesize())
}

// Descriptors returns how many file descriptors the process has open.
func (p *Process) Descriptors() int {
	return len(Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))))
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) { Check(p.cmd.Process.Signal(s)) }

// Terminate sends SIGTERM, as process managers do, and waits until the program has exited.
func (p *Process) Terminate() error { return p.end(syscall.SIGTERM) }

// end kills a program that takes too long.
func (p *Process) end(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return err
	}
	overdue := time.AfterFunc(shutdown, func() { _ = p.cmd.Process.Kill() })
	defer overdue.Stop()
	return p.cmd.Wait()
}

// Kill ends the program at once and waits until it has exited.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails where it has exited
	_ = p.cmd.Wait()         // says that it was killed
}

// Gateway is a running promptweir.
type Gateway struct {
	*Process

	// Admin is the URL of the admin listener, without a path.
	Admin string
	// Dir is the folder of its configuration, and Text that.
	Dir, Text string

	stage   *Stage
	command []string
}

// Gateway starts a gateway with a configuration and waits until it is ready. Command is the program,
// with what goes in front of it, such as taskset.
func (st *Stage) Gateway(text string, command ...string) *Gateway {
	g := &Gateway{Dir: st.Dir(), Text: text, stage: st}
	g.command = append(slices.Clip(command), "serve", "--config", g.path())
	// After SIGINT a gateway waits for no load balancer. What it says then is of no interest.
	st.Defer(func() {
		if g.Process != nil {
			_ = g.end(syscall.SIGINT)
		}
	})
	g.Start()
	return g
}

func (g *Gateway) path() string { return filepath.Join(g.Dir, "gateway.hcl") }

// Start starts a gateway that has ended, at the addresses that it had.
func (g *Gateway) Start() {
	if g.Process != nil {
		for _, address := range []string{g.Address(), strings.TrimPrefix(g.Admin, "http://")} {
			g.Text = strings.Replace(g.Text, AnyAddress, address, 1)
		}
	}
	g.write(g.Text)
	g.Process = g.stage.Listen(g.command[0], g.command[1:]...)
	g.Admin = g.attr("admin")
	Check(Eventually(startup, func() error {
		if _, err := Fetch(g.stage.ctx, http.MethodGet, g.Admin+"/readyz"); err != nil {
			return fmt.Errorf("%w\n%s", err, g.Log())
		}
		return nil
	}))
}

// Reload replaces the configuration, and waits until the gateway has loaded the new one.
func (g *Gateway) Reload(text string) {
	g.Text = text
	g.write(text)
	Must(Fetch(g.stage.ctx, http.MethodPost, g.Admin+"/-/reload"))
}

// write replaces the configuration, which is never half written.
func (g *Gateway) write(text string) {
	Check(os.WriteFile(g.path()+".next", []byte(text), 0o600))
	Check(os.Rename(g.path()+".next", g.path()))
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
