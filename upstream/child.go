package upstream

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
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
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
	exchange // ends once the process has been waited for and its last words have been taken

	command    *exec.Cmd
	stdin      io.WriteCloser
	logger     *slog.Logger
	maxMessage int
	mask       *strings.Replacer

	stdout, stderr *os.File

	lines chan []byte
	// closing is closed when it is to go.
	closing chan struct{}
	once    sync.Once
	work    sync.WaitGroup
}

// startChild starts the process. Relative commands and the process's own working directory are the gateway's.
func startChild(u config.Upstream, logger *slog.Logger) (*child, error) {
	c := &child{
		exchange: newExchange(),
		command:  exec.Command(u.Command[0], u.Command[1:]...), //nolint:noctx // ended by close, politely
		logger:   logger, maxMessage: u.MaxMessage, mask: masker(u.Env),
		lines: make(chan []byte, writeQueue), closing: make(chan struct{}),
	}
	c.command.Env = childEnv(u.Env)
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", u.Address(), withoutPath(err))
	}
	return c, nil
}

// withoutPath takes the path out of an error, because it may hold what is sensitive.
func withoutPath(err error) error {
	if wrapped, ok := errors.AsType[*exec.Error](err); ok {
		return wrapped.Err
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// minMasked is how long a value of a child's environment must be to be taken for a secret where the child repeats it.
const minMasked = 8

// masker hides the values of a child's environment in what the child writes to its stderr.
func masker(env map[string]config.Secret) *strings.Replacer {
	values := slices.SortedFunc(maps.Values(env), func(a, b config.Secret) int { // what another begins with comes after it
		return cmp.Compare(len(b.Reveal()), len(a.Reveal()))
	})
	var pairs []string
	for _, value := range values {
		if len(value.Reveal()) >= minMasked {
			pairs = append(pairs, value.Reveal(), value.String())
		}
	}
	return strings.NewReplacer(pairs...)
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

func (c *child) listen(handle func(*wire.Message)) {
	c.handle = handle
	c.work.Go(c.write)
	c.work.Go(c.run)
}

func (c *child) ties() bool { return false }

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
	reading.Go(func() { c.logLines() })
	err := c.command.Wait()
	c.signal(syscall.SIGKILL)
	close(reaped)
	// Its last words may still be in the pipes, and somebody outside the group may hold them open.
	deadline := time.Now().Add(pipeBound)
	_, _ = c.stdout.SetReadDeadline(deadline), c.stderr.SetReadDeadline(deadline)
	reading.Wait()
	c.end(fmt.Errorf("%w: %s", errExited, exitStatus(c.command, err)))
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
			c.resolve(wire.HeadID(line), reply{err: tooLarge(c.maxMessage)})
		case err != nil:
			return
		case len(bytes.TrimSpace(line)) > 0:
			if err := c.take(line); err != nil {
				c.logger.Warn("line of child process ignored", slog.Any("error", err))
			}
		}
	}
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
		case <-c.gone:
			return
		}
	}
}

func (c *child) roundTrip(ctx context.Context, r *request) error {
	return c.await(ctx, r, c.send)
}

func (c *child) send(ctx context.Context, message []byte) error {
	line := append(wire.SingleLine(message), '\n')
	select {
	case c.lines <- line:
		return nil
	case <-c.gone:
		return c.cause
	case <-c.closing:
		return errExited
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close asks the child to leave by ending its stdin, then by SIGTERM, then ends it, and waits until it is gone.
func (c *child) close() {
	c.once.Do(func() { close(c.closing) })
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.gone:
		case <-time.After(politeBound):
			c.signal(signal)
		}
	}
	c.work.Wait()
}

// logLines logs what the child writes to its stderr, line by line, until it ends. Of a long line it logs the beginning.
func (c *child) logLines() {
	reader := bufio.NewReaderSize(c.stderr, maxLogLine)
	for begun := false; ; {
		line, more, err := reader.ReadLine()
		if text := string(bytes.TrimSpace(line)); text != "" && !begun {
			c.logger.Info("stderr", slog.String("line", c.mask.Replace(text)))
		}
		if err != nil {
			return
		}
		begun = more
	}
}
