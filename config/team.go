package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Team is one team block.
type Team struct {
	// Name is the block's label, which no other team has.
	Name string
	// Members are users and groups. They see all prompts of the team's upstreams.
	Members []Selector
	// Upstreams and the other blocks are in the order of their lines.
	Upstreams []Upstream
	Exposes   []Rule
	Hides     []Rule
	Overrides []Override
	Screens   []Screen
	// Limit is for gets and completions of the team's prompts; nil without a limit block.
	Limit *Limit
	Lock  LockSetting
	Place Place
}

func teamSchema() hclread.Schema {
	return hclread.Schema{
		Plain: []string{"members", "lock"},
		Blocks: []hclread.BlockSchema{
			{Type: "upstream", Labelled: true, Schema: upstreamSchema()},
			{Type: "expose", Labelled: true, Schema: exposeSchema()},
			{Type: "hide", Labelled: true, Schema: hideSchema()},
			{Type: "prompt", Labelled: true, Schema: overrideSchema()},
			{Type: "limit", Schema: limitSchema()},
			{Type: "screen", Labelled: true, Schema: screenSchema()},
		},
		Foreign: foreignServers(`upstream "NAME" { … }`),
	}
}

// foreignServers are the words that the configurations of MCP clients have for all servers.
func foreignServers(instead string) map[string]string {
	remedy := "Write " + instead + " for each server; promptweir import FILE does so for an MCP client's file."
	return map[string]string{"server": remedy, "servers": remedy, "mcpServers": remedy, "mcp": remedy}
}

// allTeams returns the teams of all files, in order.
func (d *decoder) allTeams() (teams []Team) {
	blocks := map[string][]*hclread.Block{}
	for _, b := range d.Blocks("team") {
		path := b.Range().Filename
		blocks[path] = append(blocks[path], b)
	}
	for _, path := range d.Paths() {
		d.boundUpstreams(blocks[path])
		for _, b := range blocks[path] {
			teams = append(teams, d.team(b))
		}
	}
	return teams
}

// warnLeftOut warns of rules for the members of a team that is left out, or has gone.
func (d *decoder) warnLeftOut() {
	if !d.hasReplaced {
		return
	}
	declared := d.Labels("team")
	for _, t := range d.Blocks("team") {
		for _, b := range t.Inner("expose") {
			for _, text := range b.Texts("to") {
				name, isTeam := strings.CutPrefix(text.Value, "team:")
				if isTeam && !slices.Contains(declared, name) {
					d.Warning(text.At, "Team left out", "Team %q is not in use, because its file has errors or has gone: this shows "+
						"nothing to anybody until it is back.", name)
				}
			}
		}
	}
}

// maxUpstreams bounds the upstreams of a team's file: each takes memory, connections, or a process,
// of which all teams have one machine's. A file of the largest size has room for 18,700.
const maxUpstreams = 1000

// boundUpstreams takes the blocks of the teams of one file.
func (d *decoder) boundUpstreams(teams []*hclread.Block) {
	if !d.IsFolder() { // the file is the platform's
		return
	}
	var upstreams []*hclread.Block
	for _, b := range teams {
		upstreams = append(upstreams, b.Inner("upstream")...)
	}
	if len(upstreams) > maxUpstreams {
		d.Error(upstreams[maxUpstreams].Range(), "Too many upstreams",
			"A file with a team block has up to %d; move the others to a team with a file of its own.", maxUpstreams)
	}
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
	t.Members = hclread.List(b, "members", parseMember)
	warnOfPatterns(b, "members", t.Members, "a group, or each name")
	t.Lock = decodeLock(b)
	t.Limit = decodePromptLimit(b)
	t.Screens = decodeScreens(b)
	for _, inner := range b.Inner("upstream") {
		t.Upstreams = append(t.Upstreams, decodeUpstream(inner, t.Name, &d.names, reach{d.listeners, g, d.skipDirs, d.assertions}))
	}
	for _, inner := range b.Inner("expose") {
		t.Exposes = append(t.Exposes, decodeExpose(inner, d.teams))
	}
	t.nameLimits()
	for _, inner := range b.Inner("hide") {
		t.Hides = append(t.Hides, decodeHide(inner))
	}
	for _, inner := range b.Inner("prompt") {
		t.Overrides = append(t.Overrides, d.overrides.decode(inner, t.Name))
	}
	d.checkLabel(b)
	// A mistake may have left out the prefix that a pattern was written for.
	if d.names.separator != "" && !b.HasErrors() {
		warnUnused(b, t, d.names.separator)
	}
	return t
}

// checkLabel reports a label that is most likely mistyped, in place of all that the team may not use by it.
func (d *decoder) checkLabel(b *hclread.Block) {
	if _, isGranted := d.allowed.grants[b.Label()]; isGranted || len(d.allowed.grants) == 0 || !b.HasErrors() {
		return
	}
	var unused []string // by any team
	for _, label := range slices.Sorted(maps.Keys(d.allowed.grants)) {
		if !slices.Contains(d.teams, label) {
			unused = append(unused, label)
		}
	}
	meant := hclread.Suggest(b.Label(), unused)
	if !strings.HasSuffix(meant, "?") {
		return
	}
	if n := b.Withdraw(summaryRefused); n > 0 {
		b.Error(b.LabelRange(), "Unknown team", "No allow block grants anything to team %q, which uses what needs a grant (%d times)%s", b.Label(), n, meant)
	}
}

// nameLimits names the limits of a team. Labels of expose blocks may repeat, so those with the same
// label are numbered.
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

// parseMember reads a selector that can stand for members.
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

// warnUnused reports patterns that cannot match any of a team's prompts, whatever its servers
// offer: a typo in a hide block shows the prompts that it was meant to hide. Call it for a team
// without mistakes.
func warnUnused(b *hclread.Block, t Team, separator string) {
	if len(t.Upstreams) == 0 && len(t.Exposes)+len(t.Hides) > 0 {
		b.Warning(b.Range(), "Rules without prompts",
			"The expose and hide blocks of team %q apply to the prompts of its own upstreams, and it has none; add an upstream or remove the blocks.", t.Name)
		return
	}
	starts := namesStartWith(t, separator)
	for i, inner := range b.Inner("expose") {
		warnUnusedPatterns(inner, t.Exposes[i], starts, t, separator)
	}
	for i, inner := range b.Inner("hide") {
		warnUnusedPatterns(inner, t.Hides[i], starts, t, separator)
	}
}

// namesStartWith returns what the exposed names of a team can start with: prefix and separator of
// each upstream.
func namesStartWith(t Team, separator string) []string {
	var starts []string
	for i := range t.Upstreams {
		start := t.Upstreams[i].Prefix
		if start != "" {
			start += separator
		}
		if !slices.Contains(starts, start) {
			starts = append(starts, start)
		}
		if start = SkillPrefix + start; t.Upstreams[i].Skills != "" && !slices.Contains(starts, start) {
			starts = append(starts, start)
		}
	}
	return starts
}

// warnUnusedPatterns compares the patterns of a rule with the names that the team can have.
func warnUnusedPatterns(b *hclread.Block, r Rule, starts []string, t Team, separator string) {
	for i, p := range r.Prompts {
		isNewName := slices.ContainsFunc(t.Overrides, func(o Override) bool { return o.Name != "" && p.Match(o.Name) })
		if isNewName || slices.ContainsFunc(starts, p.CanStartWith) {
			continue
		}
		remedy := "."
		if head, _, hasHead := strings.Cut(p.String(), separator); hasHead {
			remedy = hclread.Suggest(head+separator, starts)
		}
		if remedy == "." {
			remedy = ", because the names of all the team's prompts start with " + alternatives(starts) + "; correct or remove it."
		}
		b.Warning(b.ElementRange("prompts", i), "Pattern matches nothing", "%q matches nothing%s", p, remedy)
	}
}

// alternatives lists words for a sentence.
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, " or ")
}
