package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// skillWorld is a configuration of three upstreams of two teams with skills, and a naive reading of it.
type skillWorld struct {
	text  string
	lists snapshot.Lists
	rules []skillRule
	all   []*worldSkill
}

type skillRule struct {
	kind, team, pattern string
	to                  []string // of an expose block
}

type worldSkill struct {
	upstream, team, prefix, scheme, path, content string
	files                                         []string
}

// worldUpstreams have an empty prefix among them, and two of a team have the same.
var worldUpstreams = []struct{ name, team, prefix string }{{"a", "x", "a"}, {"a2", "x", "a"}, {"n", "x", ""}, {"b@b", "y", "b@b"}} //nolint:gochecknoglobals // a constant list

func newSkillWorld(t *rapid.T) *skillWorld {
	w := &skillWorld{lists: snapshot.Lists{}}
	for _, u := range worldUpstreams {
		list := snapshot.List{Definitions: []jsontext.Value{jsontext.Value(`{"name":"skill-like"}`)}}
		for _, path := range []string{"k", "k/in", "o/k", "a/k", "b%40b/k", "o/k/in/in"} {
			if rapid.Bool().Draw(t, path) {
				s := &worldSkill{
					upstream: u.name, team: u.team, prefix: u.prefix, path: path, scheme: one(t, "skill", "skill", "git"), content: one(t, "0", "0", "1"),
					files: []string{"SKILL.md", "x.md"},
				}
				if rapid.Bool().Draw(t, "inner") {
					s.files = append(s.files, "in/SKILL.md", "in/deep.md")
				}
				w.all = append(w.all, s)
				list.Definitions = append(list.Definitions, s.entry())
			}
		}
		w.lists[u.name] = list
	}
	var blocks [3]strings.Builder // of the teams x and y, and of the gateway
	for range rapid.IntRange(1, 5).Draw(t, "rules") {
		r := skillRule{
			kind: one(t, "expose", "expose", "hide"), team: one(t, "x", "y"),
			pattern: one(t, "skill:*", "*", "skill:a.*", "skill:*/in", "skill:b@b.*", "a.*", "skill:k", "skill:o/k*"),
		}
		if r.kind == "hide" && rapid.Bool().Draw(t, "of the gateway") {
			r.team = ""
		}
		at := strings.Index("xy", r.team)
		if r.team == "" {
			at = 2
		}
		fmt.Fprintf(&blocks[at], "%s \"r\" {\n prompts = [%q]\n", r.kind, r.pattern)
		if r.kind == "expose" {
			r.to = []string{one(t, "*", "user:bob", "group:g")}
			fmt.Fprintf(&blocks[at], " to = [%q]\n", r.to[0])
		}
		blocks[at].WriteString("}\n")
		w.rules = append(w.rules, r)
	}
	var text strings.Builder
	text.WriteString("auth {\n anonymous = true\n" + gatewaytest.Token("ann") + "}\n" + blocks[2].String())
	for i, team := range []string{"x", "y"} {
		fmt.Fprintf(&text, "team %q {\n members = [\"user:ann\"]\n", team)
		for _, u := range worldUpstreams {
			if u.team == team {
				fmt.Fprintf(&text, "upstream %q {\n url = \"https://%s.example.com\"\n prefix = %q\n skills = true\n}\n", strings.ReplaceAll(u.name, "@", "_"), u.name[:1]+strings.TrimLeft(u.name[1:], "@b"), u.prefix)
			}
		}
		text.WriteString(blocks[i].String() + "}\n")
	}
	w.lists["b_b"] = w.lists["b@b"]
	w.text = text.String()
	return w
}

func (s *worldSkill) entry() jsontext.Value {
	name := s.path[strings.LastIndexByte(s.path, '/')+1:]
	var files []string
	for _, file := range s.files {
		files = append(files, fmt.Sprintf(`{"uri":"%s://%s/%s","digest":"sha256:%s","size":1}`, s.scheme, s.path, file, strings.Repeat(s.content, 64)))
	}
	return jsontext.Value(fmt.Sprintf(`{"uri":"%s://%s/SKILL.md","frontmatter":{"name":%q,"description":%q},"resources":[%s]}`,
		s.scheme, s.path, name, s.content, strings.Join(files, ",")))
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

// served reports whether a skill is in the catalog: its name is no other prefix's, and all that claim it agree.
func (w *skillWorld) served(s *worldSkill) bool {
	first, _, _ := strings.Cut(s.path, "/")
	if s.prefix == "" && (first == "a" || first == "b%40b") {
		return false
	}
	return !slices.ContainsFunc(w.all, func(o *worldSkill) bool {
		return o.name() == s.name() && o.upstream != s.upstream && string(o.entry()) != string(s.entry())
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
		case r.to[0] == "*", slices.Contains(strings.Split(who, ","), r.to[0]):
			shown = true
		}
	}
	return shown && w.served(s)
}

// Of each world and caller, lists, entries, files and explanations agree with a naive reading of the rules. A file of no skill
// that the caller sees is not found, by any spelling.
func TestSkills_AgreeWithANaiveReadingOfTheRules(t *testing.T) {
	testing := t
	rapid.Check(t, func(t *rapid.T) {
		w := newSkillWorld(t)
		s, err := snapshot.Evaluate(t.Context(), gatewaytest.Load(testing, w.text), w.lists, snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"user:ann", "user:bob,group:g", "user:cid,group:g", "user:dan"} {
			w.agree(t, s, who)
		}
		if t.Failed() {
			t.Fatal(w.text)
		}
	})
}

func (w *skillWorld) agree(t *rapid.T, s *snapshot.Snapshot, who string) {
	t.Helper()
	principal, err := identity.ParsePrincipal(who)
	if err != nil {
		t.Fatal(err)
	}
	audience := s.Policy.Audience(principal)
	view, err := s.RequestView(audience)
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
	if diff := cmp.Diff(len(view.Entries()), len(view.Kind(true).Entries())+len(view.Kind(false).Entries())); diff != "" {
		t.Error(diff)
	}
}
