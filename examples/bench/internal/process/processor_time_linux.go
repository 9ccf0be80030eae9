package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the processor time of a process since its start. /proc counts in ticks of 10 ms, which is too coarse for a
// measurement of half a second. The clock of a process has nanoseconds; the process ID makes its number, see
// clock_getcpuclockid(3).
func processorTime(pid int) (time.Duration, error) {
	const schedulerClock = 2 // CPUCLOCK_SCHED
	var now unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|schedulerClock), &now)
	return time.Duration(now.Nano()), err
}
