// Package cancel provides a context that can be cancelled and embedded: in a call with its
// deadline, or in a request that its client can cancel.
//
// Package context allocates a map for each context that has a child, and a channel and closures for
// each child. A [Context] allocates nothing before it is needed. Measured in 40 pairs of builds, a
// get of 0.3 KB takes 0.947 of the CPU time that it takes without this package (95 % confidence
// interval 0.914–1.003) in 2025-11-25, and 0.959 (0.919–1.006) in 2026-07-28. It allocates up to
// 400 bytes less.
package cancel

import (
	"context"
	"sync"
	"time"
)

// Context is a context that ends with its parent, or when [Context.End] is called. [Context.Begin]
// must be called before any other method. A Context must not be copied. Its methods are safe for
// concurrent use.
type Context struct {
	parent context.Context

	mu   sync.Mutex // guards what follows
	err  error
	done chan struct{} // nil before the first call of Done
	// first and more, by number, follow the context when it ends. Most contexts have one child,
	// which is the first.
	first follower
	more  map[int]follower
	n     int

	// leave detaches the context from its parent or, if that is a [Context], above does, where it
	// has a number: a closure for each request would be an allocation.
	leave  func() bool
	above  *Context
	number int
}

// follower is a child of a context, or a function that is called when it ends.
type follower interface{ follow() }

type function func()

func (f function) follow() { f() }

// self is the key whose value is the innermost [Context] at or above a context.
type self struct{}

// closed is what Done returns if it is first called after the end.
var closed = func() chan struct{} { //nolint:gochecknoglobals // a constant
	c := make(chan struct{})
	close(c)
	return c
}()

// Begin makes the context a child of another. If the parent has ended, so has the context by the
// time Begin returns. [Context.End] must be called in the end, or the parent keeps a reference to
// the context.
func (c *Context) Begin(parent context.Context) {
	c.mu.Lock()
	c.parent = parent
	if c.above = nearest(parent); c.above != nil {
		c.number = c.above.add(c)
	} else {
		c.leave = AfterFunc(parent, c.follow)
	}
	c.mu.Unlock()
	_ = c.Err() // ends it if the parent has ended: follow may not have run yet
}

// nearest returns the Context that another context is, or adds only values to; nil if there is
// none.
func nearest(ctx context.Context) *Context {
	if c, ok := ctx.(interface{ itself() *Context }); ok {
		return c.itself()
	}
	if c, ok := ctx.Value(self{}).(*Context); ok && c.Done() == ctx.Done() {
		return c
	}
	return nil
}

// itself is c for any type that embeds it.
func (c *Context) itself() *Context { return c }

// AfterFunc does what [context.AfterFunc] does, but needs no goroutine to call f where the context
// is a [Context], or one with further values. F must not block.
func AfterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return c.AfterFunc(f)
	}
	if c := nearest(ctx); c != nil {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// follow ends the context with its parent.
func (c *Context) follow() { c.End(c.parent.Err()) }

// End ends the context and its children. The error becomes what Err returns, and the cause, unless
// the context or its parent has ended before.
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
		c.done = closed
	} else {
		close(c.done)
	}
	first, more := c.first, c.more
	c.first, c.more = nil, nil
	c.mu.Unlock()
	if first != nil {
		first.follow()
	}
	for _, f := range more {
		f.follow()
	}
	if c.above != nil {
		c.above.forget(c.number)
	} else {
		c.leave()
	}
}

// AfterFunc arranges for f to be called once the context ends. Stop prevents that, and reports
// whether it did. Package context attaches child contexts by this method, see [context.AfterFunc].
// F must not block: [Context.End] calls it before it returns, so that the children have ended by
// then. If the context has ended already, f is called in a goroutine of its own.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	n := c.add(function(f))
	if n < 0 {
		go f()
	}
	return func() bool { return c.forget(n) }
}

// add adds a follower and returns its number; -1 if the context has ended.
func (c *Context) add(f follower) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return -1
	}
	n := c.n
	c.n++
	if n == 0 {
		c.first = f
	} else {
		if c.more == nil {
			c.more = map[int]follower{}
		}
		c.more[n] = f
	}
	return n
}

// forget removes follower n, and reports whether it had yet to be called.
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

// Err implements [context.Context]. It looks at the parent as well, because a parent of package
// context calls follow only some time after it has ended.
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

// Cause is [context.Cause] for any context. Of a [Context], or one that only adds values to it,
// package context returns the cause of a parent even if that ended later.
func Cause(ctx context.Context) error {
	if c := nearest(ctx); c != nil {
		if err := c.Err(); err != context.Canceled { //nolint:errorlint // the value itself: it says nothing about the cause
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
