package terminal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal/terminaltest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func openPrompter(t *testing.T) (*Prompter, *terminaltest.Terminal) {
	t.Helper()
	k := terminaltest.Open(t)
	return newPrompterAt(k.Device, k.Device), k
}

func TestPrompter_GivesNoAnswerOrInterrupts(t *testing.T) {
	for keys, want := range map[string]error{"\x04": ErrNoAnswer, "\x03": ErrInterrupted, "ab\x03": ErrInterrupted} {
		p, k := openPrompter(t)
		asked := make(chan error, 1)
		go func() {
			_, err := p.Ask(t.Context(), "Well?", nil)
			asked <- err
		}()
		k.Type(t, "Well? ", keys)
		if err := <-asked; !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", keys, err, want)
		}
	}
}

func TestPrompter_DeclinesAnElicitation(t *testing.T) {
	p, k := openPrompter(t)
	replied := make(chan string, 1)
	go func() {
		reply, err := p.Elicit(t.Context(), wire.Elicit, jsontext.Value(`{"message":"Who\u001b[31m?",
			"requestedSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string","title":"Your name"}}}}`))
		replied <- fmt.Sprint(string(reply), err)
	}()
	k.Type(t, "Your name: ", "\x04")
	if got, want := <-replied, `{"action":"decline"}<nil>`; got != want {
		t.Errorf("reply %s, want %s", got, want)
	}
	if k.Shows("\x1b[31m") {
		t.Error("the server's message acts on the terminal")
	}
}

// hostileValues set the title of a terminal, clear it, write to its clipboard, and show nothing or
// something else.
func hostileValues() []string {
	return []string{"a\x1b]0;title\a", "a\x1b[2J", "a\x1b]52;c;ZXZpbA==\a", "a\u009b2J", "a\u202eb", "a\u200bb", "a\u3164", "a\u2800b", "a\nb", "a\rb", "a\xffb"}
}

// Completed values come from servers: one that cannot be shown whole is neither typed nor listed.
func TestPrompter_CompletesOnlyWhatCanBeShown(t *testing.T) {
	for _, hostile := range hostileValues() {
		p, k := openPrompter(t)
		answered := make(chan string, 1)
		go func() {
			answer, err := p.Ask(t.Context(), "Well?", func(string) []string { return []string{hostile, "anna", "annabel"} })
			answered <- fmt.Sprint(answer, err)
		}()
		k.Type(t, "Well? ", "a\t") // both of the others agree on anna
		k.Type(t, "anna annabel", "\r")
		if got := <-answered; got != "anna<nil>" {
			t.Errorf("beside %q, the answer is %q", hostile, got)
		}
		if k.Shows(hostile) || k.Shows("\x1b]") || k.Shows("\x1b[2J") || k.Shows("\a") {
			t.Errorf("the terminal gets %q of %q", k.Text(), hostile)
		}
	}
}

func TestPrompter_OffersOnlyChoicesThatCanBeShown(t *testing.T) {
	for _, hostile := range hostileValues() {
		p, k := openPrompter(t)
		schema := wire.Object{}.With("type", wire.Quote("object")).With("required", jsontext.Value(`["who"]`)).With("properties",
			wire.Object{}.With("who", wire.Object{}.With("type", wire.Quote("string")).
				With("enum", jsontext.Value("["+string(wire.Quote(hostile))+`,"ann"]`)).JSON()).JSON())
		params := wire.Object{}.With("message", wire.Quote("Choose")).With("requestedSchema", schema.JSON())
		replied := make(chan string, 1)
		go func() {
			reply, err := p.Elicit(t.Context(), wire.Elicit, params.JSON())
			replied <- fmt.Sprint(string(reply), err)
		}()
		k.Type(t, "who (one of: ann): ", "a\t\r")
		if got, want := <-replied, `{"action":"accept","content":{"who":"ann"}}<nil>`; got != want {
			t.Errorf("beside %q, the reply is %s, want %s", hostile, got, want)
		}
	}
}
