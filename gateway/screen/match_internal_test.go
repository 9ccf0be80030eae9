package screen

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Large texts are matched in another way than small ones, which must not find anything else.
func TestRemove_OfLargeTextsIsThatOfSmallOnes(t *testing.T) {
	p := &pass{canceled: t.Context().Done()}
	for _, pattern := range []string{
		`ab`, `a+?`, `(?i)AB|b(a)`, `^a`, `(?m)^a`, `(?m)b$`, `b$`, `\bab\b`, `\b`, `\Bb`, `a[^c]*c|a`, `(a)(b)?`, `é.`, `\x{10ffff}|\Qa b`, `a|ab`, `[^a]`, `ab[^x]`, `b ab`,
	} {
		re := regexp.MustCompile(pattern)
		for _, part := range []string{"ab aab\nb", "é abcab b", "\U0010ffffa b"} {
			text := strings.Repeat(part, smallText/len(part)+1)
			if got, want := p.matches(re, text), re.MatchString(text); got != want {
				t.Errorf("%s matches %q…: %v, want %v", pattern, part, got, want)
			}
			if got, want := p.remove(re, text), re.ReplaceAllLiteralString(text, ""); got != want {
				t.Errorf("%s leaves of %q… %.40q (%d bytes), want %.40q (%d bytes)", pattern, part, got, len(got), want, len(want))
			}
		}
	}
}

func TestPass_ChecksNothingOnceItIsCanceled(t *testing.T) {
	canceled := make(chan struct{})
	close(canceled)
	s := New([]config.Screen{{Patterns: []*regexp.Regexp{regexp.MustCompile(`a[^z]*z`)}, Action: config.ScreenReject}})
	text := strings.Repeat("a", smallText) + "z"
	p := pass{screen: s, raw: wire.Quote(text), canceled: canceled}
	if p.matches(s.blocks[0].Patterns[0], text) || p.remove(s.blocks[0].Patterns[0], text) != text {
		t.Error("a text is read to its end")
	}
	p.raw = jsontext.Value(`["az"]`)
	if p.checkStrings(); p.rejected != nil {
		t.Error("another string is checked")
	}
}

// Each of these would take minutes.
func TestDefinition_EndsWithItsContext(t *testing.T) {
	for action, pattern := range map[config.ScreenAction]string{
		config.ScreenReject: `(z.{0,30}){30}b`,
		config.ScreenStrip:  `z[^b]*b|z`,
	} {
		s := New([]config.Screen{{Label: "costly", Patterns: []*regexp.Regexp{regexp.MustCompile(pattern)}, Action: action}})
		raw := jsontext.Value(`{"name":"x","description":` + string(wire.Quote(strings.Repeat("z", 2<<20))) + `}`)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := s.Definition(ctx, raw, "")
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: the error is %v, want that of the context", action, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it goes on", action)
		}
	}
}
