package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// remembered is how long the store keeps what was announced last, for replicas that are started later.
	remembered = 25 * time.Hour
	// maxAnnounced bounds what it keeps of each topic, about, and maxRenewed of one whose messages are announced again and again.
	maxAnnounced, maxRenewed = 100_000, 100
	// maxWaiting bounds the announcements that wait for a store that is away. Beyond it the oldest is lost.
	maxWaiting = 10_000
	// repeated is for how long what was announced is announced again once the store was lost: a server that has taken the place of another one
	// may not have what that was told last.
	repeated = time.Minute
	// overlap is how much is heard again after the store may have lost something, since another server may have taken its place, whose clock
	// is behind.
	overlap = 5 * time.Minute
	// hearAtOnce bounds the announcements that are read at once, and hearTime how long the store waits for some.
	hearAtOnce, hearTime = 1000, 5 * time.Second
)

var errNoStreams = errors.New("the store does not answer which streams there are")

// Announcements reach the other replicas by one stream for each topic and cursor key. A stream keeps its entries, so that a replica
// that was away, or is new, hears what it missed.

// announcements are what is announced and heard. The zero value is ready.
type announcements struct {
	heard map[string]hearing // by topic; not written after Run has begun

	mu      sync.Mutex // guards what follows
	waiting []announcement
	// sent are those that the store was told lately, maxWaiting at most.
	sent []announcement
}

// hearing is what becomes of a topic's messages.
type hearing struct {
	heard func(message []byte)
	// lasts is for how long a message reaches replicas that are started after it.
	lasts time.Duration
}

// announcement is a message, and when it was announced.
type announcement struct {
	topic   string
	message []byte
	at      time.Time
}

// Hear has a function called with each message that any replica announces under a topic, itself included, and maybe more than once.
// The calls come from one goroutine, and must not block. To be called before [Store.Run].
func (s *Store) Hear(topic string, heard func(message []byte)) { s.HearFor(topic, remembered, heard) }

// HearFor is [Store.Hear] for a topic whose messages reach replicas only that are started at most a time after them, by the store's
// clock, or were away for less. What is to hold for longer has to be announced again, often enough.
func (s *Store) HearFor(topic string, lasts time.Duration, heard func(message []byte)) {
	if s.announced.heard == nil {
		s.announced.heard = map[string]hearing{}
	}
	s.announced.heard[topic] = hearing{heard, lasts}
	s.storeKeys(s.keys.Load().sealer)
}

// Announce tells all replicas of a message, those too that are started while it lasts: for a day, unless [Store.HearFor] says otherwise. When
// it returns, the store has it; or the store is away, and gets it when it is here again. It gets it once more if it is lost within a minute.
func (s *Store) Announce(topic string, message []byte) {
	one := announcement{topic, message, time.Now()}
	if here := s.here.Load(); here != nil {
		err := within(patience, func() error { return s.add(context.Background(), here.client, topic, message) })
		s.done(here, err)
		if err == nil {
			s.announced.wereSent(one)
			return
		}
	}
	s.announced.mu.Lock()
	defer s.announced.mu.Unlock()
	s.announced.waiting = lastOf(append(s.announced.waiting, one))
}

// wereSent notes what the store was told.
func (a *announcements) wereSent(some ...announcement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = lastOf(append(a.freshLocked(), some...))
}

// freshLocked returns what was sent within the time after which nothing is repeated.
func (a *announcements) freshLocked() []announcement {
	i := slices.IndexFunc(a.sent, func(one announcement) bool { return time.Since(one.at) < repeated })
	if i < 0 {
		return nil
	}
	return a.sent[i:]
}

// repeat has what was sent lately sent again.
func (a *announcements) repeat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting, a.sent = lastOf(append(a.freshLocked(), a.waiting...)), nil
}

// lastOf returns as many of the last announcements as are kept.
func lastOf(all []announcement) []announcement { return all[max(0, len(all)-maxWaiting):] }

// add appends a message to the stream of its topic.
func (s *Store) add(ctx context.Context, client valkey.Client, topic string, message []byte) error {
	t := s.keys.Load().topics[topic]
	most := maxAnnounced
	if t.lasts < remembered {
		most = maxRenewed
	}
	for _, result := range client.DoMulti(ctx,
		client.B().Xadd().Key(t.streams[0]).Maxlen().Almost().Threshold(strconv.Itoa(most)).Id("*").
			FieldValue().FieldValue("m", t.box.Seal(message)).Build(),
		client.B().Pexpire().Key(t.streams[0]).Milliseconds(t.lasts.Milliseconds()).Build(),
	) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// announceWaiting sends what has waited for the store.
func (s *Store) announceWaiting(ctx context.Context, client valkey.Client) error {
	s.announced.mu.Lock()
	waiting := s.announced.waiting
	s.announced.waiting = nil
	s.announced.mu.Unlock()
	for i, one := range waiting {
		bound, cancel := context.WithTimeout(ctx, answerPatience)
		err := s.add(bound, client, one.topic, one.message)
		cancel()
		if err != nil {
			s.announced.mu.Lock()
			s.announced.waiting = lastOf(append(waiting[i:], s.announced.waiting...))
			s.announced.mu.Unlock()
			return err
		}
		s.announced.wereSent(one)
	}
	return nil
}

// hear reads the streams until ctx ends.
func (s *Store) hear(ctx context.Context) {
	if len(s.announced.heard) == 0 {
		return
	}
	positions := map[string]string{} // the last entry that was read, by stream
	losses := s.losses.Load()
	for here := s.awaitHere(ctx); here != nil; here = s.awaitHere(ctx) {
		if now := s.losses.Load(); now != losses {
			losses = now
			for stream, position := range positions {
				positions[stream] = earlier(position, overlap)
			}
		}
		if err := s.read(ctx, here.client, positions); err != nil && ctx.Err() == nil {
			s.fail(here, fmt.Errorf("read announcements: %w", err))
		}
	}
}

// read waits for announcements for a time, and has them heard.
func (s *Store) read(ctx context.Context, client valkey.Client, positions map[string]string) error {
	topics := map[string]string{} // by stream
	var streams, from []string
	keys := s.keys.Load()
	if err := keys.begin(ctx, client, positions); err != nil {
		return err
	}
	for topic, t := range keys.topics {
		for _, stream := range t.streams {
			topics[stream] = topic
			streams, from = append(streams, stream), append(from, positions[stream])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, hearTime+answerPatience)
	defer cancel()
	entries, err := client.Do(ctx, client.B().Xread().Count(hearAtOnce).Block(hearTime.Milliseconds()).Streams().Key(streams...).Id(from...).Build()).AsXRead()
	if err != nil && !valkey.IsValkeyNil(err) {
		return err
	}
	for stream, all := range entries {
		topic := topics[stream]
		for _, entry := range all {
			positions[stream] = entry.ID
			if message, err := keys.topics[topic].box.Open(entry.FieldValues["m"]); err == nil { // others cannot be a replica's
				s.announced.heard[topic].heard(message)
			}
		}
	}
	return nil
}

// streamsScript returns the time, in milliseconds, and the last entry of each stream in KEYS, by its id; empty for one without entries. The clock
// is that by which entries get their ids: another node of a Redis Cluster may have another one.
//
//nolint:gochecknoglobals // a constant
var streamsScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local answer = {string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))}
for i, key in ipairs(KEYS) do
	local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
	answer[i + 1] = last and last[1] or ''
end
return answer`)

// begin sets the position of each stream from which to read: of one that has none, before what lasts still. One that is before its position was
// lost, or has expired, and begins again, maybe by a clock that is behind: it is read from its beginning.
func (k *keys) begin(ctx context.Context, client valkey.Client, positions map[string]string) error {
	var streams []string
	var lasts []time.Duration
	for _, t := range k.topics {
		for _, stream := range t.streams {
			streams, lasts = append(streams, stream), append(lasts, t.lasts)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	answer, err := streamsScript.Exec(ctx, client, streams, nil).AsStrSlice()
	if err != nil {
		return err
	}
	if len(answer) != 1+len(streams) {
		return errNoStreams
	}
	for i, stream := range streams {
		switch position, last := positions[stream], answer[i+1]; {
		case position == "":
			positions[stream] = earlier(answer[0], lasts[i])
		case compareIDs(last, position) < 0:
			positions[stream] = "0"
		}
	}
	return nil
}

// compareIDs compares the ids of entries: a time in milliseconds and a number, or nothing, which is before all.
func compareIDs(a, b string) int {
	timeA, countA := splitID(a)
	timeB, countB := splitID(b)
	return cmp.Or(cmp.Compare(timeA, timeB), cmp.Compare(countA, countB))
}

func splitID(id string) (at, count uint64) {
	ms, number, _ := strings.Cut(id, "-")
	at, _ = strconv.ParseUint(ms, 10, 64)        // 0 for what is none
	count, _ = strconv.ParseUint(number, 10, 64) // as above
	return at, count
}

// earlier returns the position before an entry of a stream by a time.
func earlier(id string, by time.Duration) string {
	ms, _, _ := strings.Cut(id, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return "0"
	}
	return strconv.FormatInt(max(0, at-by.Milliseconds()), 10)
}

// topic is what a topic is in the store: streams, of which the first is written, and what seals its messages.
type topic struct {
	streams []string
	box     *seal.Box
	lasts   time.Duration
}

// newTopic names a topic's streams by each of the cursor keys: while these are being replaced, replicas have different first ones. All
// streams are at one node, so that they are read together.
func newTopic(sealer *seal.Sealer, name string, lasts time.Duration) topic {
	t := topic{box: sealer.For("cluster " + name), lasts: lasts}
	for _, mac := range sealer.MACs(fleetPurpose) {
		t.streams = append(t.streams, ofAll+"announced:"+hash(mac, name))
	}
	return t
}
