package transport

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// incoming is one message, or one batch of messages.
type incoming struct {
	request *requests.Request
	// batch holds the messages of a batch, each still to be read; nil for a single message.
	batch []jsontext.Value
	// raw is what was posted; nil over stdio.
	raw []byte
	// header is that of the HTTP request that brought it; nil over stdio.
	header http.Header
}

// readIncoming reads a message or batch. Even with an error the request has the message's id, if that much could be read.
// Whether the client's revision has batches is for the caller to check.
func readIncoming(raw []byte) (in incoming, refusal *wire.Error) {
	if !wire.IsBatch(raw) {
		in.request, refusal = requests.Read(raw)
		return in, refusal
	}
	in.request = &requests.Request{}
	batch, err := wire.ParseBatch(raw)
	switch {
	case err != nil:
		return in, requests.AsWireError(err)
	case len(batch) > maxBatch:
		return in, wire.NewError(wire.InvalidRequest, fmt.Sprintf("Invalid request: a batch has at most %d messages", maxBatch))
	}
	in.batch = batch
	return in, nil
}
