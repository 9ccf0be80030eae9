package wire_test

import (
	"testing"
	"unicode/utf8"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The first rows are the examples of the specification (2026-07-28, Streamable HTTP, "Value Encoding").
func TestHeaderValue_RoundTrips(t *testing.T) {
	for _, test := range []struct{ text, header string }{
		{"us-west1", "us-west1"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},

		{"two words", "two words"},
		{"", "=?base64??="},
		{"\t", "=?base64?CQ==?="},
		{"nul\x00", "=?base64?bnVsAA==?="},
	} {
		upstreamtest.Equal(t, test.header, wire.EncodeHeader(test.text), "EncodeHeader(%q)", test.text)
		if got, err := wire.DecodeHeader(test.header); err != nil || got != test.text {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", test.header, got, err, test.text)
		}
	}
}

func TestDecodeHeader_RejectsAmbiguousValues(t *testing.T) {
	for _, header := range []string{
		"",
		" padded ",
		"line1\nline2",
		"世界",
		"=?base64?!?=",
		"=?base64?aGk?=",          // no padding
		"=?base64?aGl=?=",         // bits after the end
		"=?base64?aGk=aGk=?=",     // two values
		"=?base64?aG\nk=?=",       // a line break inside
		"=?base64?aG\r\nk=?=",     //
		"=?base64?/w==?=",         // not UTF-8
		"=?base64?SGVsbG8g5A==?=", // half a character
	} {
		if got, err := wire.DecodeHeader(header); err == nil {
			t.Errorf("DecodeHeader(%q) = %q, want an error", header, got)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"", "us-west1", " padded ", "line1\nline2", "Hello, 世界", "=?base64?literal?=", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if decoded, err := wire.DecodeHeader(text); err == nil && !utf8.ValidString(decoded) {
			t.Errorf("DecodeHeader(%q) = %q, which is not UTF-8", text, decoded)
		}
		if !utf8.ValidString(text) {
			return
		}
		header := wire.EncodeHeader(text)
		for _, c := range []byte(header) {
			if c != '\t' && (c < ' ' || c > '~') {
				t.Fatalf("EncodeHeader(%q) = %q, which no header field can hold", text, header)
			}
		}
		if got, err := wire.DecodeHeader(header); err != nil || got != text {
			t.Errorf("DecodeHeader(EncodeHeader(%q)) = %q, %v", text, got, err)
		}
	})
}
