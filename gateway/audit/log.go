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
	// writeBound bounds the time that a request waits until its line is written, if the log is
	// required.
	writeBound = time.Second
	// retryInterval is the wait after a failed write.
	retryInterval = 100 * time.Millisecond
	// batchTime is the time that the writer waits for more lines, if the log is not required. A
	// wake-up and a write per line would cost more CPU than encoding the line.
	batchTime = 10 * time.Millisecond
	// maxBatch is the size of a batch, in bytes, after which no line is added.
	maxBatch = 64 << 10
	// closeBound bounds the time that [Log.Close] waits for the queue to be written.
	closeBound = 5 * time.Second
	// maxQueued bounds the lines in the queue, and maxQueuedBytes their size.
	maxQueued      = 1 << 14
	maxQueuedBytes = 8 << 20
)

// ErrNotWritten is the error of [Log.Write] if the log is required and a line was not
// written: in time, or because the queue is full or the last write failed.
var ErrNotWritten = errors.New("the audit log cannot be written")

var (
	errSlow = errors.New("the write takes longer than " + writeBound.String())
	errFull = errors.New("too many lines wait")
)

// Log is an audit log. Make it with [Open].
type Log struct {
	out      output
	required bool
	logger   *slog.Logger // limited in rate: each request may log the same error
	started  time.Time

	queue       chan queuedLine
	queuedBytes atomic.Int64
	reopen      chan struct{} // asks the writer to open the file again
	closing     chan struct{} // closed to close the log
	close       func()        // closes closing, once
	done        chan struct{} // closed when the writer has ended

	batch batch // only the writer uses it

	written, lost atomic.Uint64 // lines
	// failure is the error of the last write, or nil if that write succeeded. Only the writer sets it.
	failure atomic.Pointer[error]
	// writing is the time from started to the beginning of the current write, or 0 if no write is in
	// progress. Only the writer sets it.
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
	// written is closed when the line has been written. It is nil if the log is not required.
	written chan struct{}
}

// Open opens the log of an audit block and starts its writer. Close the log to end the writer. For a
// nil block, Open returns a nil log.
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

// start returns a log that writes to an output, and starts its writer.
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

// Write appends a line to the log. It keeps no reference to the line. If the log is required, Write
// waits until the line has been written, and returns [ErrNotWritten] after a second. Otherwise it
// returns nil immediately.
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
	case <-timer.C: // the line stays in the queue: it may still be written
		l.logger.ErrorContext(context.Background(), "audit log not written",
			slog.Any("error", errSlow), slog.Bool("required", true))
		return ErrNotWritten
	}
}

// enqueue adds a line to the queue. It returns false if the queue is full or the log is closed.
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

// run is the writer: it writes the queue until the log is closed, and then the lines that are still
// queued.
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
	end     int           // offset in batch.json
	written chan struct{} // see queuedLine
}

// collect returns a batch that contains the given line and queued lines, up to maxBatch. It reuses the
// memory of the previous batch.
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

// write writes a batch. It repeats a failed write until it succeeds or the log is closed.
func (l *Log) write(b batch) {
	defer clear(b.lines)
	for begin, done := 0, 0; ; {
		select {
		case <-l.reopen: // before each write: lines after Reopen belong in the new file
			if l.openAgain() { // repeat a partial line: the new file must begin with a whole line
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
		begin += n // the next attempt continues after the written bytes
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

// attempt writes once. During the write, l.writing contains the time at which it began.
func (l *Log) attempt(rest []byte) (int, error) {
	l.writing.Store(max(1, int64(time.Since(l.started))))
	defer l.writing.Store(0)
	return l.out.Write(rest)
}

// openAgain opens the file again. If that fails, the log keeps the old file.
func (l *Log) openAgain() (ok bool) {
	if err := l.out.reopen(); err != nil {
		l.logger.ErrorContext(context.Background(),
			"audit log not opened again, the old file stays in use", slog.Any("error", err))
		return false
	}
	l.logger.Info("audit log opened again")
	return true
}

// problem returns the error if writes fail or hang, or nil if they succeed.
func (l *Log) problem() error {
	if began := l.writing.Load(); began != 0 && time.Since(l.started)-time.Duration(began) >= writeBound {
		return errSlow
	}
	if failure := l.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// Refuses reports whether requests must be refused: the log is required, and writes fail or hang.
func (l *Log) Refuses() bool { return l != nil && l.required && l.problem() != nil }

// State is the condition of a log.
type State struct {
	// Written and Lost count lines since the log was opened.
	Written, Lost uint64
	// Problem is the error if writes fail or hang, or nil if they succeed.
	Problem error
}

// State returns the log's condition. It is the zero value for a nil log.
func (l *Log) State() State {
	if l == nil {
		return State{}
	}
	return State{Written: l.written.Load(), Lost: l.lost.Load(), Problem: l.problem()}
}

// Reopen makes the writer open the path again, after a rotation has renamed the file. Lines of later
// calls of Write are in the new file. Reopen does not wait.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	select {
	case l.reopen <- struct{}{}:
	default: // the writer has not yet handled an earlier call
	}
}

// Close waits until the queue has been written, at most five seconds, and closes the file. Later lines
// are lost.
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
		l.logger.ErrorContext(context.Background(), "audit lines lost at the end", slog.Uint64("lost", lost))
	}
}
