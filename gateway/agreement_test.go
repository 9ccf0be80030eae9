package gateway_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// world is a configuration of two teams, with everything that decides about visibility, and what their servers list.
type world struct {
	head  string // of the configuration
	teams [2]worldTeam
}

type worldTeam struct {
	name, members, blocks string
	prompts, later        []string // each list is that of a server, later after a change
	// changes is an attribute of the block that gives the first prompt another name, if any, and screen an action.
	renamed         bool
	changes, screen string
	// lock is the mode, and approved what the lock file has of each prompt.
	lock     string
	approved []config.LockState
}

func one(t *rapid.T, of ...string) string { return rapid.SampledFrom(of).Draw(t, "choice") }

func newWorld(t *rapid.T) *world {
	w := &world{}
	for i, name := range []string{"a", "b"} {
		team := &w.teams[i]
		*team = worldTeam{
			name: name, prompts: worldPrompts(t), later: worldPrompts(t), members: one(t, "", `"user:ann"`, `"group:g0"`, `"group:g1", "user:bob"`),
			renamed: rapid.Bool().Draw(t, "renamed"), changes: one(t, "", `title = "T"`, `arguments = { x = "1" }`, `defaults = { x = "1" }`),
			screen: one(t, "", "", "reject", "warn"), lock: one(t, "enforce", "warn", ""),
			approved: rapid.SliceOfN(rapid.SampledFrom([]config.LockState{config.LockApproved, config.LockDiffers, config.LockMissing}), 4, 4).Draw(t, "lock"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "exposes") {
			team.blocks += fmt.Sprintf("expose \"e\" {\n prompts = [%q]\n to = [%q]\n%s}\n", worldPattern(t, name),
				one(t, "*", "user:ann", "group:g0", "group:g1", "team:a", "team:b", "user:anonymous"), worldWhen(t))
		}
		if rapid.Bool().Draw(t, "hides") {
			team.blocks += fmt.Sprintf("hide \"h\" {\n prompts = [%q]\n%s}\n", worldPattern(t, name), worldWhen(t))
		}
		if team.renamed {
			team.blocks += fmt.Sprintf("prompt \"%s.p0\" {\n name = %q\n %s\n}\n", name, "short-"+name, team.changes)
		}
		if team.screen != "" {
			team.blocks += fmt.Sprintf("screen \"s\" {\n patterns = [\"bad\"]\n action = %q\n}\n", team.screen)
		}
	}
	w.head = "auth {\n anonymous = true\n" + gatewaytest.Token("ann", "g0") + gatewaytest.Token("bob", "g0", "g1") + gatewaytest.Token("cid") + "}\n" +
		fmt.Sprintf("hide \"g\" {\n prompts = [%q]\n%s}\n", one(t, "none", "*.p3", "short-a"), worldWhen(t))
	return w
}

func worldPrompts(t *rapid.T) (all []string) {
	for i := range 4 {
		all = append(all, fmt.Sprintf(`{"name":"p%d","x":%d,"title":%q,"arguments":%s,"_meta":%s}`, i, rapid.IntRange(0, 1<<(20*(i/3))).Draw(t, "x"), one(t, "T", "U", "bad"),
			one(t, `[]`, `[{"name":"x"}]`, `[{"name":"x","required":true},{"name":"y"}]`), one(t, `{}`, `{"public":true}`, `{"public":"no"}`, `{"owner":"user:ann"}`)))
	}
	return all
}

func worldPattern(t *rapid.T, team string) string {
	return one(t, team+".*", team+".p0", team+".p[12]", "short-*", "*", "*3")
}

func worldWhen(t *rapid.T) string {
	when := one(t, "", "", `prompt.title == "T"`, `length(prompt.arguments) > 0`, `prompt.meta.public`, `try(prompt.meta.public, false)`,
		`contains(principal.groups, "group:g1")`, `principal.subject == try(prompt.meta.owner, "")`, `principal.claims.tier == 1`, `prompt.team == "a"`)
	if when == "" {
		return ""
	}
	return " when = " + when + "\n"
}

// callers are principals by the label of their tokens.
var callers = map[string]string{"": "user:anonymous", "ann": "user:ann,group:g0", "bob": "user:bob,group:g0,group:g1", "cid": "user:cid"} //nolint:gochecknoglobals // a constant table

// locked returns the lock file.
func (w *world) locked() (all config.Lock) {
	for _, team := range w.teams {
		for i, state := range team.approved {
			name := fmt.Sprintf("%s.p%d", team.name, i)
			definition := strings.Replace(team.prompts[i], fmt.Sprintf(`"name":"p%d",`, i), map[config.LockState]string{config.LockDiffers: `"other":1,`}[state], 1)
			if prompt, _ := config.NewLockedPrompt(name, team.name, []byte(definition)); state != config.LockMissing {
				all = append(all, prompt)
			}
		}
	}
	return config.NewLock(all)
}

// served returns the exposed name and definition of a prompt, if the lock, the prompt block and the screen leave it.
func (team *worldTeam) served(i int) (name, definition string, ok bool) {
	name, definition = fmt.Sprintf("%s.p%d", team.name, i), team.prompts[i]
	if team.lock == "enforce" && team.approved[i] != config.LockApproved {
		return name, definition, false
	}
	if i == 0 && team.renamed {
		name = "short-" + team.name
		change, _, _ := strings.Cut(team.changes, " ")
		if change != "" && change != "title" && !strings.Contains(definition, `"name":"x"`) {
			return name, definition, false
		}
		definition = map[string]*strings.Replacer{
			"":          strings.NewReplacer(),
			"title":     strings.NewReplacer(`"title":"U"`, `"title":"T"`, `"title":"bad"`, `"title":"T"`),
			"arguments": strings.NewReplacer(`{"name":"x"}`, "", `{"name":"x","required":true},`, ""),
			"defaults":  strings.NewReplacer(`"required":true`, `"required":false`),
		}[change].Replace(definition)
	}
	return name, definition, team.screen != "reject" || !strings.Contains(definition, `"bad"`)
}

// Of each world, a caller's view has exactly what lock, prompt blocks and screens leave and the policy shows, by its exposed name
// and as it is changed; lookups and explanations agree.
func TestView_HasWhatLockOverridesScreensAndPolicyLeave(t *testing.T) {
	t.Parallel()
	testing := t
	rapid.Check(t, func(t *rapid.T) {
		w, lists := newWorld(t), snapshot.Lists{}
		for _, team := range w.teams {
			var list snapshot.List
			for _, prompt := range team.prompts {
				list.Definitions = append(list.Definitions, jsontext.Value(prompt))
			}
			lists[team.name] = list
			attributes := fmt.Sprintf("upstream %[1]q { url = \"https://%[1]s.example.com\" }\n", team.name)
			if team.lock != "" {
				attributes += fmt.Sprintf("lock = %q\n", team.lock)
			}
			w.head += gatewaytest.Team(team.name, team.members, attributes+team.blocks)
		}
		s, err := publish.Evaluate(t.Context(), gatewaytest.LoadLocked(testing, w.head, w.locked()), lists, publish.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range callers {
			principal, _ := identity.ParsePrincipal(who)
			audience, want, got := s.Policy.Audience(principal), map[string]string{}, map[string]string{}
			for _, team := range w.teams {
				for i := range team.prompts {
					name, definition, ok := team.served(i)
					if sees := ok && s.Policy.Explain(principal, team.name, team.name, name, []byte(definition)).Visible; sees {
						want[name] = strings.Replace(definition, fmt.Sprintf(`"p%d"`, i), strconv.Quote(name), 1)
					}
					_, sees := want[name]
					explained := slices.ContainsFunc(inspect.Explain(s, principal, name), func(e inspect.Explanation) bool { return e.Visible })
					if found := s.Lookup(audience, name) != nil; found != sees || explained != sees {
						t.Errorf("%s sees %s: %v, but finds it: %v, and is told so: %v", who, name, sees, found, explained)
					}
				}
			}
			view, err := s.RequestView(t.Context(), audience)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range view.Entries() {
				got[e.Name] = string(e.JSON)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s sees (-want +got):\n%s\n%s", who, diff, w.head)
			}
		}
	})
}

// visibility is a world with real servers.
type visibility struct {
	peers [2]*gatewaytest.Peer
	text  string
	later []string // what the first server lists after a change
}

// In random worlds and for each caller, a prompt can be got and completed, and is in the view of the commands, if and only if it is
// listed. Else it looks absent. A change notifies exactly those whose list it changes.
func TestVisibility_AgreesInListGetCompletionAndNotification(t *testing.T) {
	t.Parallel()
	for seed := range 3 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			w := rapid.Custom(newWorld).Example(seed)
			v := &visibility{text: w.head, later: w.teams[0].later}
			for i, team := range w.teams {
				v.peers[i] = gatewaytest.NewPeer(t, team.name, team.prompts...)
				v.text += gatewaytest.Team(team.name, team.members, team.blocks, v.peers[i])
			}
			s := gatewaytest.Serve(t, v.text)
			for _, p := range v.peers {
				p.AwaitStream()
			}
			v.agree(t, s)
			v.change(t, s)
			v.agree(t, s)
		})
	}
}

func (v *visibility) agree(t *testing.T, s *gatewaytest.Server) {
	t.Helper()
	for who, as := range callers {
		modern, legacy := s.Modern(who), s.Legacy("2025-11-25", who)
		listed := modern.List()
		upstreamtest.Equal(t, listed, legacy.List(), "%q: the lists of the eras differ", who)
		if principal, err := identity.ParsePrincipal(as); err != nil || !slices.Equal(listed, s.EntryNames(&principal)) {
			t.Errorf("%q: the view of the commands differs from %q", who, listed)
		}
		for _, name := range []string{"a.p0", "a.p1", "a.p2", "a.p3", "a.p4", "b.p0", "b.p1", "b.p2", "b.p3", "none", "short-a", "short-b"} {
			sees := slices.Contains(listed, name)
			for _, c := range []*gatewaytest.Client{modern, legacy} {
				for method, params := range map[string]string{"prompts/get": gatewaytest.GetParams(name), "completion/complete": gatewaytest.CompleteParams(name)} {
					a := c.Call(method, params)
					if unknown := strings.Contains(a.Body, "Unknown prompt"); unknown == sees {
						t.Errorf("%q lists %s: %v, but %s: %s\n%s", who, name, sees, method, a.Body, v.text)
					}
				}
			}
		}
	}
}

// change changes the prompts of one team and checks who is notified.
func (v *visibility) change(t *testing.T, s *gatewaytest.Server) {
	t.Helper()
	who := []string{"", "ann", "bob", "cid"}
	var streams []*gatewaytest.Stream
	var before []string
	body := func(who string) string { return string(s.Modern(who).Call("prompts/list", "").Result(t, "prompts")) }
	for _, w := range who {
		before = append(before, body(w))
		streams = append(streams, s.Modern(w).Listen("1"))
	}
	locked := s.Lock()
	v.peers[0].Offer(v.later...)
	upstreamtest.Eventually(t, "the new list is published", func() bool { return len(config.DiffLocks(locked, s.Lock())) > 0 })
	for i, w := range who {
		if body(w) == before[i] {
			continue
		}
		streams[i].WantChange()
	}
	for i, w := range who {
		if body(w) == before[i] {
			streams[i].WantSilence()
		}
		streams[i].Close()
	}
}
