package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseList reads the response to a list request like [Parse], except for the array in the named
// member of the result: its elements need only be delimited like JSON values. Otherwise one
// definition with a lone surrogate or a duplicate member would invalidate the whole list. Split the
// result with [Members] and [ParseArray]. Read each element with [ParseObject], which refuses
// invalid elements.
func ParseList(raw []byte, member string) (Message, error) {
	message, err := Parse(raw)
	if err == nil {
		return message, nil
	}
	envelope, lax := parseObject(Object{}, &scanner{raw: raw, lax: true})
	if lax != nil {
		return Message{}, err
	}
	result := Members(envelope.Get("result"))
	elements, lax := ParseArray(result.Get(member))
	if lax != nil {
		return Message{}, err
	}
	// The rest is checked in a copy with null in place of invalid elements.
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

// isStrict reports whether raw is a JSON value that [Parse] accepts as a part.
func isStrict(raw []byte) bool {
	s := scanner{raw: raw}
	return s.value() == nil && s.end() == nil
}

// ClaimedIDs returns the ids of the responses in a text that [ParseAll] refuses. Their requests
// need not wait any longer. It ignores messages with a method, whose ids belong to the sender, and
// messages with several ids.
func ClaimedIDs(raw []byte) (ids []jsontext.Value) {
	messages := []jsontext.Value{raw}
	if IsBatch(raw) {
		messages, _ = parseArray(&scanner{raw: raw, lax: true})
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
	s := scanner{raw: raw, lax: true}
	err := s.members(func(name, _, value []byte) {
		seen[string(name)] = true
		if string(name) == "id" {
			id, ids = value, ids+1
		}
	})
	// In a text that is cut off or invalid, the members after the error are unknown. So a member
	// counts as present if its quoted name occurs anywhere.
	has := func(name string) bool {
		return seen[name] || err != nil && bytes.Contains(raw, []byte(`"`+name+`"`))
	}
	isResponse := has("jsonrpc") && !has("method") && (has("result") || has("error"))
	if ids != 1 || !isResponse || !isStrict(id) { // a log record may have an id, too
		return nil
	}
	return id
}
