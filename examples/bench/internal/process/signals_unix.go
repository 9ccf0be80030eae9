//go:build unix

package process

import (
	"syscall"
	"time"
)

// Terminate sends SIGTERM, as process managers do, and waits until the program has exited. It kills a program that takes too long.
func (p *Process) Terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	overdue := time.AfterFunc(shutdown, func() { _ = p.cmd.Process.Kill() })
	defer overdue.Stop()
	return p.cmd.Wait()
}

// Pause has the program do nothing, and keep its connections, until [Process.Resume].
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a program go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }
