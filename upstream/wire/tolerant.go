package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseList reads the response to a list request like [Parse], but tolerates invalid elements in
// the array in the named member of the result. These elements need only be delimited like JSON
// values. Otherwise one definition with a lone surrogate or a duplicate member would make the whole
// list invalid. Split the result with [Members] and [ParseArray], and read each element with
// [ParseObject], which refuses invalid elements.
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
	// Check everything else in a copy, which has null in place of invalid elements.
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

// isStrict reports whether raw is a JSON value that [Parse] accepts within a message.
func isStrict(raw []byte) bool {
	s := scanner{raw: raw}
	return s.value() == nil && s.end() == nil
}

// ClaimedIDs returns the ids of the responses in a text that [ParseAll] refuses, so that their
// requests need not wait any longer. It ignores messages with a method, whose ids belong to the
// sender, and messages with several ids.
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
	// If the text is cut off or invalid, the members after the error are unknown. Count a member as
	// present if its quoted name occurs anywhere in the text.
	has := func(name string) bool {
		return seen[name] || err != nil && bytes.Contains(raw, []byte(`"`+name+`"`))
	}
	isResponse := has("jsonrpc") && !has("method") && (has("result") || has("error"))
	if ids != 1 || !isResponse || !isStrict(id) { // a log record may have an id, too
		return nil
	}
	return id
}
