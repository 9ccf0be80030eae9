package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// backgroundTimeout is how long a message that nobody waits for may take to be delivered, and replyTimeout how long a
	// client's reply to a server request may.
	backgroundTimeout = 2 * time.Second
	replyTimeout      = 5 * time.Second
	// maxBackground bounds the messages on their way: a server that sends requests and reads no replies loses the replies.
	maxBackground = 64
)

// outbox sends messages in the background, because neither a caller that has left nor the reader of a transport may wait
// for them.
type outbox struct {
	send   func(ctx context.Context, message []byte) error
	logger *slog.Logger
	slots  *semaphore.Weighted
	work   sync.WaitGroup

	mu     sync.Mutex // guards closed
	closed bool
}

func newOutbox(send func(context.Context, []byte) error, logger *slog.Logger) *outbox {
	return &outbox{send: send, logger: logger, slots: semaphore.NewWeighted(maxBackground)}
}

// post sends a message, or drops it if too many are on their way.
func (o *outbox) post(message []byte) {
	if o.slots.TryAcquire(1) {
		o.deliver(message, backgroundTimeout, slog.LevelDebug)
	}
}

// postReply sends a client's reply, once fewer messages are on their way. It gives up when ctx ends.
func (o *outbox) postReply(ctx context.Context, message []byte) {
	if o.slots.Acquire(ctx, 1) == nil {
		o.deliver(message, replyTimeout, slog.LevelWarn)
	}
}

// deliver sends a message for which a slot was acquired, and releases the slot.
func (o *outbox) deliver(message []byte, timeout time.Duration, level slog.Level) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		o.slots.Release(1)
		return
	}
	o.work.Go(func() {
		defer o.slots.Release(1)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := o.send(ctx, message); err != nil {
			o.logger.Log(ctx, level, "message not delivered", slog.Any("error", err))
		}
	})
}

// close drops the messages that are posted from now on.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// wait returns when all messages were sent or their time is over.
func (o *outbox) wait() { o.work.Wait() }
