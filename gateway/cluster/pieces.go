package cluster

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// A server of pub/sub cuts off a subscriber for whom much waits, and whoever else uses the
// connection waits for a large message. A body that is larger than a piece, and for one replica, is
// put into the store in pieces, and the message says how many there are. The receiver takes them
// out. It is asked first whether it is ready: a client can make up the name of a replica, and the
// store would keep for nobody what the client sends.

const (
	// pieceSize bounds a message as it is published, and a piece, in bytes.
	pieceSize = 128 << 10
	// pieceLife is how long the store keeps a piece that nobody takes or deletes.
	pieceLife = 30 * time.Second
	// topicReady is that of the question whether a replica is ready.
	topicReady = "ready"
	// maxUnderWay bounds the bytes that are under way to one replica, and maxOfPrincipal those of
	// one principal.
	maxUnderWay, maxOfPrincipal = 64 << 20, 16 << 20
)

// ErrTooMuch means that too much is under way to a replica, or of a principal.
var ErrTooMuch = errors.New("too many bytes are on their way to the replica")

// putPieces puts the body of an envelope into the store, sealed. What it has put of a
// call that fails is deleted by endCall; that of anything else expires.
func (m *Messages) putPieces(client valkey.Client, keys *keys, e *envelope) (err error) {
	size := int64(len(e.Body))
	if e.Kind != kindAnswer { // whoever waits for an answer is there
		// It ends without a context: the other replica answers at once, or counts as gone.
		if err := m.Call(context.Background(), e.To, topicReady, "", struct{}{}, &struct{}{}); err != nil {
			return err
		}
	}
	if e.Kind == kindCall && !m.reserve(e, size) {
		return ErrTooMuch
	}
	// With the id, so that none stands for another.
	sealed := keys.box.Seal(append([]byte(e.ID+" "), e.Body...))
	// Pieces counts those that are in the store, for whoever deletes them after a failure.
	for e.Body = nil; len(sealed) > 0; e.Pieces++ {
		piece := sealed[:min(len(sealed), pieceSize)]
		sealed = sealed[len(piece):]
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		set := client.B().Set().Key(pieceKey(e.ID, e.Kind, e.Pieces)).Value(piece).Px(pieceLife).Build()
		err := client.Do(ctx, set).Error()
		cancel()
		if err != nil {
			return ErrUnavailable
		}
	}
	return nil
}

// reserve counts the bytes of an envelope, unless there are too many. [Messages.discard] gives them
// back.
func (m *Messages) reserve(e *envelope, size int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	to, principal := "to "+e.To, "of "+e.Principal
	if m.underWay[to]+size > maxUnderWay ||
		e.Principal != "" && m.underWay[principal]+size > maxOfPrincipal {
		return false
	}
	m.underWay[to] += size
	m.underWay[principal] += size
	m.underWay[e.ID] = size
	return true
}

// discard deletes the pieces of a call that is over, if there are any left.
func (m *Messages) discard(e *envelope) {
	m.mu.Lock()
	size, reserved := m.underWay[e.ID]
	if reserved {
		delete(m.underWay, e.ID)
		for _, who := range []string{"to " + e.To, "of " + e.Principal} {
			if m.underWay[who] -= size; m.underWay[who] == 0 {
				delete(m.underWay, who)
			}
		}
	}
	m.mu.Unlock()
	if reserved {
		m.deletePieces(e)
	}
}

// deletePieces deletes what of an envelope's body is in the store.
func (m *Messages) deletePieces(e *envelope) {
	client := m.store.get()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	commands := make(valkey.Commands, 0, e.Pieces+1)
	for n := range e.Pieces + 1 { // the last one may have been put although that has failed
		commands = append(commands, client.B().Del().Key(pieceKey(e.ID, e.Kind, n)).Build())
	}
	_ = client.DoMulti(ctx, commands...) // they end by themselves
}

// complete takes the body of an envelope out of the store, if it is there.
func (m *Messages) complete(ctx context.Context, keys *keys, e *envelope) error {
	if e.Pieces == 0 {
		return nil
	}
	client := m.store.get()
	if client == nil {
		return ErrUnavailable
	}
	var sealed strings.Builder
	for n := range e.Pieces {
		bound, cancel := context.WithTimeout(ctx, storeTimeout)
		// GETDEL, so that nobody has to come back to delete them.
		take := client.B().Getdel().Key(pieceKey(e.ID, e.Kind, n)).Build()
		piece, err := client.Do(bound, take).ToString()
		cancel()
		switch {
		case valkey.IsValkeyNil(err): // it was taken, or has waited for too long
			return ErrGone
		case err != nil:
			return ErrUnavailable
		}
		sealed.WriteString(piece)
	}
	plain, err := keys.box.Open(sealed.String())
	body, ok := strings.CutPrefix(string(plain), e.ID+" ")
	if err != nil || !ok {
		return ErrGone
	}
	e.Pieces, e.Body = 0, []byte(body)
	return nil
}

func pieceKey(id string, of kind, n int) string {
	return "promptweir:piece:" + id + ":" + string(of) + ":" + strconv.Itoa(n)
}
