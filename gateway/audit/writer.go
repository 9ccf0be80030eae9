package audit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// gatherFor is how long lines are gathered before they are written together, where nobody waits
	// for them, and gatherBytes how many bytes of them: what is written at once stays in the
	// processor's caches, and its memory serves the lines after the next.
	gatherFor   = 10 * time.Millisecond
	gatherBytes = 64 << 10
	// retryPause is the time between two attempts while the file cannot be written.
	retryPause = time.Second
)

// errSlow is why a log counts as one that cannot be written while a write does not return.
var errSlow = errors.New("the write takes longer than " + writeBound.String())

// output is where lines go. Only the writer uses it.
type output interface {
	Write(lines []byte) (int, error)
	// cut takes the last bytes off again that were written, if that is possible.
	cut(n int) bool
	reopen() error
	Close() error
}

// run is the writer: it writes what is queued until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	defer l.out.Close()
	failed := false
	for {
		l.await(failed)
		b, reopen, closed := l.dequeue()
		if reopen {
			l.openAgain()
		}
		failed = !l.write(b)
		if closed {
			return
		}
	}
}

// await waits until it is time to write.
func (l *Log) await(failed bool) {
	if failed { // whatever comes meanwhile
		select {
		case <-time.After(retryPause):
		case <-l.urgent:
		}
		return
	}
	select {
	case <-l.wake:
	case <-l.urgent:
		return
	}
	// A request waits for each line, so that nothing is gathered. What comes during a write shares
	// the next one.
	if l.required {
		return
	}
	select {
	case <-time.After(gatherFor):
	case <-l.full:
	case <-l.urgent:
	}
}

// dequeue returns what is queued and empties the queue.
func (l *Log) dequeue() (b *batch, reopen, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, reopen = l.queue, l.reopen
	b.gap, b.late = l.gap, l.late
	l.queue, l.reopen, l.spare = &batch{lines: l.spare}, false, nil
	return b, reopen, l.closed
}

// openAgain opens the file again. If that fails, the log goes on with the one that it has.
func (l *Log) openAgain() {
	if err := l.out.reopen(); err != nil {
		l.logger.ErrorContext(context.Background(),
			"audit log not opened again, the old file stays in use", slog.Any("error", err))
		return
	}
	l.logger.Info("audit log opened again")
}

// write writes a batch, and how many lines were lost before it. It reports whether the file could
// be written.
func (l *Log) write(b *batch) (ok bool) {
	if b.count > 0 {
		// Before the gap, for which no request waits.
		if n, err := l.out.Write(b.lines); err != nil {
			l.fail(b, n, err)
			return false
		}
		l.succeed(b)
	}
	if err := l.writeGap(b.gap, b.late); err != nil {
		l.fail(&batch{}, 0, err)
		return false
	}
	l.recovered()
	return true
}

// succeed settles a batch that is written.
func (l *Log) succeed(b *batch) {
	l.written.Add(b.count)
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.isSettled && b.err != nil {
		l.late += b.count
	}
	l.settleLocked(b, nil)
	if cap(b.lines) <= maxSpare {
		l.spare = b.lines[:0]
	}
}

// fail settles a batch of which only the first bytes were written, or keeps what is left of it for
// later.
func (l *Log) fail(b *batch, n int, err error) {
	whole := bytes.LastIndexByte(b.lines[:n], '\n') + 1
	if l.required {
		whole = 0 // nobody has been given what these lines say
	}
	// Whole lines that stay in the file are written, whatever their requests were told.
	if cut := l.out.cut(n - whole); !cut && l.required {
		whole = bytes.LastIndexByte(b.lines[:n], '\n') + 1
	}
	kept := uint64(bytes.Count(b.lines[:whole], []byte{'\n'}))
	l.written.Add(kept)
	l.mu.Lock()
	// The swap happens here and now, before anybody is told of the failure; only the logging is
	// deferred, until the lock is released.
	defer l.logFailure(l.failing.Swap(&failure{err}), err)
	defer l.mu.Unlock()
	if l.required {
		l.late += kept
		l.loseLocked(b.count - kept)
		l.settleLocked(b, ErrNotWritten)
		l.dropQueueLocked()
		return
	}
	l.settleLocked(b, nil)
	if kept == b.count {
		return
	}
	rest := &batch{
		lines: append(b.lines[whole:], l.queue.lines...), count: b.count - kept + l.queue.count,
		// Nobody waits for it, and without a timer only its writing settles it. It needs no wake:
		// after a failure, the writer comes back by itself.
		settled: make(chan struct{}),
	}
	l.settleLocked(l.queue, nil)
	l.queue = rest
}

// writeGap writes a line about those that are missing, if there are any.
func (l *Log) writeGap(gap, late uint64) error {
	if gap+late == 0 {
		return nil
	}
	line := encodeGap(time.Now(), gap, late)
	if n, err := l.out.Write(line); err != nil {
		l.out.cut(n)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gap, l.late = l.gap-gap, l.late-late
	return nil
}

// recovered notes that the file can be written.
func (l *Log) recovered() {
	l.mu.Lock()
	before := l.failing.Swap(nil)
	if l.gap+l.late > 0 { // since the batch was dequeued
		signal(l.wake)
	}
	l.mu.Unlock()
	if before != nil {
		l.logger.Info("audit log written again", slog.Uint64("lost", l.lost.Load()))
	}
}

// logFailure logs why the file cannot be written, unless it could not be written before.
func (l *Log) logFailure(before *failure, err error) {
	if before == nil {
		l.logger.ErrorContext(context.Background(), "audit log not written", slog.Any("error", err),
			slog.Bool("required", l.required))
	}
}

// expire ends the wait for a batch that is not written in time.
func (l *Log) expire(b *batch) {
	l.mu.Lock()
	if b.isSettled {
		l.mu.Unlock()
		return
	}
	// Under the lock, or it could outlast the end of the write; and before anybody is told, whose
	// next request must be refused.
	before := l.failing.Swap(&failure{errSlow})
	if l.required {
		if b != l.queue { // the writer has it
			l.settleLocked(b, ErrNotWritten)
		}
		l.dropQueueLocked()
	}
	l.mu.Unlock()
	l.logFailure(before, errSlow)
}

// dropQueueLocked loses what is queued.
func (l *Log) dropQueueLocked() {
	b := l.queue
	l.loseLocked(b.count)
	l.settleLocked(b, ErrNotWritten)
	l.queue = &batch{}
}

// settleLocked tells whoever waits for a batch what became of it. Calling it again does nothing.
func (l *Log) settleLocked(b *batch, err error) {
	if b.count == 0 || b.isSettled {
		return
	}
	if b.expiry != nil {
		b.expiry.Stop()
	}
	b.isSettled, b.err = true, err
	close(b.settled)
}
