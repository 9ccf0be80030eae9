package gateway_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
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

// A prefix with characters that a URI does not have is found by its encoded form, and by no other.
func TestSkills_PrefixIsEncoded(t *testing.T) {
	peer := gatewaytest.NewSkillPeer(t, "b", map[string]string{"skill://x/SKILL.md": "", "skill://x/a.md": "A"})
	peer.Settings += "\nprefix = \"é+ü@b~c\""
	s := gatewaytest.Serve(t, gatewaytest.Team("b", "", "", peer.Peer))
	const encoded = "skill://%C3%A9%2B%C3%BC%40b~c/x"
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		if diff := cmp.Diff([]string{encoded + "/SKILL.md"}, skillURIs(t, c)); diff != "" {
			t.Error(diff)
		}
		if text, ok := readFile(t, c, encoded+"/a.md"); !ok || text != "A" {
			t.Error(text)
		}
		for _, other := range []string{"skill://é+ü@b~c/x/a.md", "skill://%c3%a9%2b%c3%bc%40b~c/x/a.md", "skill://%C3%A9%2B%C3%BC@b~c/x/a.md"} {
			if text, ok := readFile(t, c, other); ok {
				t.Errorf("%s has %q", other, text)
			}
		}
	}
}

// A dynamic skill has no manifest, so its folders are unknown, and its server is not asked. A skill inside
// has one.
func TestSkills_FoldersWithoutAManifestAreUnknown(t *testing.T) {
	peer := gatewaytest.NewSkillPeer(t, "b", map[string]string{"skill://o/free/SKILL.md": "", "skill://o/free/in/SKILL.md": ""})
	peer.Entries["skill://o/free/SKILL.md"] = `{"uri":"skill://o/free/SKILL.md","frontmatter":{"name":"free","description":"D"},"resources":"dynamic"}`
	s := gatewaytest.Serve(t, gatewaytest.Team("b", "", "", peer.Peer))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		for uri, want := range map[string]string{
			"skill://b/o/free/in": `"name":"SKILL.md"`, "skill://b/o/free/sub": "Unknown directory: skill://b/o/free/sub",
		} {
			if r := c.Call("resources/directory/read", uriParams(uri)); !strings.Contains(r.Body, want) {
				t.Errorf("%s: %s", uri, r.Body)
			}
		}
	}
	if len(peer.Calls("resources/directory/read")) > 0 {
		t.Error("the server is asked")
	}
}

// While a file changes, a read returns what the manifest says, or an error.
func TestSkills_FilesThatChangeWhileTheyAreRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x", "a.txt")
	write := func(path, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Error(err)
		}
	}
	write(filepath.Join(dir, "x", "SKILL.md"), "---\nname: x\ndescription: D\n---\n")
	write(path, "first")
	write(filepath.Join(dir, "promptweir.hcl"), "team \"t\" {\n upstream \"f\" {\n files = [\"*/SKILL.md\"]\n skills = true\n }\n}\n")
	cfg, diags := config.Load(dir, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	s := gatewaytest.StartConfig(t, cfg, gateway.Options{})
	s.AwaitUpstreams()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				write(path, "last")
				return
			default:
				write(path, strings.Repeat(fmt.Sprintf("%06d ", i), 20_000+i%2))
			}
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		<-done
	})
	t.Cleanup(end)
	c := s.Modern("")
	listed := func() string {
		digest := "" // while the skill is left out
		for _, e := range skills(t, c) {
			for _, f := range e.Resources {
				if strings.HasSuffix(f.URI, "/a.txt") {
					digest = f.Digest
				}
			}
		}
		return digest
	}
	refused := 0
	for range 50 {
		before := listed()
		body, ok := readFile(t, c, "skill://f/x/a.txt")
		switch digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))); {
		case before != listed(): // nobody knows by which manifest it was read
		case ok && digest != before, !ok && !strings.Contains(body, `"code":-32`):
			t.Errorf("%t, %.200s", ok, body)
		case !ok:
			refused++
		}
	}
	end()
	if refused == 0 {
		t.Error("no read was refused, although the file was always another one")
	}
	upstreamtest.Eventually(t, "the last version is read", func() bool {
		body, ok := readFile(t, c, "skill://f/x/a.txt")
		return ok && body == "last"
	})
}
