package cluster

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/upstream/sharedwatch"
)

const (
	// listTime bounds the sending and the receiving of a list.
	listTime = 10 * time.Second
	// maxList bounds a list as the store has it, compressed and sealed, in bytes.
	maxList = 8 << 20
	// maxPlain bounds what is made of it: more than the client of a server accepts as a list.
	maxPlain = 80 << 20
	// piece is how much of a list is sent or received at once, so that the store answers others in between, and pieceTime bounds that.
	piece, pieceTime = 256 << 10, 2 * time.Second
	// stagedLife is how long the store keeps a list that was not sent in full, and listLife one that no holder keeps, in milliseconds: it
	// would be of no use to the next holder.
	stagedLife, listLife = "60000", "60000"
	// maxMoving bounds the lists that a replica sends and receives at once.
	maxMoving = 4
)

// errTooLarge means that a list is not shared, because it has more than 8 MiB.
var errTooLarge = fmt.Errorf("%w: it has more than 8 MiB in the store", sharedwatch.ErrNotShareable)

// errNoRoom means that a list would take memory of the store that is kept for all else.
var errNoRoom = errors.New("the store has too little memory left for the list: raise its maxmemory")

// errListGone means that a list is not, or no longer, the one that was looked for.
var errListGone = errors.New("the list is not in the store, or not the one that it should be")

// putScript makes what was staged the list, and describes it. It returns 0 if the lease is another one, and 2 if the list is not there.
//
// Where there is none, that of before is deleted.
//
//	KEYS  the lease, the list, what was staged
//	ARGV  the watch, its number, for how many milliseconds the list is kept, the description;
//	      the size of what was staged, or how the present description has to begin, or neither where there is no list
//
//nolint:gochecknoglobals // a constant
var putScript = valkey.NewLuaScript(`
local l = redis.call('HMGET', KEYS[1], 'holder', 'number', 'list')
if l[1] ~= ARGV[1] or l[2] ~= ARGV[2] then
	redis.call('DEL', KEYS[3])
	return 0
end
if ARGV[5] ~= '' then
	if redis.call('STRLEN', KEYS[3]) ~= tonumber(ARGV[5]) then return 2 end
	redis.call('RENAME', KEYS[3], KEYS[2])
	redis.call('PEXPIRE', KEYS[2], ARGV[3])
elseif ARGV[6] ~= '' then
	if string.sub(l[3] or '', 1, #ARGV[6]) ~= ARGV[6] or redis.call('EXISTS', KEYS[2]) == 0 then return 2 end
else
	redis.call('DEL', KEYS[2])
end
redis.call('HSET', KEYS[1], 'list', ARGV[4])
return 1`)

// Put gives all replicas a list under the number of a lease. Unchanged says that it is the one of the last call that succeeded, and that the
// store is not known to have forgotten it: then it is told of it only where answers or ttl are others. Held is
// false, and the list was not put, if the lease has another number. An error means that it may have been put, or not; [sharedwatch.ErrNotShareable]
// that it was not. The version identifies it together with the number.
func (w *Watch) Put(
	ctx context.Context, number uint64, definitions []jsontext.Value, unchanged bool, answers uint64, ttl time.Duration,
) (version uint64, held bool, err error) {
	if before := w.put; unchanged && before.ListNumber == number && before.Version > 0 {
		if before.Answers == answers && before.TTL == ttl {
			return before.Version, true, nil // the others have it, and have nothing to learn
		}
		before.Answers, before.TTL = answers, ttl
		if there, held, err := w.describe(ctx, before, fmt.Sprint(number, before.Version)+" ", ""); there || !held || err != nil {
			if there {
				w.put = before
			}
			return before.Version, held, err
		}
	}
	w.version, w.put = w.version+1, sharedwatch.Turn{}
	list := sharedwatch.Turn{ListNumber: number, Version: w.version, Answers: answers, TTL: ttl}
	plain, err := packed(definitions)
	if err != nil {
		return 0, true, err
	}
	wanted := w.want()
	value := wanted.values().Seal(plain, wanted.about(number, list.Version))
	if list.Size = len(value); list.Size > maxList {
		return 0, true, errTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	if err := w.stage(ctx, wanted, value); err != nil {
		return 0, true, err
	}
	there, held, err := w.describe(ctx, list, "", strconv.Itoa(list.Size))
	switch {
	case err != nil, !held:
	case !there:
		err = errListGone
	default:
		w.put = list
	}
	return list.Version, held, err
}

// PutAlone tells all replicas, under the number of a lease, that they have to watch for themselves. Held is as for Put.
func (w *Watch) PutAlone(ctx context.Context, number, answers uint64) (held bool, err error) {
	w.version, w.put = w.version+1, sharedwatch.Turn{}
	_, held, err = w.describe(ctx, sharedwatch.Turn{ListNumber: number, Version: w.version, Answers: answers, Alone: true}, "", "")
	return held, err
}

// describe has the store describe a list, and wakes the others. There is false if the list itself is not in the store.
func (w *Watch) describe(ctx context.Context, list sharedwatch.Turn, begin, size string) (there, held bool, err error) {
	here := w.store.here.Load()
	if here == nil {
		return false, true, ErrAway
	}
	wanted := w.want()
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	n, err := putScript.Exec(ctx, here.beside, []string{wanted.lease, wanted.list, wanted.staged},
		[]string{w.name, strconv.FormatUint(list.ListNumber, 10), listLife, description(&list), size, begin}).AsInt64()
	if err != nil {
		return false, true, fmt.Errorf("put the list: %w", w.store.mask.Error(err))
	}
	if n == 1 {
		w.wakeOthers(here, wanted, false)
	}
	return n == 1, n != 0, nil
}

// roomScript makes room for a list of as many bytes as ARGV[1] says in KEYS[1], for the milliseconds in ARGV[2]. It returns 0 if a
// quarter of the memory that the store may use would not be left: what limits and sessions need must not depend on what servers list. Where the
// store does not tell, there is room.
//
//nolint:gochecknoglobals // a constant
var roomScript = valkey.NewLuaScript(`
local info = redis.pcall('INFO', 'memory')
if type(info) == 'string' then
	local used, most = tonumber(string.match(info, 'used_memory:(%d+)')), tonumber(string.match(info, 'maxmemory:(%d+)') or 0)
	if used and most > 0 and used + ARGV[1] > most * 3 / 4 then return 0 end
end
redis.call('SET', KEYS[1], '', 'PX', ARGV[2])
redis.call('SETRANGE', KEYS[1], ARGV[1] - 1, '\0')
return 1`)

// stage sends a list to where nobody reads it.
func (w *Watch) stage(ctx context.Context, wanted *wanted, value []byte) error {
	here, done, err := w.store.move(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = makeRoom(ctx, here.beside, wanted.staged, len(value))
	for from := 0; err == nil && from < len(value); from += piece {
		err = send(ctx, here.beside, wanted.staged, from, value[from:min(len(value), from+piece)])
	}
	if err != nil {
		return fmt.Errorf("send the list: %w", w.store.mask.Error(err))
	}
	return nil
}

func makeRoom(ctx context.Context, client valkey.Client, key string, size int) error {
	ctx, cancel := context.WithTimeout(ctx, pieceTime)
	defer cancel()
	n, err := roomScript.Exec(ctx, client, []string{key}, []string{strconv.Itoa(size), stagedLife}).AsInt64()
	if err == nil && n == 0 {
		err = errNoRoom
	}
	return err
}

// pieceScript puts ARGV[2] at the byte ARGV[1] of KEYS[1]. It returns 0 if the room that was made is gone.
//
//nolint:gochecknoglobals // a constant
var pieceScript = valkey.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SETRANGE', KEYS[1], ARGV[1], ARGV[2])
return 1`)

// send sends a piece of a list to where there is room for it.
func send(ctx context.Context, client valkey.Client, key string, from int, piece []byte) error {
	ctx, cancel := context.WithTimeout(ctx, pieceTime)
	defer cancel()
	n, err := pieceScript.Exec(ctx, client, []string{key}, []string{strconv.Itoa(from), valkey.BinaryString(piece)}).AsInt64()
	if err == nil && n == 0 {
		err = errListGone
	}
	return err
}

// Take returns the list that a turn describes. An error means that the store cannot be asked, or has another list or none.
func (w *Watch) Take(ctx context.Context, turn sharedwatch.Turn) ([]jsontext.Value, error) {
	wanted := w.want()
	if wanted.name != turn.Lease || turn.Size > maxList {
		return nil, errListGone
	}
	value, err := w.receive(ctx, wanted, turn.Size)
	if err != nil {
		return nil, err
	}
	plain, err := wanted.values().Open(value, wanted.about(turn.ListNumber, turn.Version))
	if err != nil {
		return nil, errListGone
	}
	return unpacked(plain)
}

func (w *Watch) receive(ctx context.Context, wanted *wanted, size int) ([]byte, error) {
	here, done, err := w.store.move(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	value := make([]byte, 0, size)
	for len(value) < size {
		next, err := receive(ctx, here.beside, wanted.list, len(value), min(size, len(value)+piece))
		if err != nil {
			return nil, fmt.Errorf("receive the list: %w", w.store.mask.Error(err))
		}
		if next == "" {
			return nil, errListGone
		}
		value = append(value, next...)
	}
	return value, nil
}

// receive returns a key's value from one byte to before another.
func receive(ctx context.Context, client valkey.Client, key string, from, to int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceTime)
	defer cancel()
	return client.Do(ctx, client.B().Getrange().Key(key).Start(int64(from)).End(int64(to-1)).Build()).ToString()
}

// move waits until the replica may send or receive one more list. Done must be called.
func (s *Store) move(ctx context.Context) (here *connected, done func(), err error) {
	if here = s.here.Load(); here == nil {
		return nil, nil, ErrAway
	}
	select {
	case s.moving <- struct{}{}:
		return here, func() { <-s.moving }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// packed returns definitions in compressed form.
func packed(definitions []jsontext.Value) ([]byte, error) {
	var b bytes.Buffer
	compressor, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	var size [binary.MaxVarintLen64]byte
	for _, definition := range definitions {
		_, _ = compressor.Write(size[:binary.PutUvarint(size[:], uint64(len(definition)))]) // into memory
		_, _ = compressor.Write(definition)
		if b.Len() > maxList {
			return nil, errTooLarge
		}
	}
	_ = compressor.Close()
	return b.Bytes(), nil
}

// unpacked returns the definitions that were packed. They share memory.
func unpacked(b []byte) (definitions []jsontext.Value, err error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), maxPlain))
	if err != nil {
		return nil, errListGone
	}
	for len(plain) > 0 {
		size, n := binary.Uvarint(plain)
		if n <= 0 || size > uint64(len(plain)-n) {
			return nil, errListGone
		}
		definitions = append(definitions, plain[n:][:size:size])
		plain = plain[n+int(size):]
	}
	return definitions, nil
}
