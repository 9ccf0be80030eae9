package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/sharedwatch"
)

// Replicas with the same connection to a server let one of them watch it: the one that holds a lease, whose number is greater for each
// holder. What it lists it puts into the store, and the others take it from there.
//
//	attends, holds ── Put: refused unless the number is the lease's ──▶ ┌───────┐ ──▶ is woken, attends, Take
//	      ▲                                                             │ store │
//	      └────────────────────── is woken, attends ◀────────────────── └───────┘ ◀── Ask: list again, please
//
// Whoever holds the lease renews it. The others attend when something has happened, see looks.go, and rarely without a cause. Nothing of this is
// on a request's way: it has a connection of its own.

const (
	// watchTime is how long a lease lasts without being renewed. Whoever waits for it has it within that time after its holder died.
	watchTime = 6 * time.Second
	// overdue is how long after the end of a lease others attend, which may take it then.
	overdue = 50 * time.Millisecond
	// together is how far apart the moments are at which the watches of a replica attend that nothing wakes: a script costs the replica and the
	// store several times less if it is sent with others.
	together = 50 * time.Millisecond
	// watchLife is how long the store keeps a lease that nobody renews, in milliseconds.
	watchLife = "3600000"
	// firstAnswer bounds how long watches wait at the start for the store's first answer.
	firstAnswer = time.Second
	// watchTopic is that of the messages that wake watches.
	watchTopic = "watch"
)

// watches are those of this replica. The zero value is ready.
type watches struct {
	count atomic.Uint64 // of all, for their names

	mu     sync.Mutex // guards byName and what is in it
	byName map[string]*watched
}

// Watch is the part that one connection of this replica to a server takes in watching that server. Make it with [Store.Join]. Its methods are
// safe for concurrent use, but for Put, of which there must be one call at a time.
type Watch struct {
	store *Store
	// connection is the hash of what the connection is made of.
	connection [sha256.Size]byte
	// name is this watch's among those of all replicas.
	name  string
	woken chan struct{}
	// held is set while the lease may be this watch's, and until is when it ends that is, in nanoseconds; 0 if it is not known to be.
	held  atomic.Bool
	until atomic.Int64
	// unnoted is set while there is something that the index was not told.
	unnoted atomic.Bool
	// version counts what was put, and put describes the list that was put last; it is zero if it is not known to be there.
	version uint64
	put     sharedwatch.Turn

	mu     sync.Mutex // guards what follows
	wanted *wanted
	// seen is the greatest number of the lease that is known, and seenBy which watch it was of: a store whose number is smaller, or another
	// watch's, has forgotten something.
	seen   uint64
	seenBy string
}

// wanted is what is watched, as the store knows it by the present keys.
type wanted struct {
	keys *keys
	// name is a keyed hash of the connection. The keys lease, list and staged contain it.
	name, lease, list, staged string
}

// Join takes part in watching the server at the other end of a connection, with those watches of all replicas whose connection is made of
// the same. [Watch.Leave] must be called in the end.
func (s *Store) Join(connection []byte) *Watch {
	w := &Watch{
		store: s, connection: sha256.Sum256(connection), woken: make(chan struct{}, 1),
		name: s.replica + "." + strconv.FormatUint(s.watches.count.Add(1), 36),
	}
	w.want()
	return w
}

// Woken has a mark when it is worth to attend at once.
func (w *Watch) Woken() <-chan struct{} { return w.woken }

// want returns what is watched, by the present keys.
func (w *Watch) want() *wanted {
	keys := w.store.keys.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted != nil && w.wanted.keys == keys {
		return w.wanted
	}
	name := hash(keys.watched, string(w.connection[:]))
	next := &wanted{keys: keys, name: name, lease: "promptweir:{" + name + "}:watch"}
	next.list, next.staged = next.lease+":list", next.lease+":staged:"+w.name
	w.store.watches.move(w, w.wanted, next)
	w.wanted, w.seen, w.seenBy = next, 0, ""
	return next
}

// move makes a watch one that is woken by another name; from and to may be nil.
func (all *watches) move(w *Watch, from, to *wanted) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if from != nil {
		delete(all.byName[from.name].watches, w)
		if len(all.byName[from.name].watches) == 0 {
			delete(all.byName, from.name)
		}
	}
	if to == nil {
		return
	}
	if all.byName == nil {
		all.byName = map[string]*watched{}
	}
	if all.byName[to.name] == nil {
		all.byName[to.name] = &watched{watches: map[*Watch]struct{}{}}
	}
	all.byName[to.name].watches[w] = struct{}{}
}

// wake wakes the watches of a lease that has changed, but for one, which may be nil.
func (all *watches) wake(c change, but *Watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.byName[c.lease]
	if one == nil {
		return
	}
	one.noted = max(one.noted, c.place)
	if c.ended {
		one.indexed = false
	}
	for w := range one.watches {
		if w != but {
			w.wake()
		}
	}
}

// wakeOthers wakes the other watches of the same, because there is something new, or the lease has ended.
func (w *Watch) wakeOthers(here *connected, wanted *wanted, ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	c := change{wanted.name, w.note(ctx, here, wanted, ended), ended}
	w.store.watches.wake(c, w)
	w.tell(ctx, "", here, wanted, c)
}

// wakeHolder wakes the watches of the same at a replica.
func (w *Watch) wakeHolder(replica string, here *connected, wanted *wanted) {
	c := change{lease: wanted.name}
	if replica == w.store.replica {
		w.store.watches.wake(c, w)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	w.tell(ctx, replica, here, wanted, c)
}

// tell sends a message of a change to a replica, or to all if it is empty. That is not sure to arrive.
func (w *Watch) tell(ctx context.Context, replica string, here *connected, wanted *wanted, c change) {
	told := envelope{kind: kindTell, topic: watchTopic, payload: c.encode()}
	w.store.address(&told, replica)
	channel, message := wanted.keys.sealed(replica, &told)
	_ = here.beside.Do(ctx, publication(here.beside, channel, message)).Error() // see above
}

// attendScript renews the lease, or takes it if nobody holds it. The time is the store's clock, in microseconds.
//
//	KEYS  the lease, the list
//	ARGV  the watch, the time of a lease, the greatest number known, for how many milliseconds the lease is kept, 1 if the watch may hold it,
//	      for how many milliseconds the list is kept, which watch the greatest number known was of
//
// A number is never smaller than the clock, so that it grows even if the store was emptied. If the store has a smaller one than is
// known, or another watch has the same, the store has lost something, and the lease is nobody's: a server whose clock is behind may have
// taken the place of another one. A clock that was set back does not make a lease longer.
//
//nolint:gochecknoglobals // a constant
var attendScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local l = redis.call('HMGET', KEYS[1], 'holder', 'until', 'number', 'asked', 'list', 'by')
local time, seen, number, left = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(l[3] or 0), tonumber(l[2] or 0) - now
local may, held, by = ARGV[5] == '1', 0, l[6] or ''
local lost = number < seen or number == seen and by ~= ARGV[7]
if may and l[1] == ARGV[1] and not lost then
	held = 1
elseif may and (left <= 0 or lost) then
	held, by = 1, ARGV[1]
	number = math.max(number, seen, now) + 1
elseif left > time then
	left = time
	redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + time))
end
if held == 1 then
	left = time
	redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'until', string.format('%.0f', now + time), 'number', string.format('%.0f', number), 'by', by)
	redis.call('PEXPIRE', KEYS[1], ARGV[4])
	redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
return {tostring(held), string.format('%.0f', number), string.format('%.0f', math.max(left, 0)), l[4] or '0', l[5] or '', by}`)

// Attend renews the lease, or takes it if nobody holds it, and returns how things are. To be called again when the turn says so, by the
// holder to keep the lease, by the others to take it if the holder did not, and when the watch is woken. A watch that may not hold it only
// learns how things are. An error means that the store cannot be asked, or ctx has ended.
func (w *Watch) Attend(ctx context.Context, mayHold bool) (sharedwatch.Turn, error) {
	s := w.store
	s.awaitFirst(ctx)
	here := s.here.Load()
	if here == nil {
		return sharedwatch.Turn{}, ErrAway
	}
	wanted := w.want()
	w.mu.Lock()
	seen, seenBy := w.seen, w.seenBy
	w.mu.Unlock()
	may := "0"
	if mayHold {
		may = "1"
		w.held.Store(true) // it may be, also without an answer
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	answer, err := attendScript.Exec(ctx, here.beside, []string{wanted.lease, wanted.list},
		[]string{w.name, microseconds(watchTime), strconv.FormatUint(seen, 10), watchLife, may, listLife, seenBy}).AsStrSlice()
	if err != nil {
		return sharedwatch.Turn{}, fmt.Errorf("attend the lease: %w", s.mask.Error(err))
	}
	turn, err := readTurn(answer)
	if err != nil {
		return sharedwatch.Turn{}, err
	}
	turn.Lease = wanted.name
	turn.Next = s.next(&turn)
	if mayHold {
		w.held.Store(turn.Held)
	}
	w.until.Store(0)
	if turn.Held {
		w.until.Store(began.Add(turn.Left).UnixNano())
		if w.unnoted.Load() {
			w.wakeOthers(here, wanted, false)
		}
	}
	w.mu.Lock()
	if w.wanted == wanted && turn.Number > w.seen {
		w.seen, w.seenBy = turn.Number, answer[5]
	}
	w.mu.Unlock()
	return turn, nil
}

// holdsUntil returns when the lease ends that is this watch's; the zero Unix time if it is not known to be.
func (w *Watch) holdsUntil() time.Time { return time.Unix(0, w.until.Load()) }

// next returns when to attend after a turn: in a moment that all watches of this replica have in common, and other replicas have not.
func (s *Store) next(turn *sharedwatch.Turn) time.Duration {
	wait := turn.Left + overdue
	switch {
	case turn.Held:
		wait = turn.Left / 3
	case s.watches.isIndexed(turn.Lease): // a look says when there is something new
		wait = rareTime/2 + mathrand.N(rareTime) //nolint:gosec // it need not be unknown
	case turn.Left == 0: // nobody holds it, and whoever takes it wakes the others when it has a list
		wait = watchTime / 3
	}
	return wait + together - (time.Since(s.began)+wait)%together
}

var errNoTurn = errors.New("the lease in the store is not one of this version")

func readTurn(answer []string) (turn sharedwatch.Turn, err error) {
	if len(answer) != 6 {
		return turn, errNoTurn
	}
	var left int64
	if _, err = fmt.Sscan(strings.Join(answer[1:4], " "), &turn.Number, &left, &turn.Asked); err != nil {
		return sharedwatch.Turn{}, errNoTurn
	}
	turn.Held, turn.Left = answer[0] == "1", time.Duration(left)*time.Microsecond
	readDescription(answer[4], &turn)
	return turn, nil
}

// readDescription reads what the store has of a list beside the list itself. What no replica has written there is as good as no list: then
// whoever holds the lease puts its list again.
func readDescription(text string, turn *sharedwatch.Turn) {
	var list sharedwatch.Turn
	var ttl, size, alone uint32 // neither negative, nor too large for a duration
	_, err := fmt.Sscan(text, &list.ListNumber, &list.Version, &list.Answers, &ttl, &size, &alone)
	if err != nil || size > maxList {
		return
	}
	turn.ListNumber, turn.Version, turn.Answers = list.ListNumber, list.Version, list.Answers
	turn.TTL, turn.Size, turn.Alone = time.Duration(ttl)*time.Millisecond, int(size), alone == 1
}

// description returns what the store has of a list beside the list itself, as readDescription reads it.
func description(t *sharedwatch.Turn) string {
	alone := 0
	if t.Alone {
		alone = 1
	}
	return fmt.Sprint(t.ListNumber, t.Version, t.Answers, t.TTL.Milliseconds(), t.Size, alone)
}

// askScript counts one question for a list in KEYS[1], which is kept for the milliseconds in ARGV[1]. It returns the count, which is never
// smaller than the clock, and who holds the lease.
//
//nolint:gochecknoglobals // a constant
var askScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local asked = string.format('%.0f', math.max(tonumber(redis.call('HGET', KEYS[1], 'asked') or 0), t[1] * 1000000 + t[2]) + 1)
redis.call('HSET', KEYS[1], 'asked', asked)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {asked, redis.call('HGET', KEYS[1], 'holder') or ''}`)

// Ask has the holder list again. The list that answers has an Answers of at least the number that is returned, unless the store forgets:
// then its Asked is smaller.
func (w *Watch) Ask(ctx context.Context) (asked uint64, err error) {
	here := w.store.here.Load()
	if here == nil {
		return 0, ErrAway
	}
	wanted := w.want()
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	answer, err := askScript.Exec(ctx, here.beside, []string{wanted.lease}, []string{watchLife}).AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("ask the holder of the lease: %w", w.store.mask.Error(err))
	}
	if len(answer) == 2 {
		asked, err = strconv.ParseUint(answer[0], 10, 64)
	}
	if err != nil || asked == 0 {
		return 0, errNoTurn
	}
	if holder, _, _ := strings.Cut(answer[1], "."); holder != "" {
		w.wakeHolder(holder, here, wanted)
	}
	return asked, nil
}

// releaseScript ends the lease in KEYS[1] if the watch in ARGV[1] holds it.
//
//nolint:gochecknoglobals // a constant
var releaseScript = valkey.NewLuaScript(`
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'holder', '', 'until', '0')
return 1`)

// Release ends the lease if this watch holds it, so that another one takes it at once. It waits for that for a moment at most.
func (w *Watch) Release() {
	here := w.store.here.Load()
	w.until.Store(0)
	if here == nil || !w.held.Swap(false) {
		return
	}
	wanted := w.want()
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	if n, err := releaseScript.Exec(ctx, here.beside, []string{wanted.lease}, []string{w.name}).AsInt64(); err == nil && n == 1 {
		w.wakeOthers(here, wanted, true)
	}
}

// Leave ends the part that the watch takes. Nothing may be called after it.
func (w *Watch) Leave() {
	w.Release()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store.watches.move(w, w.wanted, nil)
}

// about is what a list is bound to: where it lies, what it is, who put it.
func (w *wanted) about(number, version uint64) []byte {
	return fmt.Appendf(nil, "%s\nlist of a server\n%d.%d", w.list, number, version)
}

// values seals and opens lists.
func (w *wanted) values() *seal.Values { return w.keys.lists }
