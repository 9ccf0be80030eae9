package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
)

const (
	// workInterval is that of the heartbeats of a call that a replica works on, goneAfter the time
	// without one after which it is gone, and firstTimeout that before the first: it may be busy.
	workInterval, goneAfter, firstTimeout = time.Second, 5 * time.Second, 2 * time.Second
	// subscribePause is how long a replica waits that could not subscribe.
	subscribePause = 250 * time.Millisecond
	// lifetime is how long a message lasts by its sender's clock, and by that of its receiver.
	lifetime = time.Minute
	// announcedFor is for how long what was announced is published again, and maxAnnounced bounds
	// that of one topic.
	announcedFor, maxAnnounced = 10 * time.Minute, 10_000
	// maxToAll bounds a message to all, in bytes: each replica gets it over the connection that its
	// requests wait for.
	maxToAll = 512 << 10
	// maxHandled bounds what a replica handles for others at once under a topic, and
	// maxPerPrincipal what it does so for one principal.
	maxHandled, maxPerPrincipal = 1000, 1000 / 8
	// maxBeside bounds what a message has beside what is passed on, such as names, in bytes.
	maxBeside = 64 << 10
	// maxSeen bounds the ids that are remembered, so that no message is handled twice.
	maxSeen = 100_000
	// topicRepeat asks the others to publish again what they have announced.
	topicRepeat = "repeat"
)

var (
	// ErrGone means that a replica did not answer, or has ended.
	ErrGone = errors.New("the replica is gone")

	errTooLarge = errors.New("the message is too large for replicas")
)

// Read reads a message into a value.
type Read = func(message any) error

// Handler handles a message; what it returns is the answer to a call. Its context ends when nobody
// needs the answer any more.
type Handler = func(ctx context.Context, read Read) (answer any)

// kind says what an envelope is.
type kind string

const (
	kindMessage kind = "message" // nobody answers
	kindCall    kind = "call"
	kindWork    kind = "work"   // the call with this id is being worked on
	kindAnswer  kind = "answer" // to the call with this id
	kindCancel  kind = "cancel" // nobody needs the answer to the call with this id any more
	kindNone    kind = "none"   // there will be no answer to the call with this id
)

// envelope is what is published.
type envelope struct {
	Kind  kind   `json:"kind"`
	ID    string `json:"id"`
	From  string `json:"from"`
	To    string `json:"to,omitzero"` // empty for all
	Topic string `json:"topic,omitzero"`
	// Principal is on whose behalf, for bounds.
	Principal string `json:"principal,omitzero"`
	// Until is when the message ends to be worth anything, in milliseconds since 1970.
	Until int64 `json:"until"`
	// Pieces is in how many pieces the body is in the store; 0 if it is here.
	Pieces int            `json:"pieces,omitzero"`
	Body   jsontext.Value `json:"body,omitzero"`
}

// codec passes JSON on as it is: what a server or a client has written, duplicate names included.
var codec = json.JoinOptions( //nolint:gochecknoglobals // a constant
	jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Messages are those to and from the other replicas. Its methods are safe for concurrent use.
type Messages struct {
	store    *store
	name     string
	handlers map[string]handler
	seen     *lru.Cache[string, struct{}]
	work     sync.WaitGroup
	max      atomic.Int64 // bounds a message, in bytes
	skewed   sync.Once

	mu        sync.Mutex // guards what follows
	calls     map[string]chan envelope
	working   map[string]context.CancelFunc
	handled   map[string]int            // by topic and principal
	underWay  map[string]int64          // bytes in the store, by replica and by principal
	announced map[string][]announcement // by topic
}

// handler is what is done with the messages of a topic. It has slots of its own: what takes long
// under one topic, as a post whose client does not read, keeps nothing else from being handled.
type handler struct {
	handle Handler
	slots  chan struct{}
}

// announcement is a message that is published again after an absence of the store.
type announcement struct {
	body jsontext.Value
	at   time.Time
}

func newMessages(s *store) *Messages {
	seen, _ := lru.New[string, struct{}](maxSeen) // an error is for a size below one
	m := &Messages{
		store: s, name: rand.Text(), handlers: map[string]handler{}, seen: seen,
		calls: map[string]chan envelope{}, working: map[string]context.CancelFunc{},
		handled: map[string]int{}, underWay: map[string]int64{}, announced: map[string][]announcement{},
	}
	m.SetMax(config.DefaultMaxMessage)
	m.Handle(topicReady, func(context.Context, Read) any { return struct{}{} })
	m.Handle(topicRepeat, func(context.Context, Read) any { m.publishAgain(); return nil })
	return m
}

// Name returns that of this replica: random, so that one that starts again is another.
func (m *Messages) Name() string { return m.name }

// SetMax bounds each message, in bytes, beside 64 KiB for what goes with it. The default is
// [config.DefaultMaxMessage].
func (m *Messages) SetMax(size int) { m.max.Store(int64(size) + maxBeside) }

// Handle has a function called, in a goroutine of its own, with each message under a topic. Beyond
// 1,000 at once, or 125 of one principal, messages are dropped, and callers told so. To be called
// before [Replica.Run].
func (m *Messages) Handle(topic string, handle Handler) {
	m.handlers[topic] = handler{handle, make(chan struct{}, maxHandled)}
}

// Publish sends a message to a replica, or to all others if to is empty: then one of at most 512
// KiB. Nobody confirms that it arrives.
func (m *Messages) Publish(to, topic string, message any) {
	if body, err := json.Marshal(message, codec); err == nil {
		_, _ = m.send(to, &envelope{Kind: kindMessage, Topic: topic, Body: body}) // as good as lost
	}
}

// Announce publishes a message to all others, and again after each absence of the store, theirs or
// that of this replica, that ends within ten minutes. Whoever handles it may do so twice.
func (m *Messages) Announce(topic string, message any) {
	body, err := json.Marshal(message, codec)
	if err != nil {
		return
	}
	m.mu.Lock()
	all := m.announced[topic]
	// The oldest goes: it is the most likely to have arrived.
	if len(all) == maxAnnounced {
		all = slices.Delete(all, 0, 1)
	}
	m.announced[topic] = append(all, announcement{body, time.Now()})
	m.mu.Unlock()
	_, _ = m.send("", &envelope{Kind: kindMessage, Topic: topic, Body: body}) // it is published again
}

func (m *Messages) publishAgain() {
	var all []*envelope
	m.mu.Lock()
	for topic, announced := range m.announced {
		m.announced[topic] = slices.DeleteFunc(announced, func(a announcement) bool {
			return time.Since(a.at) > announcedFor
		})
		for _, a := range m.announced[topic] {
			all = append(all, &envelope{Kind: kindMessage, Topic: topic, Body: a.body})
		}
	}
	m.mu.Unlock()
	for _, e := range all {
		_, _ = m.send("", e) // as in Announce
	}
}

// repeat publishes again what was announced, and asks the others to, whenever the breaker has
// closed.
func (m *Messages) repeat(ctx context.Context) {
	for {
		select {
		case <-m.store.closing():
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, 2*subscribePause) { // subscriptions come back at about the same time
			return
		}
		m.publishAgain()
		m.Publish("", topicRepeat, struct{}{})
	}
}

// Call sends a question to a replica on behalf of a principal, and reads its answer. An error is
// that of ctx, or means that there will be no answer; the question may have arrived all the same.
// It waits for as long as the other replica says that it works on it: a bound is for ctx.
func (m *Messages) Call(ctx context.Context, to, topic, principal string, question, answer any) error {
	if to == "" || to == m.name {
		return ErrGone // nobody would answer
	}
	body, err := json.Marshal(question, codec)
	if err != nil {
		return err
	}
	e := &envelope{Kind: kindCall, ID: rand.Text(), Topic: topic, Principal: principal, Body: body}
	answers := make(chan envelope, 1)
	m.mu.Lock()
	m.calls[e.ID] = answers
	m.mu.Unlock()
	defer m.endCall(e)
	isReceived, err := m.send(to, e)
	if err != nil || !isReceived {
		return cmp.Or(err, ErrGone)
	}
	got, err := m.awaitAnswer(ctx, to, e.ID, answers)
	if err != nil {
		return err
	}
	if err := m.complete(ctx, m.store.keys.Load(), &got); err != nil {
		return err
	}
	return json.Unmarshal(got.Body, answer, codec)
}

func (m *Messages) awaitAnswer(
	ctx context.Context, to, id string, answers <-chan envelope,
) (envelope, error) {
	timer := time.NewTimer(firstTimeout)
	defer timer.Stop()
	for {
		select {
		case e := <-answers:
			switch e.Kind {
			case kindAnswer:
				return e, nil
			case kindNone:
				return e, ErrGone
			}
			timer.Reset(goneAfter)
		case <-timer.C:
			return envelope{}, ErrGone
		case <-ctx.Done():
			_, _ = m.send(to, &envelope{Kind: kindCancel, ID: id}) // it finds out when it answers
			return envelope{}, ctx.Err()
		}
	}
}

// endCall forgets a call, and what is left of its body.
func (m *Messages) endCall(e *envelope) {
	m.mu.Lock()
	delete(m.calls, e.ID)
	m.mu.Unlock()
	m.discard(e)
}

// send publishes an envelope to a replica, or to all. IsReceived is false if surely nobody listens:
// a node of a Redis Cluster knows only who listens there.
func (m *Messages) send(to string, e *envelope) (isReceived bool, err error) {
	client := m.store.get()
	if client == nil {
		return false, ErrUnavailable
	}
	if int64(len(e.Body)) > m.max.Load() || to == "" && len(e.Body) > maxToAll {
		return false, errTooLarge
	}
	keys := m.store.keys.Load()
	e.From, e.To, e.ID = m.name, to, cmp.Or(e.ID, rand.Text())
	if len(e.Body) > pieceSize && to != "" {
		if err := m.putPieces(client, keys, e); err != nil {
			return false, err
		}
	}
	// From here, since a large body may have taken a while.
	e.Until = time.Now().Add(lifetime).UnixMilli()
	plain, err := json.Marshal(e, codec)
	if err != nil {
		return false, err
	}
	channel, message := keys.channels(to)[0], keys.box.Seal(plain)
	listeners := make(chan int64, 1) // may be written after a time that is too long
	err = m.store.do(func() error {
		// In a Redis Cluster it goes to the node that would have a key of that name. Any node would
		// do, but the client may choose one that hangs, although it has no keys.
		command := client.B().Arbitrary("PUBLISH").Keys(channel).Args(message).Build()
		n, err := client.Do(context.Background(), command).AsInt64()
		listeners <- n
		return err
	})
	if err != nil {
		return false, ErrUnavailable
	}
	return <-listeners > 0 || client.Mode() == valkey.ClientModeCluster, nil
}

// channels returns those of a replica, or of all if the name is empty.
func (k *keys) channels(replica string) []string { return k.named("replica " + replica) }

// listen receives messages until ctx ends, and then waits for those that are being handled.
func (m *Messages) listen(ctx context.Context) {
	defer m.work.Wait()
	for client := m.store.await(ctx); client != nil; client = m.store.await(ctx) {
		keys := m.store.keys.Load()
		bound, cancel := context.WithCancel(ctx)
		// Other keys name other channels: the loop then subscribes to those.
		stop := context.AfterFunc(keys.replaced, cancel)
		channels := append(keys.channels(m.name), keys.channels("")...)
		subscribe := client.B().Subscribe().Channel(channels...).Build()
		err := client.Receive(bound, subscribe, func(p valkey.PubSubMessage) {
			m.receive(ctx, keys, p.Message)
		})
		stop()
		cancel()
		if err != nil && keys.replaced.Err() == nil && !sleep(ctx, subscribePause) {
			return
		}
	}
}

// receive handles what was published. It does not block.
func (m *Messages) receive(ctx context.Context, keys *keys, sealed string) {
	plain, err := keys.box.Open(sealed)
	if err != nil {
		return // not a replica's
	}
	var e envelope
	if json.Unmarshal(plain, &e, codec) != nil || e.From == m.name || e.To != "" && e.To != m.name {
		return // one of these, if somebody else has published it again
	}
	// It lasts for lifetime from when it was sent, by a clock that may be ahead by as much.
	if left := time.Until(time.UnixMilli(e.Until)); left < 0 || left > 2*lifetime {
		m.skewed.Do(func() {
			m.store.logger.WarnContext(ctx, "message of another replica refused: it was "+
				"replayed, or the clocks differ by a minute", slog.Duration("left", left))
		})
		return
	}
	switch e.Kind {
	case kindMessage, kindCall:
		if known, _ := m.seen.ContainsOrAdd(e.ID, struct{}{}); !known {
			m.handle(ctx, keys, e)
		}
	// Not remembered as seen: who repeats one meets no call that waits for it, see deliver.
	case kindWork, kindAnswer, kindNone:
		m.deliver(e)
	case kindCancel:
		m.mu.Lock()
		defer m.mu.Unlock()
		if cancel := m.working[e.ID]; cancel != nil {
			cancel()
		}
	}
}

// handle has a message handled, unless there are too many of them.
func (m *Messages) handle(ctx context.Context, keys *keys, e envelope) {
	h := m.handlers[e.Topic] // without slots where the topic is a later version's
	ctx, cancel := context.WithCancel(ctx)
	end, ok := m.begin(&e, h, cancel)
	if !ok {
		cancel()
		if e.Kind == kindCall {
			m.work.Go(func() { // or it times out
				_, _ = m.send(e.From, &envelope{Kind: kindNone, ID: e.ID})
			})
		}
		return
	}
	m.work.Go(func() {
		defer end()
		read := func(message any) error {
			if err := m.complete(ctx, keys, &e); err != nil {
				return err
			}
			return json.Unmarshal(e.Body, message, codec)
		}
		if e.Kind == kindMessage {
			m.guarded(ctx, h, read)
			return
		}
		stop := m.reportWork(ctx, &e)
		answer := &envelope{Kind: kindNone, ID: e.ID}
		if body, ok := m.guarded(ctx, h, read); ok {
			answer.Kind, answer.Body = kindAnswer, body
		}
		if ctx.Err() == nil {
			// Where that fails, whoever has called waits no longer than for a replica that is gone.
			if _, err := m.send(e.From, answer); errors.Is(err, errTooLarge) {
				_, _ = m.send(e.From, &envelope{Kind: kindNone, ID: e.ID})
			}
		}
		// Only now: a large answer takes a while, during which the heartbeats keep the caller
		// waiting.
		stop()
	})
}

// guarded has a handler do its work, and returns its answer. Ok is false if there is none, because
// it cannot be written, or because of a panic, which ends the message and not the process.
func (m *Messages) guarded(ctx context.Context, h handler, read Read) (answer jsontext.Value, ok bool) {
	defer func() {
		if broke := recover(); broke != nil {
			m.store.logger.ErrorContext(ctx, "recovered from a panic",
				slog.Any("error", broke), slog.String("stack", string(debug.Stack())))
		}
	}()
	answer, err := json.Marshal(h.handle(ctx, read), codec)
	return answer, err == nil
}

// begin acquires a slot for a message, and one of its principal's. If ok, end must be called.
func (m *Messages) begin(e *envelope, h handler, cancel context.CancelFunc) (end func(), ok bool) {
	owner := e.Topic + " " + e.Principal
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Principal != "" && m.handled[owner] >= maxPerPrincipal {
		return nil, false
	}
	select {
	case h.slots <- struct{}{}:
	default:
		return nil, false
	}
	m.handled[owner]++
	m.working[e.ID] = cancel
	return func() {
		cancel()
		<-h.slots
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.working, e.ID)
		if m.handled[owner]--; m.handled[owner] == 0 {
			delete(m.handled, owner)
		}
	}, true
}

// reportWork sends heartbeats of a call, at once and every second until stop is called: there will
// be an answer.
func (m *Messages) reportWork(ctx context.Context, e *envelope) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for isNeeded := true; isNeeded; isNeeded = sleep(ctx, workInterval) {
			_, _ = m.send(e.From, &envelope{Kind: kindWork, ID: e.ID}) // as in handle
		}
	})
	return func() {
		cancel()
		reporting.Wait() // or it could outlast listen
	}
}

// deliver hands an envelope to whoever has called. An answer replaces a heartbeat that
// was not read yet.
func (m *Messages) deliver(e envelope) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers := m.calls[e.ID]
	if answers == nil {
		if e.Pieces > 0 { // whoever has called has given up, and does not take them out
			m.work.Go(func() { m.deletePieces(&e) })
		}
		return
	}
	if e.Kind != kindWork {
		delete(m.calls, e.ID) // nothing comes after it
		select {
		case <-answers:
		default:
		}
	}
	select {
	case answers <- e:
	default: // a heartbeat waits already
	}
}
