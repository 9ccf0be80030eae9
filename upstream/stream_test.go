package upstream_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

const response7 = `{"jsonrpc":"2.0","id":7,"result":{"b":2.50,"a":"\u00e9"}}`

// streamed reads a stream and returns the response to 7 and what else was said.
func streamed(stream io.Reader, maxMessage int) (answer wire.Message, said []wire.Message, err error) {
	answer, err = upstream.ReadStream(stream, "7", maxMessage, func(m wire.Message) { said = append(said, m) })
	return answer, said, err
}

func TestEventStreams(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1e3}}`
	for name, stream := range map[string]string{
		"lines that end in LF":    "data: " + note + "\n\ndata: " + response7 + "\n\n",
		"in CR LF":                "data: " + note + "\r\n\r\ndata: " + response7 + "\r\n\r\n",
		"in CR":                   "data: " + note + "\r\rdata: " + response7 + "\r\r",
		"no space":                "data:" + note + "\n\ndata:" + response7 + "\n\n",
		"a byte order mark":       "\ufeffdata: " + note + "\n\ndata: " + response7 + "\n\n",
		"types, ids, retry":       "event: message\nid: 1\nretry: 10\ndata: " + note + "\n\nevent: message\ndata: " + response7 + "\n\n",
		"comments and empty ones": ": hello\n\ndata:\n\nid: 5\ndata: \n\ndata: " + note + "\n\n:\n\ndata: " + response7 + "\n\n",
		"another type of event":   "event: other\ndata: {\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
		"data on several lines":   "data: " + note + "\n\ndata: " + strings.Replace(response7, ",", ",\ndata: ", 1) + "\n\n",
		"a response to another":   `data: {"jsonrpc":"2.0","id":8,"result":{}}` + "\n\ndata: " + note + "\n\ndata: " + response7 + "\n\n",
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

// Whatever the bytes are and however they arrive: the reader comes to an end, always the same, and hands on nothing that
// was not read strictly.
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

// anAnswer is a get's, as an event stream.
func anAnswer() string {
	return ": hello\n\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"" +
		strings.Repeat("All work and no play. ", 14) + "\"}}]}}\n\n"
}

func readAnswer(tb testing.TB, text string) {
	tb.Helper()
	if _, err := upstream.ReadStream(strings.NewReader(text), "7", 1<<20, func(wire.Message) {}); err != nil {
		tb.Fatal(err)
	}
}

// An answer that comes as an event stream costs the room for its lines.
func TestReadingAStreamAllocatesLittle(t *testing.T) {
	const most = 32
	text := anAnswer()
	if got := testing.AllocsPerRun(100, func() { readAnswer(t, text) }); got > most {
		t.Errorf("reading an answer allocates %v times, want at most %v", got, most)
	}
}

// BenchmarkReadStream is the reading of an answer that came as an event stream: 32 allocations, one of them the
// benchmark's own reader.
func BenchmarkReadStream(b *testing.B) {
	text := anAnswer()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		readAnswer(b, text)
	}
}
