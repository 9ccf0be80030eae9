package cluster

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// mute has a replica hear no hints that something has changed.
func mute(m *member) {
	m.Messages.Handle(topicHeartbeat, func(context.Context, Read) any { return nil })
}

// settled holds that within five seconds all listeners were notified once no replica served an old list any more, that
// nobody is notified later, and how often they were notified at most.
func (f *fleet) settled(most int) {
	f.t.Helper()
	time.Sleep(5 * time.Second)
	var last time.Duration
	for _, m := range f.all {
		last = max(last, m.servedAt)
	}
	early := make([]int, len(f.all))
	for i, m := range f.all {
		notified := m.notifiedAt()
		early[i] = len(notified)
		if len(notified) == 0 || notified[len(notified)-1] < last || len(notified) > most {
			f.t.Errorf("replica %d: listeners are notified at %v, want at most %d times, and last after %v", i, notified, most, last)
		}
	}
	time.Sleep(15 * time.Second)
	for i, m := range f.all {
		if notified := m.notifiedAt(); len(notified) != early[i] {
			f.t.Errorf("replica %d: listeners are notified at %v, want nothing after %d times", i, notified, early[i])
		}
		if n, _ := m.Peers.Unsettled(); n > 0 {
			f.t.Errorf("replica %d: %d lists are unsettled", i, n)
		}
	}
}

func TestPeers_TellListenersUntilNobodyServesAnOldList(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(f *fleet, a, b, c *member)
		// most is how often the listeners of a replica are notified at most.
		most int
	}{
		"no fault": {func(f *fleet, a, b, c *member) {
			f.change("2", a)
			time.Sleep(40 * time.Millisecond)
			f.change("2", b)
			time.Sleep(300 * time.Millisecond)
			f.change("2", c)
		}, 1},
		"a replica is slow": {func(f *fleet, a, b, c *member) {
			f.change("2", a, b)
			time.Sleep(3 * time.Second)
			f.change("2", c)
		}, 2},
		"a replica is cut for a moment": {func(f *fleet, a, b, c *member) {
			c.link.Cut()
			f.change("2", a, b, c)
			time.Sleep(2 * time.Second)
			c.link.Heal()
		}, 2},
		"a replica is cut for long": {func(f *fleet, a, b, c *member) {
			c.link.Cut()
			f.change("2", a, b)
			time.Sleep(10 * time.Second)
			f.change("2", c)
			time.Sleep(2 * time.Second)
			c.link.Heal()
		}, 4},
		"a replica that is cut keeps the old list": {func(f *fleet, a, b, c *member) {
			c.link.Cut()
			f.change("2", a, b)
			time.Sleep(10 * time.Second)
			c.link.Heal()
			time.Sleep(time.Second)
			f.change("2", c)
		}, 4},
		"the store hangs": {func(f *fleet, a, b, c *member) {
			for _, m := range f.all {
				m.link.Hang(bubble.Forth, bubble.Back)
			}
			time.Sleep(time.Second)
			f.change("2", a)
			time.Sleep(time.Second)
			f.change("2", b, c)
			time.Sleep(9 * time.Second)
			for _, m := range f.all {
				m.link.Heal()
			}
		}, 4},
		"the store is killed": {func(f *fleet, a, b, c *member) {
			for _, m := range f.all {
				m.link.Cut()
			}
			f.store.FlushAll()
			f.change("2", a, b)
			time.Sleep(3 * time.Second)
			for _, m := range f.all {
				m.link.Heal()
			}
			time.Sleep(100 * time.Millisecond)
			f.change("2", c)
		}, 4},
		"the store is emptied": {func(f *fleet, a, b, c *member) {
			f.change("2", a)
			f.store.FlushAll()
			f.change("2", b)
			time.Sleep(200 * time.Millisecond)
			f.store.FlushAll()
			f.change("2", c)
		}, 4},
		"a replica is paused for 4.5 s": {func(f *fleet, a, b, c *member) {
			c.pause()
			f.change("2", a, b)
			time.Sleep(4500 * time.Millisecond)
			c.resume()
			time.Sleep(100 * time.Millisecond)
			f.change("2", c)
		}, 4},
		"a replica is paused for 35 s": {func(f *fleet, a, b, c *member) {
			c.pause()
			f.change("2", a, b)
			time.Sleep(35 * time.Second)
			c.resume()
			time.Sleep(100 * time.Millisecond)
			f.change("2", c)
		}, 4},
		"the replica that is first is paused for 35 s": {func(f *fleet, a, b, c *member) {
			f.change("2", a)
			a.pause()
			time.Sleep(time.Second)
			f.change("2", b, c)
			time.Sleep(34 * time.Second)
			a.resume()
		}, 4},
	} {
		for _, isMute := range []bool{false, true} {
			prepare, title, most := (func(*member))(nil), name, c.most
			if isMute { // then a change is compared a second later, when listeners have been notified
				prepare, title, most = mute, name+", and no hint arrives", c.most+1
			}
			t.Run(title, func(t *testing.T) {
				inBubble(t, 3, prepare, func(f *fleet) {
					c.fault(f, f.all[0], f.all[1], f.all[2])
					f.settled(most)
				})
			})
		}
	}
}

func TestPeers_NotifyOnceAChangeIsSettledAndAfterASecond(t *testing.T) {
	const late, slow = 300 * time.Millisecond, 3 * time.Second
	for after, want := range map[time.Duration][3][]time.Duration{
		late: {{late}, {late}, {late}},
		slow: {{settleTimeout, slow}, {settleTimeout, slow}, {slow}},
	} {
		inBubble(t, 3, nil, func(f *fleet) {
			began := time.Since(f.began)
			f.change("2", f.all[0], f.all[1])
			time.Sleep(after)
			f.change("2", f.all[2])
			time.Sleep(10 * time.Second)
			for i, m := range f.all {
				got := m.notifiedAt()
				isAsWanted := slices.EqualFunc(got, want[i], func(at, due time.Duration) bool {
					return at >= began+due && at < began+due+100*time.Millisecond
				})
				if !isAsWanted {
					t.Errorf("replica %d: listeners are notified at %v, want %v after %v", i, got, want[i], began)
				}
			}
		})
	}
}

func TestPeers_TellNobodyWithoutAChange(t *testing.T) {
	inBubble(t, 3, nil, func(f *fleet) {
		f.store.FlushAll()
		time.Sleep(10 * time.Second)
		f.all[0].link.Cut()
		time.Sleep(10 * time.Second)
		f.all[0].link.Heal()
		f.all[1].pause()
		time.Sleep(35 * time.Second)
		f.all[1].resume()
		time.Sleep(time.Minute)
		for i, m := range f.all {
			if notified := m.notifiedAt(); len(notified) > 0 {
				t.Errorf("replica %d: listeners are notified at %v, want never", i, notified)
			}
		}
	})
}

// A server that answers each replica differently.
func TestPeers_ReportAListThatDoesNotSettleAndTellOnce(t *testing.T) {
	inBubble(t, 3, nil, func(f *fleet) {
		for i, m := range f.all {
			f.change("of "+string(rune('a'+i)), m)
		}
		const report = "replicas serve different lists"
		time.Sleep(29 * time.Second)
		for i, m := range f.all {
			if notified := m.notifiedAt(); len(notified) != 1 || m.warned(report) > 0 {
				t.Errorf("replica %d: notified at %v, reported %d times, want once, and not before 30 s", i, notified, m.warned(report))
			}
		}
		time.Sleep(5 * time.Minute)
		for i, m := range f.all {
			if notified := m.notifiedAt(); len(notified) != 1 || m.warned(report) != 1 {
				t.Errorf("replica %d: notified at %v, reported %d times, want both once", i, notified, m.warned(report))
			}
		}
	})
}

func TestPeers_ComeBackWithAQuestionBeforeTheFirstList(t *testing.T) {
	inBubble(t, 2, nil, func(f *fleet) {
		a, b := f.all[0], f.all[1]
		if !b.Peers.isFresh() {
			t.Fatal("a live replica waits before it answers a list")
		}
		b.pause()
		f.change("2", a)
		time.Sleep(35 * time.Second)
		b.resume()
		began := time.Now()
		b.Peers.AwaitCompared(f.t.Context())
		if b.Peers.store.get() == nil { // a list does not wait for a store that is away
			upTo := time.Now().Add(5 * time.Second)
			for b.Peers.store.get() == nil && time.Now().Before(upTo) {
				time.Sleep(time.Millisecond)
			}
			began = time.Now()
			b.Peers.AwaitCompared(f.t.Context())
		}
		if took := time.Since(began); !b.Peers.isFresh() || took > compareTimeout {
			t.Errorf("after %v the list is answered, compared: %t", took, b.Peers.isFresh())
		}
		b.Peers.mu.Lock()
		behind := b.Peers.settlement.behind["up"]
		b.Peers.mu.Unlock()
		if behind == "" {
			t.Error("the list is answered before the replica says that it is behind")
		}
	})
}

// A replica that comes back may serve what the others do before it has read that: lists that it answered before are old.
func TestPeers_SayWhereTheyWereBehindDuringAHeartbeat(t *testing.T) {
	inBubble(t, 2, nil, func(f *fleet) {
		a, b := f.all[0], f.all[1]
		b.pause()
		f.change("2", a)
		time.Sleep(35 * time.Second)
		for b.link.Heal(); b.Peers.store.get() == nil; time.Sleep(time.Millisecond) {
		}
		b.link.Hang(bubble.Forth, bubble.Back)
		beaten := make(chan struct{})
		go func() {
			defer close(beaten)
			b.Peers.beat(f.t.Context())
		}()
		synctest.Wait() // its record is on its way
		f.change("2", b)
		b.link.Heal()
		<-beaten
		b.Peers.mu.Lock()
		defer b.Peers.mu.Unlock()
		if b.Peers.settlement.behind["up"] == "" {
			t.Error("the replica does not say that it was behind")
		}
	})
}

// The store has taken a heartbeat whose answer was lost, so that the next one does not find a replica that was away.
func TestPeers_SayWhereTheyWereBehindAfterALostAnswer(t *testing.T) {
	inBubble(t, 2, nil, func(f *fleet) {
		a, b := f.all[0], f.all[1]
		f.change("2", a)
		time.Sleep(100 * time.Millisecond)
		b.Peers.comparedAt.Store(time.Now().Add(-2 * freshFor).UnixNano())
		b.Peers.beatSoon()
		time.Sleep(100 * time.Millisecond)
		b.Peers.mu.Lock()
		defer b.Peers.mu.Unlock()
		if b.Peers.settlement.behind["up"] == "" {
			t.Error("the replica does not say that it was behind")
		}
	})
}

// The store was emptied: it takes the next heartbeat for one of a new replica, and says so once.
func TestPeers_SayWhereTheyWereBehindAfterAnEmptiedStoreWasNotHeard(t *testing.T) {
	inBubble(t, 2, mute, func(f *fleet) {
		a, b := f.all[0], f.all[1]
		b.link.Hang(bubble.Back)
		f.store.FlushAll()
		time.Sleep(heartbeatInterval + storeTimeout)
		f.change("2", a, b)
		b.link.Heal()
		time.Sleep(3 * heartbeatInterval)
		b.Peers.mu.Lock()
		defer b.Peers.mu.Unlock()
		if b.Peers.settlement.behind["up"] == "" {
			t.Error("the replica does not say that it was behind")
		}
	})
}

func TestPeers_DoNotWaitForAReplicaThatIsAlone(t *testing.T) {
	inBubble(t, 2, nil, func(f *fleet) {
		alone := f.start([][32]byte{{1}}, 0, func(m *member) { m.Peers.opts.IsAlone = true })
		time.Sleep(3 * time.Second)
		f.change("2", f.all[0], f.all[1])
		f.all[0].Peers.Drained("up", true)
		time.Sleep(time.Minute)
		for i, m := range f.all[:2] {
			if notified := m.notifiedAt(); len(notified) != 1 || m.warned("replicas serve different lists") > 0 {
				t.Errorf("replica %d: notified at %v, warnings %q, want notified once", i, notified, m.warnings)
			}
		}
		if !alone.Peers.Drains()["up"].Drained {
			t.Error("the replica that is alone has not heard of a drain")
		}
	})
}

// While cursor keys are being replaced, replicas have different first ones.
func TestPeers_CompareWithTheNewestRecordWhileKeysAreReplaced(t *testing.T) {
	old, both := [][32]byte{{1}, {2}}, [][32]byte{{2}, {1}}
	for _, readers := range [][][32]byte{old, both} {
		inBubble(t, 0, nil, func(f *fleet) {
			a, b := f.start(old, 0, nil), f.start(readers, 0, nil)
			time.Sleep(3 * time.Second)
			f.setKeys(a, both)
			f.change("2", a, b)
			f.settled(1)
		})
	}
}
