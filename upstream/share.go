package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/sharedwatch"
)

// SharedWatches lets several replicas of a gateway watch each server once. It must be safe for concurrent use.
type SharedWatches interface {
	// Join takes part in watching the server at the other end of a connection, see [config.Upstream.Connection].
	Join(connection []byte) SharedWatch
}

// SharedWatch is the part that one endpoint takes in watching its server together with the same endpoint of other replicas. One of them
// holds a lease: it watches and lists, and puts its lists where the others take them from. All wait for a bounded time only, and an error
// means that the others cannot be reached.
type SharedWatch interface {
	// Attend renews the lease, or takes it if nobody holds it; an endpoint that may not hold it only learns how things are.
	Attend(ctx context.Context, mayHold bool) (sharedwatch.Turn, error)
	// Woken has a mark when it is worth to attend at once.
	Woken() <-chan struct{}
	// Ask has the holder list again: it returns what Answers of that list is at least.
	Ask(ctx context.Context) (asked uint64, err error)
	// Put gives all a list under the number of a lease. Held is false if the lease has another number, so that there is a later list or
	// will be one. Unchanged says that the list is that of the last call. An error that is not [sharedwatch.ErrNotShareable] may pass.
	Put(ctx context.Context, number uint64, definitions []jsontext.Value, unchanged bool, answers uint64, ttl time.Duration) (version uint64, held bool, err error)
	// PutAlone tells all that there is no list for them.
	PutAlone(ctx context.Context, number, answers uint64) (held bool, err error)
	// Take returns the list that a turn describes.
	Take(ctx context.Context, turn sharedwatch.Turn) ([]jsontext.Value, error)
	// Release ends the lease, if it is held, so that another one takes it.
	Release()
	// Leave is called last.
	Leave()
}

// Watching says which part an endpoint takes in watching its server.
type Watching string

// The parts. An endpoint has none that is not connected, or whose replicas do not share.
const (
	WatchingForAll Watching = "for_all" // it watches for all replicas
	WatchingOther  Watching = "other"   // another replica does
	WatchingAlone  Watching = "alone"   // it watches for itself, because it cannot be shared at the moment
)

const (
	// aloneTime is how long an endpoint watches for itself at least, so that a store that comes and goes does not cost its server much.
	aloneTime = 5 * time.Second
	// attendRetry is how long it waits after the others could not be reached.
	attendRetry = time.Second
	// holderPatience is for how long whoever watches for all may have cause to list and not do it: one whose server has asked for a longer
	// pause gives the lease up, and one whose list takes longer lets the others list for themselves.
	holderPatience = 5 * time.Second
	// followPatience is how long an endpoint that follows waits for a list, or for what it asked for, and distrust how long it watches for
	// itself after that. The holder's own patience comes first: this is for a list that is put and does not arrive, and for all else.
	followPatience, distrust = 2 * holderPatience, 30 * time.Second
	// attendBurst is how often an endpoint may attend at once. In the long run it does so, and asks, once in a quietTime: a server that
	// reports changes without end decides what it costs itself, but not the store.
	attendBurst = 4
)

// errLate means that an endpoint has waited in vain for a list.
var errLate = fmt.Errorf("no list of the replica that watches the server has come within %s", followPatience)

// errStintOver means that another replica is to watch, or that this one is to do it in another way.
var errStintOver = errors.New("another replica watches the server")

// Lists that were put have an order: numbers grow, versions grow with a number, and a holder requests nothing before it holds. An
// endpoint never goes back in it, and a holder shows a list only after it was put. A list that an endpoint requested alone has no place
// in that order. When it follows again, it has the holder list anew, and shows nothing that was requested before that.

// listID is the place of a list in the order. The zero listID is that of a list without one.
type listID struct {
	lease           string
	number, version uint64
}

// isAfter reports whether a list is later than another one of the same lease.
func (id listID) isAfter(other listID) bool {
	return id.number > other.number || id.number == other.number && id.version > other.version
}

// sharing is an endpoint's part in watching its server. Only the goroutines of one session use it, one after another.
type sharing struct {
	SharedWatch

	pace *rate.Limiter // of attending
	// shown is the present list.
	shown listID
	// asked is what the list must answer that the endpoint waits for; 0 if it waits for none. If mustAsk is set, it has yet to ask.
	asked   uint64
	mustAsk bool
	// ends is until when whoever held the lease holds it, as far as is known, and aloneUntil until when the endpoint does without.
	ends, aloneUntil time.Time
	// behind is since when an endpoint that follows has not had what whoever holds the lease has listed; zero while it has.
	behind time.Time
}

func newSharing(w SharedWatch) *sharing {
	return &sharing{SharedWatch: w, pace: rate.NewLimiter(rate.Every(quietTime), attendBurst)}
}

// share watches the server, follows who does, or watches it alone, until the session breaks or ctx ends.
func (e *endpoint) share(ctx context.Context, s *client.Session, w *watch) error {
	for {
		if left := time.Until(e.shared.aloneUntil); left > 0 {
			if err := e.watchAlone(ctx, s, w, left); err != nil {
				return err
			}
		}
		began := time.Now()
		turn, err := e.attend(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			e.shared.ends = began.Add(turn.Left)
		}
		switch {
		case err != nil && began.Before(e.shared.ends): // whoever holds the lease may still do
			err = sleep(ctx, attendRetry)
		case err != nil:
			err = e.watchAlone(ctx, s, w, aloneTime)
		case turn.Held:
			err = e.watchForAll(ctx, s, w, turn)
		case turn.IsAlone():
			err = e.watchAlone(ctx, s, w, 0)
		default:
			err = e.follow(ctx, s, w, turn)
		}
		if err != nil {
			return err
		}
	}
}

// attend attends the lease, in time. While the server wants no requests, the endpoint does not hold it: it could not list.
func (e *endpoint) attend(ctx context.Context) (sharedwatch.Turn, error) {
	if err := e.shared.pace.Wait(ctx); err != nil {
		return sharedwatch.Turn{}, err
	}
	return e.shared.Attend(ctx, !e.isPaused())
}

// isPaused reports whether the server wants no requests for longer than others should wait for a list.
func (e *endpoint) isPaused() bool { return e.paused().rest() > holderPatience }

// stint watches and lists until a function returns, with nil, or the session breaks.
func (e *endpoint) stint(ctx context.Context, s *client.Session, w *watch, watching Watching, until func(context.Context)) error {
	e.setWatching(watching)
	e.shared.behind = time.Time{}
	w.begin()
	w.deaf.Store(false)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.watch(ctx, s, w) })
	group.Go(func() error { return e.refresh(ctx, s, w) })
	group.Go(func() error { until(ctx); return errStintOver })
	if err := group.Wait(); !errors.Is(err, errStintOver) {
		return err
	}
	return nil
}

// setWatching publishes which part the endpoint takes.
func (e *endpoint) setWatching(watching Watching) {
	before := e.status.Load().Watching
	if before == watching {
		return
	}
	if before == WatchingOther && watching == WatchingForAll {
		e.logger.Info("watch taken over: this replica lists the server for all")
	}
	e.update(func(s *status) { s.Watching = watching })
}

// watchAlone watches for this replica alone, for a time at least, until there is somebody to share with.
func (e *endpoint) watchAlone(ctx context.Context, s *client.Session, w *watch, least time.Duration) error {
	return e.stint(ctx, s, w, WatchingAlone, func(ctx context.Context) {
		for wait := least; ; {
			if wait > 0 && sleep(ctx, wait) != nil {
				return
			}
			turn, err := e.attend(ctx)
			if ctx.Err() != nil || err == nil && (turn.Held || !turn.IsAlone()) {
				return
			}
			wait = attendRetry
			if err == nil {
				wait = 0
				e.awaitTurn(ctx, turn.Next)
			}
		}
	})
}

// awaitTurn waits for a time, unless the endpoint is woken.
func (e *endpoint) awaitTurn(ctx context.Context, next time.Duration) {
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-e.shared.Woken():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// watchForAll watches for all replicas for as long as the endpoint holds the lease. It gives it up when it must not list for long.
func (e *endpoint) watchForAll(ctx context.Context, s *client.Session, w *watch, held sharedwatch.Turn) error {
	w.held, w.putRetry = &held, 0
	w.asked.Store(held.Asked)
	w.put.Store(0)
	defer func() {
		w.held, w.putRetry = nil, 0
		if e.isPaused() {
			e.shared.Release()
		}
	}()
	return e.stint(ctx, s, w, WatchingForAll, func(ctx context.Context) { e.keepLease(ctx, w, held, e.shared.ends) })
}

// keepLease renews the lease until that fails, it is another's, or the endpoint is to give it up.
func (e *endpoint) keepLease(ctx context.Context, w *watch, held sharedwatch.Turn, ends time.Time) {
	for wait := held.Next; ; {
		e.awaitTurn(ctx, wait)
		if e.isPaused() {
			return
		}
		began, put := time.Now(), w.put.Load()
		turn, err := e.attend(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && time.Now().Before(ends):
			wait = min(attendRetry, time.Until(ends))
			continue
		case err != nil, !turn.Held, turn.Number != held.Number, turn.Lease != held.Lease:
			return
		}
		ends, wait = began.Add(turn.Left), turn.Next
		forgotten := put > 0 && (turn.ListNumber != held.Number || turn.Version < put)
		if forgotten {
			w.put.Store(0)
		}
		if w.asked.Swap(turn.Asked) != turn.Asked || forgotten { // a store that has lost something may count from less
			signal(w.changed)
		}
	}
}

// deliver makes a list the present one: of all replicas, if the endpoint watches for them. Asked is what was asked before it was
// requested. The error is errStintOver if the list must not be shown.
func (e *endpoint) deliver(ctx context.Context, w *watch, definitions []jsontext.Value, asked uint64) error {
	held := w.held
	if held == nil {
		e.publishAlone(ctx, w, definitions)
		return nil
	}
	before := e.shared.shown
	unchanged := w.put.Load() > 0 && before.lease == held.Lease && before.number == held.Number && equalLists(e.status.Load().Definitions, definitions)
	version, isHeld, err := e.shared.Put(ctx, held.Number, definitions, unchanged, asked, w.lifetime())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		e.callLogger.WarnContext(ctx, "list not shared: each replica lists the server for itself", slog.Any("error", err))
		if err := e.deliverNone(ctx, w, asked); err != nil {
			return err
		}
		w.notPut(err)
		e.publishAlone(ctx, w, definitions)
		return nil
	case !isHeld: // whoever holds the lease now has a later list, or is about to
		return errStintOver
	}
	e.shared.shown, e.shared.asked = listID{held.Lease, held.Number, version}, 0
	w.put.Store(version)
	w.putRetry = 0
	e.publish(ctx, definitions, w.lifetime(), nil)
	return nil
}

// publishAlone makes a list the present one that was not shared.
func (e *endpoint) publishAlone(ctx context.Context, w *watch, definitions []jsontext.Value) {
	if e.shared != nil {
		e.shared.shown, e.shared.asked = listID{}, 0
	}
	e.publish(ctx, definitions, w.lifetime(), nil)
}

// deliverNone has the other replicas watch for themselves if the endpoint watches for them: it has no list. The error is errStintOver if
// it does not do so any more.
func (e *endpoint) deliverNone(ctx context.Context, w *watch, asked uint64) error {
	if w.held == nil {
		return nil
	}
	isHeld, err := e.shared.PutAlone(ctx, w.held.Number, asked)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil: // it is not known what the others have
		e.shared.aloneUntil = time.Now().Add(aloneTime)
		return errStintOver
	case !isHeld:
		return errStintOver
	}
	return nil
}

// letOthersList has the other replicas watch for themselves if the endpoint watches for them, and done is not called in time: their
// lists need not be as slow. Done must be called before anything else is delivered.
func (e *endpoint) letOthersList(ctx context.Context, w *watch, asked uint64) (done func()) {
	if w.held == nil {
		return func() {}
	}
	told := make(chan struct{})
	late := time.AfterFunc(holderPatience, func() {
		defer close(told)
		e.callLogger.WarnContext(ctx, "list takes long: each replica lists the server for itself meanwhile")
		_ = e.deliverNone(ctx, w, asked) // whoever has lost the lease, or the store, notices when it attends
	})
	return func() {
		if !late.Stop() {
			<-told
		}
	}
}

// follow shows what the holder of the lease has listed, and waits until there may be something else. The error means that the session
// is of no more use.
func (e *endpoint) follow(ctx context.Context, s *client.Session, w *watch, turn sharedwatch.Turn) error {
	f := e.shared
	e.setWatching(WatchingOther)
	// Over HTTP+SSE, the server tells each session of a change, and so the holder as well.
	w.deaf.Store(s.Transport() == config.SSE)
	// A list without a place in the order may be later than the holder's, and a question may have been forgotten.
	isOrdered := !e.status.Load().Listed || f.shown.lease == turn.Lease
	if f.mustAsk || f.asked == 0 && !isOrdered || f.asked > turn.Asked {
		return e.ask(ctx)
	}
	outcome := listAwaited
	if turn.ListNumber == turn.Number && (isOrdered || turn.Answers >= f.asked) {
		var err error
		if outcome, err = e.followList(ctx, s, w, turn); err != nil {
			return err
		}
	}
	if e.isLate(outcome) {
		e.watchAloneFor(ctx, distrust, errLate)
		return nil
	}
	if outcome == listMissed {
		return nil
	}
	timer := time.NewTimer(e.untilTurn(turn.Next))
	defer timer.Stop()
	select {
	case <-w.changed: // the holder may not know
		f.mustAsk = true
	case <-f.Woken():
	case <-timer.C:
	case <-ctx.Done():
	}
	if turn.Next > turn.Left+attendRetry { // it would have been woken if nobody held the lease
		f.ends = time.Now().Add(attendRetry)
	}
	return nil
}

// ask has the holder list again.
func (e *endpoint) ask(ctx context.Context) error {
	asked, err := e.shared.Ask(ctx)
	if e.shared.mustAsk = err != nil; err != nil {
		return sleep(ctx, attendRetry)
	}
	e.shared.asked = asked
	return nil
}

// outcome is what comes of the list of a turn.
type outcome int

const (
	listAwaited outcome = iota // it is not there yet
	listHad
	listMissed // it is there, and could not be had
)

// isLate reports whether the endpoint has been without the holder's list for too long. An endpoint that must not list either waits on.
func (e *endpoint) isLate(o outcome) bool {
	f := e.shared
	switch {
	case o == listHad && f.asked == 0, e.isPaused():
		f.behind = time.Time{}
	case f.behind.IsZero():
		f.behind = time.Now()
	}
	return !f.behind.IsZero() && time.Since(f.behind) >= followPatience
}

// untilTurn returns when to attend after a turn whose next one is due after a time: no later than the endpoint is late, or may hold the
// lease again.
func (e *endpoint) untilTurn(next time.Duration) time.Duration {
	if behind := e.shared.behind; !behind.IsZero() {
		next = min(next, followPatience-time.Since(behind))
	}
	if e.isPaused() {
		next = min(next, e.paused().rest()-holderPatience)
	}
	return next
}

// followList makes the list of a turn the present one, if it is later than that.
func (e *endpoint) followList(ctx context.Context, s *client.Session, w *watch, turn sharedwatch.Turn) (outcome, error) {
	f, now := e.shared, e.status.Load()
	next := listID{turn.Lease, turn.ListNumber, turn.Version}
	definitions := now.Definitions
	isNew := !now.Listed || f.shown.lease != next.lease || next.isAfter(f.shown)
	isAnswer := f.asked > 0 && turn.Answers >= f.asked
	isSilent := e.connection.Load().silent.Load()
	switch {
	case isNew:
		var err error
		if definitions, err = f.Take(ctx, turn); err != nil {
			e.missList(ctx, turn, err)
			return listMissed, ctx.Err()
		}
		if len(definitions) > 0 && !s.OffersPrompts() { // the server has prompts by now
			if err := s.Recheck(ctx); err != nil {
				return listMissed, err
			}
		}
	case next != f.shown: // an earlier one, in a store that has lost the later
		return listAwaited, nil
	case w.listed && !isAnswer && turn.TTL == now.ttl && (now.Problem == nil || isSilent):
		return listHad, nil
	}
	f.shown = next
	if isAnswer {
		f.asked = 0
	}
	if !w.listed {
		e.logger.InfoContext(ctx, "upstream connected", slog.Int("prompts", len(definitions)), slog.String("revision", s.Revision))
	}
	// What another replica has listed says nothing about a server that does not answer this one.
	var still *Problem
	if isSilent {
		still = now.Problem
	}
	w.listed, w.ttl = true, turn.TTL
	e.publish(ctx, definitions, turn.TTL, still)
	return listHad, nil
}

// missList has the endpoint watch alone for a while, because a list cannot be had, unless there is another one by now.
func (e *endpoint) missList(ctx context.Context, missed sharedwatch.Turn, err error) {
	turn, failed := e.attend(ctx)
	if ctx.Err() != nil || failed == nil && (turn.Held || turn.Number != missed.Number || turn.Version != missed.Version) {
		return
	}
	e.watchAloneFor(ctx, aloneTime, err)
}

// watchAloneFor has the endpoint watch alone for a time, because the holder's list does not come.
func (e *endpoint) watchAloneFor(ctx context.Context, d time.Duration, err error) {
	e.callLogger.WarnContext(ctx, "list of another replica not received: this one lists the server for itself", slog.Any("error", err))
	e.shared.aloneUntil = time.Now().Add(d)
}
