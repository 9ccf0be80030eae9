package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// patience bounds what is on a request's way.
	patience = 50 * time.Millisecond
	// dialPatience bounds the making of a connection, and answerPatience what nobody waits for.
	dialPatience, answerPatience = 2 * time.Second, time.Second
)

// ErrAway means that the store cannot be asked at the moment.
var ErrAway = errors.New("the store is away")

var errLate = errors.New("the store takes longer than 50 ms to answer")

// Store is this replica's side of the store. Make it with [New]. Its methods are safe for concurrent use.
type Store struct {
	logger *slog.Logger
	mask   config.Mask
	client valkey.ClientOption
	// replica is the name of this process among its replicas: random, so that one that starts again is another.
	replica string
	began   time.Time
	keys    atomic.Pointer[keys]

	// here is nil while the store is away.
	here  atomic.Pointer[connected]
	state atomic.Pointer[State]
	// losses counts how often the store may have lost something, see mayHaveLost and answeredBy.
	losses atomic.Uint64
	// server is the one that has answered a probe last; nil before.
	server atomic.Pointer[string]
	// lost holds at most one mark: here has become nil.
	lost chan struct{}
	// doubted is set from an operation that was late until the store has answered a probe in time, or is away. Doubts holds at most one
	// mark: it was set.
	doubted atomic.Bool
	doubts  chan struct{}

	leases    leases
	debts     debts
	conns     connections
	announced announcements
	messages  messages

	mu   sync.Mutex    // guards used
	used chan struct{} // closed when the store is here again
}

// connected is a store that answers.
type connected struct{ client valkey.Client }

// State is the store's condition.
type State struct {
	// Here says that the replicas share what they should.
	Here bool
	// Since is when that began.
	Since time.Time
	// Err is why the store is away; nil where it is here, or has not been asked yet. Its text may have addresses.
	Err error
}

// New returns a store that is away. It contacts nothing; [Store.Run] does.
func New(cfg *config.Cluster, sealer *seal.Sealer, logger *slog.Logger) (*Store, error) {
	client, err := clientOption(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	s := &Store{
		logger: logger, mask: cfg.Store.Mask(), client: client, replica: rand.Text(), began: time.Now(), lost: make(chan struct{}, 1),
		doubts: make(chan struct{}, 1), used: make(chan struct{}), messages: newMessages(), leases: leases{owing: make(chan struct{}, 1)},
		debts: newDebts(),
	}
	s.Serve(topicThere, func(context.Context, []byte) []byte { return nil })
	s.state.Store(&State{Since: time.Now()})
	s.SetMaxMessage(config.DefaultMaxMessage)
	s.SetKeys(sealer)
	return s, nil
}

func clientOption(cfg *config.Cluster) (valkey.ClientOption, error) {
	option := valkey.ClientOption{
		InitAddress: cfg.Store.Addresses, Username: cfg.Store.Username, Password: cfg.Store.Password, SelectDB: cfg.Store.Database,
		ClientName: "promptweir",
		// A request does not wait for another one's, and a deadline does not cost the connection.
		AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		// One connection, which is there once the store has answered: of several, each would be made when an operation first needs it, and
		// that one would wait for a store that hangs.
		PipelineMultiplex:  -1,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		ConnWriteTimeout: 5 * time.Second,
	}
	option.Dialer.Timeout = dialPatience
	if cfg.Store.Encrypted {
		settings, err := cfg.TLS.ClientConfig()
		if err != nil {
			return option, err
		}
		settings.MinVersion = tls.VersionTLS12
		option.TLSConfig = settings
	}
	if cfg.Store.MasterSet != "" {
		option.Sentinel = valkey.SentinelOption{
			MasterSet: cfg.Store.MasterSet, Password: cfg.Store.SentinelPassword, TLSConfig: option.TLSConfig,
			Dialer: option.Dialer, TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return option, nil
}

// SetKeys has the store derive its keys from the cursor keys of a new configuration. It does nothing if they are the same.
func (s *Store) SetKeys(sealer *seal.Sealer) {
	if now := s.keys.Load(); now == nil || now.sealer != sealer {
		s.storeKeys(sealer)
	}
}

func (s *Store) storeKeys(sealer *seal.Sealer) {
	if before := s.keys.Swap(newKeys(sealer, s.announced.heard)); before != nil {
		before.replace()
	}
}

// State returns the store's condition.
func (s *Store) State() State { return *s.state.Load() }

// Run keeps the store connected until ctx ends. To be called once.
func (s *Store) Run(ctx context.Context) error {
	s.client.DialCtxFn = s.conns.dial(ctx)
	defer context.AfterFunc(ctx, s.conns.end)()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { s.keep(ctx); return nil })
	group.Go(func() error { s.renewLeases(ctx); return nil })
	group.Go(func() error { s.hear(ctx); return nil })
	group.Go(func() error { s.listen(ctx); return nil })
	return group.Wait()
}

// within returns the error of an operation, or errLate once it takes longer than a time. The operation goes on then: the client does not
// heed a context where its queue is full, or another operation is making its connection.
func within(d time.Duration, operation func() error) error {
	done := make(chan error, 1)
	go func() { done <- operation() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errLate
	}
}

// done takes the outcome of an operation on a request's way.
func (s *Store) done(c *connected, err error) {
	switch {
	case errors.Is(err, errLate):
		s.doubt()
	case err != nil:
		s.fail(c, err)
	}
}

// doubt has the store probed at once, because an operation was late. Limits do not wait for it meanwhile.
func (s *Store) doubt() {
	if !s.doubted.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.doubts <- struct{}{}:
	default:
	}
}

// fail makes the store away, because an operation by a client has failed.
func (s *Store) fail(c *connected, err error) {
	if !s.here.CompareAndSwap(c, nil) || s.conns.haveEnded() {
		return // another operation was first, or the gateway ends
	}
	err = s.mask.Error(err)
	s.state.Store(&State{Since: time.Now(), Err: err})
	s.logger.Warn("store away: each replica works alone", slog.Any("error", err))
	select {
	case s.lost <- struct{}{}:
	default:
	}
}

// use makes the store one that is here.
func (s *Store) use(client valkey.Client) {
	s.state.Store(&State{Here: true, Since: time.Now()})
	s.doubted.Store(false)
	s.here.Store(&connected{client}) // another one each time: see fail
	s.mu.Lock()
	close(s.used)
	s.used = make(chan struct{})
	s.mu.Unlock()
	s.logger.Info("store in use: replicas share limits and sessions")
}

// awaitHere waits until the store is here; it returns nil if ctx ends first.
func (s *Store) awaitHere(ctx context.Context) *connected {
	for ctx.Err() == nil {
		s.mu.Lock()
		used := s.used
		s.mu.Unlock()
		if here := s.here.Load(); here != nil {
			return here
		}
		select {
		case <-used:
		case <-ctx.Done():
		}
	}
	return nil
}
