package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tmaxmax/go-sse"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const response7 = `{"jsonrpc":"2.0","id":7,"result":{"b":2.50,"a":"\u00e9"}}`

// streamed reads a stream and returns the response with id 7 and the other messages.
func streamed(stream io.Reader, maxMessage int) (answer wire.Message, said []wire.Message, err error) {
	read := client.StreamReader(maxMessage)
	answer, err = read(stream, "7", func(m wire.Message) { said = append(said, m) })
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

// FuzzEvents compares the reader with another implementation, and checks what that does not promise: unfinished events are
// dropped, and it does not matter how the bytes arrive.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: a\n\n"), uint64(1))
	f.Add([]byte(": x\r\nid: 1\r\nevent: message\r\ndata: a\r\ndata:\r\ndata\r\n\r\nid\n\ndata: b\n\n"), uint64(2))
	f.Add([]byte("\ufeffdata\rdata:\rretry: 99999999999999999999\r\rid: \x00\rdata:  b\r\r\n"), uint64(3))
	f.Add([]byte("\ufeff\nid: a\ndatA: b\n\n\ufeffdata: b\nretry: 5\n\ndata: c"), uint64(4))
	f.Add(bytes.Repeat([]byte("data: "+strings.Repeat("x", 300)+"\n\n"), 20), uint64(5))
	f.Add(bytes.Repeat([]byte("data: "+strings.Repeat("x", 30)+"\n"), 200), uint64(6))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		finished := append(bytes.Clone(stream), "\n\n"...)
		got, err := client.Events(bytes.NewReader(finished), 1<<20)
		if err != nil {
			t.Fatalf("%q: %v", finished, err)
		}
		blank := bytes.TrimLeft(stream, "\r\n") // after blank lines a byte order mark means nothing, but the other implementation skips it
		if len(blank) == len(stream) || !bytes.HasPrefix(blank, []byte("\ufeff")) {
			if diff := cmp.Diff(otherEvents(t, finished), got, cmpopts.IgnoreFields(client.Event{}, "Retry")); diff != "" {
				t.Errorf("%q (-other +this):\n%s", finished, diff)
			}
		}
		begun, err := client.Events(bytes.NewReader(stream), 1<<20)
		if len(begun) > len(got) || (err == nil && len(begun) < len(got)) || !slices.Equal(begun, got[:min(len(begun), len(got))]) {
			t.Errorf("%q: events %+v, %v, with an end %+v", stream, begun, err, got)
		}
		maxMessage := 1 + int(seed%100)
		at, errAt := client.Events(bytes.NewReader(stream), maxMessage)
		for name, slowly := range map[string]io.Reader{
			"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
			"in pieces":    iotest.DataErrReader(&pieces{bytes.NewReader(stream), rand.New(rand.NewPCG(seed, 0))}),
		} {
			events, err := client.Events(slowly, maxMessage)
			if !slices.Equal(at, events) || fmt.Sprint(errAt) != fmt.Sprint(err) {
				t.Errorf("%q %s, at most %d bytes: %+v, %v, at once %+v, %v", stream, name, maxMessage, events, err, at, errAt)
			}
		}
	})
}

// pieces reads in pieces of random size.
type pieces struct {
	io.Reader

	rand *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:min(len(b), 1+p.rand.IntN(30))])
}

// otherEvents reads a stream with another implementation.
func otherEvents(t *testing.T, stream []byte) (all []client.Event) {
	t.Helper()
	place := ""
	for e, err := range sse.Read(bytes.NewReader(stream), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			t.Fatalf("%q: %v", stream, err)
		}
		switch id := e.LastEventID; {
		case strings.ContainsFunc(id, unicode.IsControl), len(id) > 1<<10: // does not fit in a header
			place = ""
		case id != "":
			place = id
		}
		all = append(all, client.Event{Kind: e.Type, Data: e.Data, LastEventID: place})
	}
	return all
}

func TestEventReader_ReadsEvents(t *testing.T) {
	large := strings.Repeat("All work and no play. ", 100_000)
	for name, test := range map[string]struct {
		stream string
		want   []client.Event
		broken bool
	}{
		"fields": {
			stream: "event: a\nid: 1\nretry: 1500\ndata: b\n\ndata:c\n\n",
			want:   []client.Event{{"a", "b", "1", 1500 * time.Millisecond}, {"", "c", "1", 1500 * time.Millisecond}},
		},
		"data whose lines are joined": {
			stream: "data\ndata: a\nevent: x\ndata:\n: y\nretry\ndata:  b\nid: 1\n\n",
			want:   []client.Event{{"x", "\na\n\n b", "1", 0}},
		},
		"no data":     {stream: "id: 1\n\nevent: a\n\ndata\n\n", want: []client.Event{{LastEventID: "1"}, {Kind: "a", LastEventID: "1"}, {LastEventID: "1"}}},
		"no events":   {stream: "\n\r\n\r: a\n\nb: c\n\nretry: 5\n\nid: \x00\n\n"},
		"other names": {stream: "Data: a\n data: a\ndata : a\n\n"},
		"what is no time": {
			stream: "retry: 7\nretry: \nretry: -1\nretry: +1\nretry: 1.5\nretry: 1 \nretry:  1\nretry: 99999999999999999999\ndata\n\n",
			want:   []client.Event{{Retry: 7 * time.Millisecond}},
		},
		"a time that is too long":       {stream: "retry: 9999999999\ndata\n\n", want: []client.Event{{Retry: time.Hour}}},
		"an id that fits in no header":  {stream: "id: 1\ndata\n\nid: \x01\ndata\n\n", want: []client.Event{{LastEventID: "1"}, {}}},
		"an id that is taken back":      {stream: "id: 1\nid\ndata\n\n", want: []client.Event{{}}},
		"a byte order mark":             {stream: "\ufeffdata: \ufeff\n\n\ufeffdata\n\n", want: []client.Event{{Data: "\ufeff"}}},
		"one on the second line":        {stream: "\n\ufeffdata: a\n\n"},
		"an end within a line":          {stream: "data: a\n\ndata: b", want: []client.Event{{Data: "a"}}, broken: true},
		"an end within an event":        {stream: "data: a\n\nid: 1\ndata: b\n", want: []client.Event{{Data: "a"}}, broken: true},
		"an end after a comment":        {stream: "data: a\n\n: b\n", want: []client.Event{{Data: "a"}}},
		"a large event between others":  {stream: "data: a\n\ndata: " + large + "\n\ndata: b\n\n", want: []client.Event{{Data: "a"}, {Data: large}, {Data: "b"}}},
		"comments that are never ended": {stream: strings.Repeat(": hello\n", 1_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := client.Events(strings.NewReader(test.stream), 3<<20)
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
		got, err := client.Events(strings.NewReader(stream+stream), maxMessage)
		if fits != (err == nil) || fits != (len(got) == 2) || (err != nil && !strings.Contains(err.Error(), "max_message")) {
			t.Errorf("at most %d bytes: %+v, %v", maxMessage, got, err)
		}
	}
}

// A stream that stays open holds a small buffer only, however large its events were.
func TestEventReader_HoldsSmallBuffer(t *testing.T) {
	for _, size := range []int{0, 5_000, 50_000, 5_000_000} {
		large := "data: " + strings.Repeat("x", size) + "\n\n"
		if got := client.BuffersHeld(strings.NewReader(large + "data: y\n\n" + large + ": still here")); got > 4<<10 {
			t.Errorf("after %d bytes: holds buffers of %d bytes", size, got)
		}
	}
}

// BenchmarkReadStream reads a response from an event stream. Two of the allocations are the benchmark's own.
func BenchmarkReadStream(b *testing.B) {
	for _, lines := range []int{14, 450, 45_000} {
		text := `: hello` + "\n\nid: 1\n" + `data: {"jsonrpc":"2.0","id":7,"result":{"messages":[` +
			`{"role":"user","content":{"type":"text","text":"` + strings.Repeat("All work and no play. ", lines) + `"}}]}}` + "\n\n"
		read := client.StreamReader(4 << 20)
		b.Run(fmt.Sprint(len(text), " bytes"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(strings.NewReader(text), "7", func(wire.Message) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
