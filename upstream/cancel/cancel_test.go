package cancel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/promptweir/promptweir/upstream/cancel"
)

type key struct{}

// begin returns a context that ends with its parent, at the latest after the test.
func begin(t *testing.T, parent context.Context) *cancel.Context { //nolint:revive // the parent is what it is about
	t.Helper()
	c := new(cancel.Context)
	c.Begin(parent)
	t.Cleanup(func() { c.End(context.Canceled) })
	return c
}

// beneath are the ways in which a context can be beneath another.
var beneath = map[string]func(*testing.T, context.Context) context.Context{ //nolint:gochecknoglobals // a constant table
	"of this package": func(t *testing.T, c context.Context) context.Context { return begin(t, c) },
	"of this package with a value between": func(t *testing.T, c context.Context) context.Context {
		return begin(t, context.WithValue(c, key{}, "value"))
	},
	"of package context": func(t *testing.T, c context.Context) context.Context {
		child, end := context.WithCancelCause(c)
		t.Cleanup(func() { end(nil) })
		return child
	},
}

func TestContext_EndsThoseBeneathForItsReason(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	for name, beneath := range beneath {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, t.Context())
			early, middle, late := beneath(t, c), beneath(t, c), new(cancel.Context)
			if early.Err() != nil || context.Cause(early) != nil {
				t.Fatalf("at the beginning: %v, %v", early.Err(), context.Cause(early))
			}
			done := early.Done()
			c.End(why)
			c.End(errors.New("more than enough"))
			for _, child := range []context.Context{c, early, middle} {
				if err, cause := child.Err(), context.Cause(child); !errors.Is(err, why) || !errors.Is(cause, why) {
					t.Errorf("%T: %v, %v, want %v", child, err, cause, why)
				}
				<-child.Done()
			}
			<-done
			late.Begin(c)
			<-late.Done()
			if !errors.Is(late.Err(), why) {
				t.Errorf("one that is late: %v, want %v", late.Err(), why)
			}
		})
	}
}

func TestContext_EndsWithItsParentAndNotWithItsChildren(t *testing.T) {
	t.Parallel()
	for name, beneath := range beneath {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "parent's"))
				c := begin(t, parent)
				child := beneath(t, c)
				sibling, leave := context.WithCancel(c)
				leave()
				begin(t, c).End(errors.New("one of several"))
				if c.Err() != nil || child.Err() != nil || sibling.Err() == nil {
					t.Fatalf("%v, %v, %v", c.Err(), child.Err(), sibling.Err())
				}
				end()
				synctest.Wait()
				if !errors.Is(c.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
					t.Errorf("%v, %v, want %v", c.Err(), child.Err(), context.Canceled)
				}
				if c.Value(key{}) != "parent's" {
					t.Errorf("value = %v", c.Value(key{}))
				}
			})
		})
	}
}

func TestContext_CallsNobodyWhoHasStopped(t *testing.T) {
	t.Parallel()
	c := begin(t, t.Context())
	var called []string
	note := func(name string) func() bool { return c.AfterFunc(func() { called = append(called, name) }) }
	first, second, third := note("first"), note("second"), note("third")
	if !first() || first() || !third() {
		t.Error("what was not called yet could not be stopped, or twice")
	}
	c.End(context.Canceled)
	if second() || len(called) != 1 || called[0] != "second" {
		t.Errorf("called = %q", called)
	}
}

func TestContext_IsNotTheParentOfWhatOnlySharesItsValues(t *testing.T) {
	t.Parallel()
	c := begin(t, t.Context())
	detached, end := context.WithCancel(context.WithoutCancel(c))
	child := begin(t, detached)
	c.End(context.Canceled)
	if child.Err() != nil {
		t.Fatal("it ended with a context that it is detached from")
	}
	end()
	<-child.Done()
}

// What is done for a client that has gone is not begun.
func TestContext_HasEndedOnceItBeginsBeneathOneThatHas(t *testing.T) {
	t.Parallel()
	gone, end := context.WithCancel(t.Context())
	end()
	ended := begin(t, t.Context())
	ended.End(context.DeadlineExceeded)
	for _, parent := range []context.Context{gone, ended} {
		c := begin(t, parent)
		select {
		case <-c.Done():
		default:
			t.Errorf("beneath %T: not done", parent)
		}
		if !errors.Is(c.Err(), parent.Err()) {
			t.Errorf("beneath %T: %v, want %v", parent, c.Err(), parent.Err())
		}
	}
}

// countingParent counts the children that would be told of its end.
type countingParent struct {
	context.Context
	children int
}

func (p *countingParent) AfterFunc(func()) (stop func() bool) {
	p.children++
	return func() bool { p.children--; return true }
}

func TestContext_LeavesItsParentWhenItEnds(t *testing.T) {
	t.Parallel()
	parent := &countingParent{Context: t.Context()}
	c := begin(t, parent)
	if parent.children != 1 {
		t.Fatalf("%d children, want 1", parent.children)
	}
	if c.End(context.Canceled); parent.children != 0 {
		t.Errorf("%d children, want none", parent.children)
	}
}

func TestContext_KeepsWhatItWasEndedForFirst(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	parent, end := context.WithCancelCause(t.Context())
	early, late := begin(t, parent), begin(t, parent)
	child, stop := context.WithCancel(early)
	defer stop()
	early.End(first)
	end(second)
	late.End(first)
	for _, ctx := range []context.Context{early, context.WithValue(early, key{}, "value"), child} {
		if got := cancel.Cause(ctx); !errors.Is(got, first) {
			t.Errorf("%T: %v, want %v: its parent ended later", ctx, got, first)
		}
	}
	if got := cancel.Cause(late); !errors.Is(got, second) || !errors.Is(late.Err(), context.Canceled) {
		t.Errorf("%v, %v, want %v, %v: its parent had ended", got, late.Err(), second, context.Canceled)
	}
	for _, open := range []context.Context{t.Context(), begin(t, t.Context())} {
		if got := cancel.Cause(open); got != nil {
			t.Errorf("%T: %v, want nothing: it has not ended", open, got)
		}
	}
}

// A session that a call has opened lives longer than the call.
func TestCause_IsNotThatOfWhatAContextIsDetachedFrom(t *testing.T) {
	t.Parallel()
	call, why := begin(t, t.Context()), errors.New("why")
	session, end := context.WithCancelCause(context.WithoutCancel(call))
	call.End(context.DeadlineExceeded)
	if got := cancel.Cause(session); got != nil {
		t.Errorf("%v, want nothing: it has not ended", got)
	}
	end(why)
	if got := cancel.Cause(session); !errors.Is(got, why) {
		t.Errorf("%v, want %v", got, why)
	}
}

// Package context tells what a context has ended with from why: a credential that expires is no deadline of a call.
func TestContext_EndsWithTheErrorOfItsParentAndForItsCause(t *testing.T) {
	t.Parallel()
	for name, beneath := range beneath {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent, end := context.WithCancelCause(t.Context())
			c := begin(t, parent)
			child := beneath(t, c)
			end(context.DeadlineExceeded)
			for _, ctx := range []context.Context{c, child} {
				<-ctx.Done()
				if err, cause := ctx.Err(), context.Cause(ctx); !errors.Is(err, context.Canceled) || !errors.Is(cause, context.DeadlineExceeded) {
					t.Errorf("%T: %v, %v, want %v, %v", ctx, err, cause, context.Canceled, context.DeadlineExceeded)
				}
			}
		})
	}
}

func TestContext_AllocatesNothingButItself(t *testing.T) { // not parallel: it counts allocations
	parent := begin(t, t.Context())
	for name, ctx := range map[string]context.Context{
		"beneath one": parent, "with a value between": context.WithValue(parent, key{}, "value"),
	} {
		allocations := testing.AllocsPerRun(100, func() {
			child := new(cancel.Context)
			child.Begin(ctx)
			child.End(context.Canceled)
		})
		if allocations > 1 {
			t.Errorf("%s: %v allocations, want one", name, allocations)
		}
	}
}
