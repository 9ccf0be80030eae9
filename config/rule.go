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
	Label   string // may repeat
	Prompts []Pattern
	To      []Selector // empty in a hide block, which is for everyone
	When    *Condition // nil if the rule always holds
	Limit   *Limit     // nil if the block has none
	Place   Place
}

// rules returns the expose and hide blocks of all teams and of the gateway.
func (c *Config) rules() (all []*Rule) {
	lists := [][]Rule{c.Hides}
	for i := range c.Teams {
		lists = append(lists, c.Teams[i].Exposes, c.Teams[i].Hides)
	}
	for _, rules := range lists {
		for i := range rules {
			all = append(all, &rules[i])
		}
	}
	return all
}

// Matches reports whether one of the rule's patterns matches an exposed name.
func (r *Rule) Matches(name string) bool { return matchesAny(r.Prompts, name) }

// Title returns the type and the label of the block, as in its header.
func (r *Rule) Title(blockType string) string {
	if r.Label == "" {
		return blockType
	}
	return fmt.Sprintf("%s %q", blockType, r.Label)
}

func (r *Rule) exposeTable(teams teamNames) []hclread.Attribute {
	const remedy = `The block has no effect without to; write to = ["…"].`
	to := hclread.Plain("to", hclread.Filled(&r.To, audienceParser(teams), remedy), "[Selectors](#selectors).").Required(remedy)
	return slices.Insert(r.hideTable(), 1, to)
}

func exposeSchema() hclread.Schema {
	return hclread.Schema{
		Attributes: new(Rule).exposeTable(nil),
		Blocks:     []hclread.BlockSchema{{Type: "limit", Schema: limitSchema(), Meaning: "For readers outside the team."}},
	}
}

func decodeExpose(b *hclread.Block, teams teamNames) Rule {
	r := Rule{Label: b.Label(), Place: placeOf(b.Range()), Limit: decodePromptLimit(b)}
	b.Decode(r.exposeTable(teams))
	return r
}

// warnOfSelectors warns of wildcards in names, where they are literal, of groups that no token has, and of teams whose
// files are left out.
func (d *decoder) warnOfSelectors(b *hclread.Block, attribute string, selectors []Selector, instead string) {
	if b.HasErrors() { // wrong selectors were left out, so the indexes of the others may have changed
		return
	}
	for i, sel := range selectors {
		switch at := b.ElementRange(attribute, i); {
		case strings.ContainsAny(sel.Name, "*?["):
			b.Warning(at, "Pattern in a name", "%q is taken literally: %s takes no patterns; write %s.", sel, attribute, instead)
		case sel.Kind == Group && d.groups != nil && !slices.Contains(d.groups, sel.Name):
			b.Warning(at, "Unknown group", "No token block has the group %q%s", sel.Name,
				hclread.SuggestOr(sel.Name, d.groups, "correct it, or add it to the groups of a token"))
		case sel.Kind == TeamMembers && !slices.Contains(d.teams, sel.Name): // an error, except in LoadTolerant
			b.Warning(at, "Team left out", "Team %q is not in use, because its file has errors or has gone: this shows "+
				"nothing to anybody until it is back.", sel.Name)
		}
	}
}

// audienceParser accepts selectors of existing teams.
func audienceParser(teams teamNames) func(string) (Selector, error) {
	return func(s string) (Selector, error) {
		sel, err := parseSelector(s)
		if err == nil && sel.Kind == TeamMembers {
			err = teams.check(sel.Name)
		}
		return sel, err
	}
}

func (r *Rule) hideTable() []hclread.Attribute {
	when := hclread.Custom("expression", nil, func(b *hclread.Block) { r.When = decodeWhen(b) })
	const remedy = `The block has no effect without prompts; write prompts = ["…"].`
	return []hclread.Attribute{
		hclread.Plain("prompts", hclread.Filled(&r.Prompts, parsePattern, remedy), "[Patterns](#patterns) of the names that clients see.").Required(remedy),
		hclread.Plain("when", when, "[Narrows](#conditions) the rule."),
	}
}

func hideSchema() hclread.Schema { return hclread.Schema{Attributes: new(Rule).hideTable()} }

func decodeHide(b *hclread.Block) Rule {
	r := Rule{Label: b.Label(), Place: placeOf(b.Range())}
	b.Decode(r.hideTable())
	return r
}

// SelectorKind is the part of a selector before the colon, or "*".
type SelectorKind string

// The kinds of selector.
const (
	User        SelectorKind = "user"
	Group       SelectorKind = "group"
	TeamMembers SelectorKind = "team"
	Anybody     SelectorKind = "*"
)

// Selector is one element of the attributes members and to: "user:alice", "group:payments", "team:search" or "*".
type Selector struct {
	Kind SelectorKind
	// Name is the part after the colon. It is empty for [Anybody].
	Name string
}

// String returns the selector as it is written in the configuration.
func (s Selector) String() string {
	if s.Kind == Anybody {
		return string(Anybody)
	}
	return string(s.Kind) + ":" + s.Name
}

// Principals returns all users and groups in the configuration as selectors, sorted.
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

// ParseSelector reads "user:NAME", "group:NAME", "team:NAME" or "*". The team need not exist.
func ParseSelector(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err != nil {
		return Selector{}, fmt.Errorf("selector %q %w", s, err)
	}
	return sel, nil
}

var errNoSelector = errors.New(`selects no one; write "user:NAME", "group:NAME", "team:NAME" or "*"`)

// parseSelector returns errors that do not quote the selector, because it may be sensitive.
func parseSelector(s string) (Selector, error) {
	if s == string(Anybody) {
		return Selector{Kind: Anybody}, nil
	}
	// Only the first colon counts: subjects and groups may contain colons.
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

// Bounds of numbers in several blocks.
const (
	// Between these rates, the interval between requests fits a Duration.
	minRate, maxRate = 1e-6, 1e6
	// maxCount bounds counts that have no narrower bound. It fits an int on every platform.
	maxCount = 1<<31 - 1
)

// Limit is a limit block. It bounds each principal; all anonymous callers are one principal.
type Limit struct {
	// A bound of 0 means no bound.
	Rate                        float64
	Burst, Concurrency, Streams int
	// Block identifies the limit by the labels around it rather than by lines, so a reload recognises it.
	Block string
	Place Place
}

func (l *Limit) table() []hclread.Attribute {
	burst := hclread.Custom("number", nil, func(b *hclread.Block) {
		l.Burst = max(1, int(math.Ceil(l.Rate))) // a second's worth; below 1, no request would pass
		hclread.Int(b, "burst", maxCount, &l.Burst)
	})
	return []hclread.Attribute{
		hclread.Plain("rate", hclread.Number(&l.Rate, minRate, maxRate), "Requests per second, 0.000001 to 1000000."),
		hclread.Plain("burst", burst, "How many of them may come at once.").Or("`rate` rounded up"),
		hclread.Plain("concurrency", hclread.Count(&l.Concurrency, maxCount), "Requests in flight, until the client has read the response."),
		hclread.Plain("streams", hclread.Count(&l.Streams, maxCount), "Only in `gateway`: open streams of notifications, and sessions of HTTP+SSE."),
	}
}

func limitSchema() hclread.Schema { return hclread.Schema{Attributes: new(Limit).table()} }

// decodePromptLimit is [decodeLimit] for a team or expose block, in which streams is an error.
func decodePromptLimit(outer *hclread.Block) *Limit {
	l := decodeLimit(outer)
	if l != nil && l.Streams > 0 {
		b := outer.Inner("limit")[0]
		b.Error(b.ValueRange("streams"), "Misplaced streams",
			"A stream carries the changes of all teams; move streams to the limit block of gateway.")
	}
	return l
}

// decodeLimit decodes the limit block in another block, or returns nil if there is none. The caller sets
// [Limit.Block].
func decodeLimit(outer *hclread.Block) *Limit {
	blocks := outer.Inner("limit") // duplicates were reported
	if len(blocks) == 0 {
		return nil
	}
	b := blocks[0]
	l := &Limit{Place: placeOf(b.Range())}
	b.Decode(l.table())
	switch {
	case b.Lacks("rate") && b.Lacks("concurrency") && b.Lacks("streams"):
		b.Error(b.Range(), "Nothing to limit",
			"A limit block needs rate, in requests per second, or concurrency; in gateway, streams is enough.")
	case b.Lacks("rate") && b.Has("burst"):
		b.Error(b.ValueRange("burst"), "burst without rate", "burst bounds simultaneous requests within a rate; set rate or remove burst.")
	}
	return l
}
