package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is one JSON-RPC 2.0 message. Other members than these are dropped: each hop has an
// envelope of its own.
type Message struct {
	// ID is a string or a number as it was sent; nil if there is none.
	ID     jsontext.Value
	Method string
	// Params is an object, or nil where there are none or they are null.
	Params jsontext.Value
	// A response has either Result or Error, which is the raw error object, see [ReadError].
	Result jsontext.Value
	Error  jsontext.Value
}

// IsRequest reports whether the message wants a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message has a method and wants no response.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Parse reads one message, strictly. The error is an [*Error] with [ParseError] or
// [InvalidRequest]. If the ID could be read, the message has it nevertheless, so that an error
// response can name the request.
func Parse(raw []byte) (Message, error) {
	var m Message
	err := m.parse(raw)
	return m, err
}

// parse is [Parse] into an existing message.
func (m *Message) parse(raw []byte) error {
	e := envelope{Message: m}
	s := scanner{raw: raw}
	if err := s.members(e.set); err != nil {
		*m = Message{} // an id in bytes that are not JSON is no id
		if v := jsontext.Value(raw); v.Kind() == '[' && v.IsValid() {
			return NoBatches()
		}
		return NewError(ParseError, "Parse error: "+err.Error())
	}
	// Only the id: nothing else of an invalid message may be acted on.
	if problem := e.check(); problem != "" {
		*m = Message{ID: m.ID}
		return NewError(InvalidRequest, "Invalid request: "+problem)
	}
	return nil
}

// envelope is a message that is being read.
type envelope struct {
	*Message

	// isVersion2 is set if jsonrpc is "2.0".
	isVersion2 bool
	// nullID is set if the id is null, which it may be in an error response to a message whose id
	// could not be read.
	nullID bool
	// problem is the first that was found. Reading goes on after it, because the id may still
	// follow.
	problem string
}

// set stores one member.
func (e *envelope) set(name, _, value []byte) {
	ok, problem := true, ""
	switch string(name) {
	case "jsonrpc":
		e.isVersion2 = jsontext.Value(value).Kind() == '"' && string(unquote(value)) == "2.0"
	case "id":
		switch jsontext.Value(value).Kind() {
		case '"', '0':
			e.ID = value
		case 'n':
			e.nullID = true
		default:
			ok, problem = false, "id must be a string or a number"
		}
	case "method":
		e.Method, _ = Text(value)
		ok, problem = e.Method != "", "method must be a string"
	case "params":
		if jsontext.Value(value).Kind() == 'n' { // how some serializers write a member without a value
			return
		}
		if IsEmptyArray(value) {
			value = []byte("{}")
		}
		e.Params = value
		ok, problem = jsontext.Value(value).Kind() == '{', "params must be an object"
	case "result":
		e.Result = value
	case "error":
		if jsontext.Value(value).Kind() == 'n' { // as above, beside a result
			return
		}
		e.Error = value
		ok, problem = jsontext.Value(value).Kind() == '{', "error must be an object"
	}
	if !ok && e.problem == "" {
		e.problem = problem
	}
}

// check returns what is wrong with the members as a whole, or "".
func (e *envelope) check() (problem string) {
	m := e.Message
	if m.Error != nil && m.Result.Kind() == 'n' { // as for params
		m.Result = nil
	}
	switch {
	case e.problem != "":
		return e.problem
	case m.IsNotification() && e.nullID: // JSON-RPC allows it, MCP does not
		return "the id of a request must not be null"
	case !e.isVersion2:
		return `jsonrpc must be "2.0"`
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return "a message must not have both a method and a result or error"
	case m.Method != "":
		return ""
	case m.Result == nil && m.Error == nil:
		return "a message must have a method, a result or an error"
	case m.Result != nil && m.Error != nil:
		return "a response must not have both a result and an error"
	// An error may lack it: its sender may have been unable to read the request's.
	case m.Result != nil && m.ID == nil:
		return "a result must have an id"
	}
	return ""
}

// HeadID returns the id of a message of which only the head is left, or nil if the head does not
// contain it.
func HeadID(head []byte) jsontext.Value {
	// A decoder, since it returns each token before it meets the end of a text that breaks off.
	dec := jsontext.NewDecoder(bytes.NewBuffer(head))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			return nil
		}
		isID := name.String() == "id"
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if isID {
			return value.Clone()
		}
	}
}

// AppendRequest appends a request with a numeric id to dst. Params may be nil.
func AppendRequest(dst []byte, id int64, method string, params jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	return appendCall(append(dst, ','), method, params)
}

// AppendCall is [AppendRequest] with an id of any kind.
func AppendCall(dst []byte, id jsontext.Value, method string, params jsontext.Value) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	return appendCall(append(dst, ','), method, params)
}

// AppendNotification appends a notification to dst. Params may be nil.
func AppendNotification(dst []byte, method string, params jsontext.Value) []byte {
	return appendCall(append(dst, `{"jsonrpc":"2.0",`...), method, params)
}

func appendCall(dst []byte, method string, params jsontext.Value) []byte {
	dst = append(dst, `"method":`...)
	dst, _ = jsontext.AppendQuote(dst, method) // it reports invalid UTF-8, but has replaced it
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a response with a result to dst.
func AppendResult(dst []byte, id, result jsontext.Value) []byte {
	return append(append(AppendResultHead(dst, id), result...), '}')
}

// AppendResultHead appends a response up to its result. The result and a closing brace must follow.
func AppendResultHead(dst []byte, id jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// AppendError appends an error response to dst. It has no id if that is nil, as MCP's schemas
// demand.
func AppendError(dst []byte, id jsontext.Value, err *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(dst, id...)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":`...)
	dst = append(dst, err.JSON()...)
	return append(dst, '}')
}

// CanonicalID returns the id of a response as the request with a numeric id had it: some servers return 3
// as "3" or 3.0. Any other id stays as it is.
func CanonicalID(id jsontext.Value) string {
	number := id
	if text, ok := Text(id); ok {
		number = jsontext.Value(text)
	}
	if n, ok := Int(number); ok {
		return string(NumberID(n))
	}
	return string(id)
}

// NumberID returns a numeric id as JSON.
func NumberID(id int64) jsontext.Value { return strconv.AppendInt(nil, id, 10) }

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
