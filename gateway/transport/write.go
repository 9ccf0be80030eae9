package transport

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
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

// writeJSON writes a small response.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	return write(context.Background(), w, time.Now(), status, false, body)
}

// write writes a JSON response, which its client must have read writeTimeout from now. What does
// not fit into the HTTP server's buffer leaves in one system call; ctx is the HTTP request's. If
// through, nothing is left in that buffer either: when write returns, the client has read the
// response, or the system has it.
func write(
	ctx context.Context, w http.ResponseWriter, now time.Time, status int, through bool, parts ...[]byte,
) (err error) {
	header, size := w.Header(), 0
	for _, part := range parts {
		size += len(part)
	}
	header["Content-Type"] = contentJSON
	if through || size > maxCounted { // or a flush would make it a response in chunks
		header["Content-Length"] = []string{strconv.Itoa(size)}
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(now.Add(writeTimeout)) // a writer without deadlines stays unbounded
	w.WriteHeader(status)
	if size > maxBuffered {
		err = edge.Write(ctx, w, parts...)
	} else {
		for i := 0; i < len(parts) && err == nil; i++ {
			_, err = w.Write(parts[i])
		}
	}
	if err == nil && through {
		err = control.Flush()
	}
	return err
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
