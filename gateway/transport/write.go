package transport

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// writeTimeout is how long a client may delay the writing of a response, or of an event, before
	// it is dropped.
	writeTimeout = 30 * time.Second
	// maxCounted is the size in bytes up to which the HTTP server computes a response's
	// Content-Length by itself.
	maxCounted = 2 << 10
	// maxBuffered is the size in bytes up to which a response and its header fit into the HTTP
	// server's buffer.
	maxBuffered = 3 << 10
	// maxPooled bounds the buffers that are kept for later responses, in bytes.
	maxPooled = 1 << 20
)

// contentJSON is shared by all responses. Nobody changes a header's values in place.
var contentJSON = []string{wire.ContentJSON} //nolint:gochecknoglobals // a constant

func writeJSON(w http.ResponseWriter, status int, parts ...[]byte) error {
	return writeAt(time.Now(), w, status, parts...)
}

// writeAt writes a response at a time that is known already.
func writeAt(now time.Time, w http.ResponseWriter, status int, parts ...[]byte) error {
	writeHeader(now, w, status, length(parts))
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// writeHeader writes the header of a JSON response of a length, and sets the time by which the
// client must have read it.
func writeHeader(now time.Time, w http.ResponseWriter, status, length int) {
	header := w.Header()
	header["Content-Type"] = contentJSON
	if length > maxCounted {
		header["Content-Length"] = []string{strconv.Itoa(length)}
	}
	// A writer without deadlines stays unbounded.
	_ = http.NewResponseController(w).SetWriteDeadline(now.Add(writeTimeout))
	w.WriteHeader(status)
}

func length(parts [][]byte) (sum int) {
	for _, part := range parts {
		sum += len(part)
	}
	return sum
}

// writeLarge is writeAt for a response that may be large: it leaves in one system call. Ctx is the
// HTTP request's.
func writeLarge(ctx context.Context, w http.ResponseWriter, now time.Time, status int, parts ...[]byte) error {
	if length(parts) <= maxBuffered {
		return writeAt(now, w, status, parts...)
	}
	writeHeader(now, w, status, length(parts))
	return edge.Write(ctx, w, parts...)
}

// writeResponse writes the response to one request. When it returns, one that counts against a
// limit is really written.
func writeResponse(
	ctx context.Context, w http.ResponseWriter, now time.Time, status int, response *requests.Response,
) error {
	if response.Limited() {
		return writeThrough(ctx, w, now, status, response.Parts()...)
	}
	return writeLarge(ctx, w, now, status, response.Parts()...)
}

// writeThrough is writeLarge, but leaves nothing in the HTTP server's buffer: when it returns, the
// client has read the response, or the system has taken it.
func writeThrough(ctx context.Context, w http.ResponseWriter, now time.Time, status int, parts ...[]byte) error {
	// Or a flush would make it a response in chunks.
	w.Header()["Content-Length"] = []string{strconv.Itoa(length(parts))}
	if err := writeLarge(ctx, w, now, status, parts...); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// buffers are reused between responses, so that a page of the list costs no allocation of its size.
var buffers = sync.Pool{ //nolint:gochecknoglobals // a pool is shared by nature
	New: func() any { return new([]byte) },
}

// getBuffer returns an empty buffer.
func getBuffer() *[]byte {
	buffer, _ := buffers.Get().(*[]byte)
	*buffer = (*buffer)[:0]
	return buffer
}

// putBuffer keeps the memory of what was appended to a buffer for the next response.
func putBuffer(buffer *[]byte, appended []byte) {
	if cap(appended) <= maxPooled {
		*buffer = appended[:0]
		buffers.Put(buffer)
	}
}
