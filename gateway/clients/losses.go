package clients

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Loss is a part of a prompt that a client hides, cuts or garbles.
type Loss struct {
	// Prompt is the exposed name, Client the client's name, and Title the client's title.
	Prompt string `json:"prompt"`
	Client string `json:"client"`
	Title  string `json:"title"`
	Kind   Kind   `json:"loss"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
	// Sync is the target of promptweir sync for the client, or "" if there is none.
	Sync string `json:"sync,omitempty"`
	// OfAll is true if the client loses every prompt in this way.
	OfAll bool `json:"-"`
}

// Prompt is an entry of the catalog, with its result if that is known.
type Prompt struct {
	Entry *catalog.Entry
	// Result is the result of prompts/get with any arguments, or nil if no result is known.
	Result jsontext.Value
}

// List is a caller's list of prompts. It caches groups of prompts, so only one goroutine may use it.
type List struct {
	entries   []*catalog.Entry
	firstPage int
	// grouped[way][look] contains the names of the entries with that look, see twins.
	grouped map[string]map[string][]string
}

// NewList returns the list of a view, with the given page size.
func NewList(view *catalog.View, pageSize int) *List {
	view = view.Kind(false) // losses of skills are unknown
	l := &List{entries: view.Entries(), grouped: map[string]map[string][]string{}}
	if pages := view.Pages(pageSize); len(pages) > 0 {
		l.firstPage = pages[0]
	}
	return l
}

// Losses returns what the given clients lose of a prompt in the list, in the order of the clients.
func (l *List) Losses(of Prompt, clients []Client) (losses []Loss) {
	p := read(of)
	for i := range clients {
		c := &clients[i]
		for _, b := range c.behaviours {
			part, isLost := b.loss(l, p)
			if !isLost {
				continue
			}
			loss := Loss{
				Prompt: of.Entry.Name, Client: c.Name, Title: c.Title, Kind: b.kind, Reason: b.reason,
				Remedy: b.remedy, Sync: c.Sync, OfAll: b == knowsNone || b == getsNone,
			}
			if part != "" {
				loss.Reason += ": " + part
			}
			losses = append(losses, loss)
		}
	}
	return losses
}

// ForVariants returns the remedy for a gateway with these variants on. It leaves out settings for variants
// that are already on.
func (l *Loss) ForVariants(on []string) string {
	remedy := l.Remedy
	for _, variant := range []string{"flat", "tools"} {
		setting, instead := fmt.Sprintf("variants = [%q] in the gateway block", variant), fmt.Sprintf("add %q to variants in the gateway block", variant)
		if slices.Contains(on, variant) {
			setting, instead = ": "+setting, ""
		}
		if len(on) > 0 {
			remedy = strings.ReplaceAll(remedy, setting, instead)
		}
	}
	return remedy
}

// prompt is a [Prompt] with the decoded fields that behaviours read.
type prompt struct {
	Prompt

	title, description string
	messages           []message
}

type message struct{ role, kind, text string }

func read(of Prompt) *prompt {
	p := &prompt{Prompt: of}
	definition := wire.Members(of.Entry.JSON)
	p.title, _ = definition.Text("title")
	p.description, _ = definition.Text("description")
	messages, _ := wire.ParseArray(wire.Members(of.Result).Get("messages")) // no messages without a result
	for _, each := range messages {
		var m message
		content := wire.Members(each).Object("content")
		m.role, _ = wire.Members(each).Text("role")
		m.kind, _ = content.Text("type")
		m.text, _ = content.Text("text")
		p.messages = append(p.messages, m)
	}
	return p
}

func (p *prompt) argumentNames() string {
	return strings.Join(exslices.CastFunc(p.Entry.Arguments, func(a catalog.Argument) string { return a.Name }), ", ")
}

// twins reports whether other prompts have the same look in a client, and returns a sentence that names up to
// maxTwins of them. way identifies the look in the cache. An empty look never matches.
func (l *List) twins(way string, look func(*catalog.Entry) string, p *prompt) (string, bool) {
	if l.grouped[way] == nil {
		l.grouped[way] = map[string][]string{}
		for _, e := range l.entries {
			l.grouped[way][look(e)] = append(l.grouped[way][look(e)], e.Name)
		}
	}
	own := look(p.Entry)
	others := slices.DeleteFunc(slices.Clone(l.grouped[way][own]), func(name string) bool { return name == p.Entry.Name })
	if own == "" || len(others) == 0 {
		return "", false
	}
	return strings.Join(others[:min(len(others), maxTwins)], " and ") + " is called " + own + " too", true
}

// maxTwins bounds the prompts that a sentence names.
const maxTwins = 3

// SharedLoss is a loss that several clients share.
type SharedLoss struct {
	// Prompt is empty for a loss of every prompt.
	Prompt string
	// Titles are the titles of the clients. Kind and Reason are the same for all.
	Titles []string
	Kind   Kind
	Reason string
	// Remedy includes promptweir sync, if it writes files for one of the clients.
	Remedy string
}

// What describes the loss and its reason, to follow the word "is" in a sentence.
func (l *SharedLoss) What() string {
	passive := map[Kind]string{Hides: "hidden", Cuts: "cut", Garbles: "garbled"}
	return passive[l.Kind] + " by " + strings.Join(l.Titles, ", ") + ": " + l.Reason
}

// Join groups losses by prompt and reason. Losses of every prompt come first.
func Join(losses []Loss) (joined []SharedLoss) {
	type key struct{ prompt, reason string }
	index, targets := map[key]int{}, map[int][]string{}
	for _, loss := range losses {
		if loss.OfAll {
			loss.Prompt = ""
		}
		at, known := index[key{loss.Prompt, loss.Reason}]
		if !known {
			at = len(joined)
			index[key{loss.Prompt, loss.Reason}] = at
			joined = append(joined, SharedLoss{loss.Prompt, nil, loss.Kind, loss.Reason, loss.Remedy})
		}
		if !slices.Contains(joined[at].Titles, loss.Title) {
			joined[at].Titles = append(joined[at].Titles, loss.Title)
		}
		if loss.Sync != "" && !slices.Contains(targets[at], loss.Sync) {
			targets[at] = append(targets[at], loss.Sync)
		}
	}
	for at, all := range targets {
		joined[at].Remedy += "; or for files, promptweir sync --url URL --to " + strings.Join(all, ",")
	}
	slices.SortStableFunc(joined, func(a, b SharedLoss) int { return strings.Compare(a.Prompt, b.Prompt) })
	return joined
}
