package wire

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is one JSON-RPC 2.0 message. Unknown members of the envelope are dropped, because the
// gateway makes its own envelope for each message.
type Message struct {
	// ID is a string or a number in its original spelling; it may be nil.
	ID     jsontext.Value
	Method string
	// Params is an object, or nil if the member is absent or null.
	Params jsontext.Value
	// A response has either Result or Error. Error is the raw error object, see [ReadError].
	Result jsontext.Value
	Error  jsontext.Value
	// HasNull is true if the message contains a null, at any depth.
	HasNull bool
	// HasOwnMeta is true if a name in the message, at any depth, begins with [MetaPrefix] or
	// contains an escape. If it is false, [WithoutOwnMeta] changes nothing.
	HasOwnMeta bool
}

// IsRequest reports whether the message requires a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message has a method and no ID, so that it requires no response.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Parse reads one message, strictly. The error is an [*Error] with [ParseError] or
// [InvalidRequest]. With [InvalidRequest], the message still has the ID for the error response, if
// the ID is readable.
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
		*m = Message{} // an id in invalid JSON is not reliable
		if v := jsontext.Value(raw); v.Kind() == '[' && v.IsValid() {
			return NoBatches()
		}
		return NewError(ParseError, "Parse error: "+err.Error())
	}
	m.HasNull, m.HasOwnMeta = s.hasNull, s.hasOwnMeta
	// Keep only the id: no other part of an invalid message may be used.
	if problem := e.check(); problem != "" {
		*m = Message{ID: m.ID}
		return NewError(InvalidRequest, "Invalid request: "+problem)
	}
	return nil
}

// envelope is a message while it is read.
type envelope struct {
	*Message

	// isVersion2 is true if jsonrpc is "2.0".
	isVersion2 bool
	// nullID is true if the id is null, which is valid in an error response to a message with an unreadable id.
	nullID bool
	// problem is the first problem. Reading continues, because the id may follow later.
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
		if jsontext.Value(value).Kind() == 'n' { // some serializers write absent members as null
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
		if jsontext.Value(value).Kind() == 'n' { // some serializers write an absent error as null
			return
		}
		e.Error = value
		ok, problem = jsontext.Value(value).Kind() == '{', "error must be an object"
	}
	if !ok && e.problem == "" {
		e.problem = problem
	}
}

// check returns a problem of the whole message, or "".
func (e *envelope) check() (problem string) {
	m := e.Message
	if m.Error != nil && m.Result.Kind() == 'n' { // some serializers write an absent result as null
		m.Result = nil
	}
	switch {
	case e.problem != "":
		return e.problem
	case m.IsNotification() && e.nullID: // MCP forbids a null id, JSON-RPC allows it
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
	// An error may lack an id: the request's id may have been unreadable.
	case m.Result != nil && m.ID == nil:
		return "a result must have an id"
	}
	return ""
}

// AppendRequest appends a request with a numeric id to dst. Params may be nil.
func AppendRequest(dst []byte, id int64, method string, params jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	return appendCall(append(dst, ','), method, params)
}

// AppendCall is [AppendRequest] with any id.
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
	dst, _ = jsontext.AppendQuote(dst, method) // an error means that invalid UTF-8 was replaced
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

// AppendResultHead appends the beginning of a response, up to its result. Append the result and a
// closing brace to complete the response.
func AppendResultHead(dst []byte, id jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// AppendError appends an error response to dst. It omits a nil id, as MCP's schemas require.
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

// CanonicalID returns the id of a response in the spelling of the gateway's requests: some servers
// return 3 as "3" or 3.0. Ids that are not whole numbers are unchanged.
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

// NumberID returns a number as JSON.
func NumberID(id int64) jsontext.Value { return strconv.AppendInt(nil, id, 10) }

// Batches reports whether a revision has batches, which are arrays of messages.
func Batches(revision string) bool { return revision == Rev20250326 }

// NoBatches returns the error for a batch in a revision without batches.
func NoBatches() *Error {
	return NewError(InvalidRequest, "Batches of messages are not accepted in this revision")
}

// IsBatch reports whether raw starts like an array. It does not check whether raw is valid JSON.
func IsBatch(raw []byte) bool { return jsontext.Value(raw).Kind() == '[' }

// ParseBatch splits a batch into messages, as strictly as [Parse]. Read each message with Parse:
// one invalid message does not make the others invalid. The error is an [*Error].
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

// ParseAll reads one message or, if the revision has batches, a batch of valid messages. It returns
// the errors of [Parse] and [ParseBatch].
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
