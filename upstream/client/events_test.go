package client

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/wire"
)

const response7 = `{"jsonrpc":"2.0","id":7,"result":{"b":2.50,"a":"\u00e9"}}`

// streamed reads a stream and returns the response with id 7 and the other messages.
func streamed(stream io.Reader, maxMessage int) (answer wire.Message, said []wire.Message, err error) {
	t := newHTTPTransport(&httpClient{maxMessage: maxMessage, target: new(url.URL)}, slog.New(slog.DiscardHandler))
	response, err := t.readStream(stream, &streamPosition{}, expected{id: "7"}, func(m *wire.Message) { said = append(said, *m) })
	if err == nil {
		answer = *response
	}
	return answer, said, err
}

func TestReadStream_FindsResponse(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1e3}}`
	for name, stream := range map[string]string{
		"lines that end in LF":    "data: " + note + "\n\ndata: " + response7 + "\n\n",
		"lines that end in CR":    "data: " + note + "\r\rdata: " + response7 + "\r\r",
		"types, ids, retry":       "event: message\nid: 1\nretry: 10\ndata: " + note + "\n\nevent: message\ndata: " + response7 + "\n\n",
		"comments and empty ones": ": hello\n\ndata:\n\nid: 5\ndata: \n\ndata: " + note + "\n\n:\n\ndata: " + response7 + "\n\n",
		"another type of event":   "event: other\ndata: {\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
		"data on several lines":   "data: " + note + "\n\ndata: " + strings.Replace(response7, ",", ",\ndata: ", 1) + "\n\n",
		"a response to another":   `data: {"jsonrpc":"2.0","id":8,"result":{}}` + "\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
		"a heartbeat before it":   `data: {"type":"heartbeat"}` + "\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
		"a text amid":             "data: " + note + "\n\ndata: still at work\n\ndata: " + response7 + "\n\n",
		"an id of nobody's":       `data: {"type":"log","id":8}` + "\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
		"a log record of its id":  `data: {"type":"log","id":7}` + "\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
		"and more after it":       "data: " + note + "\n\ndata: " + response7 + "\n\ndata: {\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			answer, said, err := streamed(strings.NewReader(stream), 1000)
			if err != nil || string(answer.Result) != `{"b":2.50,"a":"\u00e9"}` {
				t.Errorf("the answer is %+v, %v", answer, err)
			}
			if len(said) != 1 || string(said[0].Params) != `{"n":1e3}` {
				t.Errorf("said beside it: %+v", said)
			}
		})
	}
	for name, stream := range map[string]string{
		"nothing":             "",
		"an end before it":    "data: " + note + "\n\n",
		"no message":          "data: text\n\n",
		"a duplicate member":  `data: {"jsonrpc":"2.0","id":7,"id":7,"result":{}}` + "\n\n",
		"too large an event":  "data: " + strings.Repeat("x", 2000) + "\n\n",
		"a line without end":  "data: " + strings.Repeat("x", 20_000),
		"many lines of data":  strings.Repeat("data: x\n", 5000) + "\n",
		"an endless comment":  ": " + strings.Repeat("x", 20_000),
		"invalid UTF-8 in it": "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\xff\"}}\n\n",
	} {
		if answer, _, err := streamed(strings.NewReader(stream), 1000); err == nil {
			t.Errorf("%s: the answer is %+v", name, answer)
		}
	}
}

// Whatever the bytes are and however they arrive, reading ends with the same outcome, and every message was read strictly.
func FuzzEventStream(f *testing.F) {
	f.Add([]byte("data: " + response7 + "\n\n"))
	f.Add([]byte(": x\r\nid: 1\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"ping\"}\r\n\r\n"))
	f.Add([]byte("\ufeffdata\rdata:\rretry: 99999999999999999999\r\r"))
	f.Add([]byte("data: [" + response7 + "]\n\n"))
	f.Add([]byte("id: \x00\ndata: {}"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const maxMessage = 200
		answer, said, err := streamed(bytes.NewReader(stream), maxMessage)
		if err == nil && string(answer.ID) != "7" {
			t.Errorf("%q: the answer to 7 is %+v", stream, answer)
		}
		for _, m := range append(said, answer) {
			for _, value := range []jsontext.Value{m.ID, m.Params, m.Result, m.Error} {
				if value != nil && !value.IsValid() {
					t.Errorf("%q: handed on %q", stream, value)
				}
				if len(value) > maxMessage {
					t.Errorf("%q: handed on %d bytes", stream, len(value))
				}
			}
		}
		slowly, saidSlowly, errSlowly := streamed(iotest.OneByteReader(bytes.NewReader(stream)), maxMessage)
		if diff := cmp.Diff(answer, slowly); diff != "" || !cmp.Equal(said, saidSlowly) || (err == nil) != (errSlowly == nil) {
			t.Errorf("%q byte by byte: %v, at once %v (-at once +slowly):\n%s", stream, errSlowly, err, diff)
		}
	})
}

// readEvent is an event, with the id that the stream would be resumed from after it, and after how long.
type readEvent struct {
	Kind, Data, LastEventID string
	Retry                   time.Duration
}

// readEvents reads an event stream to its end. The error is nil if that is between two events.
func readEvents(stream io.Reader, maxMessage int) ([]readEvent, error) {
	var p streamPosition
	var read []event
	var all []readEvent
	events := newEventReader(stream, maxMessage, &p)
	for e, err := events.next(); ; e, err = events.next() {
		if err != nil {
			for i := range read { // not before, because data may be kept
				all[i].Data = string(read[i].data)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
		read = append(read, e)
		all = append(all, readEvent{Kind: e.kind, LastEventID: p.lastEventID, Retry: p.retry})
	}
}

func TestEventReader_ReadsEvents(t *testing.T) {
	large := strings.Repeat("All work and no play. ", 100_000)
	for name, test := range map[string]struct {
		stream string
		want   []readEvent
		broken bool
	}{
		"fields": {
			stream: "event: a\nid: 1\nretry: 1500\ndata: b\n\ndata:c\n\n",
			want:   []readEvent{{"a", "b", "1", 1500 * time.Millisecond}, {"", "c", "1", 1500 * time.Millisecond}},
		},
		"data whose lines are joined": {
			stream: "data\ndata: a\nevent: x\ndata:\n: y\nretry\ndata:  b\nid: 1\n\n",
			want:   []readEvent{{"x", "\na\n\n b", "1", 0}},
		},
		"no data":     {stream: "id: 1\n\nevent: a\n\ndata\n\n", want: []readEvent{{LastEventID: "1"}, {Kind: "a", LastEventID: "1"}, {LastEventID: "1"}}},
		"no events":   {stream: "\n\r\n\r: a\n\nb: c\n\nretry: 5\n\nid: \x00\n\n"},
		"other names": {stream: "Data: a\n data: a\ndata : a\n\n"},
		"what is no time": {
			stream: "retry: 7\nretry: \nretry: -1\nretry: +1\nretry: 1.5\nretry: 1 \nretry:  1\nretry: 99999999999999999999\ndata\n\n",
			want:   []readEvent{{Retry: 7 * time.Millisecond}},
		},
		"a time that is too long":       {stream: "retry: 9999999999\ndata\n\n", want: []readEvent{{Retry: time.Hour}}},
		"an id that fits in no header":  {stream: "id: 1\ndata\n\nid: \x01\ndata\n\n", want: []readEvent{{LastEventID: "1"}, {}}},
		"an id that is taken back":      {stream: "id: 1\nid\ndata\n\n", want: []readEvent{{}}},
		"a byte order mark":             {stream: "\ufeffdata: \ufeff\n\n\ufeffdata\n\n", want: []readEvent{{Data: "\ufeff"}}},
		"one on the second line":        {stream: "\n\ufeffdata: a\n\n"},
		"an end within a line":          {stream: "data: a\n\ndata: b", want: []readEvent{{Data: "a"}}, broken: true},
		"an end within an event":        {stream: "data: a\n\nid: 1\ndata: b\n", want: []readEvent{{Data: "a"}}, broken: true},
		"an end after a comment":        {stream: "data: a\n\n: b\n", want: []readEvent{{Data: "a"}}},
		"a large event between others":  {stream: "data: a\n\ndata: " + large + "\n\ndata: b\n\n", want: []readEvent{{Data: "a"}, {Data: large}, {Data: "b"}}},
		"comments that are never ended": {stream: strings.Repeat(": hello\n", 1_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readEvents(strings.NewReader(test.stream), 3<<20)
			if diff := cmp.Diff(test.want, got); diff != "" || test.broken != errors.Is(err, io.ErrUnexpectedEOF) || !test.broken && err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The size of an event is that of all its lines, each with one byte for its end. Comments and events before it do not count.
func TestEventReader_BoundsEvent(t *testing.T) {
	const stream = "\n: what goes before\ndata: 0123456789\nid: 1\n\n"
	size := len("data: 0123456789\nid: 1\n\n")
	for maxMessage, fits := range map[int]bool{size: true, size - 1: false} {
		got, err := readEvents(strings.NewReader(stream+stream), maxMessage)
		if fits != (err == nil) || fits != (len(got) == 2) || (err != nil && !strings.Contains(err.Error(), "max_message")) {
			t.Errorf("at most %d bytes: %+v, %v", maxMessage, got, err)
		}
	}
}
