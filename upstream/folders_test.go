package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// prompts is a folder with a team's file and the files of its prompts.
type prompts struct {
	t      *testing.T
	dir    string
	logger *slog.Logger
}

func newPrompts(t *testing.T, attributes string, files ...string) *prompts {
	p := &prompts{t: t, dir: t.TempDir()}
	p.write("docs.hcl", "team \"docs\" {\n  upstream \"handbook\" {\n    files = [\"p/**/*.md\"]\n    "+attributes+"\n  }\n}\n")
	for i := 0; i < len(files); i += 2 {
		p.write("p/"+files[i], files[i+1])
	}
	return p
}

// write replaces a file as a whole.
func (p *prompts) write(file, content string) {
	p.t.Helper()
	path := filepath.Join(p.dir, file)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+"~", []byte(content), 0o600), os.Rename(path+"~", path))
	if err != nil {
		p.t.Fatal(err)
	}
}

// run runs a connector until the test ends.
func (p *prompts) run() *upstream.Connector {
	p.t.Helper()
	cfg, diags := config.Load(p.dir, config.Options{})
	if err := diags.Err(); err != nil {
		p.t.Fatal(err)
	}
	return start(p.t, cfg.Upstreams()[0], upstream.Options{Logger: p.logger})
}

// await waits until the state is as a test wants it.
func await(tb testing.TB, c *upstream.Connector, want func(*upstream.State) bool) {
	tb.Helper()
	upstreamtest.Eventually(tb, "the state", func() bool { return want(c.State()) })
}

func healthy(n int) func(*upstream.State) bool {
	return func(s *upstream.State) bool { return s.Listed && s.Problem == nil && len(s.Definitions) == n }
}

func getPrompt(c *upstream.Connector, name, arguments string) (string, error) {
	params := wire.Object{}.With("name", wire.Quote(name)).With("arguments", []byte(arguments))
	result, err := c.Call(context.Background(), &upstream.Request{Method: wire.PromptsGet, Name: name, Params: params, Files: c.State().Files}, nil)
	return string(result.JSON), err
}

func TestFolder_ServesPromptsWithoutAServer(t *testing.T) {
	c := newPrompts(t, "", "a.md", "---\narguments: [{name: v, values: [one, two]}]\n---\nA {{v}}").run()
	await(t, c, healthy(1))
	got, err := getPrompt(c, "a", `{"v":"x"}`)
	if want := `{"messages":[{"role":"user","content":{"type":"text","text":"A x"}}]}`; err != nil || got != want {
		t.Errorf("get = %s, %v, want %s", got, err, want)
	}
	_, err = getPrompt(c, "gone", `{}`)
	if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != wire.InvalidParams || answer.Message != "Unknown prompt: gone" {
		t.Errorf("get of an unknown prompt: %v", err)
	}
	completion := wire.Object{}.With("ref", []byte(`{"type":"ref/prompt","name":"a"}`)).With("argument", []byte(`{"name":"v","value":"t"}`))
	result, err := c.Call(context.Background(), &upstream.Request{Method: wire.Complete, Params: completion, Files: c.State().Files}, nil)
	if want := `{"completion":{"values":["two"],"total":1,"hasMore":false}}`; err != nil || string(result.JSON) != want {
		t.Errorf("completion = %s, %v, want %s", result.JSON, err, want)
	}
	if !c.Completes() || !c.State().Connected {
		t.Error("the upstream does not complete, or is not there")
	}
	retired, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c.Retire(retired)
	if _, err := getPrompt(c, "a", `{}`); !errors.Is(err, upstream.ErrRetired) || retired.Err() != nil {
		t.Errorf("get after Retire: %v", err)
	}
}

func TestFolder_KeepsItsListWithoutItsFiles(t *testing.T) {
	p := newPrompts(t, "", "a.md", "A", "b.md", "B")
	c := p.run()
	await(t, c, healthy(2))
	if err := os.RemoveAll(filepath.Join(p.dir, "p")); err != nil {
		t.Fatal(err)
	}
	await(t, c, func(s *upstream.State) bool {
		return s.Problem != nil && s.Problem.Reason == upstream.ListRefused && len(s.Definitions) == 2
	})
}

// A person who serves files learns of misspelt keys and of braces that are text, once for each file, without the command validate.
func TestFolder_LogsProbableMistakesOnceForEachFile(t *testing.T) {
	var log upstreamtest.Log
	p := newPrompts(t, "", "a.md", "A\n{{ whom }} {{whom}}\n{{#if x}}\n", "d.md", "---\nargument: x\ntags: x\n---\nD {{ x }}", "b.md", "---\narguments: [{name: v}]\n---\nB {{ v }}")
	p.logger = slog.New(slog.NewTextHandler(&log, nil))
	c := p.run()
	await(t, c, healthy(3))
	p.write("p/c.md", "C {{")
	await(t, c, healthy(4))
	upstreamtest.Eventually(t, "the record of the new file", func() bool { return log.Count("c.md:1") > 0 })
	if n := log.Count("probably a mistake in a prompt file"); n != 3 || log.Count("a.md:2 ") != 1 {
		t.Errorf("%d records, want one for each of a.md, c.md and d.md:\n%s", n, log.String())
	}
}

func TestFolder_ChangesItsListWithTextsOnlyWhereTheyAreApproved(t *testing.T) {
	for _, texts := range []bool{false, true} {
		p := newPrompts(t, fmt.Sprintf("texts = %t", texts), "a.md", "A")
		c := p.run()
		await(t, c, healthy(1))
		before := c.State().Lists
		p.write("p/a.md", "B")
		upstreamtest.Eventually(t, "the new text is served", func() bool {
			got, _ := getPrompt(c, "a", `{}`)
			return strings.Contains(got, `"B"`)
		})
		if !texts && c.State().Lists != before {
			t.Error("the list changed with a text that is not part of it")
		}
		if texts {
			await(t, c, func(s *upstream.State) bool { return s.Lists > before })
		}
	}
}
