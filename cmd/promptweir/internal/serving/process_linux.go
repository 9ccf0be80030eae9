package serving

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// HideMemory keeps other processes of the same user from reading the memory and the environment of
// this one, which hold the cursor keys and every team's secrets: a server that the gateway starts
// is such a process. The kernel also writes no core dump then. Children are readable again as soon
// as they execute their programs, and root may read everything (prctl(2), PR_SET_DUMPABLE;
// ptrace(2), "Ptrace access mode checking").
func HideMemory() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// descriptorLimit returns how many descriptors the process may have. Go has raised it as far as it
// may.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil ||
		limit.Cur > unlimitedDescriptors {
		return unlimitedDescriptors
	}
	return int(limit.Cur)
}
