package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// fleet is the replicas of one gateway and their store, all in one bubble of synctest.
type fleet struct {
	t     *testing.T
	store *miniredis.Miniredis
	began time.Time
	all   []*member
}

// member is a replica of which a test decides how it reaches the store, and when it runs.
type member struct {
	*Replica

	link bubble.Link // to the store
	dial func() (net.Conn, error)
	stop context.CancelFunc
	ran  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	running chan struct{}
	number  uint64 // of its newest snapshot
	// servedAt is when it began to serve its list, announced the number of the last snapshot that its listeners
	// were notified of, and notified when they were notified, since the fleet began.
	servedAt  time.Duration
	announced uint64
	notified  []time.Duration
	warnings  []string
}

// inBubble runs a test with replicas that all serve the same list. Prepare, which may be nil, is called before each runs.
func inBubble(t *testing.T, replicas int, prepare func(*member), test func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := clustertest.NewMemory()
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{t: t, store: store, began: time.Now()}
		for range replicas {
			f.start([][32]byte{{1}}, 0, prepare)
		}
		time.Sleep(3 * heartbeatInterval)
		test(f)
		for _, m := range f.all {
			m.end()
		}
		store.Close()
	})
}

// start adds a replica, with cursor keys and the number of a database.
func (f *fleet) start(keys [][32]byte, database int, prepare func(*member)) *member {
	f.t.Helper()
	sealer, err := seal.New(keys)
	if err != nil {
		f.t.Fatal(err)
	}
	m := &member{number: 1, announced: 1, running: make(chan struct{}), dial: f.store.Dial}
	close(m.running)
	store := config.Store{Addresses: []string{"store:6379"}, Database: database}
	m.Replica, err = New(&config.Cluster{Store: store}, sealer, slog.New(warnings{slog.DiscardHandler, m}), Options{
		Notify: func(v Verdict) { m.notify(time.Since(f.began), v) },
		Drain:  func(map[string]Drain) {}, IsReady: func() bool { return true },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if prepare != nil {
		prepare(m)
	}
	m.Peers.Changed(1, lists{"up": "1"}, false)
	f.all = append(f.all, m)
	m.run()
	return m
}

// run is [Replica.Run], but for the connections, and for the time while the replica is paused.
func (m *member) run() {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.store.option.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		return m.link.Join(m.dial)
	}
	m.ran.Go(func() { m.store.run(ctx) })
	m.ran.Go(func() { m.Messages.listen(ctx) })
	m.ran.Go(func() { m.Messages.repeat(ctx) })
	m.ran.Go(func() {
		for ctx.Err() == nil {
			m.mu.Lock()
			running := m.running
			m.mu.Unlock()
			<-running
			m.Peers.step(ctx)
		}
		m.Peers.leave()
	})
}

// end ends the replica.
func (m *member) end() {
	m.resume()
	m.stop()
	m.link.Cut()
	m.ran.Wait()
}

// setKeys gives a replica other cursor keys, as a reload does.
func (f *fleet) setKeys(m *member, keys [][32]byte) {
	f.t.Helper()
	sealer, err := seal.New(keys)
	if err != nil {
		f.t.Fatal(err)
	}
	m.SetKeys(sealer)
}

// change has replicas serve another list, and notify their listeners once that is settled.
func (f *fleet) change(list string, members ...*member) {
	for _, m := range members {
		m.mu.Lock()
		m.number++
		number := m.number
		m.servedAt = time.Since(f.began)
		m.mu.Unlock()
		m.Peers.Changed(number, lists{"up": list}, true)
	}
}

// notify is [Options.Notify]: it notes when listeners are notified whose view each change concerns.
func (m *member) notify(now time.Duration, v Verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	isNew := v.Announce > m.announced
	m.announced = max(m.announced, v.Announce)
	if isNew || v.Again && m.announced >= v.Since {
		m.notified = append(m.notified, now)
	}
}

// pause stops the replica as SIGSTOP does.
func (m *member) pause() {
	m.mu.Lock()
	m.running = make(chan struct{})
	m.mu.Unlock()
	m.link.Hang(bubble.Forth, bubble.Back)
}

func (m *member) resume() {
	m.mu.Lock()
	if !isClosed(m.running) {
		close(m.running)
	}
	m.mu.Unlock()
	m.link.Heal()
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// warnings is a handler that keeps warnings for a member.
type warnings struct {
	slog.Handler

	of *member
}

func (w warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		w.of.warnings = append(w.of.warnings, r.Message)
	}
	return nil
}

// warned returns how many warnings began with a text.
func (m *member) warned(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.warnings {
		if strings.HasPrefix(w, text) {
			n++
		}
	}
	return n
}

// notifiedAt returns when listeners were notified.
func (m *member) notifiedAt() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notified)
}
