package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// The lock file approves the manifest: a skill with another one is left out, and so is one without any.
func TestSkills_LockApprovesTheManifest(t *testing.T) {
	peer := gatewaytest.NewSkillPeer(t, "b", map[string]string{
		"skill://one/SKILL.md": "1", "skill://two/SKILL.md": "2", "skill://two/a.md": "A", "skill://free/SKILL.md": "3",
	})
	peer.Entries["skill://free/SKILL.md"] = `{"uri":"skill://free/SKILL.md","frontmatter":{"name":"free","description":"D"},"resources":"dynamic"}`
	text := gatewaytest.Team("b", "", `lock = "enforce"`, peer.Peer)
	lock := gatewaytest.Serve(t, strings.Replace(text, "enforce", "warn", 1)).Lock()
	file := filepath.Join(t.TempDir(), config.LockFile)
	if err := os.WriteFile(file, lock.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	if lock, _, err := config.ReadLock(file); err != nil || len(lock) != 4 {
		t.Fatalf("%d prompts, %v", len(lock), err)
	}
	s := gatewaytest.ServeLocked(t, text, lock)
	if diff := cmp.Diff([]string{"skill://b/one/SKILL.md", "skill://b/two/SKILL.md"}, skillURIs(t, s.Modern(""))); diff != "" {
		t.Fatal(diff)
	}
	upstreamtest.Equal(t, "approved", skills(t, s.Modern(""))[0].Meta.Provenance.Lock, "state of the lock")
	// The server changes a file without a new list: the bytes are not those that were approved.
	peer.Files["skill://two/a.md"] = "evil"
	if body, ok := readFile(t, s.Modern(""), "skill://b/two/a.md"); ok || strings.Contains(body, "evil") {
		t.Error(body)
	}
	again := gatewaytest.ServeLocked(t, text, lock)
	upstreamtest.Equal(t, []string{"skill://b/one/SKILL.md"}, skillURIs(t, again.Modern("")), "skills")
	// Under "warn", hosts are told.
	peer.Files["skill://new/SKILL.md"] = "---\nname: new\ndescription: D\n---\n"
	states := map[string]string{}
	for _, e := range skills(t, gatewaytest.ServeLocked(t, strings.Replace(text, "enforce", "warn", 1), lock).Modern("")) {
		states[e.Frontmatter.Name] = e.Meta.Provenance.Lock
	}
	upstreamtest.Equal(t, map[string]string{"one": "approved", "two": "differs", "free": "not locked", "new": "not locked"}, states, "states")
	explained := fmt.Sprint(again.Explain(policy.Principal{Subject: "user:ann", EveryTeam: true}, "skill:b.free"))
	if want := "which no lock can approve, so it is left out"; !strings.Contains(explained, want) {
		t.Errorf("no %q in %s", want, explained)
	}
	for _, want := range []string{"skill:b.two", "is dynamic, which no lock can approve"} {
		if !strings.Contains(fmt.Sprint(again.Reports()), want) {
			t.Errorf("no report with %q: %v", want, again.Reports())
		}
	}
}

func TestSkills_AreScreened(t *testing.T) {
	const skill = `{"uri":"skill://%[1]s/SKILL.md","frontmatter":{"name":%[1]q,"description":"D"%[2]s},"resources":%[3]s}`
	peer := gatewaytest.NewSkillPeer(t, "b", map[string]string{
		"skill://good/SKILL.md": "ok", "skill://good/a.md": "fine", "skill://good/b.txt": "#!/bin/sh", "skill://good/c.png": "\x7fELF",
		"skill://bad/SKILL.md": "forbidden", "skill://script/SKILL.md": "", "skill://script/run.py": "", "skill://tools/SKILL.md": "",
		"skill://hooks/SKILL.md": "", "skill://free/SKILL.md": "",
		"skill://good/sub/skill.md": "---\nname: sub\ndescription: D\nhooks: {}\n---\n", "skill://good/odd/%53kill.md": "---\nname: [\n---\n",
		"skill://good/fine/skill.md": "---\nname: fine\ndescription: D\n---\n", "skill://dots/SKILL.md": "", "skill://dots/.mcp.json": "{}",
	})
	for name, more := range map[string]string{"tools": `,"allowed-tools":"Bash"`, "hooks": `,"hooks":{}`} {
		uri := "skill://" + name + "/SKILL.md"
		peer.Entries[uri] = strings.Replace(peer.Entry(uri), `"description":"D"`, `"description":"D"`+more, 1)
	}
	peer.Entries["skill://free/SKILL.md"] = fmt.Sprintf(skill, "free", "", `"dynamic"`)
	s := gatewaytest.Serve(t, gatewaytest.Team("b", "", "screen \"text\" { skills = \"text\" }\nscreen \"words\" { patterns = [\"forbidden\"] }", peer.Peer))
	if diff := cmp.Diff([]string{"skill://b/bad/SKILL.md", "skill://b/good/SKILL.md"}, skillURIs(t, s.Modern(""))); diff != "" {
		t.Fatal(diff)
	}
	for uri, want := range map[string]bool{
		"skill://b/good/SKILL.md": true, "skill://b/good/a.md": true, "skill://b/good/b.txt": false, "skill://b/good/c.png": false, "skill://b/good/sub/skill.md": false, "skill://b/good/odd/%53kill.md": false, "skill://b/good/fine/skill.md": true, "skill://b/bad/SKILL.md": false,
	} {
		if body, ok := readFile(t, s.Modern(""), uri); ok != want || !ok && !strings.Contains(body, `"reason":"screened"`) {
			t.Errorf("%s: %s", uri, body)
		}
	}
}

// The skills of a server that is down stay listed, and are marked; their files cannot be read.
func TestSkills_OfALostServerAreMarked(t *testing.T) {
	peer := refundsPeer(t)
	s := gatewaytest.Serve(t, gatewaytest.Team("billing", "", "", peer.Peer))
	c, uri := s.Modern(""), "skill://billing/acme/refunds/SKILL.md"
	peer.Stop()
	upstreamtest.Eventually(t, "the skills are marked as stale", func() bool {
		c.Call("resources/read", uriParams(uri))
		list := c.Call("skills/list", "").Body
		return strings.Contains(list, uri) && strings.Contains(list, `"io.github.promptweir/partial":[{"upstream":"billing","reason":"unreachable"`)
	})
}

// The read of a SKILL.md is recorded like a get, and that of a hidden one as such.
func TestSkills_ReadsAreInTheAuditLog(t *testing.T) {
	peer, path := refundsPeer(t), t.TempDir()+"/audit.jsonl"
	text := "auth {\n" + gatewaytest.Token("ann") + "}\n" + gatewaytest.Team("billing", `"user:ann"`, `hide "h" { prompts = ["skill:*triage"] }`, peer.Peer)
	s, log := serveAudited(t, "audit {\n path = \""+path+"\"\n}\n"+text)
	for _, uri := range []string{
		"skill://billing/acme/refunds/SKILL.md", "skill://billing/acme/refunds/references/a.md", "skill://billing/o/r/triage/SKILL.md", "skill://billing/none/SKILL.md",
	} {
		s.Modern("ann").Call("resources/read", uriParams(uri)).Want(t, http.StatusOK)
	}
	log.Close()
	var got []string
	for _, line := range auditLines(t, path) {
		var l struct{ Event, Prompt, Outcome, Upstream string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{l.Event, l.Prompt, l.Outcome, l.Upstream}, " "))
	}
	want := []string{"get skill:billing.acme/refunds ok billing", "get skill://billing/o/r/triage/SKILL.md denied ", "get skill://billing/none/SKILL.md unknown "}
	upstreamtest.Equal(t, want, got, "skills")
}
