// Package cancel has a context that can be cancelled and is part of what it belongs to: a call, with its deadline, or a request that its
// client can cancel.
//
// Package context makes a map in each context that has a child, and a channel and closures for each child. A [Context] makes nothing until
// it is asked for it. Without package cancel, a get of 0.3 KB takes 5 % more CPU time, and up to 400 bytes more: 40 pairs of both builds, ratio
// 0.947 with a 95 % confidence interval of 0.914 to 1.003 in 2025-11-25, and 0.959 (0.919 to 1.006) in 2026-07-28.
package cancel

import (
	"context"
	"sync"
	"time"
)

// Context is a context that ends with its parent, or when [Context.End] is called. It is used from [Context.Begin] on, and
// not copied. Its methods are safe for concurrent use.
type Context struct {
	parent context.Context

	mu   sync.Mutex // guards what follows
	err  error
	done chan struct{} // nil until somebody asks for it
	// first and more, by number, are called at the end. Most contexts have one beneath.
	first func()
	more  map[int]func()
	n     int
	// leave takes the context from its parent.
	leave func() bool
}

// self finds the innermost Context among a context and its parents.
type self struct{}

// ended is the done of whoever was not asked for it before the end.
var ended = func() chan struct{} { //nolint:gochecknoglobals // a constant
	c := make(chan struct{})
	close(c)
	return c
}()

// Begin makes the context a child. If its parent has ended, so has the context when Begin returns. End is to be called, or else its parent
// keeps it.
func (c *Context) Begin(parent context.Context) {
	c.mu.Lock()
	c.parent = parent
	c.leave = after(parent, c.follow)
	c.mu.Unlock()
	_ = c.Err()
}

// after lets f be called after a context has ended: by its own method, where it has that or is only another's values.
func after(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return c.AfterFunc(f)
	}
	if c, ok := ctx.Value(self{}).(*Context); ok && c.Done() == ctx.Done() {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// follow ends the context with its parent.
func (c *Context) follow() { c.End(c.parent.Err()) }

// End ends the context with the error, which is the cause as well. What was first counts: an earlier call, or the end of the parent.
func (c *Context) End(err error) {
	if before := c.parent.Err(); before != nil {
		err = before
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done == nil {
		c.done = ended
	} else {
		close(c.done)
	}
	first, more, leave := c.first, c.more, c.leave
	c.first, c.more = nil, nil
	c.mu.Unlock()
	if first != nil {
		first()
	}
	for _, f := range more {
		f()
	}
	leave()
}

// AfterFunc is how package context attaches the contexts beneath: f must not block. It is called by whoever ends the context,
// so that those beneath have ended with it; in a goroutine of its own, as there, where that was before.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	n := c.n
	c.n++
	if n == 0 {
		c.first = f
	} else {
		if c.more == nil {
			c.more = map[int]func(){}
		}
		c.more[n] = f
	}
	return func() bool { return c.forget(n) }
}

// forget reports whether what was to be called was not yet, and now will not be.
func (c *Context) forget(n int) (there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 {
		there, c.first = c.first != nil, nil
		return there
	}
	_, there = c.more[n]
	delete(c.more, n)
	return there
}

// Deadline implements [context.Context]: it is the parent's.
func (c *Context) Deadline() (deadline time.Time, ok bool) { return c.parent.Deadline() }

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

// Err implements [context.Context]. A parent of package context tells only later that it has ended.
func (c *Context) Err() error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err == nil {
		if err = c.parent.Err(); err != nil {
			c.follow()
		}
	}
	return err
}

// Cause is [context.Cause] of a context that may be beneath a [Context]. Without it, the cause of a parent that ended later would hide the
// one that a Context was ended for.
func Cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if c, ok := ctx.Value(self{}).(*Context); ok {
		if err := c.Err(); err != nil && err != context.Canceled { //nolint:errorlint // the value that says nothing more
			return err
		}
	}
	return context.Cause(ctx)
}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	if key == (self{}) {
		return c
	}
	return c.parent.Value(key)
}
