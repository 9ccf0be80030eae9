package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
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

	link link
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
	m := &member{number: 1, announced: 1, running: make(chan struct{})}
	close(m.running)
	m.link.store = f.store
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
	m.store.option.DialCtxFn = m.link.dial
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
	m.link.cut()
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
	m.link.hang()
}

func (m *member) resume() {
	m.mu.Lock()
	if !isClosed(m.running) {
		close(m.running)
	}
	m.mu.Unlock()
	m.link.heal()
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

// link is a replica's way to the store.
type link struct {
	store *miniredis.Miniredis

	mu    sync.Mutex // guards what follows
	isCut bool
	hung  chan struct{} // is closed when the link goes on; nil while it does not hang
	// isDeaf says that a link that hangs carries what is for the store.
	isDeaf bool
	open   []net.Conn
}

var errCut = errors.New("the link is cut")

func (l *link) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errCut
	}
	c, err := l.store.Dial()
	if err != nil {
		return nil, err
	}
	connection := &linked{Conn: c, link: l, received: make(chan []byte, 1000), closed: make(chan struct{})}
	l.open = append(l.open, connection)
	go connection.receive()
	return connection, nil
}

// cut closes all connections, and refuses others.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for _, c := range l.open {
		_ = c.Close() // it may be closed
	}
	l.open = nil
}

// hang lets nothing through.
func (l *link) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hung, l.isDeaf = make(chan struct{}), false
}

// deafen lets no answer through.
func (l *link) deafen() {
	l.hang()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isDeaf = true
}

// heal ends cut and hang.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
	if l.hung != nil {
		close(l.hung)
		l.hung = nil
	}
}

// linked is a connection over a link. Like a socket's, it has a buffer: the store does not wait for who reads.
type linked struct {
	net.Conn

	link     *link
	received chan []byte
	unread   []byte
	closed   chan struct{}
	once     sync.Once
}

func (c *linked) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// wait waits while the link hangs.
func (c *linked) wait(isAnswer bool) {
	c.link.mu.Lock()
	hung, passes := c.link.hung, c.link.isDeaf && !isAnswer
	c.link.mu.Unlock()
	if hung != nil && !passes {
		select {
		case <-hung:
		case <-c.closed:
		}
	}
}

func (c *linked) receive() {
	defer close(c.received)
	for {
		buffer := make([]byte, 64<<10)
		n, err := c.Conn.Read(buffer)
		if err != nil {
			return
		}
		c.received <- buffer[:n]
	}
}

func (c *linked) Read(p []byte) (n int, err error) {
	if len(c.unread) == 0 {
		c.unread = <-c.received
	}
	if len(c.unread) == 0 {
		return 0, io.EOF
	}
	c.wait(true)
	n = copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *linked) Write(p []byte) (int, error) {
	c.wait(false)
	return c.Conn.Write(p)
}
