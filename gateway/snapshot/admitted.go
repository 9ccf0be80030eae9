package snapshot

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxReports bounds the reports about one list, besides one that counts the others: a server may
// list as many mistakes as prompts.
const maxReports = 100

// offer is what an upstream offers at one moment.
type offer struct {
	// definitions is the upstream's list or, until there is one, the saved list.
	definitions []jsontext.Value
	// files are those of an upstream without a server, of which definitions are.
	files *files.List
	// listed is true if the upstream has listed it, so that it is no saved list.
	listed bool
}

// offer returns what the upstream at index i offers, and whether that is known.
func (g *Generation) offer(i int, state *upstream.State) (o offer, known bool) {
	definitions, known := g.definitions(i, state)
	return offer{definitions, state.Files, state.Lists > 0}, known
}

// same reports whether both are the same list. Lists are compared by identity: a connector replaces
// a list whenever something in it changes.
func (o offer) same(other offer) bool { return sameList(o.definitions, other.definitions) }

func sameList(a, b []jsontext.Value) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// admitted is what the admission makes of one upstream's list. It is immutable once it is made; the
// nil one admits nothing.
type admitted struct {
	// offer is what the upstream sent, so that an unchanged one is recognised.
	offer offer
	// definitions are the list as it was sent.
	definitions []jsontext.Value
	rules       listRules
	judged      []*judged // of each definition
	prompts     []*catalog.Prompt
	reports     []catalog.Report
	// overridden are the labels of the prompt blocks that match a prompt of the list.
	overridden map[string]bool
}

// listRules are what of a configuration decides over all prompts of one upstream.
type listRules struct {
	upstream, team, prefix, separator, place string

	skills bool
	lock   config.LockSetting
	screen *screen.Screen
}

// promptRules are what of a configuration decides over one prompt, beside listRules.
type promptRules struct {
	drift string           // how the definition differs from the lock file; empty if it does not, or there is no lock
	block *config.Override // nil if there is none
}

// judged is what became of one definition. It is immutable.
type judged struct {
	sent *catalog.Prompt // nil if the definition is not a prompt
	// listed is the prompt as clients are to see it; nil if it is left out. It follows from sent,
	// listRules and rules.
	listed *catalog.Prompt
	rules  promptRules
	// found is nil for nearly all definitions.
	found *findings
}

// findings are what is wrong with one definition.
type findings struct {
	unreadable error // why it is not a prompt
	reports    []catalog.Report
}

func (j *judged) findings() findings {
	if j.found == nil {
		return findings{}
	}
	return *j.found
}

// admits reports whether the list is what the admission makes of the offer.
func (l *admitted) admits(o offer) bool { return l != nil && l.offer.same(o) }

// add adds what became of the definition at index i.
func (l *admitted) add(i int, j *judged, source *catalog.Source) {
	l.judged[i] = j
	if j.sent == nil {
		l.reports = append(l.reports, unreadable(source, i, j.findings().unreadable))
		return
	}
	if j.rules.block != nil {
		l.overridden[j.rules.block.Prompt] = true
	}
	l.reports = append(l.reports, j.findings().reports...)
	if j.listed != nil {
		l.prompts = append(l.prompts, j.listed)
	}
}

// finder returns a function that finds what became of a definition in this list, which may be nil.
func (l *admitted) finder() func(i int, definition jsontext.Value) *judged {
	// A list that changes mostly keeps the place of a definition, or else its memory.
	if l == nil {
		return func(int, jsontext.Value) *judged { return nil }
	}
	var byMemory map[*byte]*judged
	return func(i int, definition jsontext.Value) *judged {
		switch {
		// It has no first byte by which to be found.
		case len(definition) == 0:
			return nil
		case i < len(l.definitions) && bytes.Equal(l.definitions[i], definition):
			return l.judged[i]
		case byMemory == nil:
			byMemory = make(map[*byte]*judged, len(l.definitions))
			for i, d := range l.definitions {
				if len(d) > 0 {
					// A connector keeps a definition that is listed again where it is in memory.
					byMemory[&d[0]] = l.judged[i]
				}
			}
		}
		return byMemory[&definition[0]]
	}
}

// finish completes the reports.
func (l *admitted) finish(source *catalog.Source, mask config.Mask) {
	// The mask hides the upstream's secrets in them, since they quote definitions.
	l.reports = append(l.nullMembers(source), l.reports...)
	if more := len(l.reports) - maxReports; more > 0 {
		last := l.reports[maxReports]
		l.reports = append(l.reports[:maxReports:maxReports], catalog.Report{
			Kind: last.Kind, Name: source.Upstream, Owners: []catalog.Owner{source.Owner("")},
			Text: fmt.Sprintf("upstream %q (%s) has %d more findings like these; correct "+
				"those first", source.Upstream, source.Place, more),
		})
	}
	for i := range l.reports {
		l.reports[i].Text = mask.Text(l.reports[i].Text)
	}
}

// nullMembers reports the prompts with optional members that are null, all at once: a serializer
// that writes null does so in every definition, and a report for each would bury all others.
func (l *admitted) nullMembers(source *catalog.Source) []catalog.Report {
	var first *catalog.Prompt
	n := 0
	for _, j := range l.judged {
		if j.sent != nil && len(j.sent.Nulls) > 0 {
			first = cmp.Or(first, j.sent)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	prompts := "1 prompt"
	if n > 1 {
		prompts = fmt.Sprintf("%d prompts", n)
	}
	return []catalog.Report{{
		Kind: catalog.NullMembers, Name: source.Upstream, Owners: []catalog.Owner{source.Owner("")},
		Text: fmt.Sprintf("upstream %q (%s) lists %s with null members, which the protocol "+
			"forbids; the first is %s of prompt %s; they are treated as absent: remove them on "+
			"the server",
			source.Upstream, source.Place, prompts, first.Nulls[0], wire.Quote(first.Name)),
	}}
}
