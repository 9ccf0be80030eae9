package publish

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
)

// maxReports bounds the reports about one list. A list may have as many errors as prompts, so one more
// report gives the number of the omitted reports.
const maxReports = 100

// admitted is the result of admitting one upstream's list. It is immutable once complete. A nil
// result contains no prompts.
type admitted struct {
	// definitions are the upstream's list, in the upstream's form.
	definitions []jsontext.Value
	rules       listRules
	decisions   []*decision // one per definition
	prompts     []*catalog.Prompt
	reports     []catalog.Report
	// overridden contains the labels of the prompt blocks that match a prompt of the list.
	overridden map[string]bool
}

// listRules are the rules for all prompts of one upstream.
type listRules struct {
	upstream, team, prefix, separator, place string

	skills bool
	lock   config.LockSetting
	screen *screen.Screen
}

// promptRules are the rules for one prompt, in addition to listRules.
type promptRules struct {
	drift string           // difference from the lock file; empty if nothing differs or there is no lock
	block *config.Override // nil if there is no prompt block
}

// decision is the result of admitting one definition. It is immutable.
type decision struct {
	sent *catalog.Prompt // nil if the definition is not a prompt
	// listed is the prompt for clients, or nil if the prompt is left out. It is computed from sent,
	// listRules and rules.
	listed *catalog.Prompt
	rules  promptRules
	// found is nil for almost all definitions.
	found *findings
}

// findings are the problems of one definition.
type findings struct {
	unreadable error // why the definition is not a prompt; nil for a prompt
	reports    []catalog.Report
}

func (d *decision) findings() findings {
	if d.found == nil {
		return findings{}
	}
	return *d.found
}

// add adds the decision about the definition at index i.
func (l *admitted) add(i int, d *decision, source *catalog.Source) {
	l.decisions[i] = d
	if d.sent == nil {
		l.reports = append(l.reports, unreadable(source, i, d.findings().unreadable))
		return
	}
	if d.rules.block != nil {
		l.overridden[d.rules.block.Prompt] = true
	}
	l.reports = append(l.reports, d.findings().reports...)
	if d.listed != nil {
		l.prompts = append(l.prompts, d.listed)
	}
}

// finder returns a function that finds the decision about a definition in this list, which may be
// nil.
func (l *admitted) finder() func(i int, definition jsontext.Value) *decision {
	// After a change of the list, most definitions have the same index. Most others are still at the
	// same address in memory.
	if l == nil {
		return func(int, jsontext.Value) *decision { return nil }
	}
	var byMemory map[*byte]*decision
	return func(i int, definition jsontext.Value) *decision {
		switch {
		// An empty definition has no first byte for the lookup.
		case len(definition) == 0:
			return nil
		case i < len(l.definitions) && bytes.Equal(l.definitions[i], definition):
			return l.decisions[i]
		case byMemory == nil:
			byMemory = make(map[*byte]*decision, len(l.definitions))
			for i, earlier := range l.definitions {
				if len(earlier) > 0 {
					// A connector reuses the memory of a definition that is listed again.
					byMemory[&earlier[0]] = l.decisions[i]
				}
			}
		}
		return byMemory[&definition[0]]
	}
}

// finish cuts the reports to maxReports and masks the upstream's secrets in them.
func (l *admitted) finish(source *catalog.Source, u *config.Upstream) {
	if more := len(l.reports) - maxReports; more > 0 {
		last := l.reports[maxReports]
		l.reports = append(l.reports[:maxReports:maxReports], catalog.Report{
			Kind: last.Kind, Name: source.Upstream, Owners: []catalog.Owner{source.Owner("")},
			Text: fmt.Sprintf("upstream %q (%s) has %d more findings like these; correct "+
				"those first", source.Upstream, source.Place, more),
		})
	}
	if len(l.reports) == 0 {
		return
	}
	mask := u.Mask() // the reports quote definitions, which may contain the upstream's secrets
	for i := range l.reports {
		l.reports[i].Text = mask.Text(l.reports[i].Text)
	}
}
