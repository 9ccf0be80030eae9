package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	// probeInterval is how often the store is probed.
	probeInterval = time.Second
	// minRetry is how soon a store that is away is probed again. It grows up to probeInterval.
	minRetry = 50 * time.Millisecond
	// maxDoubt is how long a store of which an operation was late may take until it answers a probe in time, before it is away: one that is
	// late once may be due to a busy machine.
	maxDoubt = 200 * time.Millisecond
	// minCaution and maxCaution bound how long a store that was late or away is not used although it answers: longer each time, until it
	// was used for settled.
	minCaution, maxCaution = 20 * time.Millisecond, time.Second
	settled                = 5 * time.Second
	// lateOnly is for how long a store may be away that has lost nothing, if operations were only late: another server does not take its
	// place that fast.
	lateOnly = time.Second
)

// probeScript does what limits and messages need of the store: it runs as a script, writes, and publishes, to nobody. To a user who may not
// do all of that, the store is away, rather than away whenever a message was sent. It returns which server has answered; nothing if that does not
// tell.
//
//nolint:gochecknoglobals // a constant
var probeScript = valkey.NewLuaScript(`
redis.call('SET', KEYS[1], '', 'PX', 1000)
redis.call('PUBLISH', KEYS[1], '')
local info = redis.pcall('INFO', 'server')
return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''`)

// keep connects to the store, probes it, and connects again whenever that fails, until ctx ends.
func (s *Store) keep(ctx context.Context) {
	client := s.connect(ctx)
	if client == nil {
		return
	}
	defer client.Close()
	var c caution
	for pause := time.Duration(0); s.awaitAnswer(ctx, client, pause); pause = c.next() {
		if s.mayHaveLost() {
			s.makeGood()
		}
		s.use(client)
		c.used = time.Now()
		s.probeWhileHere(ctx, client, &c)
		if ctx.Err() != nil {
			return
		}
	}
}

// caution is how long a store that was late or away is not used although it answers. The zero value is for one that was not.
type caution struct {
	pause time.Duration
	used  time.Time // when it was used again
}

// next returns for how long this time.
func (c *caution) next() time.Duration {
	c.pause = min(2*c.pause, maxCaution)
	if c.pause == 0 || time.Since(c.used) > settled {
		c.pause = minCaution
	}
	return c.pause
}

// mayHaveLost reports whether a store that was away may be without what it was told last: it was started again, or is another server.
func (s *Store) mayHaveLost() bool {
	away := s.State()
	isLate := errors.Is(away.Err, errLate) || errors.Is(away.Err, context.DeadlineExceeded)
	return away.Err != nil && (!isLate || time.Since(away.Since) >= lateOnly)
}

// makeGood has that done again which the store may have lost.
func (s *Store) makeGood() {
	s.announced.repeat()
	s.losses.Add(1)
}

// answeredBy takes which server has answered a probe. One that takes the place of another while both answer, as where an operator has Sentinels do
// that, may lack what the other one was told last, and the store was not away.
func (s *Store) answeredBy(server string) {
	if before := s.server.Swap(&server); before != nil && *before != server {
		s.makeGood()
	}
}

// connect returns a client as soon as the store can be reached; nil if ctx ends first.
func (s *Store) connect(ctx context.Context) valkey.Client {
	for {
		client, err := valkey.NewClient(s.client)
		if err == nil {
			return client
		}
		if ctx.Err() != nil {
			return nil
		}
		s.unreachable(err)
		if !sleep(ctx, probeInterval) {
			return nil
		}
	}
}

// unreachable notes why the store is not reached. Only the first time is logged.
func (s *Store) unreachable(err error) {
	err = s.mask.Error(err)
	before := s.state.Load()
	for !s.state.CompareAndSwap(before, &State{Since: before.Since, Err: err}) { // another client is not connected either
		before = s.state.Load()
	}
	if before.Err == nil {
		s.logger.Warn("store away: each replica works alone", slog.Any("error", err))
	}
}

// awaitAnswer returns true once the store has answered a probe in time, after a pause, and false if ctx ends first. Debts are paid
// whenever it answers.
func (s *Store) awaitAnswer(ctx context.Context, client valkey.Client, pause time.Duration) bool {
	trusted := time.Now().Add(pause)
	for retry := minRetry; ; retry = min(2*retry, probeInterval) {
		took, err := s.probe(ctx, client)
		if err == nil {
			retry = minRetry
			err = s.payDebts(ctx, client)
		}
		if err == nil && took > patience {
			err = errLate
		}
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			s.unreachable(err)
		case !time.Now().Before(trusted):
			return true
		}
		if !sleep(ctx, retry) {
			return false
		}
	}
}

// probeWhileHere returns when the store is away, or ctx ends: a store that nobody asks anything may be gone as well.
func (s *Store) probeWhileHere(ctx context.Context, client valkey.Client, c *caution) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	here := s.here.Load()
	for {
		s.check(ctx, here, s.announceWaiting(ctx, client))
		select {
		case <-s.lost:
			return
		case <-ctx.Done():
			s.here.Store(nil)
			return
		case <-s.doubts:
			s.check(ctx, here, s.resolve(ctx, client, c))
		case <-ticker.C:
			_, err := s.probe(ctx, client)
			s.check(ctx, here, err)
		}
	}
}

// check makes the store away if there is an error, and ctx has not ended.
func (s *Store) check(ctx context.Context, here *connected, err error) {
	if err != nil && ctx.Err() == nil {
		s.fail(here, err)
	}
}

// resolve ends a doubt, after a pause in which debts are paid. An error means that the store goes on being late.
func (s *Store) resolve(ctx context.Context, client valkey.Client, c *caution) error {
	for end := time.Now().Add(maxDoubt); ; {
		err := within(time.Until(end), func() error { return s.probeInTime(ctx, client) })
		if err == nil {
			break
		}
		if !errors.Is(err, errLate) || !time.Now().Before(end) {
			return err
		}
	}
	for trusted := time.Now().Add(c.next()); time.Now().Before(trusted); {
		if !sleep(ctx, payInterval) {
			return ctx.Err()
		}
		if err := s.payDebts(ctx, client); err != nil {
			return err
		}
	}
	c.used = time.Now()
	s.doubted.Store(false)
	s.debts.mark()
	return nil
}

// probeInTime is probe, with an error for an answer that requests would not have waited for.
func (s *Store) probeInTime(ctx context.Context, client valkey.Client) error {
	took, err := s.probe(ctx, client)
	if err == nil && took > patience {
		err = errLate
	}
	return err
}

// probe asks the store for what limits and messages need of it, and returns how long that took. It waits for longer than requests, since the client may
// have to connect first.
func (s *Store) probe(ctx context.Context, client valkey.Client) (took time.Duration, err error) {
	began := time.Now()
	err = within(answerPatience, func() error {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		server, err := probeScript.Exec(ctx, client, []string{s.keys.Load().probe}, nil).ToString()
		if err == nil {
			s.answeredBy(server)
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errLate
	}
	return time.Since(began), err
}

// sleep reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
