package gateway_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// A SKILL.md that says something else of itself than the entry, by which it was screened, is not passed on, even though its digest
// is right. The same values in another order, or spelled otherwise, are the same.
func TestSkills_FrontMatterIsThatOfTheEntry(t *testing.T) {
	peer := gatewaytest.NewSkillPeer(t, "b", map[string]string{
		"skill://good/SKILL.md":  "---\ndescription: 'D'\nversion: 1.10\nname: good\nlist: [a, {b: c}]\n---\n",
		"skill://tools/SKILL.md": "---\nname: tools\ndescription: D\nallowed-tools: Bash\n---\n",
		"skill://other/SKILL.md": "---\nname: other\ndescription: Another\n---\n",
		"skill://none/SKILL.md":  "---\nname: none\ndescription: D\n---\n",
		"skill://twice/SKILL.md": "---\nname: twice\ndescription: D\nname: twice\n---\n",
		"skill://free/SKILL.md":  "---\nname: free\ndescription: D\nhooks: {}\n---\n",
	})
	peer.Files["skill://none/SKILL.md"] = "No front matter"
	peer.Entries["skill://good/SKILL.md"] = strings.Replace(peer.Entry("skill://good/SKILL.md"), `"description":"D"`,
		`"list":["a",{"b":"c"}],"version":1.1,"description":"D"`, 1)
	peer.Entries["skill://free/SKILL.md"] = `{"uri":"skill://free/SKILL.md","frontmatter":{"name":"free","description":"D"},"resources":"dynamic"}`
	s, log := gatewaytest.ServeLogged(t, gatewaytest.Team("b", "", "", peer.Peer))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		if body, ok := readFile(t, c, "skill://b/good/SKILL.md"); !ok {
			t.Error(body)
		}
		for _, name := range []string{"tools", "other", "none", "twice", "free"} {
			body, ok := readFile(t, c, "skill://b/"+name+"/SKILL.md")
			if ok || !strings.Contains(body, "-32603") || strings.Contains(body, "Bash") {
				t.Errorf("%s: %s", name, body)
			}
		}
	}
	if !strings.Contains(log.String(), "its front matter differs from the entry") {
		t.Error("it is not logged")
	}
}
