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
	"github.com/promptweir/promptweir/upstream/upstreamtest"
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

func TestFiles_DegradeOnlyTheirUpstream(t *testing.T) {
	t.Parallel()
	f := newPromptFolder(t, `team "eng" {
  upstream "book" { files = ["p/*.md"] }
  upstream "other" { files = ["q/*.md"] }
}`, "p/a.md", "---\ndescription: good\n---\nA", "q/b.md", "B")
	s := f.serve()
	c := s.Modern("")
	c.WantList("book.a", "other.b")
	f.write("p/a.md", "---\nname: [\n---\n")
	f.write("p/new.md", "{{> nowhere.md}}")
	upstreamtest.Eventually(t, "the upstream is degraded", func() bool {
		return strings.Contains(gatewaytest.ReportNames(s.Snapshot()), "broken_file book, broken_file book")
	})
	c.WantList("book.a", "other.b")
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"description":"good"`, `"io.github.promptweir/partial":[{"upstream":"book","reason":"invalid_file",`, `"stale":true`)
	c.Call("prompts/get", gatewaytest.GetParams("book.a")).Want(t, http.StatusOK, `"text":"A"`)
	r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil)
	r.Want(t, http.StatusOK, `"ready": true`, "has a file that cannot be served as written: "+filepath.Join(f.dir, "p", "a.md")+":2: Broken prompt: The front matter is not YAML")
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Want(t, http.StatusOK, "Upstream book is up, but has files that are broken")
	f.write("p/a.md", "A2")
	f.write("p/new.md", "New")
	upstreamtest.Eventually(t, "the upstream is healthy", func() bool {
		return gatewaytest.ReportNames(s.Snapshot()) == "" && slices.Equal(c.List(), []string{"book.a", "book.new", "other.b"})
	})
	c.Call("prompts/get", gatewaytest.GetParams("book.a")).Want(t, http.StatusOK, `"text":"A2"`)
}

func TestFiles_BrokenOnesAreNamedToCallersWhoMaySeeTheirPrompts(t *testing.T) {
	f := newPromptFolder(t, `auth {
`+gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob")+gatewaytest.Token("eve")+`
}
team "eng" {
  members = ["group:eng"]
  upstream "book" { files = ["p/*.md"] }
  expose "some" {
    prompts = ["book.good", "report"]
    to      = ["*"]
  }
  expose "those without arguments" { # without a good version, the arguments are unknown
    prompts = ["book.unread"]
    to      = ["*"]
    when    = length(prompt.arguments) == 0
  }
  expose "to eve" {
    prompts = ["book.mine"]
    to      = ["user:eve"]
  }
  hide "wip" { prompts = ["book.wip"] }
  prompt "book.raw" { name = "report" }
}`, "p/good.md", "x", "p/mine.md", "{{> nowhere.md}}", "p/unread.md", "{{> nowhere.md}}", "p/wip.md", "{{> nowhere.md}}", "p/raw.md", "{{> nowhere.md}}")
	s := f.serve()
	const mine, report, unread = `{"place":"p/mine.md:1","prompt":"book.mine"}`, `{"place":"p/raw.md:1","prompt":"report"}`, `{"place":"p/unread.md:1","prompt":"book.unread"}`
	for who, want := range map[string]string{
		"ann": mine + "," + report + "," + unread,
		"bob": report,
		"eve": mine + "," + report,
	} {
		s.Modern(who).Call("prompts/list", "").Want(t, http.StatusOK, `"stale":true,"files":[`+want+`]}]`)
	}
}

// TestFiles_ServeNoTextThatTheLockDoesNotApprove changes a text while clients get it.
func TestFiles_ServeNoTextThatTheLockDoesNotApprove(t *testing.T) {
	t.Parallel()
	f := newPromptFolder(t, `team "eng" {
  lock = "enforce"
  upstream "book" {
    files = ["p/*.md"]
    texts = true
  }
}`, "p/a.md", "approved")
	f.write(config.LockFile, string(f.serve().Lock().Format()))
	s := f.serve()
	c := s.Modern("")
	c.WantList("book.a")
	for round := range 2 {
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
