package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Rule is an expose or a hide block.
type Rule struct {
	// Label says why the block is there. Labels may repeat.
	Label string
	// Prompts are compared with the names that clients see.
	Prompts []Pattern
	// To is who an expose block shows the prompts to; empty in a hide block, which is for everyone.
	To []Selector
	// When narrows the rule; nil if it holds always.
	When *Condition
	// Limit is for gets and completions of the prompts that an expose block shows; nil without a
	// limit block.
	Limit *Limit
	Place Place
}

// Matches reports whether one of the rule's patterns matches an exposed name.
func (r *Rule) Matches(name string) bool { return matchesAny(r.Prompts, name) }

// Title is the type and the label of a rule's block as they stand in its header.
func (r *Rule) Title(blockType string) string {
	if r.Label == "" {
		return blockType
	}
	return fmt.Sprintf("%s %q", blockType, r.Label)
}

func exposeSchema() hclread.Schema {
	return hclread.Schema{
		Plain:  []string{"prompts", "to", "when"},
		Blocks: []hclread.BlockSchema{{Type: "limit", Schema: limitSchema()}},
	}
}

func decodeExpose(b *hclread.Block, teams teamNames) Rule {
	r := Rule{
		Label:   b.Label(),
		Place:   placeOf(b.Range()),
		Prompts: hclread.RequiredList(b, "prompts", parsePattern),
		To:      hclread.RequiredList(b, "to", audienceParser(teams)),
		When:    decodeWhen(b),
		Limit:   decodePromptLimit(b),
	}
	warnOfPatterns(b, "to", r.To, `"*" for everybody, or each name`)
	return r
}

// warnOfPatterns warns of selectors that are written like patterns, which they are not.
func warnOfPatterns(b *hclread.Block, attribute string, selectors []Selector, instead string) {
	if b.HasErrors() { // those that are wrong were left out
		return
	}
	for i, sel := range selectors {
		if strings.ContainsAny(sel.Name, "*?[") {
			b.Warning(b.ElementRange(attribute, i), "Pattern in a name", "%q is taken literally: %s takes no "+
				"patterns; write %s.", sel, attribute, instead)
		}
	}
}

// audienceParser returns a parse function for selectors that may name one of the teams.
func audienceParser(teams teamNames) func(string) (Selector, error) {
	return func(s string) (Selector, error) {
		sel, err := parseSelector(s)
		if err == nil && sel.Kind == TeamMembers {
			err = teams.check(sel.Name)
		}
		return sel, err
	}
}

func hideSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"prompts", "when"}}
}

func decodeHide(b *hclread.Block) Rule {
	return Rule{Label: b.Label(), Place: placeOf(b.Range()), Prompts: hclread.RequiredList(b, "prompts", parsePattern), When: decodeWhen(b)}
}

// SelectorKind is what a [Selector] compares.
type SelectorKind string

// The kinds of selector, as they are written before the colon.
const (
	User        SelectorKind = "user"
	Group       SelectorKind = "group"
	TeamMembers SelectorKind = "team"
	Anybody     SelectorKind = "*"
)

// Selector is one element of members or to: "user:alice", "group:payments", "team:search" or "*".
type Selector struct {
	Kind SelectorKind
	// Name is what follows the colon; empty for [Anybody].
	Name string
}

// String writes a selector as it is written in the configuration.
func (s Selector) String() string {
	if s.Kind == Anybody {
		return string(Anybody)
	}
	return string(s.Kind) + ":" + s.Name
}

// Principals returns the users and groups that the configuration names, as selectors, in order.
func (c *Config) Principals() []string {
	var names []string
	add := func(selectors []Selector) {
		for _, s := range selectors {
			if s.Kind == User || s.Kind == Group {
				names = append(names, s.String())
			}
		}
	}
	for i := range c.Teams {
		add(c.Teams[i].Members)
		for _, expose := range c.Teams[i].Exposes {
			add(expose.To)
		}
	}
	if c.Auth != nil {
		for _, token := range c.Auth.Tokens {
			add([]Selector{{User, Qualify(token.As, token.Subject)}})
			for _, group := range token.Groups {
				add([]Selector{{Group, Qualify(token.As, group)}})
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ParseSelector reads "user:NAME", "group:NAME", "team:NAME" or "*". It does not check whether the
// team exists.
func ParseSelector(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err != nil {
		return Selector{}, fmt.Errorf("selector %q %w", s, err)
	}
	return sel, nil
}

var errNoSelector = errors.New(`selects no one; write "user:NAME", "group:NAME", "team:NAME" or "*"`)

// parseSelector leaves the selector out of its errors, since the caller knows whether it may be
// shown.
func parseSelector(s string) (Selector, error) {
	if s == string(Anybody) {
		return Selector{Kind: Anybody}, nil
	}
	// The first colon ends the kind: subjects and groups may contain further ones.
	kind, name, found := strings.Cut(s, ":")
	switch sel := (Selector{SelectorKind(kind), name}); {
	case !found || sel.Kind != User && sel.Kind != Group && sel.Kind != TeamMembers:
		return Selector{}, errNoSelector
	case !isPrintable(name):
		return Selector{}, errors.New("needs a name without spaces after the colon")
	case strings.ContainsFunc(name, IsInvisible):
		return Selector{}, errors.New("contains a character that people cannot see; remove it")
	default:
		return sel, nil
	}
}

// Bounds of numbers, here and in other blocks.
const (
	// A rate between these gives an interval between requests that fits a Duration and that someone
	// may mean.
	minRate, maxRate = 1e-6, 1e6
	// maxCount bounds the counts that have no bound of their own: an int on every platform.
	maxCount = 1<<31 - 1
)

// Limit is a limit block: how much each principal may request. Anonymous callers count as one
// principal.
type Limit struct {
	// Rate is requests per second, 0 for no bound, and Burst how many may come at once.
	Rate  float64
	Burst int
	// Concurrency is requests in flight, 0 for no bound.
	Concurrency int
	// Streams is streams at the same time, 0 for no bound. Only the gateway's block has it.
	Streams int
	// Block identifies the limit in the configuration by the labels around it, not by lines, so
	// that a reload recognises it.
	Block string
	Place Place
}

func limitSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"rate", "burst", "concurrency", "streams"}}
}

// decodePromptLimit decodes the limit block inside a team or expose block, which is about some
// prompts only. See [decodeLimit].
func decodePromptLimit(outer *hclread.Block) *Limit {
	l := decodeLimit(outer)
	if l != nil && l.Streams > 0 {
		b := outer.Inner("limit")[0]
		b.Error(b.ValueRange("streams"), "Misplaced streams", "A stream carries the changes of "+
			"all teams; move streams to the limit block of gateway.")
	}
	return l
}

// decodeLimit decodes the limit block inside another one, without [Limit.Block]; nil if there is
// none.
func decodeLimit(outer *hclread.Block) *Limit {
	blocks := outer.Inner("limit") // a second one was reported
	if len(blocks) == 0 {
		return nil
	}
	b := blocks[0]
	l := &Limit{Place: placeOf(b.Range())}
	hclread.Float(b, "rate", minRate, maxRate, &l.Rate)
	l.Burst = max(1, int(math.Ceil(l.Rate))) // a second's worth; below 1, no request would ever pass
	hclread.Int(b, "burst", maxCount, &l.Burst)
	hclread.Int(b, "concurrency", maxCount, &l.Concurrency)
	hclread.Int(b, "streams", maxCount, &l.Streams)
	switch {
	case b.Lacks("rate") && b.Lacks("concurrency") && b.Lacks("streams"):
		b.Error(b.Range(), "Nothing to limit", "A limit block needs rate, in requests per "+
			"second, or concurrency; in gateway, streams is enough.")
	case b.Lacks("rate") && b.Has("burst"):
		b.Error(b.ValueRange("burst"), "burst without rate", "burst bounds simultaneous "+
			"requests within a rate; set rate or remove burst.")
	}
	return l
}
