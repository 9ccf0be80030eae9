package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// skillWorld is a random configuration of four upstreams of two teams with random skills, and a naive reading of it.
type skillWorld struct {
	rules []skillRule
	all   []*worldSkill
}

type skillRule struct {
	kind, team, pattern string
	to                  string // of an expose block
}

type worldSkill struct {
	upstream, team, prefix, scheme, path, variant string
	files                                         []string
}

// worldUpstreams have an empty prefix among them, and two of a team have the same.
var worldUpstreams = []struct{ name, team, prefix string }{{"a", "x", "a"}, {"a2", "x", "a"}, {"n", "x", ""}, {"b_b", "y", "b@b"}} //nolint:gochecknoglobals // a constant list

func newSkillWorld(t *rapid.T) *skillWorld {
	w := &skillWorld{}
	for _, u := range worldUpstreams {
		for _, path := range []string{"k", "k/in", "o/k", "a/k", "b%40b/k", "o/k/in/in"} {
			if rapid.Bool().Draw(t, path) {
				s := &worldSkill{
					upstream: u.name, team: u.team, prefix: u.prefix, path: path, scheme: one(t, "skill", "skill", "git"), variant: one(t, "0", "0", "1"),
					files: []string{"SKILL.md", "x.md"},
				}
				if rapid.Bool().Draw(t, "inner") {
					s.files = append(s.files, "in/SKILL.md", "in/deep.md")
				}
				w.all = append(w.all, s)
			}
		}
	}
	for range rapid.IntRange(1, 5).Draw(t, "rules") {
		r := skillRule{
			kind: one(t, "expose", "expose", "hide"), team: one(t, "x", "y"), to: one(t, "*", "user:bob", "group:g"),
			pattern: one(t, "skill:*", "*", "skill:a.*", "skill:*/in", "skill:b@b.*", "a.*", "skill:k", "skill:o/k*"),
		}
		if r.kind == "hide" && rapid.Bool().Draw(t, "of the gateway") {
			r.team = "" // a rule of the gateway
		}
		w.rules = append(w.rules, r)
	}
	return w
}

// blocks returns the rules of a team, or those of the gateway.
func (w *skillWorld) blocks(team string) string {
	var text strings.Builder
	for _, r := range w.rules {
		if r.team == team && r.kind == "hide" {
			fmt.Fprintf(&text, "hide \"r\" {\n prompts = [%q]\n}\n", r.pattern)
		} else if r.team == team {
			text.WriteString(gatewaytest.Expose("r", strconv.Quote(r.pattern), strconv.Quote(r.to)))
		}
	}
	return text.String()
}

// text is a configuration in which each upstream has the block that make returns.
func (w *skillWorld) text(block func(name, prefix string) string) string {
	var text strings.Builder
	text.WriteString("auth {\n anonymous = true\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob", "g") + gatewaytest.Token("cid", "g") +
		gatewaytest.Token("dan") + "}\n" + w.blocks(""))
	for _, team := range []string{"x", "y"} {
		fmt.Fprintf(&text, "team %q {\n members = [\"user:ann\"]\n", team)
		for _, u := range worldUpstreams {
			if u.team == team {
				text.WriteString(block(u.name, u.prefix))
			}
		}
		text.WriteString(w.blocks(team) + "}\n")
	}
	return text.String()
}

// snapshot evaluates the world without servers.
func (w *skillWorld) snapshot(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	lists := snapshot.Lists{}
	text := w.text(func(name, prefix string) string {
		lists[name] = snapshot.List{Definitions: []jsontext.Value{jsontext.Value(`{"name":"skill-like"}`)}}
		return fmt.Sprintf("upstream %q {\n url = \"https://%s.example.com\"\n prefix = %q\n skills = true\n}\n", name, strings.ReplaceAll(name, "_", ""), prefix)
	})
	for _, s := range w.all {
		lists[s.upstream] = snapshot.List{Definitions: append(lists[s.upstream].Definitions, s.entry())}
	}
	evaluated, err := publish.Evaluate(t.Context(), gatewaytest.Load(t, text), lists, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return evaluated
}

func (s *worldSkill) own(file string) string { return s.scheme + "://" + s.path + "/" + file }

func (s *worldSkill) entry() jsontext.Value {
	var files []string
	for _, file := range s.files {
		text := s.path + "/" + file
		files = append(files, fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, s.own(file), sha256.Sum256([]byte(text)), len(text)))
	}
	return jsontext.Value(fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"D"},"resources":[%s],"_meta":{"v":%q}}`,
		s.own("SKILL.md"), s.path[strings.LastIndexByte(s.path, '/')+1:], strings.Join(files, ","), s.variant))
}

func (s *worldSkill) name() string {
	if s.prefix == "" {
		return "skill:" + s.path
	}
	return "skill:" + s.prefix + "." + s.path
}

func (s *worldSkill) root() string {
	if s.prefix == "" {
		return "skill://" + s.path
	}
	return "skill://" + strings.ReplaceAll(s.prefix, "@", "%40") + "/" + s.path
}

// served reports whether a skill is in the catalog: its name is no other prefix's, and the first upstream with its prefix defines
// it equally.
func (w *skillWorld) served(s *worldSkill) bool {
	first, _, _ := strings.Cut(s.path, "/")
	if s.prefix == "" && (first == "a" || first == "b%40b") {
		return false
	}
	return !slices.ContainsFunc(w.all, func(o *worldSkill) bool {
		return o.name() == s.name() && o.upstream < s.upstream && string(o.entry()) != string(s.entry())
	})
}

// matches knows the patterns of the world: a star at the end or at the start, after "skill:".
func matches(pattern, name string) bool {
	rest, ok := strings.CutPrefix(pattern, "skill:")
	if !ok {
		return false
	}
	name = strings.TrimPrefix(name, "skill:")
	switch {
	case rest == "*":
		return true
	case strings.HasSuffix(rest, "*"):
		return strings.HasPrefix(name, strings.TrimSuffix(rest, "*"))
	case strings.HasPrefix(rest, "*"):
		return strings.HasSuffix(name, strings.TrimPrefix(rest, "*"))
	}
	return name == rest
}

func (w *skillWorld) sees(who string, s *worldSkill) bool {
	shown := strings.HasPrefix(who, "user:ann")
	for _, r := range w.rules {
		switch {
		case r.team != "" && r.team != s.team || !matches(r.pattern, s.name()):
		case r.kind == "hide":
			return false
		case r.to == "*", slices.Contains(strings.Split(who, ","), r.to):
			shown = true
		}
	}
	return shown && w.served(s)
}

// Of each world and caller, lists, entries, files and explanations agree with a naive reading of the rules. A file of no skill that the
// caller sees is not found, by any spelling. (-rapid.checks=1000 tries a thousand.)
func TestSkills_AgreeWithANaiveReadingOfTheRules(t *testing.T) {
	t.Parallel()
	testing := t
	rapid.Check(t, func(t *rapid.T) {
		w := newSkillWorld(t)
		s := w.snapshot(testing)
		for _, who := range []string{"user:ann", "user:bob,group:g", "user:cid,group:g", "user:dan"} { // a member of both teams, and others
			w.agree(t, s, who)
		}
		if t.Failed() {
			t.Fatalf("%+v", w.rules)
		}
	})
}

func (w *skillWorld) agree(t *rapid.T, s *snapshot.Snapshot, who string) {
	principal, err := identity.ParsePrincipal(who)
	if err != nil {
		t.Fatal(err)
	}
	audience := s.Policy.Audience(principal)
	view, err := s.RequestView(context.Background(), audience)
	if err != nil {
		t.Fatal(err)
	}
	want, files, uris := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, skill := range w.all {
		for _, file := range skill.files {
			uri := skill.root() + "/" + file
			for _, spelling := range []string{
				uri, uri + "/", skill.root() + "/./" + file, skill.root() + "/x/../" + file, skill.root() + "//" + file,
				strings.ToUpper(uri), strings.Replace(uri, "/", "%2F", 3), skill.scheme + "://" + skill.path + "/" + file, strings.Replace(uri, "x.md", "%78.md", 1),
			} {
				uris[spelling] = true
			}
			files[uri] = files[uri] || w.sees(who, skill)
		}
		want[skill.root()+"/SKILL.md"] = want[skill.root()+"/SKILL.md"] || w.sees(who, skill)
		visible := false
		for _, e := range inspect.Explain(s, principal, skill.name()) {
			visible = visible || e.Visible
		}
		if listed := view.Kind(true).Lookup(skill.name()) != nil; visible != listed {
			t.Errorf("%s: %s is listed: %v, and explained as visible: %v", who, skill.name(), listed, visible)
		}
	}
	listed := map[string]bool{}
	for _, e := range view.Kind(true).Entries() {
		listed[e.URI()] = true
		var entry struct{ URI string }
		if err := json.Unmarshal(e.JSON, &entry); err != nil || entry.URI != e.URI() {
			t.Errorf("%s: %s, %v", e.URI(), e.JSON, err)
		}
	}
	for uri := range uris {
		if listed[uri] != want[uri] || (s.Skill(audience, uri) != nil) != want[uri] {
			t.Errorf("%s: %s is listed: %v, got: %v, want %v", who, uri, listed[uri], s.Skill(audience, uri) != nil, want[uri])
		}
		readable := false
		s.SkillsAround(audience, uri)(func(e *catalog.Entry, path string) bool {
			_, ok := e.Skill.File(path)
			readable = readable || ok
			return true
		})
		if readable != files[uri] {
			t.Errorf("%s: %s is readable: %v", who, uri, readable)
		}
	}
	for _, e := range view.Kind(false).Entries() {
		if e.Skill != nil || strings.HasPrefix(e.Name, "skill:") {
			t.Errorf("%s is among the prompts", e.Name)
		}
	}
	upstreamtest.Equal(t, len(view.Entries()), len(view.Kind(true).Entries())+len(view.Kind(false).Entries()), "entries of both kinds")
}
