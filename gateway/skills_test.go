package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// skillEntry is the entry of a skill as a client reads it.
type skillEntry struct {
	URI         string
	Frontmatter struct{ Name, Description string }
	Resources   manifest
	Meta        struct {
		Provenance struct{ Team, Upstream, Lock, Rule string } `json:"io.github.promptweir/provenance"`
	} `json:"_meta"`
}

// manifest is empty for a dynamic skill.
type manifest []struct {
	URI, Digest string
	Size        int
}

func (m *manifest) UnmarshalJSON(text []byte) error {
	if string(text) == `"dynamic"` {
		return nil
	}
	type files manifest
	return json.Unmarshal(text, (*files)(m))
}

func uriParams(uri string) string { return fmt.Sprintf(`{"uri":%q}`, uri) }

// skills lists the skills of a client.
func skills(t *testing.T, c *gatewaytest.Client) (entries []skillEntry) {
	t.Helper()
	for params := ""; ; {
		r := c.Call("skills/list", params)
		var page []skillEntry
		if err := json.Unmarshal(r.Result(t, "skills"), &page); err != nil {
			t.Fatal(err, r.Body)
		}
		entries = append(entries, page...)
		cursor := r.Result(t, "nextCursor")
		if cursor == nil {
			return entries
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

func skillURIs(t *testing.T, c *gatewaytest.Client) []string {
	t.Helper()
	uris := []string{}
	for _, e := range skills(t, c) {
		uris = append(uris, e.URI)
	}
	return uris
}

// readFile reads a file; ok is false where the gateway has none.
func readFile(t *testing.T, c *gatewaytest.Client, uri string) (text string, ok bool) {
	t.Helper()
	r := c.Call("resources/read", uriParams(uri))
	if strings.Contains(r.Body, `"error"`) {
		return r.Body, false
	}
	var contents []struct{ URI, Text string }
	if err := json.Unmarshal(r.Result(t, "contents"), &contents); err != nil || len(contents) != 1 || contents[0].URI != uri {
		t.Fatalf("%s: %v", r.Body, err)
	}
	return contents[0].Text, true
}

func refundsPeer(t *testing.T) *gatewaytest.SkillPeer {
	t.Helper()
	return gatewaytest.NewSkillPeer(t, "billing", map[string]string{
		"skill://acme/refunds/SKILL.md": "Read references/a.md", "skill://acme/refunds/references/a.md": "A",
		"skill://acme/refunds/inner/SKILL.md": "Inner", "skill://acme/refunds/inner/x.txt": "X",
		"github://o/r/triage/SKILL.md": "Triage",
	})
}

func TestSkills_AreListedGotAndReadInBothEras(t *testing.T) {
	peer := refundsPeer(t)
	s := gatewaytest.Serve(t, gatewaytest.Team("billing", "", "", peer.Peer))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		entries := skills(t, c)
		want := []string{"skill://billing/acme/refunds/SKILL.md", "skill://billing/acme/refunds/inner/SKILL.md", "skill://billing/o/r/triage/SKILL.md"}
		if diff := cmp.Diff(want, skillURIs(t, c)); diff != "" {
			t.Fatal(diff)
		}
		for _, e := range entries {
			if e.Meta.Provenance.Team != "billing" || e.Meta.Provenance.Upstream != "billing" || !strings.HasPrefix(e.Meta.Provenance.Rule, "gateway.hcl:") {
				t.Errorf("%+v", e.Meta)
			}
			for _, f := range e.Resources {
				text, ok := readFile(t, c, f.URI)
				if digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))); !ok || digest != f.Digest || len(text) != f.Size {
					t.Errorf("%s has %q", f.URI, text)
				}
			}
			got := c.Call("skills/get", uriParams(e.URI))
			var one skillEntry
			if err := json.Unmarshal(got.Result(t, "skill"), &one); err != nil || !cmp.Equal(one, e) {
				t.Errorf("%v, %s", err, got.Body)
			}
		}
		folder := c.Call("resources/directory/read", uriParams("skill://billing/acme/refunds"))
		for _, child := range []string{`"name":"SKILL.md","mimeType":"text/markdown"`, `"name":"references","mimeType":"inode/directory"`, `"name":"inner"`} {
			if !strings.Contains(folder.Body, child) {
				t.Errorf("%s has no %s", folder.Body, child)
			}
		}
		for _, uri := range []string{"skill://billing/acme/refunds/SKILL.md", "skill://billing/acme", "skill://billing/acme/refunds/", "skill://billing/acme/refunds/none", ""} {
			if r := c.Call("resources/directory/read", uriParams(uri)); !strings.Contains(r.Body, "-32602") {
				t.Errorf("%q is a directory: %s", uri, r.Body)
			}
		}
		for _, method := range []string{"resources/list", "resources/templates/list"} {
			if r := c.Call(method, ""); !strings.Contains(r.Body, `":[]`) {
				t.Errorf("%s: %s", method, r.Body)
			}
		}
		c.WantList("billing.p")
	}
	for uri := range peer.Files {
		if _, ok := readFile(t, s.Modern(""), uri); ok {
			t.Errorf("%s can be read by the upstream's own uri", uri)
		}
	}
	for c, code := range map[*gatewaytest.Client]string{s.Modern(""): "-32602", s.Legacy("2025-11-25", ""): "-32002"} {
		for _, uri := range []string{"skill://billing/acme/refunds/none.md", "skill://billing/acme/refunds", "skill://billing/acme/refunds/../refunds/SKILL.md", "skill://billing/acme/refunds/%53KILL.md"} {
			if body, ok := readFile(t, c, uri); ok || !strings.Contains(body, code) {
				t.Errorf("%s: %s", uri, body)
			}
		}
	}
}

func TestSkills_AreDeclaredOnlyWhereServed(t *testing.T) {
	const declared = `"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}`
	peer := refundsPeer(t)
	s := gatewaytest.Serve(t, gatewaytest.Team("billing", "", "", peer.Peer))
	for revision, want := range map[string]bool{"2025-06-18": false, "2025-11-25": true} {
		r := s.Legacy(revision, "").Call("initialize", gatewaytest.InitializeParams(revision))
		if strings.Contains(r.Body, declared) != want || strings.Contains(r.Body, `"resources":{}`) != want {
			t.Errorf("%s: %s", revision, r.Body)
		}
	}
	if r := s.Modern("").Call("server/discover", ""); !strings.Contains(r.Body, declared) {
		t.Error(r.Body)
	}
	peer.Settings = ""
	peer.Peer.Forget()
	off := gatewaytest.Serve(t, gatewaytest.Team("billing", "", "", peer.Peer))
	if r := off.Modern("").Call("server/discover", ""); strings.Contains(r.Body, "skills") || strings.Contains(r.Body, "resources") {
		t.Error(r.Body)
	}
	for _, method := range []string{"skills/list", "skills/get", "resources/read", "resources/directory/read", "resources/list"} {
		off.Modern("").CallUnchecked(method, uriParams("skill://x")).Want(t, http.StatusNotFound)
	}
	if calls := peer.Calls("skills/list"); len(calls) > 0 {
		t.Error("the server is asked for skills")
	}
}

// What was exposed for prompts exposes no skill, and the other way round. What the caller does not see is answered like
// what nobody has.
func TestSkills_AreExposedByPatternsOfTheirOwn(t *testing.T) {
	peer := refundsPeer(t)
	text := "auth {\n anonymous = true\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + gatewaytest.Token("cid") + "}\n" +
		gatewaytest.Team("billing", `"user:ann"`, gatewaytest.Expose("all", `"*"`, `"user:bob"`)+
			gatewaytest.Expose("inner", `"skill:billing.acme/refunds/inner"`, `"user:cid"`)+`hide "h" { prompts = ["skill:*triage"] }`, peer.Peer)
	s := gatewaytest.Serve(t, text)
	refunds, inner := "skill://billing/acme/refunds/SKILL.md", "skill://billing/acme/refunds/inner/SKILL.md"
	for token, want := range map[string][]string{"ann": {refunds, inner}, "bob": {}, "cid": {inner}, "": {}} {
		upstreamtest.Equal(t, want, skillURIs(t, s.Modern(token)), "%q", token)
	}
	s.Modern("bob").WantList("billing.p")
	if listed := s.Modern("cid").List(); len(listed) > 0 {
		t.Errorf("prompts are exposed: %q", listed)
	}
	for _, token := range []string{"bob", "cid"} {
		for _, c := range []*gatewaytest.Client{s.Modern(token), s.Legacy("2025-11-25", token)} {
			for hidden, absent := range map[string]string{
				refunds: "skill://billing/acme/nothing/SKILL.md", "skill://billing/o/r/triage/SKILL.md": "skill://billing/o/r/absent/SKILL.md",
				"skill://billing/acme/refunds/references/a.md": "skill://billing/acme/nothing/references/a.md",
				"skill://billing/acme/refunds":                 "skill://billing/acme/nothing",
			} {
				for _, method := range []string{"skills/get", "resources/read", "resources/directory/read"} {
					was, none := c.Call(method, uriParams(hidden)).Body, c.Call(method, uriParams(absent)).Body
					if strings.ReplaceAll(was, hidden, absent) != none || !strings.Contains(was, `"error"`) {
						t.Errorf("%s of %s: %s\n%s", method, hidden, was, none)
					}
				}
			}
		}
	}
	if text, ok := readFile(t, s.Modern("cid"), "skill://billing/acme/refunds/inner/x.txt"); !ok || text != "X" {
		t.Error(text)
	}
}

// A nested skill that is hidden cannot be read through the one around it either, even if it is left out for another reason as well.
func TestSkills_HiddenOnesAreNoFilesOfTheSkillAround(t *testing.T) {
	t.Run("hidden", func(t *testing.T) { testHiddenInnerSkill(t, false) })
	t.Run("hidden and not approved", func(t *testing.T) { testHiddenInnerSkill(t, true) })
}

func testHiddenInnerSkill(t *testing.T, isLocked bool) {
	t.Helper()
	peer := refundsPeer(t)
	text := gatewaytest.Team("billing", "", `hide "h" { prompts = ["skill:*/inner"] }`, peer.Peer)
	s := gatewaytest.Serve(t, text)
	if isLocked {
		lock := slices.DeleteFunc(s.Lock(), func(p config.LockedPrompt) bool { return strings.HasSuffix(p.Name, "/inner") })
		s = gatewaytest.ServeLocked(t, strings.Replace(text, "hide", "lock = \"enforce\"\nhide", 1), lock)
	}
	c, inner := s.Modern(""), "skill://billing/acme/refunds/inner/SKILL.md"
	for uri, want := range map[string]bool{inner: false, "skill://billing/acme/refunds/inner/x.txt": false, "skill://billing/acme/refunds/references/a.md": true} {
		if text, ok := readFile(t, c, uri); ok != want {
			t.Errorf("%s: %s", uri, text)
		}
	}
	if r := c.Call("resources/directory/read", uriParams("skill://billing/acme/refunds")); strings.Contains(r.Body, "inner") {
		t.Error(r.Body)
	}
	if r := c.Call("skills/get", uriParams(inner)); !strings.Contains(r.Body, "Unknown skill") {
		t.Error(r.Body)
	}
	if slices.Contains(skillURIs(t, c), inner) {
		t.Error("it is listed")
	}
}

func TestSkills_BadEntriesAreLeftOutAndReported(t *testing.T) {
	const file = `[{"uri":"skill://x/%s","digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","size":1}]`
	entry := func(uri, name, resources string) string {
		return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"D"},"resources":%s}`, uri, name, resources)
	}
	const md = "skill://x/SKILL.md"
	bad := map[string]string{
		"must be that of the skill's folder": entry(md, "y", fmt.Sprintf(file, "SKILL.md")),
		"must be 1 to 64":                    entry("skill://X/SKILL.md", "X", `"dynamic"`),
		"lacks skill://x/SKILL.md":           entry(md, "x", fmt.Sprintf(file, "a")),
		"must have the strings":              `{"uri":"` + md + `","frontmatter":{"name":"x"},"resources":"dynamic"}`,
		"differs from a known member":        strings.Replace(entry(md, "x", `"dynamic"`), "{", `{"URI":"skill://y/SKILL.md",`, 1),
	}
	peer := gatewaytest.NewPeer(t, "b", "p")
	peer.Declare(`{"prompts":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`)
	peer.Settings = "skills = true"
	entries := append(slices.Collect(maps.Values(bad)), entry("skill://good/SKILL.md", "good", `"dynamic"`))
	peer.Answer("skills/list", `{"skills":[`+strings.Join(entries, ",")+`]}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("b", "", "", peer))
	upstreamtest.Equal(t, []string{"skill://b/good/SKILL.md"}, skillURIs(t, s.Modern("")), "skills")
	for reason := range bad {
		if reports := fmt.Sprint(s.Reports()); !strings.Contains(reports, reason) {
			t.Errorf("no report with %q: %s", reason, reports)
		}
	}
}

func TestSkills_NamesOfOthersAreNotTaken(t *testing.T) {
	bare := gatewaytest.NewSkillPeer(t, "bare", map[string]string{"skill://billing/refunds/SKILL.md": "", "skill://own/x/SKILL.md": ""})
	bare.SetPrompts("skill:billing.refunds", "q")
	bare.Settings += "\nprefix = \"\""
	plain := gatewaytest.NewPeer(t, "plain", "skill:x")
	billing := gatewaytest.NewSkillPeer(t, "billing", map[string]string{"skill://refunds/SKILL.md": "", "skill://a/x/SKILL.md": ""})
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", bare.Peer, plain)+gatewaytest.Team("b", "", "", billing.Peer))
	want := []string{"skill://billing/a/x/SKILL.md", "skill://billing/refunds/SKILL.md", "skill://own/x/SKILL.md"}
	upstreamtest.Equal(t, want, skillURIs(t, s.Modern("")), "skills")
	s.Modern("").WantList("billing.p", "plain.skill:x", "q")
	for _, report := range []string{`begins with "billing", which is a prefix`, `are those of skills`, `cannot tell these prompts apart`} {
		if !strings.Contains(fmt.Sprint(s.Reports()), report) {
			t.Errorf("no report with %q: %v", report, s.Reports())
		}
	}
}

// The bytes of a file are those of the manifest, or the client gets an error.
func TestSkills_BytesAreVerified(t *testing.T) {
	peer := refundsPeer(t)
	s, log := gatewaytest.ServeLogged(t, gatewaytest.Team("billing", "", "", peer.Peer))
	peer.Answer("resources/read", "")
	uri := "skill://acme/refunds/SKILL.md"
	for name, contents := range map[string]string{
		"other bytes": fmt.Sprintf(`[{"uri":%q,"text":"secret"}]`, uri), "other uri": `[{"uri":"skill://x","text":"secret"}]`,
		"two": fmt.Sprintf(`[{"uri":%q,"text":"secret"},{"uri":%q,"text":"secret"}]`, uri, uri), "none": `[]`,
		"no content": fmt.Sprintf(`[{"uri":%q}]`, uri), "no base64": fmt.Sprintf(`[{"uri":%q,"blob":"secret!"}]`, uri),
	} {
		peer.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
			if call.Method == "resources/read" {
				peer.Respond(w, call, `{"contents":`+contents+`}`)
			}
			return call.Method == "resources/read"
		})
		body, ok := readFile(t, s.Modern(""), "skill://billing/acme/refunds/SKILL.md")
		if ok || strings.Contains(body, "secret") || !strings.Contains(body, "-32603") {
			t.Errorf("%s: %s", name, body)
		}
	}
	if !strings.Contains(log.String(), "file of a skill refused") {
		t.Error("it is not logged")
	}
	upstreamtest.Eventually(t, "the server is asked for its list again", func() bool { return len(peer.Calls("skills/list")) > 1 })
}

// A folder of files is a skill, and its SKILL.md a prompt beside it. A change shows without a restart.
func TestSkills_AreServedFromFiles(t *testing.T) {
	f := newPromptFolder(t, `team "t" {
  upstream "f" {
    files  = ["skills/**/SKILL.md"]
    skills = true
  }
}`, "skills/acme/refunds/SKILL.md", "---\nname: refunds\ndescription: D\n---\nDo it.", "skills/acme/refunds/logo.png", "\x89PNG\xff")
	s := f.serve()
	c, uri := s.Modern(""), "skill://f/acme/refunds/SKILL.md"
	if diff := cmp.Diff([]string{uri}, skillURIs(t, c)); diff != "" {
		t.Fatal(diff)
	}
	if text, ok := readFile(t, c, uri); !ok || !strings.HasSuffix(text, "Do it.") {
		t.Error(text)
	}
	if r := c.Call("resources/read", uriParams("skill://f/acme/refunds/logo.png")); !strings.Contains(r.Body, `"mimeType":"image/png","blob":"`) {
		t.Error(r.Body)
	}
	c.WantList("f.refunds")
	f.write("skills/acme/refunds/more.md", "more")
	upstreamtest.Eventually(t, "the new file is in the manifest", func() bool { return len(skills(t, c)[0].Resources) == 3 })
	if text, ok := readFile(t, c, "skill://f/acme/refunds/more.md"); !ok || text != "more" {
		t.Error(text)
	}
}

// A broken deployment must not take a server's prompts away because its skills are still listed.
func TestSkills_UnknownListKeepsWhatItHad(t *testing.T) {
	const uri, unknown = "skill://s/SKILL.md", `error:{"code":-32601,"message":"Method not found"}`
	prompts := func(p *gatewaytest.Peer) { p.Answer("prompts/list", unknown) }
	skills := func(p *gatewaytest.Peer) {
		p.Intercept(nil) // it answers skills/list as any method that it does not know
	}
	for lost, forget := range map[string]func(*gatewaytest.Peer){"prompts/list": prompts, "skills/list": skills} {
		p := gatewaytest.NewSkillPeer(t, "up", map[string]string{uri: "Do"})
		s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p.Peer))
		p.AwaitStream()
		forget(p.Peer)
		p.Announce()
		s.AwaitTrouble("up")
		c := s.Legacy("2025-11-25", "")
		c.WantList("up.p")
		if got := skillURIs(t, c); len(got) != 1 {
			t.Errorf("%s is unknown: skills %v, want the one that was there", lost, got)
		}
		if cause := s.Problem("up").Err.Error(); !strings.Contains(cause, lost) {
			t.Errorf("the problem is %q, want %s in it", cause, lost)
		}
	}
}

// Some servers declare a capability and do not know the method that lists what they do not have.
func TestSkills_ListThatWasNeverKnownIsEmpty(t *testing.T) {
	const uri = "skill://s/SKILL.md"
	unlisted := gatewaytest.NewSkillPeer(t, "unlisted", map[string]string{uri: "Do"})
	unlisted.Answer("prompts/list", `error:{"code":-32601,"message":"Method not found"}`)
	skillless := gatewaytest.NewSkillPeer(t, "skillless", nil)
	skillless.Intercept(nil)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", unlisted.Peer, skillless.Peer))
	c := s.Legacy("2025-11-25", "")
	for peer, method := range map[*gatewaytest.SkillPeer]string{unlisted: "skills/list", skillless: "prompts/list"} {
		peer.AwaitStream().Offer("p", "q")
		upstreamtest.Eventually(t, "another list of "+peer.Name, func() bool { return len(peer.Calls(method)) > 1 })
	}
	upstreamtest.Eventually(t, "the new prompt", func() bool { return slices.Contains(c.List(), "skillless.q") })
	for _, name := range []string{"unlisted", "skillless"} {
		if problem := s.Problem(name); problem != nil {
			t.Errorf("%s: %v, want no problem", name, problem)
		}
	}
}

func TestSkills_AreExplainedWithWhatTheyMayDo(t *testing.T) {
	peer := gatewaytest.NewSkillPeer(t, "b", map[string]string{"skill://x/SKILL.md": "", "skill://x/run.py": "print()"})
	uri := "skill://x/SKILL.md"
	peer.Entries[uri] = strings.Replace(peer.Entry(uri), `"description":"D"`, `"description":"D","allowed-tools":"Bash(rm:*)","hooks":{"x":1}`, 1)
	s := gatewaytest.Serve(t, gatewaytest.Team("b", "", "", peer.Peer))
	explained := fmt.Sprint(s.Explain(policy.Principal{Subject: "user:ann", EveryTeam: true}, "skill:b.x"))
	for _, want := range []string{"a skill of 2 files", "neither texts nor images: run.py", `allowed-tools: "Bash(rm:*)"`, `hooks: {"x":1}`} {
		if !strings.Contains(explained, want) {
			t.Errorf("no %q in %s", want, explained)
		}
	}
	// A get by that name, as an operator makes one at the console, finds no prompt.
	if r := s.Modern("").Call("prompts/get", gatewaytest.GetParams("skill:b.x")); !strings.Contains(r.Body, "Unknown prompt") {
		t.Error(r.Body)
	}
}

// What a read holds counts before there is a response. Otherwise a few clients that read large files at
// once take all memory.
func TestSkills_ReadsCountWhatTheyHold(t *testing.T) {
	peer := refundsPeer(t)
	peer.Files["skill://acme/refunds/large.txt"] = strings.Repeat("x", 1<<20)
	s := gatewaytest.Serve(t, "gateway { max_buffered = 24 * 1024 * 1024 }\n"+gatewaytest.Team("billing", "", "", peer.Peer))
	entered, release := make(chan struct{}, 10), make(chan struct{})
	peer.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method != "resources/read" {
			return false
		}
		file := "SKILL.md"
		if strings.Contains(string(call.Params), "large") {
			file = "large.txt"
			entered <- struct{}{}
			<-release
		}
		uri := "skill://acme/refunds/" + file
		peer.Respond(w, call, fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}]}`, uri, peer.Files[uri]))
		return true
	})
	c, params := s.Modern(""), uriParams("skill://billing/acme/refunds/large.txt")
	first := make(chan gatewaytest.Response)
	go func() { first <- c.Call("resources/read", params) }()
	<-entered
	c.Call("resources/read", params).Want(t, http.StatusOK, `"code":-32603`, "Too many bytes are unread", `"overloaded"`)
	c.Call("resources/read", uriParams("skill://billing/acme/refunds/SKILL.md")).Want(t, http.StatusOK, "contents")
	close(release)
	(<-first).Want(t, http.StatusOK, "contents")
	c.Call("resources/read", params).Want(t, http.StatusOK, "contents") // it is given back
}
