package audit

import (
	"bytes"
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
	// writeBound bounds the wait of a request for its line if the log is required.
	writeBound = time.Second
	// retryInterval is the time between attempts while the file cannot be written.
	retryInterval = 100 * time.Millisecond
	// batchTime is the time in which the writer of a log that is not required collects lines for one
	// write. A write and a wake-up for each line would cost more CPU than making the line.
	batchTime = 2 * time.Millisecond
	// maxBatch is the size in bytes from which a batch gets no more lines.
	maxBatch = 64 << 10
	// closeBound bounds the wait of [Log.Close] for the queue.
	closeBound = 5 * time.Second
	// maxQueued and maxQueuedBytes bound the queue.
	maxQueued      = 1 << 14
	maxQueuedBytes = 8 << 20
)

// ErrNotWritten is the error for a required line that is not in the log.
var ErrNotWritten = errors.New("the audit log cannot be written")

var (
	// errSlow is the problem while a write does not return.
	errSlow = errors.New("the write takes longer than " + writeBound.String())
	errFull = errors.New("too many lines wait")
)

// Log is an audit log. Make it with [Open].
type Log struct {
	out      output
	required bool
	logger   *slog.Logger // limited in rate, because each request may fail for the same reason
	started  time.Time

	queue       chan queuedLine
	queuedBytes atomic.Int64
	reopen      chan struct{} // receives a value to open the file again
	closing     chan struct{} // is closed to close the log
	close       func()
	done        chan struct{} // is closed when the writer has ended

	batch batch // only for the writer

	written, lost atomic.Uint64
	// Only the writer sets both. failure is the error of its last attempt, nil after a success. writing is the
	// beginning of the current write, as a time since started, or 0.
	failure atomic.Pointer[error]
	writing atomic.Int64
}

// output is the destination of lines. Only the writer uses it.
type output interface {
	Write(line []byte) (int, error)
	reopen() error
	Close() error
}

// queuedLine is a line in the queue.
type queuedLine struct {
	json []byte
	// written is closed when the line is written; nil if the log is not required.
	written chan struct{}
}

// Open opens the log of an audit block and starts its writer, which [Log.Close] ends. Without a
// block, it returns nil.
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

// Write appends a line to the log, and keeps no reference to it. If the log is required, it returns
// when the line is written, or [ErrNotWritten] after a second at most. Otherwise it returns
// immediately and without an error.
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
	case <-timer.C: // the line stays in the queue, and may still be written
		l.logger.ErrorContext(context.Background(), "audit log not written",
			slog.Any("error", errSlow), slog.Bool("required", true))
		return ErrNotWritten
	}
}

// enqueue adds a line to the queue, unless the queue is full or the log closed.
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

// run writes the queue until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	defer l.out.Close()
	for {
		select {
		case <-l.reopen:
			l.openAgain()
		case line := <-l.queue:
			if !l.required {
				select {
				case <-time.After(batchTime):
				case <-l.closing:
				}
			}
			l.write(l.collect(line))
		case <-l.closing:
			for {
				select {
				case line := <-l.queue:
					l.write(l.collect(line))
				default:
					return
				}
			}
		}
	}
}

// batch is the text of several lines for one write.
type batch struct {
	json  []byte
	lines []batchedLine
}

type batchedLine struct {
	end     int           // in the text
	written chan struct{} // as in [queuedLine]
}

// collect returns a batch of a line and the lines that are in the queue now. It uses the memory of
// the previous batch.
func (l *Log) collect(line queuedLine) batch {
	b := batch{l.batch.json[:0], l.batch.lines[:0]}
	for waits := true; waits; {
		b.json = append(b.json, line.json...)
		b.lines = append(b.lines, batchedLine{len(b.json), line.written})
		l.queuedBytes.Add(-int64(len(line.json)))
		if len(b.json) >= maxBatch {
			break
		}
		select {
		case line = <-l.queue:
		default:
			waits = false
		}
	}
	l.batch = b
	return b
}

// write writes a batch, and repeats that until it succeeds or the log is closed.
func (l *Log) write(b batch) {
	defer clear(b.lines)
	for begin, done := 0, 0; ; {
		select {
		case <-l.reopen: // check this first: lines after Reopen belong in the new file
			if l.openAgain() { // the new file begins with a whole line
				begin = bytes.LastIndexByte(b.json[:begin], '\n') + 1
			}
		default:
		}
		n, err := l.attempt(b.json[begin:])
		for ; done < len(b.lines) && b.lines[done].end <= begin+n; done++ {
			l.written.Add(1)
			if written := b.lines[done].written; written != nil {
				close(written)
			}
		}
		if err == nil {
			break
		}
		begin += n // the next attempt completes the line
		if l.failure.Swap(&err) == nil {
			l.logger.ErrorContext(context.Background(), "audit log not written",
				slog.Any("error", err), slog.Bool("required", l.required))
		}
		select {
		case <-time.After(retryInterval):
		case <-l.closing:
			l.lost.Add(uint64(len(b.lines) - done))
			return
		}
	}
	if l.failure.Swap(nil) != nil {
		l.logger.Info("audit log written again", slog.Uint64("lost", l.lost.Load()))
	}
}

// attempt writes once, and records the beginning of the write.
func (l *Log) attempt(rest []byte) (int, error) {
	l.writing.Store(max(1, int64(time.Since(l.started))))
	defer l.writing.Store(0)
	return l.out.Write(rest)
}

// openAgain opens the file again. On failure the log keeps the old file.
func (l *Log) openAgain() (ok bool) {
	if err := l.out.reopen(); err != nil {
		l.logger.ErrorContext(context.Background(),
			"audit log not opened again, the old file stays in use", slog.Any("error", err))
		return false
	}
	l.logger.Info("audit log opened again")
	return true
}

// problem returns the reason why the log cannot currently be written, or nil.
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
	// Problem is the reason why the log cannot currently be written, or nil.
	Problem error
}

// State returns the log's condition; the zero value for a nil log.
func (l *Log) State() State {
	if l == nil {
		return State{}
	}
	return State{Written: l.written.Load(), Lost: l.lost.Load(), Problem: l.problem()}
}

// Reopen makes the writer open the file by its path, after it was renamed. Lines written after this
// call are in the new file. It does not wait.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	select {
	case l.reopen <- struct{}{}:
	default: // a request to open is pending
	}
}

// Close writes the queue, within five seconds, and closes the file. Later lines are lost.
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
