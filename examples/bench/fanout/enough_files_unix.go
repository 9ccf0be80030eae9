//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// enoughFiles checks whether a process may hold that many connections. Only the hard limit matters: Go programs raise their soft
// limit to it.
func enoughFiles(listeners int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < uint64(listeners)+200 {
		return fmt.Errorf("%d listeners need more open files than the hard limit of %d: raise it (ulimit -Hn) or use fewer -listeners", listeners, limit.Max)
	}
	return nil
}
