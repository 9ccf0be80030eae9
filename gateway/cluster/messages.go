package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/valkey-io/valkey-go"
)

// Messages go to one replica or to all that are there, by pub/sub: what nobody hears is lost, and nothing is heard twice.
//
//	asks ── ask ────────▶ store ──▶ serves
//	     ◀─ at work ──── (at once, and then every second)
//	     ◀─ answer ─────
//
// A replica that does not listen is gone, and so is one that does not say in time that it is at work.

const (
	// workInterval is how often a replica says that it is at work, and goneAfter how long it may be silent.
	workInterval, goneAfter = time.Second, 5 * time.Second
	// hearPatience is how long a replica that listens may take to say so first: it may be busy, or its connection be about to end.
	hearPatience = 2 * time.Second
	// listenPause is how long a replica waits that could not listen.
	listenPause = 250 * time.Millisecond
	// maxToAll bounds what a message to all passes on, in bytes: each replica gets it over the connection that its requests wait for, and a
	// server of pub/sub cuts off whoever does not read 32 MiB fast enough.
	maxToAll = 512 << 10
	// maxServed bounds what a replica does for others at once under a topic. Further questions are not answered.
	maxServed = 1000
	// maxBeside bounds what a message has beside that which is passed on, such as names.
	maxBeside = 64 << 10
	// maxSeen bounds the ids that are remembered, so that a message that somebody has recorded is not carried out again.
	maxSeen = 100_000
)

var (
	// ErrGone means that a replica did not answer, or has ended.
	ErrGone = errors.New("the replica is gone")

	errMessageTooLarge = errors.New("the message is too large for replicas")
)

// kind says what a message is.
type kind byte

const (
	kindTell   kind = iota // nobody answers
	kindAsk                // carries a question
	kindWork               // the question with this id is being worked on
	kindAnswer             // carries the answer to the question with this id
	kindCancel             // nobody needs the answer with this id any more
	kindNone               // there will be no answer to the question with this id
)

// messageID identifies a message, or the question that it is about.
type messageID [16]byte

// messages are those that are served and awaited. Make it with newMessages.
type messages struct {
	served map[string]service // by topic; not written after Run has begun
	seen   *lru.Cache[messageID, struct{}]
	work   sync.WaitGroup
	max    atomic.Int64 // bounds a message, in bytes

	mu      sync.Mutex // guards what follows
	asked   map[messageID]chan envelope
	working map[messageID]context.CancelFunc
}

// service is what is done with the messages of a topic. It has slots of its own: what takes long under one topic, as a post does whose client
// does not read, keeps nothing else from being served.
type service struct {
	serve func(ctx context.Context, message []byte) []byte
	slots chan struct{}
}

func newMessages() messages {
	seen, err := lru.New[messageID, struct{}](maxSeen)
	if err != nil {
		panic(err) // only for a size below one
	}
	return messages{
		served: map[string]service{}, seen: seen,
		asked: map[messageID]chan envelope{}, working: map[messageID]context.CancelFunc{},
	}
}

// Name returns that of this replica: random, and another one after each start.
func (s *Store) Name() string { return s.replica }

// SetMaxMessage bounds each message to another replica, in bytes, beside 64 KiB for what goes with it. Those that come are bounded
// by the replica that sends them. The default is [config.DefaultMaxMessage].
func (s *Store) SetMaxMessage(size int) { s.messages.max.Store(int64(size) + maxBeside) }

// Serve has a function called, in a goroutine of its own, with each message that another replica sends under a topic. What it returns is the
// answer, which is nil where the sender has not asked. Its context ends when nobody needs the answer any more. To be called before
// [Store.Run].
func (s *Store) Serve(topic string, f func(ctx context.Context, message []byte) (answer []byte)) {
	s.messages.served[topic] = service{f, make(chan struct{}, maxServed)}
}

// Tell sends a message to a replica, or to all others if to is empty, which is not done with one of more than 512 KiB. Nobody confirms that it
// arrives.
func (s *Store) Tell(to, topic string, message []byte) {
	_ = s.publish(to, envelope{kind: kindTell, topic: topic, payload: message}) // as good as one that does not arrive
}

// Ask sends a message to a replica and returns its answer. An error is that of ctx, or means that there will be no answer; the message may
// have arrived all the same.
func (s *Store) Ask(ctx context.Context, to, topic string, message []byte) (answer []byte, err error) {
	if to == "" || to == s.replica {
		return nil, ErrGone // nobody would answer
	}
	question := envelope{kind: kindAsk, id: newMessageID(), topic: topic, payload: message}
	heard := make(chan envelope, 1)
	s.messages.await(question.id, heard)
	defer s.messages.forget(question.id)
	if isHeard, err := s.send(to, question); err != nil || !isHeard {
		return nil, cmp.Or(err, ErrGone)
	}
	timer := time.NewTimer(hearPatience)
	defer timer.Stop()
	for {
		select {
		case e := <-heard:
			switch {
			case e.kind == kindNone:
				return nil, ErrGone
			case e.kind == kindAnswer && e.pieces > 0:
				return s.takePieces(ctx, s.keys.Load(), &e)
			case e.kind == kindAnswer:
				return e.payload, nil
			}
			timer.Reset(goneAfter)
		case <-timer.C:
			return nil, ErrGone
		case <-ctx.Done():
			_ = s.publish(to, envelope{kind: kindCancel, id: question.id}) // it finds out when it answers
			return nil, ctx.Err()
		}
	}
}

func (m *messages) await(id messageID, heard chan envelope) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[id] = heard
}

func (m *messages) forget(id messageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asked, id)
}

// publish sends an envelope to a replica, or to all.
func (s *Store) publish(to string, e envelope) error {
	_, err := s.send(to, e)
	return err
}

// send is publish. IsHeard is false if surely nobody listens. A node of a Redis Cluster knows only who listens at that node.
func (s *Store) send(to string, e envelope) (isHeard bool, err error) {
	here := s.here.Load()
	if here == nil {
		return false, ErrAway
	}
	if int64(len(e.payload)) > s.messages.max.Load() || to == "" && len(e.payload) > maxToAll {
		return false, errMessageTooLarge
	}
	s.address(&e, to)
	keys := s.keys.Load()
	if len(e.payload) > pieceSize && to != "" {
		if err := s.putPieces(here.client, keys, &e); err != nil {
			return false, err
		}
	}
	channel, message := keys.sealed(to, &e)
	var listeners atomic.Int64 // which may be written after a time that is too long
	err = within(patience, func() error {
		n, err := here.client.Do(context.Background(), publication(here.client, channel, message)).AsInt64()
		listeners.Store(n)
		return err
	})
	s.done(here, err)
	if err != nil {
		return false, ErrAway
	}
	return listeners.Load() > 0 || here.client.Mode() == valkey.ClientModeCluster, nil
}

// publication returns the command that publishes to a channel. In a Redis Cluster it goes to the node that would have a key of that name. Any
// node would do, but the client may choose one that hangs, although it has no keys.
func publication(client valkey.Client, channel, message string) valkey.Completed {
	return client.B().Arbitrary("PUBLISH").Keys(channel).Args(message).Build()
}

// address completes an envelope to a replica, or to all.
func (s *Store) address(e *envelope, to string) {
	e.from, e.to = s.replica, to
	if e.kind == kindTell {
		e.id = newMessageID()
	}
}

// sealed returns an envelope as it is published.
func (k *keys) sealed(to string, e *envelope) (channel, message string) {
	return k.channels(to)[0], k.messages.Seal(e.encode())
}

// listen hears messages until ctx ends, and then waits for those that are being served.
func (s *Store) listen(ctx context.Context) {
	defer s.messages.work.Wait()
	for here := s.awaitHere(ctx); here != nil; here = s.awaitHere(ctx) {
		keys := s.keys.Load()
		bound, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(keys.replaced, cancel)
		channels := append(keys.channels(s.replica), keys.channels("")...)
		err := here.client.Receive(bound, here.client.B().Subscribe().Channel(channels...).Build(), func(m valkey.PubSubMessage) {
			s.receive(ctx, keys, m.Message)
		})
		stop()
		cancel()
		if err != nil && !sleep(ctx, listenPause) {
			return
		}
	}
}

// receive handles what was published. It does not block.
func (s *Store) receive(ctx context.Context, keys *keys, sealed string) {
	plain, err := keys.messages.Open(sealed)
	if err != nil {
		return // not a replica's
	}
	e, ok := decode(plain)
	if !ok || e.from == s.replica || e.to != "" && e.to != s.replica { // one of these, if somebody else has published it again
		return
	}
	switch e.kind {
	case kindTell, kindAsk:
		if known, _ := s.messages.seen.ContainsOrAdd(e.id, struct{}{}); !known {
			s.serve(ctx, keys, e)
		}
	case kindWork, kindAnswer, kindNone:
		s.messages.hear(e)
	case kindCancel:
		s.messages.cancel(e.id)
	}
}

// serve has a message served, unless there are too many.
func (s *Store) serve(ctx context.Context, keys *keys, e envelope) {
	service := s.messages.served[e.topic]
	select {
	case service.slots <- struct{}{}:
	default: // there are too many, or the topic is a later version's
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if e.kind == kindAsk {
		s.messages.begin(e.id, cancel)
	}
	s.messages.work.Go(func() {
		defer func() { <-service.slots }()
		defer cancel()
		if e.kind == kindTell {
			if s.complete(ctx, keys, &e) {
				service.serve(ctx, e.payload)
			}
			return
		}
		defer s.messages.end(e.id)
		stop := s.sayAtWork(ctx, e)
		answer := envelope{kind: kindNone, id: e.id}
		if s.complete(ctx, keys, &e) {
			answer.kind, answer.payload = kindAnswer, service.serve(ctx, e.payload)
		}
		if ctx.Err() == nil {
			s.sendAnswer(e.from, answer) // which takes seconds if it is large
		}
		stop()
	})
}

// complete takes the payload of an envelope out of the store, if it is there. It reports whether the envelope has it.
func (s *Store) complete(ctx context.Context, keys *keys, e *envelope) bool {
	if e.pieces == 0 {
		return true
	}
	var err error
	e.payload, err = s.takePieces(ctx, keys, e)
	return err == nil
}

// sendAnswer sends an answer. Where that fails, whoever asked waits no longer than for a replica that is gone.
func (s *Store) sendAnswer(to string, answer envelope) {
	if err := s.publish(to, answer); errors.Is(err, errMessageTooLarge) {
		_ = s.publish(to, envelope{kind: kindNone, id: answer.id})
	}
}

// sayAtWork tells whoever asked, at once and every second until stop is called, that there will be an answer.
func (s *Store) sayAtWork(ctx context.Context, e envelope) (stop func()) {
	say := func() { _ = s.publish(e.from, envelope{kind: kindWork, id: e.id}) } // as in serve
	say()
	ctx, cancel := context.WithCancel(ctx)
	var said sync.WaitGroup
	said.Go(func() {
		for sleep(ctx, workInterval) {
			say()
		}
	})
	return func() {
		cancel()
		said.Wait()
	}
}

func (m *messages) begin(id messageID, cancel context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.working[id] = cancel
}

func (m *messages) end(id messageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.working, id)
}

func (m *messages) cancel(id messageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cancel := m.working[id]; cancel != nil {
		cancel()
	}
}

// hear hands an envelope to whoever has asked. An answer takes the place of a sign of work that was not read yet.
func (m *messages) hear(e envelope) {
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := m.asked[e.id]
	if heard == nil {
		return
	}
	if e.kind != kindWork {
		delete(m.asked, e.id) // nothing comes after it
		select {
		case <-heard:
		default:
		}
	}
	select {
	case heard <- e:
	default: // a sign of work waits already
	}
}

func newMessageID() (id messageID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// envelope is a message between replicas.
type envelope struct {
	kind  kind
	id    messageID
	from  string
	to    string // empty for all
	topic string
	// pieces is in how many pieces the payload is in the store; 0 if it is here.
	pieces  uint32
	payload []byte
}

// encode returns the kind, the id, the number of pieces, the replicas and the topic with the length of each in a byte, and the payload.
func (e *envelope) encode() []byte {
	b := make([]byte, 0, 1+len(e.id)+4+3+len(e.from)+len(e.to)+len(e.topic)+len(e.payload))
	b = append(append(b, byte(e.kind)), e.id[:]...)
	b = binary.BigEndian.AppendUint32(b, e.pieces)
	for _, text := range []string{e.from, e.to, e.topic} {
		b = append(append(b, byte(len(text))), text...)
	}
	return append(b, e.payload...)
}

func decode(b []byte) (e envelope, ok bool) {
	const head = 1 + len(e.id)
	if len(b) < head+4 {
		return e, false
	}
	e.kind, e.id, e.pieces, b = kind(b[0]), messageID(b[1:]), binary.BigEndian.Uint32(b[head:]), b[head+4:]
	for _, text := range []*string{&e.from, &e.to, &e.topic} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return e, false
		}
		size := 1 + int(b[0])
		*text, b = string(b[1:size]), b[size:]
	}
	e.payload = b
	return e, true
}

// channels returns those of a replica, or of all if the name is empty, by each of the cursor keys: the first is published to, and all are
// subscribed to.
func (k *keys) channels(replica string) (channels []string) {
	for _, mac := range k.fleet {
		channels = append(channels, ofAll+"to:"+hash(mac, "replica "+replica))
	}
	return channels
}
