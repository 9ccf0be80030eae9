package clients

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Kind is a kind of loss in a client.
type Kind string

// The kinds of loss.
const (
	Hides   Kind = "hides"
	Cuts    Kind = "cuts"
	Garbles Kind = "garbles"
)

// behaviour is one way in which clients lose part of a prompt.
type behaviour struct {
	kind Kind
	// loses names the loss, for a table. reason explains it. remedy prevents it. [Join] adds promptweir sync,
	// which may also help.
	loses, reason, remedy string
	// atFlat is true if the loss remains at the endpoint's /flat, where a prompt is one text with
	// at most one argument.
	atFlat bool
	// loss reports whether a prompt of the list loses something. part is a detail that completes the reason, or
	// "" if there is no detail.
	loss func(l *List, p *prompt) (part string, isLost bool)
}

// The behaviours. The remedies oneArgument and oneMessage are for the prompt's author; their /flat helps if a
// team cannot change the prompt.
//
//nolint:gochecknoglobals // a constant table
var (
	knowsNone = &behaviour{
		kind: Hides, loses: "all prompts", reason: "only tools are shown", atFlat: true,
		remedy: `offer it as tools, at the endpoint's /tools: variants = ["tools"] in the gateway block`,
		loss:   func(*List, *prompt) (string, bool) { return "", true },
	}
	getsNone = &behaviour{
		kind: Hides, loses: "all messages", reason: "prompts are listed, but never fetched", atFlat: true,
		remedy: knowsNone.remedy, loss: knowsNone.loss,
	}
	readsOnePage = &behaviour{
		kind: Hides, loses: "further pages", reason: "only the first page of a list is read", atFlat: true,
		remedy: "raise page_size in the gateway block, or expose fewer prompts",
		loss: func(l *List, p *prompt) (string, bool) {
			// Entries and pages are sorted by name.
			at, _ := slices.BinarySearchFunc(l.entries, p.Entry.Name, func(e *catalog.Entry, name string) int {
				return strings.Compare(e.Name, name)
			})
			return fmt.Sprintf("this is prompt %d, and the page has %d", at+1, l.firstPage), at >= l.firstPage
		},
	}
	hidesSeveralArguments = &behaviour{
		kind: Hides, loses: "prompts with several arguments", reason: "prompts with several arguments are not shown",
		remedy: oneArgument, loss: severalArguments,
	}
	fillsFirstArgument = &behaviour{
		kind: Garbles, loses: "further arguments", reason: "everything typed is the first argument",
		remedy: oneArgument, loss: severalArguments,
	}
	splitsAtBlanks = &behaviour{
		kind: Garbles, loses: "further words of an argument", atFlat: true,
		reason: "input is split at blanks, even in quotes, and words after the last argument are " +
			"dropped",
		remedy: "let values be single words",
		loss: func(_ *List, p *prompt) (string, bool) {
			return p.argumentNames(), len(p.Entry.Arguments) > 0
		},
	}
	sendsPlaceholders = &behaviour{
		kind: Garbles, loses: "values that a server uses", atFlat: true,
		reason: "the server gets $1, $2 … as values; the real ones replace them in its text",
		remedy: "fix the arguments in a prompt block, or give them defaults",
		loss: func(_ *List, p *prompt) (string, bool) { // a result is known for prompt files only, which just insert the values
			return p.argumentNames(), len(p.Entry.Arguments) > 0 && p.Result == nil
		},
	}
	usesFirstMessage = &behaviour{
		kind: Cuts, loses: "further messages", reason: "only the first message is used", remedy: oneMessage,
		loss: severalMessages,
	}
	usesLastMessage = &behaviour{
		kind: Cuts, loses: "earlier messages", reason: "only the last message is used", remedy: oneMessage,
		loss: severalMessages,
	}
	joinsMessages = &behaviour{
		kind: Garbles, loses: "roles", reason: "all messages get the role of the user", remedy: oneMessage,
		loss: func(_ *List, p *prompt) (string, bool) {
			return "", slices.ContainsFunc(p.messages, func(m message) bool { return m.role != "user" })
		},
	}
	refusesOther = &behaviour{
		kind: Hides, loses: "prompts that do not begin with text", reason: "a prompt is " +
			"refused unless its first message is text",
		remedy: oneMessage,
		loss: func(_ *List, p *prompt) (string, bool) {
			return "", len(p.messages) > 0 && p.messages[0].kind != "text"
		},
	}
	dropsOther = &behaviour{
		kind: Cuts, loses: "everything but text", reason: "everything but text is left out", remedy: oneMessage,
		loss: func(_ *List, p *prompt) (string, bool) {
			i := slices.IndexFunc(p.messages, func(m message) bool { return m.kind != "text" })
			if i < 0 {
				return "", false
			}
			return p.messages[i].kind, true
		},
	}
	quotesText = &behaviour{
		kind: Garbles, loses: "line breaks and quotes", reason: `the text becomes a JSON string, with \n for a line break`,
		atFlat: true, remedy: "write one line without quotes",
		loss: func(_ *List, p *prompt) (string, bool) {
			return "", len(p.messages) > 0 && len(strconv.Quote(p.messages[0].text)) > len(p.messages[0].text)+len(`""`)
		},
	}
	showsNoTitles = &behaviour{
		kind: Cuts, loses: "titles", reason: "titles are not shown", atFlat: true,
		remedy: "write a description, in a prompt block for example",
		loss: func(_ *List, p *prompt) (string, bool) {
			return p.title, p.title != "" && p.description == ""
		},
	}
	showsTitlesOnly = &behaviour{
		kind: Garbles, loses: "names of prompts with titles", reason: "titles are shown instead " +
			"of names", atFlat: true,
		remedy: "give it another title, in a prompt block for example",
		loss: func(l *List, p *prompt) (string, bool) {
			return l.twins("title", titleOf, p)
		},
	}
	foldsNames  = folds("characters of names other than A–Z, a–z, 0–9, _, . and -", "_", underscores("_.-"))
	foldsDots   = folds("characters of names other than A–Z, a–z, 0–9, _ and -", "_", underscores("_-"))
	foldsBlanks = folds("blanks in names", "-", func(name string) string { return strings.Join(strings.Fields(name), "-") })
)

const (
	oneArgument = `leave one main argument: fix the others in a prompt block, or use the endpoint's /flat: variants = ["flat"] in the gateway block`
	oneMessage  = `write one message of text, or use the endpoint's /flat: variants = ["flat"] in the gateway block`
)

func severalArguments(_ *List, p *prompt) (string, bool) {
	return p.argumentNames(), len(p.Entry.Arguments) > 1
}

func severalMessages(_ *List, p *prompt) (string, bool) {
	return "it has " + strconv.Itoa(len(p.messages)), len(p.messages) > 1
}

// underscores returns a fold that keeps ASCII letters, digits and the given characters.
func underscores(allowed string) func(name string) string {
	return func(name string) string {
		return strings.Map(func(r rune) rune {
			isAllowed := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
			if isAllowed || strings.ContainsRune(allowed, r) {
				return r
			}
			return '_'
		}, name)
	}
}

// folds returns the behaviour of clients that replace some characters of names.
func folds(loses, replacement string, fold func(name string) string) *behaviour {
	return &behaviour{
		kind: Garbles, loses: loses, reason: replacement + " replaces some characters of a name", atFlat: true,
		remedy: "give it a name of lower case letters, digits and _ in a prompt block",
		loss: func(l *List, p *prompt) (string, bool) {
			name := p.Entry.Name
			if part, isLost := l.twins(loses, func(e *catalog.Entry) string { return fold(e.Name) }, p); isLost {
				return part, true
			}
			// Ignore dots: a dot is the usual separator, and people read its replacement as easily.
			return "it is called " + fold(name), dotless(fold(name)) != dotless(name)
		},
	}
}

func dotless(name string) string { return strings.ReplaceAll(name, ".", "_") }

func titleOf(e *catalog.Entry) string {
	title, _ := wire.Members(e.JSON).Text("title")
	return title
}
