package wire

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Batches reports whether a revision has batches: arrays of messages in the place of one.
func Batches(revision string) bool { return revision == Rev20250326 }

// NoBatches is the error of a batch in any other revision.
func NoBatches() *Error {
	return NewError(InvalidRequest, "Batches of messages are not accepted in this revision")
}

// IsBatch reports whether what was read begins like a batch. It may still be no JSON.
func IsBatch(raw []byte) bool { return jsontext.Value(raw).Kind() == '[' }

// ParseBatch splits a batch into its messages, as strictly as [Parse] reads one. Each is still to be read by Parse,
// because one that is wrong takes nothing from the others. The error is an [*Error] as Parse returns it.
func ParseBatch(raw []byte) ([]jsontext.Value, error) {
	messages, err := parseArray(&scanner{raw: raw})
	if err != nil {
		return nil, NewError(ParseError, "Parse error: "+err.Error())
	}
	if len(messages) == 0 {
		return nil, NewError(InvalidRequest, "Invalid request: the batch is empty")
	}
	return messages, nil
}

// ParseAll reads what a peer said at once: one message or, in a revision that has them, a batch, of which each message
// must be one. The error is that of [Parse].
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
