package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// promptFolder is a configuration whose prompts are files.
type promptFolder struct {
	tb  testing.TB
	dir string
}

// newPromptFolder writes a configuration and the files beside it, given as names and contents.
func newPromptFolder(tb testing.TB, text string, files ...string) promptFolder {
	f := promptFolder{tb, tb.TempDir()}
	f.write("gateway.hcl", text)
	for i := 0; i < len(files); i += 2 {
		f.write(files[i], files[i+1])
	}
	return f
}

// write replaces a file as a whole.
func (f promptFolder) write(name, content string) {
	f.tb.Helper()
	path := filepath.Join(f.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+"~", []byte(content), 0o600), os.Rename(path+"~", path)); err != nil {
		f.tb.Fatal(err)
	}
}

func (f promptFolder) serve() *gatewaytest.Server {
	f.tb.Helper()
	cfg, diags := config.Load(filepath.Join(f.dir, "gateway.hcl"), config.Options{})
	if err := diags.Err(); err != nil {
		f.tb.Fatal(err)
	}
	s := gatewaytest.StartConfig(f.tb, cfg, gateway.Options{})
	s.AwaitUpstreams()
	return s
}

const filePrompt = `---
title: Write an incident report
description: Turn notes into a report.
arguments:
  - name: notes
    required: true
  - name: a
    values: [minor, major]
    default: minor
icons:
  - src: https://example.com/i.png
---
Severity {{a}}: {{notes}}
![](d.png)
## assistant
Here:
`

func TestFiles_AreServedInAllRevisions(t *testing.T) {
	s := newPromptFolder(t, `team "eng" {
  upstream "book" { files = ["p/**/*.md"] }
}`, "p/report.md", filePrompt, "p/d.png", "PNG").serve()
	clients := []*gatewaytest.Client{s.Modern("")}
	for _, revision := range gatewaytest.LegacyRevisions {
		clients = append(clients, s.Legacy(revision, ""))
	}
	for _, c := range clients {
		c.WantList("book.report")
		c.Call("prompts/list", "").Want(t, http.StatusOK, `{"name":"book.report","title":"Write an incident report","description":"Turn notes into a report.",`+
			`"arguments":[{"name":"notes","required":true},{"name":"a"}],"icons":[{"src":"https://example.com/i.png"}],"_meta":{"io.github.promptweir/template":true}}`)
		c.Call("prompts/get", `{"name":"book.report","arguments":{"notes":"x \"y\""}}`).Want(t, http.StatusOK,
			`"description":"Turn notes into a report.","messages":[{"role":"user","content":{"type":"text","text":"Severity minor: x \"y\""}},`+
				`{"role":"user","content":{"type":"image","data":"UE5H","mimeType":"image/png"}},{"role":"assistant","content":{"type":"text","text":"Here:"}}]`)
		c.Call("prompts/get", gatewaytest.GetParams("book.report")).Want(t, http.StatusOK, `"code":-32602`, "Missing required argument: notes")
		if c.Revision != "2024-11-05" {
			c.Call("completion/complete", gatewaytest.CompleteParams("book.report")).Want(t, http.StatusOK, `"completion":{"values":["minor","major"],"total":2,"hasMore":false}`)
		}
	}
}

func TestFiles_PassEverythingThatServersPromptsPass(t *testing.T) {
	s := newPromptFolder(t, `auth {
`+gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob")+`
}
hide "never" { prompts = ["*.debug"] }
team "eng" {
  members = ["group:eng"]
  upstream "book" { files = ["p/*.md"] }
  expose "report" {
    prompts = ["report", "book.public"]
    to      = ["*"]
    limit { concurrency = 1 }
  }
  screen "secret" { patterns = ["SECRET"] }
  prompt "book.report" {
    name      = "report"
    title     = "Report"
    arguments = { a = "major" }
  }
}`, "p/report.md", filePrompt, "p/d.png", "PNG", "p/debug.md", "x", "p/public.md", "---\narguments: [{name: v}]\n---\nsay {{v}}", "p/mine.md", "x", "p/bad.md", "---\ndescription: SECRET\n---\nx").serve()
	ann, bob := s.Modern("ann"), s.Modern("bob")
	ann.WantList("book.mine", "book.public", "report")
	bob.WantList("book.public", "report")
	bob.Call("prompts/get", `{"name":"report","arguments":{"notes":"n"}}`).Want(t, http.StatusOK, `"text":"Severity major: n"`)
	bob.Call("prompts/get", `{"name":"report","arguments":{"notes":"n","a":"minor"}}`).Want(t, http.StatusOK, `"reason":"fixed"`)
	unknown := bob.Call("prompts/get", gatewaytest.GetParams("book.nobody")).Body
	for _, name := range []string{"book.mine", "book.debug", "book.bad", "book.report"} {
		if got := bob.Call("prompts/get", gatewaytest.GetParams(name)).Body; got != strings.ReplaceAll(unknown, "book.nobody", name) {
			t.Errorf("get of %s gives %s, want the same as for an unknown name", name, got)
		}
	}
	bob.Call("prompts/get", `{"name":"book.public","arguments":{"v":"a SECRET"}}`).Want(t, http.StatusOK, `"reason":"screened"`)
	upstreamtest.Equal(t, "screened book.bad", s.ReportNames(), "reports")
}

func TestFiles_ChangeNotifiesThoseWhoseListChanged(t *testing.T) {
	f := newPromptFolder(t, `auth {
`+gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob")+`
}
team "eng" {
  members = ["group:eng"]
  upstream "book" { files = ["p/*.md"] }
  expose "b" {
    prompts = ["book.b"]
    to      = ["*"]
  }
}`, "p/a.md", "A", "p/b.md", "B")
	s := f.serve()
	ann, bob := s.Modern("ann").Listen("1"), s.Modern("bob").Listen("1")
	f.write("p/a.md", "---\ndescription: new\n---\nA")
	ann.WantChange()
	bob.WantSilence()
	s.Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"description":"new"`)
	f.write("p/b.md", "---\ndescription: new\n---\nB")
	ann.WantChange()
	bob.WantChange()
	f.write("p/c.md", "C")
	ann.WantChange()
	bob.WantSilence()
}

func TestFiles_DegradeOnlyTheirUpstream(t *testing.T) {
	f := newPromptFolder(t, `team "eng" {
  upstream "book" { files = ["p/*.md"] }
  upstream "other" { files = ["q/*.md"] }
}`, "p/a.md", "---\ndescription: good\n---\nA", "q/b.md", "B")
	s := f.serve()
	c := s.Modern("")
	c.WantList("book.a", "other.b")
	f.write("p/a.md", "---\nname: [\n---\n")
	f.write("p/new.md", "{{> nowhere.md}}")
	upstreamtest.Eventually(t, "the upstream is degraded", func() bool { return strings.Contains(s.ReportNames(), "broken_file book, broken_file book") })
	c.WantList("book.a", "other.b")
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"description":"good"`, `"io.github.promptweir/partial":[{"upstream":"book","reason":"invalid_file",`, `"stale":true`)
	c.Call("prompts/get", gatewaytest.GetParams("book.a")).Want(t, http.StatusOK, `"text":"A"`)
	r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil)
	r.Want(t, http.StatusOK, `"ready": true`, "has a file that cannot be served as written: "+filepath.Join(f.dir, "p", "a.md")+":2: Broken prompt: The front matter is not YAML")
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Want(t, http.StatusOK, "Upstream book is up, but has files that are broken")
	f.write("p/a.md", "A2")
	f.write("p/new.md", "New")
	upstreamtest.Eventually(t, "the upstream is healthy", func() bool {
		return s.ReportNames() == "" && slices.Equal(c.List(), []string{"book.a", "book.new", "other.b"})
	})
	c.Call("prompts/get", gatewaytest.GetParams("book.a")).Want(t, http.StatusOK, `"text":"A2"`)
}

func TestFiles_SurviveAReload(t *testing.T) {
	f := newPromptFolder(t, "")
	text := `team "eng" {
  upstream "book" { files = ["p/*.md"] }
}`
	g := gatewaytest.ServeReloadable(t, "", gateway.Options{})
	f.dir = filepath.Dir(g.Path)
	f.write("p/a.md", "A")
	g.MustReload(text)
	g.AwaitUpstreams()
	c := g.Modern("")
	c.WantList("book.a")
	before := g.Snapshot().Connector("book")
	g.MustReload("gateway { page_size = 10 }\n" + text)
	if g.Snapshot().Connector("book") != before {
		t.Error("a reload that leaves the block alone makes another connector")
	}
	g.MustReload(strings.Replace(text, `{ files = ["p/*.md"] }`, "{\n texts = true\n files = [\"p/*.md\"]\n}", 1))
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"_meta":{"io.github.promptweir/text_sha256":"`)
	f.write("q/b.md", "B")
	g.MustReload(strings.Replace(text, `"p/*.md"`, `"q/*.md"`, 1))
	c.WantList("book.b")
}

// TestFiles_ServeNoTextThatTheLockDoesNotApprove changes a text while clients get it.
func TestFiles_ServeNoTextThatTheLockDoesNotApprove(t *testing.T) {
	f := newPromptFolder(t, `team "eng" {
  lock = "enforce"
  upstream "book" {
    files = ["p/*.md"]
    texts = true
  }
}`, "p/a.md", "approved")
	f.approve()
	s := f.serve()
	c := s.Modern("")
	c.WantList("book.a")
	for round := range 5 {
		f.write("p/a.md", fmt.Sprintf("smuggled %d", round))
		upstreamtest.Eventually(t, "the prompt is left out", func() bool {
			got := c.Call("prompts/get", gatewaytest.GetParams("book.a")).Body
			if strings.Contains(got, "smuggled") {
				t.Fatalf("a text is served that nobody approved: %s", got)
			}
			return !strings.Contains(got, "approved")
		})
		f.write("p/a.md", "approved")
		upstreamtest.Eventually(t, "the prompt is back", func() bool {
			return strings.Contains(c.Call("prompts/get", gatewaytest.GetParams("book.a")).Body, "approved")
		})
	}
}

// approve writes the lock file for the prompts as they are, of upstreams with their label as prefix.
func (f promptFolder) approve() {
	f.tb.Helper()
	path := filepath.Join(f.dir, "gateway.hcl")
	cfg, diags := config.Load(path, config.Options{SkipLockFile: true})
	if err := diags.Err(); err != nil {
		f.tb.Fatal(err)
	}
	var approved []config.LockedPrompt
	for i, read := range files.Read(f.tb.Context(), cfg.Upstreams()) {
		for _, prompt := range read.List.Prompts {
			label := cfg.Upstreams()[i].Name
			locked, err := config.NewLockedPrompt(label+"."+prompt.Name, label, wire.Members(prompt.Definition)[1:].JSON()) // without the name
			if err != nil {
				f.tb.Fatal(err)
			}
			approved = append(approved, locked)
		}
	}
	f.write(config.LockFile, string(config.NewLock(approved).Format()))
}
