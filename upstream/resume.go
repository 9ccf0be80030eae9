package upstream

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxResumes bounds how often the stream with a response is taken up again, and maxMisses how often in a row that
	// may come to nothing because the server is not there.
	maxResumes = 1000
	maxMisses  = 5
	// maxEventID bounds what goes back in a header.
	maxEventID = 1 << 10
	// longestRest bounds how long a server may want to be left alone.
	longestRest = time.Hour
)

// bookmark is where the reading of an event stream of the legacy era stopped (2025-11-25, Transports, "Resumability and
// Redelivery"). It is for one reader at a time.
type bookmark struct {
	// id is the last event's. It is empty where the server gives none: it cannot be asked to go on.
	id string
	// retry is how long the server wants to be left alone before the stream is opened again; 0 where it does not say.
	retry time.Duration
	// stopped is when the reading did.
	stopped time.Time
}

// reach moves the bookmark to an event. One whose id does not fit in a header cannot be gone on from.
func (b *bookmark) reach(id string) {
	if len(id) > maxEventID || strings.ContainsFunc(id, unicode.IsControl) {
		id = ""
	}
	b.id = id
}

// rest waits as long as the server wants to be left alone, but at least for a time since the reading stopped.
func (b *bookmark) rest(ctx context.Context, least time.Duration) error {
	return sleep(ctx, time.Until(b.stopped.Add(max(b.retry, least))))
}

// resume takes the stream up again that ended or broke before the response with the id came: the server may have closed
// the connection on purpose, for the client to come back. It goes on until ctx ends, or returns why it cannot.
func (t *httpTransport) resume(ctx context.Context, place *bookmark, id string, said func(*wire.Message), broke error) (*wire.Message, error) {
	misses := 0
	for range maxResumes {
		if err := place.rest(ctx, min(firstRetry<<misses, lastRetry)); err != nil {
			return nil, err
		}
		answer, err := t.get(ctx, place, id, said, func() { misses = 0 })
		switch {
		case err == nil:
			return answer, nil
		case errors.Is(err, errNoStream):
			return nil, broke
		case !interrupted(err), ctx.Err() != nil:
			return nil, err
		}
		if misses++; misses > maxMisses {
			return nil, err
		}
	}
	return nil, broke
}

// interrupted reports whether the error of a stream leaves it possible that the server goes on with it.
func interrupted(err error) bool {
	_, nonsense := errors.AsType[*protocolError](err)
	return !nonsense && !errors.Is(err, errSessionLost)
}
