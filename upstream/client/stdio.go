package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/system"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// exitTimeout is the time that a child may take to exit after its stdin was closed, and again after
	// SIGTERM.
	exitTimeout = 2 * time.Second
	// pipeTimeout bounds the wait for the end of a dead child's pipes. Processes that the child
	// left behind may hold them open.
	pipeTimeout = time.Second
	// writeQueue is the number of messages that may wait in the queue to the child's stdin.
	writeQueue = 64
	// maxLogLine bounds the logged part of one line of a child's stderr, in bytes.
	maxLogLine = 4 << 10
	// After maxGarbage lines in a row that are not messages, each further line costs a pause of garbagePause, because a
	// child may print at full speed. After mostGarbage lines, the child is killed.
	maxGarbage   = 100
	garbagePause = time.Millisecond
	mostGarbage  = 10_000
)

// inherited are the environment variables that a child inherits from the gateway: enough to run and
// to reach the network.
var inherited = []string{ //nolint:gochecknoglobals // a constant list
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// child is the stdio transport: a process in its own process group, with one JSON-RPC message per
// line.
type child struct {
	mux // ends once the process has been reaped and its last output has been read

	command *exec.Cmd
	// exited receives the error of Wait once the process has ended.
	exited chan error
	stdin  io.WriteCloser
	stdout *os.File
	stderr *os.File
	// stderrLog logs the stderr, strayLog the lines of stdout that are not messages.
	stderrLog, strayLog *slog.Logger
	// program is the visible name of the command.
	program    string
	maxMessage int

	// mask hides the server's secrets in the output.
	mask config.Mask
	// output holds the lines that may explain why the process does not serve.
	output childOutput

	lines chan []byte
	// closing is closed to make the child exit.
	closing chan struct{}
	once    sync.Once
	work    sync.WaitGroup
}

// startChild starts the process. A relative command is relative to the gateway's working directory,
// even if the process gets another working directory.
func startChild(server config.Upstream, logger, stderrLog *slog.Logger) (*child, error) {
	c := &child{
		mux:       newMux(logger),
		command:   exec.Command(server.Command[0], server.Command[1:]...), //nolint:noctx // close ends it, gracefully
		stderrLog: stderrLog, maxMessage: server.MaxMessage, mask: server.Mask(),
		// A server that logs to stdout does so in each request. One record in ten seconds is enough.
		strayLog: loglimit.New(logger, 1), program: server.Program(),
		lines: make(chan []byte, writeQueue), closing: make(chan struct{}), exited: make(chan error, 1),
	}
	c.command.Env = childEnvironment(server.Env)
	err := c.setFolder(server.Dir)
	if err == nil {
		err = c.startProcess()
	}
	if err != nil {
		return nil, &startError{server.Address(), withoutPath(err)}
	}
	return c, nil
}

// setFolder makes path the working directory of the process, unless path is empty.
func (c *child) setFolder(path string) error {
	if path == "" {
		return nil
	}
	actual, err := filepath.EvalSymlinks(path)
	if err == nil {
		_, err = os.Stat(path + "/.") // fails unless the folder can be entered
	}
	switch {
	case err != nil:
		return &folderError{withoutPath(err)}
	case actual != path: // config allowed a path without links
		return &folderError{errors.New("a link has taken its place")}
	}
	c.command.Dir = path
	if !filepath.IsAbs(c.command.Path) && c.command.Err == nil { // the process would look for a relative path in its own folder
		c.command.Path, err = filepath.Abs(c.command.Path)
	}
	return err
}

// startProcess makes the pipes and starts the process.
func (c *child) startProcess() (err error) {
	if err := system.OwnGroup(c.command); err != nil {
		return errNoChildren
	}
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		return err
	}
	// Do not use the pipes of package exec: its Wait does not return while another process holds them open.
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdoutWriter.Close()
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		_ = stdout.Close()
		return err
	}
	defer stderrWriter.Close()
	c.command.Stdout, c.command.Stderr = stdoutWriter, stderrWriter
	if err := c.fork(); err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return err
	}
	c.stdout, c.stderr = stdout, stderr
	return nil
}

// fork starts the process on a thread that lasts as long as the process.
func (c *child) fork() error {
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, and Go may end other threads at any time. Wait
		// blocks a thread anyway.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.command.Start()
		started <- err
		if err == nil {
			c.exited <- c.command.Wait()
		}
	}()
	return <-started
}

func (c *child) start(receive func(*wire.Message)) {
	c.receive = receive
	c.work.Go(c.writeLines)
	c.work.Go(c.run)
}

func (c *child) roundTrip(ctx context.Context, r *request) error {
	return c.await(ctx, r, c.send)
}

func (c *child) send(ctx context.Context, message []byte) error {
	// Use a queue: a child that does not read its stdin must not block callers beyond their deadlines.
	line := append(wire.SingleLine(message), '\n')
	select {
	case c.lines <- line:
		return nil
	case <-c.closed:
		return c.cause
	case <-c.closing:
		return ErrExited
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeLines is the only writer of the child's stdin.
func (c *child) writeLines() {
	defer c.stdin.Close()
	for {
		select {
		case line := <-c.lines:
			// Ignore the error: run detects the exit of the child, and requests have a deadline.
			if _, err := c.stdin.Write(line); err != nil {
				return
			}
		case <-c.closing:
			return
		case <-c.closed:
			return
		}
	}
}

// run reads the process's output, waits for its end, and kills the processes that it left behind.
func (c *child) run() {
	defer c.stdout.Close()
	defer c.stderr.Close()
	reaped := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		c.readMessages()
		select { // a process that has closed its stdout cannot answer
		case <-reaped:
		case <-time.After(exitTimeout):
			c.signal(syscall.SIGKILL)
		}
	})
	reading.Go(c.logStderr)
	err := <-c.exited
	c.signal(syscall.SIGKILL)
	close(reaped)
	// The last output may still be in the pipes, and another process may hold them open.
	deadline := time.Now().Add(pipeTimeout)
	_, _ = c.stdout.SetReadDeadline(deadline), c.stderr.SetReadDeadline(deadline)
	reading.Wait()
	c.end(&exitError{status: exitStatus(c.command, err), atOnce: c.agreed.Load() == nil, lastWords: c.output.lastWords()})
}

func exitStatus(command *exec.Cmd, err error) string {
	if command.ProcessState != nil {
		return command.ProcessState.String()
	}
	return err.Error()
}

// signal signals the whole process group.
func (c *child) signal(signal syscall.Signal) { system.SignalGroup(c.command, signal) }

// readMessages reads messages until stdout ends or contains only garbage. It skips lines that are
// too long or not messages.
func (c *child) readMessages() {
	reader := bufio.NewReaderSize(c.stdout, 64<<10)
	for garbage := 0; ; {
		line, err := wire.ReadLine(reader, c.maxMessage)
		switch {
		case errors.Is(err, wire.ErrLineTooLong):
			c.logger.Warn("line from child process ignored", slog.Any("error", err), slog.Int("max_message", c.maxMessage))
			for _, id := range wire.ClaimedIDs(line) { // their requests fail now instead of at their timeout
				c.resolve(id, muxResponse{err: tooLarge(c.maxMessage)})
			}
		case err != nil:
			return
		case len(bytes.TrimSpace(line)) > 0:
			err := c.dispatch(line)
			if err == nil {
				garbage = 0
				c.output.spoke.Store(true)
				continue
			}
			cause := NotMessages.Cause(c.program, quoted(c.output.addGarbage(c.mask, line)))
			c.strayLog.Warn("line from child process ignored", slog.String("cause", cause.Problem),
				slog.String("remedy", cause.Remedy), slog.Any("error", err))
			if garbage++; garbage > maxGarbage {
				time.Sleep(garbagePause)
			}
			if garbage > mostGarbage {
				c.logger.Error("child process stopped: none of its lines is a message")
				c.signal(syscall.SIGKILL)
				return
			}
		}
	}
}

// logStderr logs the child's stderr line by line until it ends. It shortens long lines.
func (c *child) logStderr() {
	reader := bufio.NewReaderSize(c.stderr, maxLogLine)
	before := "" // the last maxLogLine bytes of earlier output, in which a secret may begin
	for continued := false; ; {
		line, more, err := reader.ReadLine()
		text := string(bytes.TrimSpace(line))
		if text != "" && !continued {
			shown := c.mask.Line(before, text)
			c.output.addStderr(shown)
			c.stderrLog.Info("stderr", slog.String("line", shown))
		}
		before += text // a secret may begin in the part that is not logged
		before = before[max(0, len(before)-maxLogLine):]
		if err != nil {
			return
		}
		continued = more
	}
}

// close closes the child's stdin, then sends SIGTERM, then SIGKILL. It returns when the child has
// exited.
func (c *child) close() {
	c.once.Do(func() { close(c.closing) })
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.closed:
		case <-time.After(exitTimeout):
			c.signal(signal)
		}
	}
	c.work.Wait()
}

func childEnvironment(own map[string]config.Secret) []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range own {
		env = append(env, name+"="+value.Reveal())
	}
	return env
}

// withoutPath removes the path from an error, because it may be sensitive.
func withoutPath(err error) error {
	if wrapped, ok := errors.AsType[*exec.Error](err); ok {
		return wrapped.Err
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// startError is the failure to start a child process.
type startError struct {
	address string
	err     error
}

func (e *startError) Error() string { return fmt.Sprintf("start %s: %v", e.address, e.err) }

func (e *startError) Unwrap() error { return e.err }

// folderError is the failure to use a working directory.
type folderError struct{ err error }

func (e *folderError) Error() string { return "working folder: " + e.err.Error() }

func (e *folderError) Unwrap() error { return e.err }

// exitError is [ErrExited] with details.
type exitError struct {
	status string
	// atOnce is true if the process exited before a revision was negotiated.
	atOnce bool
	// lastWords is the last output of the process, as a continuation of the sentence; it may be empty.
	lastWords string
}

func (e *exitError) Error() string { return fmt.Sprintf("%v: %s%s", ErrExited, e.status, e.lastWords) }

func (e *exitError) Unwrap() error { return ErrExited }

// childOutput keeps the lines that may explain why a child process does not serve. Its methods are
// safe for concurrent use.
type childOutput struct {
	// spoke is true after the first message. From then on a stray line explains nothing.
	spoke atomic.Bool

	mu sync.Mutex // guards the fields below
	// stray is the first line of stdout that was not a message. last is the last line of stderr, and failure the last
	// line of stderr that looks like an error.
	stray, last, failure string
	// before is the last maxLogLine bytes of stray output, in which a secret may begin.
	before string
}

// addGarbage records a line of stdout that was not a message. It returns the line without secrets.
func (o *childOutput) addGarbage(mask config.Mask, line []byte) string {
	// Keep one byte more than quoted shows, so that quoted marks the cut. Mask the line before quoted cuts it: the mask
	// finds an incomplete secret only at the end of a text.
	line = bytes.TrimSpace(line)
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := mask.Line(o.before, string(line[:min(len(line), maxQuoted+1)]))
	o.stray = cmp.Or(o.stray, shown)
	o.before += string(line[max(0, len(line)-maxLogLine):])
	o.before = o.before[max(0, len(o.before)-maxLogLine):]
	return shown
}

// addStderr records a line of stderr.
func (o *childOutput) addStderr(line string) {
	line = line[:min(len(line), maxQuoted+1)]
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = line
	if strings.Contains(line, "rror: ") { // the last error line; Node prints its version after it
		o.failure = line
	}
}

// wroteStderr reports whether the process has written to its stderr.
func (c *child) wroteStderr() bool {
	c.output.mu.Lock()
	defer c.output.mu.Unlock()
	return c.output.last != ""
}

// garbage returns the first line of stdout that was not a message, if no message has arrived.
func (o *childOutput) garbage() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.spoke.Load() {
		return ""
	}
	return o.stray
}

// lastWords returns the last error on stderr, otherwise the last line of stderr, otherwise the first stray line of stdout.
// The text continues a sentence about the end of the process; it may be empty.
func (o *childOutput) lastWords() string {
	stray := o.garbage()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.failure != "":
		return ": " + quoted(o.failure)
	case o.last != "":
		return ": " + quoted(o.last)
	case stray != "":
		return ", after printing " + quoted(stray)
	}
	return ""
}
