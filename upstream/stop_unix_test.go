//go:build unix

package upstream_test

import "syscall"

func stopProcess(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
