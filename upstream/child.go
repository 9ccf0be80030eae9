package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// politeBound is how long a child may take to leave after its stdin has ended, and again after SIGTERM.
	politeBound = 2 * time.Second
	// pipeBound is how long the pipes of a dead child may be held open by what it left behind outside of its group.
	pipeBound = time.Second
	// writeQueue is how many messages may wait for a child to read them.
	writeQueue = 64
	// maxLogLine bounds a line of a child's stderr in the log.
	maxLogLine = 4 << 10
)

// inherited are the variables that a child gets of the gateway's own environment: enough to run, nothing secret.
var inherited = []string{ //nolint:gochecknoglobals // a constant list
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR",
}

// child is the stdio transport: a process of its own group, one JSON-RPC message on each line.
type child struct {
	command    *exec.Cmd
	stdin      io.WriteCloser
	handle     func(wire.Message)
	logger     *slog.Logger
	maxMessage int

	stdout, stderr *os.File

	lines chan []byte
	// exited is closed when the process has been waited for and its last words have been taken.
	exited chan struct{}
	// status is how it ended, once exited is closed.
	status string
	// closing is closed when it is to go.
	closing chan struct{}
	once    sync.Once
	work    sync.WaitGroup

	mu      sync.Mutex // guards pending
	pending map[string]chan wire.Message
}

// startChild starts the process. Relative commands and the process's own working directory are the gateway's.
func startChild(u config.Upstream, logger *slog.Logger) (*child, error) {
	c := &child{
		command: exec.Command(u.Command[0], u.Command[1:]...), //nolint:noctx // ended by close, politely
		logger:  logger, maxMessage: u.MaxMessage,
		lines: make(chan []byte, writeQueue), exited: make(chan struct{}), closing: make(chan struct{}),
		pending: map[string]chan wire.Message{},
	}
	c.command.Env = childEnv(u.Env)
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.start(); err != nil {
		return nil, fmt.Errorf("start child process: %w", err)
	}
	return c, nil
}

// start makes the pipes and starts the process. Stdout and stderr are pipes of our own, because exec's would keep Wait
// from returning while something that the process left behind holds them open.
func (c *child) start() (err error) {
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
	if err := c.command.Start(); err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return err
	}
	c.stdout, c.stderr = stdout, stderr
	return nil
}

func (c *child) listen(handle func(wire.Message)) {
	c.handle = handle
	c.work.Go(c.write)
	c.work.Go(c.run)
}

func (c *child) mayKeepSilent() bool { return true }

func childEnv(own map[string]config.Secret) []string {
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

// run takes what the process says, reaps it, and ends what it left behind in its group.
func (c *child) run() {
	defer c.stdout.Close()
	defer c.stderr.Close()
	reaped := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		c.read(c.stdout)
		select { // it has nothing more to say: if it goes on nevertheless, it is of no use
		case <-reaped:
		case <-time.After(politeBound):
			c.signal(syscall.SIGKILL)
		}
	})
	reading.Go(func() { logLines(c.stderr, c.logger) })
	err := c.command.Wait()
	c.signal(syscall.SIGKILL)
	close(reaped)
	// Its last words may still be in the pipes, and somebody outside the group may hold them open.
	deadline := time.Now().Add(pipeBound)
	_, _ = c.stdout.SetReadDeadline(deadline), c.stderr.SetReadDeadline(deadline)
	reading.Wait()
	c.status = exitStatus(c.command, err)
	close(c.exited)
}

func exitStatus(command *exec.Cmd, err error) string {
	if command.ProcessState != nil {
		return command.ProcessState.String()
	}
	return err.Error()
}

// signal sends to the whole process group.
func (c *child) signal(signal syscall.Signal) {
	_ = syscall.Kill(-c.command.Process.Pid, signal) // ESRCH: the group is gone, as wanted
}

// read takes the child's messages until its stdout ends. Lines that are too long or no messages are left out.
func (c *child) read(stdout io.Reader) {
	reader := bufio.NewReaderSize(stdout, 64<<10)
	for {
		line, err := wire.ReadLine(reader, c.maxMessage)
		switch {
		case errors.Is(err, wire.ErrLineTooLong):
			c.logger.Warn("line of child process ignored", slog.Any("error", err), slog.Int("max_message", c.maxMessage))
		case err != nil:
			return
		case len(bytes.TrimSpace(line)) > 0:
			c.take(line)
		}
	}
}

func (c *child) take(line []byte) {
	message, err := wire.Parse(line)
	if err != nil {
		c.logger.Warn("line of child process ignored", slog.Any("error", err))
		return
	}
	if message.IsResponse() {
		c.mu.Lock()
		waiting := c.pending[string(message.ID)]
		delete(c.pending, string(message.ID))
		c.mu.Unlock()
		if waiting != nil {
			waiting <- message
		}
		return
	}
	c.handle(message)
}

// write is the only writer of the child's stdin.
func (c *child) write() {
	defer c.stdin.Close()
	for {
		select {
		case line := <-c.lines:
			if _, err := c.stdin.Write(line); err != nil {
				return
			}
		case <-c.closing:
			return
		case <-c.exited:
			return
		}
	}
}

func (c *child) roundTrip(ctx context.Context, r request) (wire.Message, error) {
	id := string(wire.NumberID(r.id))
	response := make(chan wire.Message, 1)
	c.mu.Lock()
	c.pending[id] = response
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, wire.AppendRequest(nil, r.id, r.method, r.params)); err != nil {
		return wire.Message{}, err
	}
	select {
	case message := <-response:
		return message, nil
	case <-c.exited:
		select {
		case message := <-response: // among its last words
			return message, nil
		default:
			return wire.Message{}, c.exit()
		}
	case <-ctx.Done():
		return wire.Message{}, ctx.Err()
	}
}

func (c *child) send(ctx context.Context, message []byte) error {
	line := append(wire.SingleLine(message), '\n')
	select {
	case c.lines <- line:
		return nil
	case <-c.exited:
		return c.exit()
	case <-c.closing:
		return errExited
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exit says how the process ended, once it has.
func (c *child) exit() error { return fmt.Errorf("%w: %s", errExited, c.status) }

// standalone: a child says everything on its stdout, so there is nothing to open and nothing to miss.
func (c *child) standalone(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-c.exited:
		return c.exit()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *child) agree(string) {}

func (c *child) broken() <-chan struct{} { return c.exited }

func (c *child) brokenBy() error { return c.exit() }

// close asks the child to leave by ending its stdin, then by SIGTERM, then ends it, and waits until it is gone.
func (c *child) close() {
	c.once.Do(func() { close(c.closing) })
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.exited:
		case <-time.After(politeBound):
			c.signal(signal)
		}
	}
	c.work.Wait()
}

// logLines logs what a child writes to its stderr, line by line, until it ends. Of a long line it logs the beginning.
func logLines(stderr io.Reader, logger *slog.Logger) {
	reader := bufio.NewReaderSize(stderr, maxLogLine)
	for begun := false; ; {
		line, more, err := reader.ReadLine()
		if text := string(bytes.TrimSpace(line)); text != "" && !begun {
			logger.Info("stderr", slog.String("line", text))
		}
		if err != nil {
			return
		}
		begun = more
	}
}
