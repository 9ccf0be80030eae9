package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/loglimit"
)

const (
	// writeBound is how long a request waits for its line where the log is required.
	writeBound = time.Second
	// retryInterval is the time between two attempts while the file cannot be written.
	retryInterval = 100 * time.Millisecond
	// closeBound is how long [Log.Close] waits for a file that does not accept what is left.
	closeBound = 5 * time.Second
	// maxQueued and maxQueuedBytes bound the lines that wait to be written.
	maxQueued      = 1 << 14
	maxQueuedBytes = 8 << 20
)

// ErrNotWritten means that a required line is not in the log.
var ErrNotWritten = errors.New("the audit log cannot be written")

var (
	// errSlow is the problem of a log while a write does not return.
	errSlow = errors.New("the write takes longer than " + writeBound.String())
	errFull = errors.New("too many lines wait")
)

// Log is an audit log. Make it with [Open].
type Log struct {
	out      output
	required bool
	logger   *slog.Logger // limited in rate: each request can fail for the same reason
	started  time.Time

	queue       chan queuedLine
	queuedBytes atomic.Int64
	reopen      chan struct{} // receives a value when the file is to be opened again
	closing     chan struct{} // is closed when the log is to be closed
	close       func()
	done        chan struct{} // is closed when the writer has ended

	written, lost atomic.Uint64
	// The writer alone sets both: failure is the error of its last attempt, nil after a success;
	// writing is when the write in progress began, as a time since started, 0 without one.
	failure atomic.Pointer[error]
	writing atomic.Int64
}

// output is where lines go. Only the writer uses it.
type output interface {
	Write(line []byte) (int, error)
	reopen() error
	Close() error
}

// queuedLine is a line that waits to be written.
type queuedLine struct {
	json []byte
	// written is closed when the line is written; nil if nobody waits for that.
	written chan struct{}
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
		out: out, required: required, logger: loglimit.New(logger, 1), started: time.Now(),
		queue:  make(chan queuedLine, maxQueued),
		reopen: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	l.close = sync.OnceFunc(func() { close(l.closing) })
	go l.run()
	return l
}

// Write appends a line to the log, and keeps nothing of it. Where the log is required, it returns
// when the line is written, or [ErrNotWritten] after a second at most; otherwise at once, without an
// error.
func (l *Log) Write(line *Line) error {
	if l == nil {
		return nil
	}
	queued := queuedLine{json: line.encode()}
	if l.required {
		queued.written = make(chan struct{})
	}
	switch {
	case l.Refuses():
		l.lost.Add(1)
		return ErrNotWritten
	case !l.enqueue(queued):
		l.lost.Add(1)
		l.logger.ErrorContext(context.Background(), "audit line lost",
			slog.Any("error", errors.Join(errFull, l.problem())))
		if l.required {
			return ErrNotWritten
		}
		return nil
	case !l.required:
		return nil
	}
	timer := time.NewTimer(writeBound)
	defer timer.Stop()
	select {
	case <-queued.written:
		return nil
	case <-timer.C: // the line stays in the queue: it is written late, or lost at the end
		l.logger.ErrorContext(context.Background(), "audit log not written",
			slog.Any("error", errSlow), slog.Bool("required", true))
		return ErrNotWritten
	}
}

// enqueue hands a line to the writer, unless the queue is full or the log closed.
func (l *Log) enqueue(line queuedLine) bool {
	select {
	case <-l.closing:
		return false
	default:
	}
	size := int64(len(line.json))
	if l.queuedBytes.Add(size) <= maxQueuedBytes {
		select {
		case l.queue <- line:
			return true
		default:
		}
	}
	l.queuedBytes.Add(-size)
	return false
}

// run is the writer: it writes what is queued until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	defer l.out.Close()
	for {
		select {
		case <-l.reopen:
			l.openAgain()
		case line := <-l.queue:
			l.write(line)
		case <-l.closing:
			for {
				select {
				case line := <-l.queue:
					l.write(line)
				default:
					return
				}
			}
		}
	}
}

// write writes a line, and repeats that until it succeeds or the log is closed.
func (l *Log) write(line queuedLine) {
	l.queuedBytes.Add(-int64(len(line.json)))
	for rest := line.json; ; {
		select {
		case <-l.reopen: // before the line: those after Reopen belong into the new file
			if l.openAgain() {
				rest = line.json
			}
		default:
		}
		n, err := l.attempt(rest)
		if err == nil {
			break
		}
		rest = rest[n:] // the next attempt completes the line
		if l.failure.Swap(&err) == nil {
			l.logger.ErrorContext(context.Background(), "audit log not written",
				slog.Any("error", err), slog.Bool("required", l.required))
		}
		select {
		case <-time.After(retryInterval):
		case <-l.closing:
			l.lost.Add(1)
			return
		}
	}
	l.written.Add(1)
	if l.failure.Swap(nil) != nil {
		l.logger.Info("audit log written again", slog.Uint64("lost", l.lost.Load()))
	}
	if line.written != nil {
		close(line.written)
	}
}

// attempt writes once, and notes for how long that has been going on.
func (l *Log) attempt(rest []byte) (int, error) {
	l.writing.Store(max(1, int64(time.Since(l.started))))
	defer l.writing.Store(0)
	return l.out.Write(rest)
}

// openAgain opens the file again. If that fails, the log goes on with the one that it has.
func (l *Log) openAgain() (ok bool) {
	if err := l.out.reopen(); err != nil {
		l.logger.ErrorContext(context.Background(),
			"audit log not opened again, the old file stays in use", slog.Any("error", err))
		return false
	}
	l.logger.Info("audit log opened again")
	return true
}

// problem returns why the log cannot be written at the moment, nil while it can.
func (l *Log) problem() error {
	if began := l.writing.Load(); began != 0 && time.Since(l.started)-time.Duration(began) >= writeBound {
		return errSlow
	}
	if failure := l.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// Refuses reports whether a request must be refused because its line could not be written.
func (l *Log) Refuses() bool { return l != nil && l.required && l.problem() != nil }

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
	return State{Written: l.written.Load(), Lost: l.lost.Load(), Problem: l.problem()}
}

// Reopen has the file opened again by its path after it was renamed. Lines that are written after
// this call are in the new file. It does not wait.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	select {
	case l.reopen <- struct{}{}:
	default: // it will be opened already
	}
}

// Close writes what is left, within five seconds, and closes the file. Later lines are lost.
func (l *Log) Close() {
	if l == nil {
		return
	}
	before := l.lost.Load()
	l.close()
	select {
	case <-l.done:
	case <-time.After(closeBound):
		l.logger.ErrorContext(context.Background(),
			"audit log closed during a write that hangs: its lines may be lost")
	}
	if lost := l.lost.Load() - before; lost > 0 {
		l.logger.ErrorContext(context.Background(), "audit lines lost at the end",
			slog.Uint64("lost", lost))
	}
}
