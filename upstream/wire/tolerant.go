package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseList reads the response to a request for a list like [Parse], except for the elements of the
// array that the named member of the result has: those need only be delimited like JSON values. One
// definition with a lone surrogate or a duplicate member would otherwise invalidate the whole list.
// Split the result with [Members] and [ParseArray], and read each element with [ParseObject], which
// refuses what this function let pass.
func ParseList(raw []byte, member string) (Message, error) {
	message, err := Parse(raw)
	if err == nil {
		return message, nil
	}
	envelope, lax := parseObject(Object{}, &scanner{raw: raw, rigor: delimiting})
	if lax != nil {
		return Message{}, err
	}
	result := Members(envelope.Get("result"))
	elements, lax := ParseArray(result.Get(member))
	if lax != nil {
		return Message{}, err
	}
	// Everything else is checked in a copy that has null in place of the elements that are not
	// valid.
	for i := range elements {
		if !isStrict(elements[i]) {
			elements[i] = jsontext.Value("null")
		}
	}
	message, lax = Parse(envelope.With("result", result.With(member, Array(elements)).JSON()).JSON())
	if lax != nil {
		return Message{}, err
	}
	message.Result = envelope.Get("result")
	return message, nil
}

// isStrict reports whether raw is one JSON value that [Parse] would accept as a part.
func isStrict(raw []byte) bool {
	s := scanner{raw: raw}
	return s.value() == nil && s.end() == nil
}

// ClaimedIDs returns the ids of the responses in a text that [ParseAll] refuses: one, or those of a
// batch. They only say which requests need not wait any longer. It leaves out messages with a
// method, whose ids are the sender's, and ids that are not unique.
func ClaimedIDs(raw []byte) (ids []jsontext.Value) {
	messages := []jsontext.Value{raw}
	if IsBatch(raw) {
		messages, _ = parseArray(&scanner{raw: raw, rigor: delimiting})
	}
	for _, message := range messages {
		if id := claimedID(message); id != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func claimedID(raw []byte) (id jsontext.Value) {
	ids, seen := 0, map[string]bool{}
	s := scanner{raw: raw, rigor: delimiting}
	err := s.members(func(name, _, value []byte) {
		seen[string(name)] = true
		if string(name) == "id" {
			id, ids = value, ids+1
		}
	})
	// Of a text that breaks off, or is no JSON in between, only the part before is known. Other
	// members may be in the rest.
	has := func(name string) bool {
		return seen[name] || err != nil && bytes.Contains(raw, []byte(`"`+name+`"`))
	}
	isResponse := has("jsonrpc") && !has("method") && (has("result") || has("error"))
	if ids != 1 || !isResponse || !isStrict(id) { // a log record may have an id, too
		return nil
	}
	return id
}
