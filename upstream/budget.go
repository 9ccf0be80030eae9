package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/cancel"
)

// budget is the time that a call, or one attempt of it, may take, and the context that ends when it is used up, with
// [context.DeadlineExceeded]. It stands still while a person is being asked.
type budget struct {
	cancel.Context

	outer *budget // that of the call which the attempt is part of, or nil

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	// until is when it is used up, while it runs; left is what there still is, while it stands still.
	until  time.Time
	left   time.Duration
	pauses int
}

// budgetKey finds the innermost budget in a context.
type budgetKey struct{}

// newBudget makes a context that lasts for a time at most. Its end is to be called.
func newBudget(ctx context.Context, d time.Duration) *budget {
	outer, _ := ctx.Value(budgetKey{}).(*budget)
	b := &budget{outer: outer, until: time.Now().Add(d)}
	b.Begin(ctx)
	b.timer = time.AfterFunc(d, b.useUp)
	return b
}

func (b *budget) useUp() { b.End(context.DeadlineExceeded) }

func (b *budget) end() {
	b.timer.Stop()
	b.End(context.Canceled)
}

// Value implements [context.Context].
func (b *budget) Value(key any) any {
	if key == (budgetKey{}) {
		return b
	}
	return b.Context.Value(key)
}

// left is how much of a context's budget there still is.
func left(ctx context.Context) time.Duration {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if !ok {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pauses > 0 {
		return b.left
	}
	return time.Until(b.until)
}

// pause lets the budgets of a context stand still until resume is called.
func pause(ctx context.Context) (resume func()) {
	innermost, _ := ctx.Value(budgetKey{}).(*budget)
	for b := innermost; b != nil; b = b.outer {
		b.pause()
	}
	return sync.OnceFunc(func() {
		for b := innermost; b != nil; b = b.outer {
			b.resume()
		}
	})
}

func (b *budget) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pauses++; b.pauses == 1 && b.timer.Stop() {
		b.left = max(time.Until(b.until), 1)
	}
}

func (b *budget) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pauses--; b.pauses == 0 && b.left > 0 { // of one that had been used up before, nothing is
		b.until = time.Now().Add(b.left)
		b.timer.Reset(b.left)
		b.left = 0
	}
}
