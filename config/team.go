package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Team is one team block.
type Team struct {
	Name    string // the block's label, which no other team has
	Members []Selector
	// The blocks are in the order of their lines.
	Upstreams []Upstream
	Exposes   []Rule
	Hides     []Rule
	Overrides []Override
	Screens   []Screen
	Limit     *Limit // nil if the block has none
	Lock      LockSetting
	Place     Place
}

func (t *Team) table() []hclread.Attribute {
	return []hclread.Attribute{
		hclread.Plain("members", hclread.Strings(&t.Members, parseMember),
			"[Selectors](#selectors) `user:NAME` and `group:NAME`. Members see all prompts of the team."),
		hclread.Plain("lock", t.Lock.field(), "`\"enforce\"` or `\"warn\"`; the stricter one of this and the gateway's counts."),
	}
}

func teamSchema() hclread.Schema {
	return hclread.Schema{
		Attributes: new(Team).table(),
		Blocks: []hclread.BlockSchema{
			{Type: "upstream", Labelled: true, Schema: newUpstream().schema(nil, reach{}), Meaning: "An MCP server, or a folder of prompts; the label is its name."},
			{Type: "expose", Labelled: true, Schema: exposeSchema(), Meaning: "Shows prompts."},
			{Type: "hide", Labelled: true, Schema: hideSchema(), Meaning: "Hides prompts."},
			{Type: "prompt", Labelled: true, Schema: hclread.Schema{Attributes: new(Override).table()}, Meaning: "Changes a prompt."},
			{Type: "limit", Schema: limitSchema(), Meaning: "For gets and completions of the team's prompts."},
			{Type: "screen", Labelled: true, Schema: screenSchema(), Meaning: "For the team's prompts, before the gateway's screens."},
		},
		Foreign: foreignServers(`upstream "NAME" { … }`),
	}
}

// foreignServers returns a remedy for each name that MCP clients give their list of servers.
func foreignServers(instead string) map[string]string {
	remedy := "Write " + instead + " for each server; promptweir import FILE does so for an MCP client's file."
	return map[string]string{"server": remedy, "servers": remedy, "mcpServers": remedy, "mcp": remedy}
}

// maxUpstreams bounds the upstreams of a team's file: each takes memory, connections or a process, and all
// teams share one machine. A file of the largest size has room for 18,700.
const maxUpstreams = 1000

func (d *decoder) allTeams() (teams []Team) {
	upstreams := map[string]int{} // by file
	for _, b := range d.Blocks("team") {
		for _, u := range b.Inner("upstream") {
			path := u.Range().Filename
			if upstreams[path]++; d.IsFolder() && upstreams[path] == maxUpstreams+1 { // a single file belongs to the platform and is not bounded
				d.Error(u.Range(), "Too many upstreams",
					"A file with a team block has up to %d; move the others to a team with a file of its own.", maxUpstreams)
			}
		}
		teams = append(teams, d.team(b))
	}
	return teams
}

func (d *decoder) team(b *hclread.Block) Team {
	t := Team{Name: b.Label(), Place: placeOf(b.Range())}
	var g *grants
	if b.Labelled() {
		g = d.allowed.team(t.Name)
	}
	if g != nil { // a nil *grants in an interface would not be nil
		b.Restrict(g)
	}
	checkName("team", b)
	b.Decode(t.table())
	d.warnOfSelectors(b, "members", t.Members, "a group, or each name")
	t.Limit = decodePromptLimit(b)
	t.Screens = decodeScreens(b)
	for _, inner := range b.Inner("upstream") {
		t.Upstreams = append(t.Upstreams, decodeUpstream(inner, t.Name, &d.names, reach{d.listeners, g, d.options.SkipDirs, d.assertions}))
	}
	for _, inner := range b.Inner("expose") {
		expose := decodeExpose(inner, d.teams)
		d.warnOfSelectors(inner, "to", expose.To, `"*" for everybody, or each name`)
		t.Exposes = append(t.Exposes, expose)
	}
	t.nameLimits()
	for _, inner := range b.Inner("hide") {
		t.Hides = append(t.Hides, decodeHide(inner))
	}
	for _, inner := range b.Inner("prompt") {
		t.Overrides = append(t.Overrides, d.overrides.decode(inner, t.Name))
	}
	d.checkLabel(b)
	// In a block with errors, the prefix that a pattern refers to may be missing.
	if d.names.separator != "" && !b.HasErrors() {
		warnUnused(b, t, d.names.separator)
	}
	return t
}

// checkLabel replaces all refusals in a team block by one error if its label is probably a misspelt label of an
// allow block.
func (d *decoder) checkLabel(b *hclread.Block) {
	if _, isGranted := d.allowed.grants[b.Label()]; isGranted || len(d.allowed.grants) == 0 || !b.HasErrors() {
		return
	}
	isTeam := func(label string) bool { return slices.Contains(d.teams, label) }
	unused := slices.DeleteFunc(slices.Sorted(maps.Keys(d.allowed.grants)), isTeam) // labels of allow blocks without a team
	meant := hclread.Suggest(b.Label(), unused)
	if !strings.HasSuffix(meant, "?") {
		return
	}
	if n := b.Withdraw(summaryRefused); n > 0 {
		b.Error(b.LabelRange(), "Unknown team", "No allow block grants anything to team %q, which uses what needs a grant (%d times)%s", b.Label(), n, meant)
	}
}

// nameLimits sets [Limit.Block]. Labels of expose blocks may repeat, so blocks with the same label are
// numbered.
func (t *Team) nameLimits() {
	if t.Limit != nil {
		t.Limit.Block = fmt.Sprintf("team %q", t.Name)
	}
	seen := map[string]int{}
	for i := range t.Exposes {
		expose := &t.Exposes[i]
		seen[expose.Label]++
		if expose.Limit != nil {
			expose.Limit.Block = fmt.Sprintf("team %q expose %q %d", t.Name, expose.Label, seen[expose.Label])
		}
	}
}

// parseMember accepts users and groups, except user:anonymous.
func parseMember(s string) (Selector, error) {
	sel, err := parseSelector(s)
	switch {
	case errors.Is(err, errNoSelector), err == nil && sel.Kind != User && sel.Kind != Group:
		err = errors.New(`cannot be a member; write "user:NAME" or "group:NAME"`)
	case err != nil:
	case sel == Selector{User, anonymous}:
		err = errors.New(`cannot be a member, because callers without a token are in no team; ` +
			`show them prompts in an expose block, to = ["*"]`)
	}
	return sel, err
}

// warnUnused warns of patterns that cannot match any prompt of a team, because a typo in a hide block shows the
// prompts that should be hidden. Call it for a team without errors.
func warnUnused(b *hclread.Block, t Team, separator string) {
	if len(t.Upstreams) == 0 && len(t.Exposes)+len(t.Hides) > 0 {
		b.Warning(b.Range(), "Rules without prompts",
			"The expose and hide blocks of team %q apply to the prompts of its own upstreams, and it has none; add an upstream or remove the blocks.", t.Name)
		return
	}
	starts := namesStartWith(t, separator)
	for i, inner := range b.Inner("expose") {
		warnUnusedPatterns(inner, t.Exposes[i], starts, t)
	}
	for i, inner := range b.Inner("hide") {
		warnUnusedPatterns(inner, t.Hides[i], starts, t)
	}
}

// namesStartWith returns the possible beginnings of a team's exposed names: prefixes with the separator, and the
// same after [SkillPrefix].
func namesStartWith(t Team, separator string) []string {
	var starts []string
	for i := range t.Upstreams {
		start := t.Upstreams[i].Prefix
		if start != "" {
			start += separator
		}
		starts = append(starts, start)
		if t.Upstreams[i].Skills != "" {
			starts = append(starts, SkillPrefix+start)
		}
	}
	return exslices.DeduplicateUnsorted(starts)
}

// warnUnusedPatterns is warnUnused for one rule.
func warnUnusedPatterns(b *hclread.Block, r Rule, starts []string, t Team) {
	for i, p := range r.Prompts {
		isNewName := slices.ContainsFunc(t.Overrides, func(o Override) bool { return o.Name != "" && p.Match(o.Name) })
		if isNewName || slices.ContainsFunc(starts, p.CanStartWith) {
			continue
		}
		b.Warning(b.ElementRange("prompts", i), "Pattern matches nothing",
			"%q matches nothing, because the names of all the team's prompts start with %s; correct or remove it.", p, alternatives(starts))
	}
}

// alternatives joins quoted words with "or".
func alternatives(words []string) string {
	return strings.Join(exslices.CastFunc(words, strconv.Quote), " or ")
}
