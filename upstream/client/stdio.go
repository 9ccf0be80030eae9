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
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/system"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// exitTimeout is how long a child may take to exit after its stdin was closed, and again after
	// SIGTERM.
	exitTimeout = 2 * time.Second
	// pipeTimeout is how long a dead child's pipes may be held open by processes that it left
	// behind and that could not be ended.
	pipeTimeout = time.Second
	// writeQueue is how many messages may wait for a child to read them.
	writeQueue = 64
	// maxLogLine bounds what the log shows of one line of a child's stderr, in bytes.
	maxLogLine = 4 << 10
	// maxGarbage is how many lines without a message a child may print in a row at full speed, and
	// garbagePause the pause after each further one. If nothing else comes for garbageTimeout, the
	// child is stopped.
	maxGarbage     = 100
	garbagePause   = time.Millisecond
	garbageTimeout = 10 * time.Second
)

// inherited are the environment variables that a child inherits from the gateway: enough to run, and
// to leave the network.
var inherited = []string{ //nolint:gochecknoglobals // a constant list
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// child is the stdio transport: a process in a process group of its own, one JSON-RPC message on
// each line.
type child struct {
	mux // ends once the process has been reaped and its last output has been read

	command *exec.Cmd
	// exited has how the process ended, once it has.
	exited chan error
	stdin  io.WriteCloser
	stdout *os.File
	stderr *os.File
	// stderrLog is for what it writes to its stderr, strayLog for what of its stdout is no message.
	stderrLog, strayLog *slog.Logger
	// program is what people call it.
	program    string
	maxMessage int

	// mask hides the server's secrets in what it prints.
	mask config.Mask
	// output is what the process printed, as far as it says why the process does not serve.
	output childOutput

	lines chan []byte
	// closing is closed when the child is to exit.
	closing chan struct{}
	once    sync.Once
	work    sync.WaitGroup
}

// startChild starts the process. A relative command is relative to the gateway's working directory,
// also where the process gets another one.
func startChild(server config.Upstream, logger, stderrLog *slog.Logger) (*child, error) {
	c := &child{
		mux:       newMux(logger),
		command:   exec.Command(server.Command[0], server.Command[1:]...), //nolint:noctx // close ends it, gracefully
		stderrLog: stderrLog, maxMessage: server.MaxMessage, mask: server.Mask(),
		// A server that logs to stdout does so with each request: one line says what to do.
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

// setFolder sets the working directory, if any.
func (c *child) setFolder(path string) error {
	if path == "" {
		return nil
	}
	actual, err := filepath.EvalSymlinks(path)
	if err == nil {
		_, err = os.Stat(path + "/.") // for which it must be a folder that can be entered
	}
	switch {
	case err != nil:
		return &folderError{withoutPath(err)}
	case actual != path: // it was resolved when it was found to be allowed
		return &folderError{errors.New("a link has taken its place")}
	}
	c.command.Dir = path
	if !filepath.IsAbs(c.command.Path) && c.command.Err == nil { // it would be relative to the folder
		c.command.Path, err = filepath.Abs(c.command.Path)
	}
	return err
}

// startProcess makes the pipes and starts the process.
func (c *child) startProcess() (err error) {
	// Stdout and stderr are pipes of our own: with those of package exec, Wait does not return as
	// long as another process holds them open.
	if err := system.OwnGroup(c.command); err != nil {
		return errNoChildren
	}
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		return err
	}
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

// fork starts the process on a thread that lasts as long as the process does.
func (c *child) fork() error {
	started := make(chan error)
	go func() {
		// The kernel takes the end of the starting thread for the death of the parent, and Go ends
		// threads at any time. Waiting blocks a thread in any case.
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
	// Queued, because a child that does not read its stdin must not block callers beyond their
	// deadlines.
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
			// That the child has exited, or does not answer, is found out elsewhere.
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

// run reads the process's output, reaps it, and kills what it left behind.
func (c *child) run() {
	defer c.stdout.Close()
	defer c.stderr.Close()
	reaped := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		c.readMessages()
		select { // a process without stdout is of no use
		case <-reaped:
		case <-time.After(exitTimeout):
			c.signal(syscall.SIGKILL)
		}
	})
	reading.Go(c.logStderr)
	err := <-c.exited
	c.signal(syscall.SIGKILL)
	close(reaped)
	// Its last output may still be in the pipes, and a process that stays may hold them open.
	deadline := time.Now().Add(pipeTimeout)
	_, _ = c.stdout.SetReadDeadline(deadline), c.stderr.SetReadDeadline(deadline)
	reading.Wait()
	c.end(&exitError{status: exitStatus(c.command, err), atOnce: c.agreed.Load() == nil, said: c.output.lastWords()})
}

func exitStatus(command *exec.Cmd, err error) string {
	if command.ProcessState != nil {
		return command.ProcessState.String()
	}
	return err.Error()
}

// signal signals the whole process group.
func (c *child) signal(signal syscall.Signal) { system.SignalGroup(c.command, signal) }

// readMessages reads the child's messages until its stdout ends, or brings only garbage. It skips
// lines that are too long or not messages.
func (c *child) readMessages() {
	reader := bufio.NewReaderSize(c.stdout, 64<<10)
	for garbage := (garbageCount{}); ; {
		line, err := wire.ReadLine(reader, c.maxMessage)
		switch {
		case errors.Is(err, wire.ErrLineTooLong):
			c.logger.Warn("line from child process ignored", slog.Any("error", err), slog.Int("max_message", c.maxMessage))
			// Whoever waits for it should not have to wait until the timeout. A log record may have an id, too.
			if bytes.Contains(line, []byte(`"jsonrpc"`)) {
				c.resolve(wire.HeadID(line), muxResponse{err: tooLarge(c.maxMessage)})
			}
		case err != nil:
			return
		case len(bytes.TrimSpace(line)) > 0:
			err := c.dispatch(line)
			if err == nil {
				garbage = garbageCount{}
				c.output.setSpoke()
				continue
			}
			cause := newCause(NotMessages, c.program, quoted(c.output.addGarbage(c.mask, line)))
			c.strayLog.Warn("line from child process ignored", slog.String("cause", cause.Problem),
				slog.String("remedy", cause.Remedy), slog.Any("error", err))
			if garbage.add() {
				c.logger.Error("child process stopped: none of its lines is a message")
				c.signal(syscall.SIGKILL)
				return
			}
		}
	}
}

// garbageCount counts the lines without a message since the last one with a message.
type garbageCount struct {
	began time.Time
	lines int
}

// add counts a line, and pauses if there were many, because a child may print garbage faster than
// is worth reading. It reports whether the child is to be stopped. A few stray lines over a long
// time are no reason to.
func (g *garbageCount) add() (hopeless bool) {
	if g.lines++; g.lines == 1 {
		g.began = time.Now()
	}
	if g.lines > maxGarbage {
		time.Sleep(garbagePause)
	}
	return g.lines > 10*maxGarbage && time.Since(g.began) > garbageTimeout
}

// logStderr logs what the child writes to its stderr, line by line, until it ends. Of a long line
// it logs the beginning.
func (c *child) logStderr() {
	reader := bufio.NewReaderSize(c.stderr, maxLogLine)
	before := "" // what it wrote until now, as far as a secret may reach
	for continued := false; ; {
		line, more, err := reader.ReadLine()
		text := string(bytes.TrimSpace(line))
		if text != "" && !continued {
			shown := c.mask.Line(before, text)
			c.output.addStderr(shown)
			c.stderrLog.Info("stderr", slog.String("line", shown))
		}
		before += text // also where a secret begins in what the log leaves out
		before = before[max(0, len(before)-maxLogLine):]
		if err != nil {
			return
		}
		continued = more
	}
}

// close closes the child's stdin, then sends SIGTERM, then SIGKILL, and waits until the child has
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

// withoutPath takes the path out of an error, because it may be sensitive.
func withoutPath(err error) error {
	if wrapped, ok := errors.AsType[*exec.Error](err); ok {
		return wrapped.Err
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// startError is why a child process could not be started.
type startError struct {
	address string
	err     error
}

func (e *startError) Error() string { return fmt.Sprintf("start %s: %v", e.address, e.err) }

func (e *startError) Unwrap() error { return e.err }

// folderError is why a process cannot have its working directory.
type folderError struct{ err error }

func (e *folderError) Error() string { return "working folder: " + e.err.Error() }

func (e *folderError) Unwrap() error { return e.err }

// exitError is [ErrExited] with what is known of the end.
type exitError struct {
	status string
	// atOnce means that no revision had been agreed on.
	atOnce bool
	// said continues the sentence with the process's last words; it may be empty.
	said string
}

func (e *exitError) Error() string { return fmt.Sprintf("%v: %s%s", ErrExited, e.status, e.said) }

func (e *exitError) Unwrap() error { return ErrExited }

// childOutput keeps what a child process printed, as far as it tells a person why the process does
// not serve. Its methods are safe for concurrent use, and may be called on nil.
type childOutput struct {
	mu sync.Mutex // guards what follows
	// spoke is set once a message has come, after which a stray line explains nothing.
	spoke bool
	// stray is the first line of stdout that was not a message; last and failure are the last line
	// of stderr, and the last one that looks like an error.
	stray, last, failure string
	// before is what came on stdout in lines that were not messages, as far as a secret may reach.
	before string
}

// setSpoke records that a message has come.
func (o *childOutput) setSpoke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spoke = true
}

// addGarbage records a line of stdout that was not a message, and returns it without secrets.
func (o *childOutput) addGarbage(mask config.Mask, line []byte) string {
	// quoted cuts it, and shows that it did. Before a quotation mark, a secret that the line's end
	// cuts off could not be told from a word.
	line = bytes.TrimSpace(line) // or its line break would be the end
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
	if strings.Contains(line, "rror: ") { // Node prints its version after that, and Python nothing
		o.failure = line
	}
}

// wroteStderr reports whether the process has written to its stderr.
func (c *child) wroteStderr() bool {
	c.output.mu.Lock()
	defer c.output.mu.Unlock()
	return c.output.last != ""
}

// garbage returns the first line of stdout that was not a message, if no message has come.
func (o *childOutput) garbage() string {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.spoke {
		return ""
	}
	return o.stray
}

// lastWords continues a sentence about the process's end with what it said: on stderr or, failing
// that, on stdout.
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
