package wire

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Batches reports whether a revision has batches: an array of messages in place of one message.
func Batches(revision string) bool { return revision == Rev20250326 }

// NoBatches returns the error for a batch in any other revision.
func NoBatches() *Error {
	return NewError(InvalidRequest, "Batches of messages are not accepted in this revision")
}

// IsBatch reports whether raw starts like a batch. It may still not be JSON.
func IsBatch(raw []byte) bool { return jsontext.Value(raw).Kind() == '[' }

// ParseBatch splits a batch into messages, as strictly as [Parse]. Each must still be read by
// Parse, because an invalid one leaves the others valid. The error is an [*Error], as Parse returns
// it.
func ParseBatch(raw []byte) ([]jsontext.Value, error) {
	messages, err := parseArray(&scanner{raw: raw})
	if err != nil {
		return nil, NewError(ParseError, "Parse error: "+err.Error())
	}
	if len(messages) == 0 { // JSON-RPC 2.0, section 6
		return nil, NewError(InvalidRequest, "Invalid request: the batch is empty")
	}
	return messages, nil
}

// ParseAll reads either one message or, in a revision that has batches, a batch of which every
// message must be valid. The error is that of [Parse].
func ParseAll(raw []byte, revision string) ([]Message, error) {
	if !IsBatch(raw) || !Batches(revision) {
		messages := make([]Message, 1)
		return messages, messages[0].parse(raw)
	}
	batch, err := ParseBatch(raw)
	if err != nil {
		return nil, err
	}
	messages := make([]Message, len(batch))
	for i := range batch {
		if err = messages[i].parse(batch[i]); err != nil {
			return nil, err
		}
	}
	return messages, nil
}
