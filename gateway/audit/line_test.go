package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// usual is a line with every field that its maker sets: a text is the name of its field, a number its index.
func usual() Line {
	line := Line{
		Time: time.Date(2026, 11, 22, 4, 0, 0, 123456789, time.FixedZone("", -5*60*60)), Duration: 12345678,
		Groups: []string{"group:payments", "group:eng"}, Session: [16]byte{1}, Trace: [16]byte{0xaa},
		Arguments: Arguments{Members: wire.Members([]byte(`{"code":"x := 1","n":12,"lang":"Go"}`)), Record: config.AuditNames},
	}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Line]()) {
		switch value := reflect.ValueOf(&line).Elem().FieldByIndex(field.Index); {
		case !value.IsZero():
		case value.Kind() == reflect.String:
			value.SetString(field.Name)
		case value.Kind() == reflect.Bool:
			value.SetBool(true)
		case value.CanInt():
			value.SetInt(int64(i))
		}
	}
	return line
}

// The names of the fields are in TestHandbook_DescribesTheLines.
func TestLine_IsOneJSONObject(t *testing.T) {
	line := usual()
	got := string(line.encode())
	for _, want := range []string{
		`{"time":"2026-11-22T09:00:00.123456Z","event":"Event",`, `,"anonymous":true,`, `,"groups":["group:payments","group:eng"],`,
		`,"session":"01000000000000000000000000000000",`, `,"arguments":["code","n","lang"],`, `,"duration_ms":12.346,`,
		`,"trace_id":"aa000000000000000000000000000000"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
	}
	const least = `{"time":"0001-01-01T00:00:00.000000Z","event":"reload"}` + "\n"
	upstreamtest.Equal(t, least, string((&Line{Event: Reload}).encode()), "the least line")
}

func TestLine_HasItsDurationInMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 499: "", 500: "0.001", 1500: "0.002", 999999500: "1000", 70 * time.Minute: "4200000",
		1100*time.Millisecond + 10*time.Microsecond: "1100.01",
	} {
		var read map[string]json.RawMessage
		if err := json.Unmarshal((&Line{Event: Get, Duration: d}).encode(), &read); err != nil {
			t.Fatal(err)
		}
		upstreamtest.Equal(t, want, string(read["duration_ms"]), "%d ns", d)
	}
}

func TestLine_RecordsOfArgumentsWhatItIsTold(t *testing.T) {
	s, err := seal.New([][32]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	mac := s.MAC("a")
	for record, want := range map[config.AuditArguments]string{
		config.AuditNames:  `"arguments":["code","n","lang"],"act"`,
		config.AuditValues: `"arguments":["code","n","lang"],"argument_values":{"code":"x := 1","lang":"Go","n":"12"},"act"`,
		config.AuditHash: fmt.Sprintf(`"arguments":["code","n","lang"],"argument_hashes":{"code":"%s","lang":"%s","n":"%s"},"act"`,
			mac.AppendHex(nil, []byte("x := 1")), mac.AppendHex(nil, []byte("Go")), mac.AppendHex(nil, []byte("12"))),
	} {
		line := usual()
		line.Arguments.Record, line.Arguments.Hash = record, mac
		if got := string(line.encode()); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s in it", record, got, want)
		}
	}
}

// Every rune comes back, in ASCII where it cannot be seen, could steer a terminal or ends a line to some programs.
func TestLine_EscapesByRune(t *testing.T) {
	const together = maxText / utf8.UTFMax
	for begin := rune(0); begin <= utf8.MaxRune; begin += together {
		if plane := begin >> 16; plane > 3 && plane != 14 && begin&0xffff > 0x1000 { // all unassigned, or private
			continue
		}
		var text []rune
		for r := begin; r < begin+together; r++ {
			if utf8.ValidRune(r) {
				text = append(text, r)
			}
		}
		got := string((&Line{Event: Get, Prompt: string(text)}).encode())
		var read struct{ Prompt string }
		if err := json.Unmarshal([]byte(got), &read); err != nil || read.Prompt != string(text) {
			t.Fatalf("%U: %s is read as %q, %v", begin, got, read.Prompt, err)
		}
		for _, r := range strings.TrimSuffix(got, "\n") {
			control := r < ' ' || r >= 0x7f && r <= 0x9f
			bidi := r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
			tag := r == 0xe0001 || r >= 0xe0020 && r <= 0xe007f
			if control || bidi || tag || r == 0x2028 || r == 0x2029 || config.IsInvisible(r) {
				t.Errorf("%U is in the line", r)
			}
		}
		for _, r := range text {
			if unicode.IsLetter(r) && !config.IsInvisible(r) && !strings.ContainsRune(got, r) {
				t.Errorf("%U, a letter, is escaped", r)
			}
		}
	}
}

// Whatever a client writes, a line is one JSON object of bounded size, and says if something is missing.
func FuzzLine(f *testing.F) {
	f.Add("name", "value", 3)
	f.Add("\x00\n\"\\\xff\u2028\u202e", "\xed\xa0\x80", 100)
	f.Add(strings.Repeat("ä", 600), strings.Repeat("\x01", 100_000), 70)
	f.Fuzz(func(t *testing.T, name, value string, n int) {
		var members wire.Object
		for i := range n % 200 {
			members = append(members, wire.Member{Name: fmt.Sprint(name, i), Value: wire.Quote(value)})
		}
		line := usual()
		line.Prompt, line.Subject, line.Groups = name, value, slices.Repeat([]string{value}, max(0, n%200))
		line.Arguments = Arguments{Members: members, Record: config.AuditValues}
		got := line.encode()
		if !json.Valid(got) || bytes.IndexByte(got, '\n') != len(got)-1 {
			t.Errorf("not one line of JSON: %q", got)
		}
		const escaped = 6 // bytes for one of a text
		if most := escaped * (2*maxArguments*maxText + maxValues + (maxGroups+16)*maxText); len(got) > most {
			t.Errorf("%d bytes, want at most %d", len(got), most)
		}
		cut := len(name) > maxText || len(value) > maxText || n%200 > maxArguments
		if cut && !bytes.HasSuffix(got, []byte(`,"cut":true}`+"\n")) {
			t.Errorf("does not say that it is cut: %q", got)
		}
	})
}

// The handbook describes each field, event and outcome, and no others.
func TestHandbook_DescribesTheLines(t *testing.T) {
	content, err := os.ReadFile("../../cmd/promptweir/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## The audit log\n")
	section, _, _ = strings.Cut(section, "\n## ")
	described := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			described[name[1]] = true
		}
	}
	want := map[string]bool{}
	for _, record := range []config.AuditArguments{config.AuditValues, config.AuditHash} {
		line := usual()
		s, _ := seal.New(nil)
		line.Arguments.Record, line.Arguments.Hash = record, s.MAC("")
		line.Prompt = strings.Repeat("x", maxText+1)
		var fields map[string]any
		if err := json.Unmarshal(line.encode(), &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			want[name] = true
		}
	}
	for _, event := range []Event{Get, Completion, List, Request, Reload, Operator} {
		want[string(event)] = true
	}
	for _, outcome := range []Outcome{OK, InputRequired, Unknown, Hidden, Refused, UpstreamError, Failed, Cancelled} {
		want[string(outcome)] = true
	}
	upstreamtest.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(described)), "the handbook's fields, events and outcomes")
}
