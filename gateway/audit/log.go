package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
)

const (
	// writeBound is how long the writing of a line may take before the log counts as one that
	// cannot be written.
	writeBound = time.Second
	// closeBound is how long [Log.Close] waits for a file that does not accept what is left.
	closeBound = 5 * time.Second
	// maxQueue bounds the lines that wait to be written, in bytes. The writer may have as many in
	// its hands.
	maxQueue = 8 << 20
	// maxRefused is how full the queue may be for lines about requests that were given nothing: the
	// rest is for those that are.
	maxRefused = maxQueue / 2
	// maxSpare bounds the memory that is kept for later lines, in bytes.
	maxSpare = 1 << 20
)

// ErrNotWritten means that a line is not in the log.
var ErrNotWritten = errors.New("the audit log cannot be written")

// Log is an audit log. Make it with [Open].
type Log struct {
	out      output
	required bool
	logger   *slog.Logger
	// strangers bounds what callers without a credential have written.
	strangers *strangers

	// written and lost count lines.
	written, lost atomic.Uint64
	// failing is why the file cannot be written, nil while it can. It changes under mu only.
	failing atomic.Pointer[failure]

	// wake is signalled when the first line of a batch comes, full when there are enough for a
	// write, urgent when the file is to be opened again or the log to be closed.
	wake, full, urgent chan struct{}
	// done is closed when the writer has ended.
	done chan struct{}

	mu    sync.Mutex // guards what follows, and the fields of batches that say so
	queue *batch     // what the writer has not dequeued yet
	spare []byte     // the memory of lines that are written
	// gap and late are lines since the last line of the event "gap": those that are lost, and those
	// that were written after their response had been replaced.
	gap, late      uint64
	reopen, closed bool
}

// failure is why the log cannot be written.
type failure struct{ err error }

// batch is lines that are written together.
type batch struct {
	lines []byte
	count uint64
	// gap and late are those of the log when the writer took the batch.
	gap, late uint64
	// expiry ends the wait for the batch.
	expiry *time.Timer
	// settled is closed when it is known whether the lines are written, and err says why not.
	// Guarded by Log.mu until then.
	settled   chan struct{}
	isSettled bool
	err       error
}

// Open opens the log of an audit block, nil for nil, and starts its writer, which [Log.Close] ends.
func Open(cfg *config.Audit, logger *slog.Logger) (*Log, error) {
	if cfg == nil {
		return nil, nil
	}
	out, err := openFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	return start(out, cfg.Required, logger), nil
}

// start returns a log that writes to an output.
func start(out output, required bool, logger *slog.Logger) *Log {
	l := &Log{
		out: out, required: required, logger: logger, strangers: newStrangers(), queue: &batch{},
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	go l.run()
	return l
}

// Write appends a line to the log, and keeps nothing of it. Where the log is required, the error is
// [ErrNotWritten]; elsewhere there is none. Of refusals that anybody can cause, a bounded number is
// written, and how many others there were.
func (l *Log) Write(line *Line) error {
	if l == nil || line.isStrangers() && !l.strangers.admit(line, l.countStrangers) {
		return nil
	}
	return l.append(line)
}

// countStrangers writes how many refusals were not written one by one.
func (l *Log) countStrangers() {
	if n := l.strangers.drain(); n > 0 {
		// The log counts what it loses.
		_ = l.append(&Line{Time: time.Now(), Event: Refusals, Count: n, Outcome: Refused})
	}
}

// append hands a line to the writer and waits for it where the log is required.
func (l *Log) append(line *Line) error {
	b := l.enqueue(line.encode(), line.most())
	if !l.required {
		return nil
	}
	if b == nil {
		return ErrNotWritten
	}
	<-b.settled
	return b.err
}

// enqueue hands a line to the writer, unless so many bytes wait, and returns the batch that it is
// written with, nil if the line is lost.
func (l *Log) enqueue(line []byte, most int) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused := l.required && l.failing.Load() != nil
	if l.closed || refused || len(l.queue.lines)+len(line) > most {
		l.loseLocked(1)
		return nil
	}
	b := l.queue
	if b.count == 0 {
		// One time for the whole batch, counted from its first line: that one has waited longest.
		b.settled = make(chan struct{})
		b.expiry = time.AfterFunc(writeBound, func() { l.expire(b) })
		signal(l.wake)
	}
	before := len(b.lines)
	b.lines, b.count = append(b.lines, line...), b.count+1
	if before < gatherBytes && len(b.lines) >= gatherBytes {
		signal(l.full)
	}
	return b
}

// loseLocked counts lines that are not going to be written.
func (l *Log) loseLocked(n uint64) {
	l.gap += n
	l.lost.Add(n)
}

// signal marks that there is something to do. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Refuses reports whether a request must be refused because its line could not be written.
func (l *Log) Refuses() bool { return l != nil && l.required && l.failing.Load() != nil }

// State is the condition of a log.
type State struct {
	// Written and Lost count lines since the start.
	Written, Lost uint64
	// Problem is why the log cannot be written at the moment, nil while it can.
	Problem error
}

// State returns the log's condition; the zero value for a nil log.
func (l *Log) State() State {
	if l == nil {
		return State{}
	}
	s := State{Written: l.written.Load(), Lost: l.lost.Load()}
	if f := l.failing.Load(); f != nil {
		s.Problem = f.err
	}
	return s
}

// Reopen has the file opened again by its path, for whoever has renamed it. Lines that are written
// after this call are in the new file. It does not wait.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.reopen = true
	l.mu.Unlock()
	signal(l.urgent)
}

// Close writes what is left, within five seconds, and closes the file. Lines that come later are
// lost.
func (l *Log) Close() {
	if l == nil {
		return
	}
	// First, since a closed log accepts no line, this one included.
	l.countStrangers()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	signal(l.urgent)
	select {
	case <-l.done:
	case <-time.After(closeBound):
		l.logger.ErrorContext(context.Background(),
			"audit log closed during a write that hangs: its lines may be lost")
	}
	l.mu.Lock()
	// The writer puts what it could not write back into the queue, and has ended.
	l.loseLocked(l.queue.count)
	l.queue = &batch{}
	gap := l.gap
	l.mu.Unlock()
	if gap > 0 {
		l.logger.ErrorContext(context.Background(), "audit lines lost at the end", slog.Uint64("lost", gap))
	}
}
