package cluster

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// A server of pub/sub cuts off a subscriber for whom much waits, and whoever else uses the connection waits for a large message. What
// is larger than a piece, and for one replica, is put into the store in pieces, one after another, and the message says how many there
// are. The receiver takes them out. It is asked first whether it is there: a client can make up the name of a replica, and the store would
// keep for nobody what the client sends.

const (
	// pieceSize bounds a message as it is published, and a piece, in bytes.
	pieceSize = 128 << 10
	// pieceLife is how long the store keeps a piece that nobody takes.
	pieceLife = 30 * time.Second
	// topicThere is that of the question whether a replica is there.
	topicThere = "there"
)

// putPieces puts the payload of an envelope into the store, sealed.
func (s *Store) putPieces(client valkey.Client, keys *keys, e *envelope) error {
	if e.kind != kindAnswer { // whoever waits for an answer is there
		if _, err := s.Ask(context.Background(), e.to, topicThere, nil); err != nil {
			return err
		}
	}
	sealed := keys.messages.Seal(append(e.id[:], e.payload...)) // with the id, so that none stands for another one
	for e.payload = nil; len(sealed) > 0; e.pieces++ {
		piece := sealed[:min(len(sealed), pieceSize)]
		sealed = sealed[len(piece):]
		ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
		err := client.Do(ctx, client.B().Set().Key(pieceKey(e.id, e.pieces)).Value(piece).Px(pieceLife).Build()).Error()
		cancel()
		if err != nil {
			return ErrAway
		}
	}
	return nil
}

// takePieces takes the payload of an envelope out of the store.
func (s *Store) takePieces(ctx context.Context, keys *keys, e *envelope) ([]byte, error) {
	here := s.here.Load()
	if here == nil {
		return nil, ErrAway
	}
	var sealed strings.Builder
	for n := range e.pieces {
		bound, cancel := context.WithTimeout(ctx, answerPatience)
		piece, err := here.client.Do(bound, here.client.B().Getdel().Key(pieceKey(e.id, n)).Build()).ToString()
		cancel()
		switch {
		case valkey.IsValkeyNil(err): // it was taken, or has waited for too long
			return nil, ErrGone
		case err != nil:
			return nil, ErrAway
		}
		sealed.WriteString(piece)
	}
	plain, err := keys.messages.Open(sealed.String())
	if err != nil || len(plain) < len(e.id) || messageID(plain) != e.id {
		return nil, ErrGone
	}
	return plain[len(e.id):], nil
}

func pieceKey(id messageID, n uint32) string {
	return "promptweir:piece:" + hex.EncodeToString(id[:]) + ":" + strconv.FormatUint(uint64(n), 10)
}
