//go:build unix && !linux

package serving

import "syscall"

// HideMemory does nothing: here only root reads another process's memory, or there is no way to
// forbid it.
func HideMemory() error { return nil }

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
