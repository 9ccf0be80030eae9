package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// world is a random configuration of two teams, with everything that decides about visibility.
type world struct {
	*rand.Rand
	peers [2]*gatewaytest.Peer
	text  string
	// renamed are the exposed names that prompt blocks give.
	renamed []string
}

func newWorld(t *testing.T, seed uint64) *world {
	v := &world{Rand: rand.New(rand.NewPCG(seed, 0))}
	var teams strings.Builder
	for i, name := range []string{"a", "b"} {
		v.peers[i] = gatewaytest.NewPeer(t, name, v.prompts()...)
		var blocks strings.Builder
		for range v.IntN(4) {
			fmt.Fprintf(&blocks, "expose \"e\" {\n prompts = [%q]\n to = [%q]\n%s}\n", v.pattern(name),
				v.one("*", "user:ann", "group:g0", "group:g1", "team:a", "team:b", "user:anonymous"), v.when())
		}
		for range v.IntN(2) {
			fmt.Fprintf(&blocks, "hide \"h\" {\n prompts = [%q]\n%s}\n", v.pattern(name), v.when())
		}
		if v.IntN(2) == 0 {
			v.renamed = append(v.renamed, "short-"+name)
			fmt.Fprintf(&blocks, "prompt \"%s.p0\" {\n name = %q\n %s\n}\n", name, "short-"+name,
				v.one("", `title = "T"`, `arguments = { x = "1" }`, `defaults = { x = "1" }`))
		}
		if v.IntN(3) == 0 {
			fmt.Fprintf(&blocks, "screen \"s\" {\n patterns = [\"bad\"]\n action = %q\n}\n", v.one("reject", "warn", "strip"))
		}
		teams.WriteString(gatewaytest.Team(name, v.one("", `"user:ann"`, `"group:g0"`, `"group:g1", "user:bob"`), blocks.String(), v.peers[i]))
	}
	v.text = "auth {\n anonymous = true\n" + gatewaytest.Token("ann", "g0") + gatewaytest.Token("bob", "g0", "g1") + gatewaytest.Token("cid") + "}\n" +
		fmt.Sprintf("hide \"g\" {\n prompts = [%q]\n%s}\n", v.one("*.p3", "short-a", "none"), v.when()) + teams.String()
	return v
}

func (v *world) one(of ...string) string { return of[v.IntN(len(of))] }

func (v *world) prompts() (all []string) {
	for i := range 4 {
		all = append(all, fmt.Sprintf(`{"name":"p%d","x":%d,"title":%q,"arguments":%s,"_meta":%s}`, i, v.IntN(1<<(20*(i/3))), v.one("T", "U", "bad"),
			v.one(`[]`, `[{"name":"x"}]`, `[{"name":"x","required":true},{"name":"y"}]`), v.one(`{}`, `{"public":true}`, `{"public":"no"}`, `{"owner":"user:ann"}`)))
	}
	return all
}

func (v *world) pattern(team string) string {
	return v.one(team+".*", team+".p0", team+".p[12]", "short-*", "*", "*3")
}

func (v *world) when() string {
	when := v.one("", "", `prompt.title == "T"`, `length(prompt.arguments) > 0`, `prompt.meta.public`, `try(prompt.meta.public, false)`,
		`contains(principal.groups, "group:g1")`, `principal.subject == try(prompt.meta.owner, "")`, `principal.claims.tier == 1`, `prompt.team == "a"`)
	if when == "" {
		return ""
	}
	return " when = " + when + "\n"
}

// In random configurations and for each caller, a prompt can be got and completed, is in the view of the commands and is
// explained as visible if and only if it is listed. Else it looks absent. A change notifies exactly those whose list it
// changes.
func TestVisibility_AgreesInListGetCompletionNotificationAndExplanation(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			v := newWorld(t, seed)
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

func (v *world) names() []string {
	all := slices.Clone(v.renamed)
	for _, team := range []string{"a", "b"} {
		for i := range 5 {
			all = append(all, fmt.Sprintf("%s.p%d", team, i))
		}
	}
	return append(all, "none", "short-a", "short-b")
}

func (v *world) agree(t *testing.T, s *gatewaytest.Server) {
	t.Helper()
	for _, who := range []string{"", "ann", "bob", "cid"} {
		as := map[string]string{"": "user:anonymous", "ann": "user:ann,group:g0", "bob": "user:bob,group:g0,group:g1", "cid": "user:cid"}[who]
		principal, err := identity.ParsePrincipal(as)
		if err != nil {
			t.Fatal(err)
		}
		modern, legacy := s.Modern(who), s.Legacy("2025-11-25", who)
		listed := modern.List()
		if diff := cmp.Diff(listed, legacy.List()); diff != "" {
			t.Errorf("%q: the lists of the eras differ:\n%s", who, diff)
		}
		if diff := cmp.Diff(listed, s.EntryNames(&principal)); diff != "" {
			t.Errorf("%q: the view of the commands differs:\n%s", who, diff)
		}
		for _, name := range v.names() {
			sees := slices.Contains(listed, name)
			for _, c := range []*gatewaytest.Client{modern, legacy} {
				for method, params := range map[string]string{"prompts/get": gatewaytest.GetParams(name), "completion/complete": gatewaytest.CompleteParams(name)} {
					a := c.Call(method, params)
					if unknown := strings.Contains(a.Body, "Unknown prompt"); unknown == sees {
						t.Errorf("%q lists %s: %v, but %s: %s\n%s", who, name, sees, method, a.Body, v.text)
					}
				}
			}
			visible := false
			offered := offers(s, name)
			for _, e := range s.Explain(principal, name) {
				visible = visible || e.Visible
				if e.Depends && offered {
					t.Errorf("%q: %s is not explained: %s", who, name, e.Reason)
				}
			}
			if offered && visible != sees || sees && !offered {
				t.Errorf("%q lists %s: %v, but it is explained as %+v\n%s", who, name, sees, s.Explain(principal, name), v.text)
			}
		}
	}
}

// offers reports whether an upstream has the prompt of a name, even if it is left out.
func offers(s *gatewaytest.Server, name string) bool {
	if slices.ContainsFunc(s.Reports(), func(r catalog.Report) bool { return r.Name == name }) {
		return true
	}
	return slices.Contains(s.EntryNames(nil), name)
}

// change changes the prompts of one team and checks who is notified.
func (v *world) change(t *testing.T, s *gatewaytest.Server) {
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
	v.peers[0].Offer(v.prompts()...)
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
