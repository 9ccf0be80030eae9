package cluster

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// serveCalls has a replica answer "echo", and "long" after seven seconds unless nobody needs that any more, which stopped
// counts. Others count what they hear under "count".
func serveCalls(stopped, counted *atomic.Int32) func(*member) {
	return func(m *member) {
		m.Messages.Handle("echo", func(_ context.Context, read Read) any {
			var message string
			if err := read(&message); err != nil {
				return nil
			}
			return "echo " + message
		})
		m.Messages.Handle("long", func(ctx context.Context, _ Read) any {
			if !sleep(ctx, 7*time.Second) {
				stopped.Add(1)
			}
			return "done"
		})
		m.Messages.Handle("count", func(context.Context, Read) any { counted.Add(1); return nil })
	}
}

// call calls one replica from another, on behalf of ann.
func call(ctx context.Context, from, to *member, topic, message string) (answer string, took time.Duration, err error) {
	began := time.Now()
	err = from.Messages.Call(ctx, to.Messages.Name(), topic, "ann", message, &answer)
	return answer, time.Since(began), err
}

// pieces returns the keys of what is on its way through the store.
func (f *fleet) pieces() (keys []string) {
	for _, key := range f.store.Keys() {
		if strings.HasPrefix(key, "promptweir:piece:") {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestCall_IsAnsweredByTheReplica(t *testing.T) {
	var stopped, counted atomic.Int32
	inBubble(t, 2, serveCalls(&stopped, &counted), func(f *fleet) {
		a, b := f.all[0], f.all[1]
		for _, message := range []string{"", "one", strings.Repeat("large", 1<<15), strings.Repeat("large", 1<<19)} {
			if answer, _, err := call(f.t.Context(), a, b, "echo", message); err != nil || answer != "echo "+message {
				t.Errorf("answer of %d bytes, %v, want the message of %d", len(answer), err, len(message))
			}
		}
		if left := f.pieces(); len(left) > 0 {
			t.Errorf("the store still has %s, want what is read to be gone", left)
		}
		if _, _, err := call(f.t.Context(), a, b, "echo", strings.Repeat("x", 5<<20)); !errors.Is(err, errTooLarge) {
			t.Errorf("a message of 5 MiB: %v, want %v", err, errTooLarge)
		}
		// What b may not send as an answer, it says at once that it does not.
		b.Messages.SetMax(1 << 20)
		wantGone := func(what, name, message string) {
			t.Helper()
			began := time.Now()
			err := a.Messages.Call(f.t.Context(), name, "echo", "ann", message, new(string))
			if took := time.Since(began); !errors.Is(err, ErrGone) || took > 100*time.Millisecond {
				t.Errorf("%s: %v after %v, want %v at once", what, err, took, ErrGone)
			}
		}
		wantGone("an answer that is too large", b.Messages.Name(), strings.Repeat("x", 2<<20))
		for _, to := range []string{"nobody", "", a.Messages.Name()} {
			wantGone("to "+to, to, "")
		}
		// What takes long is waited for as long as the replica works on it, or until nobody needs it.
		if answer, _, err := call(f.t.Context(), a, b, "long", ""); err != nil || answer != "done" {
			t.Errorf("%s, %v, want done", answer, err)
		}
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
		defer cancel()
		_, _, err := call(ctx, a, b, "long", "")
		time.Sleep(time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || stopped.Load() != 1 {
			t.Errorf("%v, stopped %d, want the context's error, and the replica stopped", err, stopped.Load())
		}
		time.AfterFunc(time.Second, b.stop)
		if _, took, err := call(f.t.Context(), a, b, "long", ""); !errors.Is(err, ErrGone) || took > time.Second+goneAfter {
			t.Errorf("a replica that ends: %v after %v, want %v", err, took, ErrGone)
		}
	})
}

func TestCall_WaitsForAReplicaThatIsBusy(t *testing.T) {
	for name, c := range map[string]struct {
		after, silent time.Duration
		want          error
	}{
		"for a moment, at first":    {0, 700 * time.Millisecond, nil},
		"for too long, at first":    {0, 2500 * time.Millisecond, ErrGone},
		"for seconds, at work":      {1500 * time.Millisecond, 3 * time.Second, nil},
		"for too long, while it is": {1500 * time.Millisecond, 6 * time.Second, ErrGone},
	} {
		t.Run(name, func(t *testing.T) {
			var stopped, counted atomic.Int32
			inBubble(t, 2, serveCalls(&stopped, &counted), func(f *fleet) {
				a, b := f.all[0], f.all[1]
				if c.after == 0 {
					b.link.Hang(bubble.Forth, bubble.Back)
				} else {
					time.AfterFunc(c.after, func() { b.link.Hang(bubble.Forth, bubble.Back) })
				}
				time.AfterFunc(c.after+c.silent, b.link.Heal)
				if answer, took, err := call(f.t.Context(), a, b, "long", ""); !errors.Is(err, c.want) {
					t.Errorf("%q, %v after %v, want %v", answer, err, took, c.want)
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// While cursor keys are being replaced, replicas have different first ones.
func TestSetKeys_ListensUnderTheNewOnes(t *testing.T) {
	var stopped, counted atomic.Int32
	inBubble(t, 2, serveCalls(&stopped, &counted), func(f *fleet) {
		a, b := f.all[0], f.all[1]
		old, added, replaced, gone := [32]byte{1}, [][32]byte{{1}, {2}}, [][32]byte{{2}, {1}}, [][32]byte{{2}}
		for _, keys := range [][][32]byte{{old}, added, replaced, gone} {
			for _, m := range []*member{a, b} {
				f.setKeys(m, keys)
				time.Sleep(100 * time.Millisecond) // for a subscription
				for _, way := range [][2]*member{{a, b}, {b, a}} {
					if answer, _, err := call(f.t.Context(), way[0], way[1], "echo", "x"); err != nil || answer != "echo x" {
						t.Errorf("with %d keys, %q, %v, want an answer", len(keys), answer, err)
					}
				}
			}
		}
	})
}

// record keeps all that is published.
func (f *fleet) record() (recorded func() []miniredis.PubsubPmessage) {
	s := f.store.NewSubscriber()
	s.Psubscribe("*")
	var mu sync.Mutex
	var all []miniredis.PubsubPmessage
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case m := <-s.Pmessages():
				mu.Lock()
				all = append(all, m)
				mu.Unlock()
			case <-ended:
				return
			}
		}
	}()
	f.t.Cleanup(func() { close(ended) }) // when nobody publishes any more
	return func() []miniredis.PubsubPmessage {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestMessages_RecordedAreRefusedOnceTheyAreOver(t *testing.T) {
	var stopped, counted atomic.Int32
	prepare := serveCalls(&stopped, &counted)
	inBubble(t, 2, prepare, func(f *fleet) {
		recorded := f.record()
		f.all[0].Messages.Publish("", "count", "x")
		time.Sleep(time.Second)
		if counted.Load() != 1 {
			t.Fatalf("counted %d, want the message", counted.Load())
		}
		all := recorded()
		replay := func() {
			for _, m := range all {
				if strings.HasPrefix(m.Channel, "promptweir:{replicas}:0:") {
					f.store.Publish(m.Channel, m.Message)
				} else {
					t.Errorf("published on %q, want the number of the database in it", m.Channel)
				}
			}
			time.Sleep(time.Second)
		}
		replay()
		if counted.Load() != 1 {
			t.Errorf("counted %d, want a message that is repeated to count once", counted.Load())
		}
		time.Sleep(lifetime)
		restarted := f.start([][32]byte{{1}}, 0, prepare) // it has seen none of them
		time.Sleep(3 * time.Second)
		replay()
		if counted.Load() != 1 || restarted.warned("message of another replica refused") != 1 {
			t.Errorf("counted %d, warnings %q, want a message that is over refused", counted.Load(), restarted.warnings)
		}
	})
}

// Channels are those of the whole server, whichever database is selected.
func TestMessages_StayInTheirDatabase(t *testing.T) {
	var stopped, counted atomic.Int32
	inBubble(t, 1, nil, func(f *fleet) {
		other := f.start([][32]byte{{1}}, 3, serveCalls(&stopped, &counted))
		time.Sleep(3 * time.Second)
		f.all[0].Messages.Publish("", "count", "x")
		_, _, err := call(f.t.Context(), f.all[0], other, "echo", "x")
		time.Sleep(time.Second)
		if counted.Load() > 0 || !errors.Is(err, ErrGone) {
			t.Errorf("counted %d, %v, want another database's replica not to hear", counted.Load(), err)
		}
	})
}

func TestAnnounce_ReachesAReplicaThatWasCut(t *testing.T) {
	var stopped, counted atomic.Int32
	inBubble(t, 2, serveCalls(&stopped, &counted), func(f *fleet) {
		f.all[1].link.Cut()
		f.all[0].Messages.Announce("count", "x")
		time.Sleep(10 * time.Second)
		f.all[1].link.Heal()
		time.Sleep(5 * time.Second)
		if counted.Load() == 0 {
			t.Error("the replica has not heard what was announced while it was cut")
		}
	})
}

func TestAnnounce_KeepsSoManyOfEachTopic(t *testing.T) {
	m := newMessages(&store{})
	m.Announce("ended", "first")
	for i := range maxAnnounced + 5 {
		m.Announce("level", i)
	}
	level := m.announced["level"]
	if len(m.announced["ended"]) != 1 || len(level) != maxAnnounced || string(level[0].body) != "5" {
		t.Errorf("%d and %d announcements, the first is %s, want 1, %d and 5", len(m.announced["ended"]), len(level), level[0].body, maxAnnounced)
	}
}

func TestMessages_SlotsAreATopicsAndAnEighthIsAPrincipals(t *testing.T) {
	m := newMessages(&store{})
	for _, topic := range []string{"post", "reply"} {
		m.Handle(topic, nil)
	}
	var ends []func()
	begin := func(topic, principal string) bool {
		e := &envelope{ID: strconv.Itoa(len(ends)), Topic: topic, Principal: principal}
		end, ok := m.begin(e, m.handlers[topic], func() {})
		if ok {
			ends = append(ends, end)
		}
		return ok
	}
	fill := func(topic, principal string, want int) {
		t.Helper()
		n := 0
		for begin(topic, principal) {
			n++
		}
		if n != want {
			t.Errorf("%q has %d slots for %s, want %d", principal, n, topic, want)
		}
	}
	for i := range 8 {
		fill("post", "principal "+strconv.Itoa(i), maxPerPrincipal)
	}
	fill("post", "ninth", 0)
	fill("post", "", 0)
	if !begin("reply", "principal 0") {
		t.Error("another topic has no slot")
	}
	ends[0]()
	if !begin("post", "ninth") {
		t.Error("a slot that was given back is not there")
	}
}

func TestPieces_AreBoundedByPrincipalAndReplica(t *testing.T) {
	m := newMessages(&store{})
	reserve := func(id, to, principal string, size int64, want bool) *envelope {
		t.Helper()
		e := &envelope{ID: id, To: to, Principal: principal}
		upstreamtest.Equal(t, want, m.reserve(e, size), "%d bytes of %q to %q", size, principal, to)
		return e
	}
	first := reserve("1", "a", "ann", maxOfPrincipal, true)
	reserve("2", "b", "ann", 1, false)
	reserve("3", "a", "bob", maxOfPrincipal, true)
	reserve("4", "a", "", maxUnderWay-2*maxOfPrincipal, true)
	reserve("5", "a", "eve", 1, false)
	reserve("6", "b", "eve", 1, true)
	m.discard(first)
	reserve("7", "a", "ann", maxOfPrincipal, true)
}

// oddAnswer panics when it is written.
type oddAnswer struct{}

func (oddAnswer) MarshalJSON() ([]byte, error) { panic("out of range") }

// A handler that panics, or whose answer does, answers nothing, and its replica goes on.
func TestCall_OutlivesAHandlerThatPanics(t *testing.T) {
	prepare := func(m *member) {
		m.Messages.Handle("odd", func(context.Context, Read) any { panic("out of range") })
		m.Messages.Handle("odd answer", func(context.Context, Read) any { return oddAnswer{} })
		m.Messages.Handle("even", func(context.Context, Read) any { return "even" })
	}
	inBubble(t, 2, prepare, func(f *fleet) {
		a, b := f.all[0], f.all[1]
		for _, topic := range []string{"odd", "odd answer"} {
			a.Messages.Publish("", topic, "")
			if _, took, err := call(f.t.Context(), a, b, topic, ""); !errors.Is(err, ErrGone) || took > time.Second {
				t.Errorf("%s: after %v: %v, want %v at once", topic, took, err, ErrGone)
			}
		}
		if answer, _, err := call(f.t.Context(), a, b, "even", ""); err != nil || answer != "even" {
			t.Errorf("another call: %q, %v", answer, err)
		}
	})
}

// An answer to a call that was given up is taken out of the store by nobody.
func TestPieces_OfALateAnswerAreDeleted(t *testing.T) {
	inBubble(t, 2, func(*member) {}, func(f *fleet) {
		a, b := f.all[0].Messages, f.all[1].Messages
		late := &envelope{Kind: kindAnswer, ID: "given up", Body: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
		if isHeard, err := b.send(a.Name(), late); err != nil || !isHeard {
			f.t.Fatalf("not sent: %v", err)
		}
		time.Sleep(time.Second)
		if left := f.pieces(); len(left) > 0 {
			t.Errorf("the store still has %s", left)
		}
	})
}

// A call that is over leaves nothing in the store, whatever has become of it.
func TestPieces_OfAnAbandonedCallAreDeleted(t *testing.T) {
	var stopped, counted atomic.Int32
	inBubble(t, 2, serveCalls(&stopped, &counted), func(f *fleet) {
		a, b := f.all[0], f.all[1]
		body := strings.Repeat("x", 1<<20)
		time.AfterFunc(time.Second, func() {
			if len(f.pieces()) == 0 {
				t.Error("nothing is in the store while the call waits")
			}
		})
		ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Second)
		defer cancel()
		if _, _, err := call(ctx, a, b, "long", body); !errors.Is(err, context.DeadlineExceeded) { // which does not read it
			t.Errorf("%v, want the context's error", err)
		}
		a.Messages.underWay["to nobody"] = maxUnderWay // who is asked before anything is on its way
		if err := a.Messages.Call(f.t.Context(), "nobody", "echo", "ann", body, new(string)); !errors.Is(err, ErrGone) {
			t.Errorf("a call to nobody: %v, want %v", err, ErrGone)
		}
		a.Messages.underWay["of ann"] = maxOfPrincipal
		if _, _, err := call(f.t.Context(), a, b, "echo", body); !errors.Is(err, ErrTooMuch) {
			t.Errorf("one call too many: %v, want %v", err, ErrTooMuch)
		}
		if left := f.pieces(); len(left) > 0 {
			t.Errorf("the store still has %s", left)
		}
	})
}
