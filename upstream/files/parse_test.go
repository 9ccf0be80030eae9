package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// disk is files in memory, by path.
type disk map[string]string

func (d disk) document(file string) (*document, error) {
	if content, ok := d[file]; ok {
		return newDocument(content), nil
	}
	return nil, fmt.Errorf("cannot read %s: there is none", path.Base(file))
}

func (d disk) image(file string) (*media, error) {
	content, ok := d[file]
	if !ok {
		return nil, fmt.Errorf("cannot read %s: there is none", path.Base(file))
	}
	m, _ := mediaOf(file)
	m.base64 = base64.StdEncoding.AppendEncode(nil, []byte(content))
	return &m, nil
}

// signAt returns the sign of a file in a root without manifests.
func signAt(file string) sign { return signOf("/"+file, path.Base(file), "", noManifest) }

// read parses one file.
func (d disk) read(file string) (*Prompt, []Problem) {
	return parse(entryKey{file, false, signAt(file)}, d, func(file string) string { return file })
}

// prompt parses a file that has no problems.
func (d disk) prompt(t *testing.T, file string) *Prompt {
	t.Helper()
	prompt, problems := d.read(file)
	for _, p := range problems {
		t.Errorf("%s", p)
	}
	if prompt == nil {
		t.Fatalf("%s is no prompt", file)
	}
	return prompt
}

// render returns the messages of a prompt, as "role: text" or "role: [MIME type] base64".
func render(t *testing.T, prompt *Prompt, arguments string) (messages []string) {
	t.Helper()
	result, err := prompt.Render(upstreamtest.Object(t, arguments))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.ParseObject(result); err != nil {
		t.Fatalf("the result %s is not strict JSON: %v", result, err)
	}
	list, err := wire.ParseArray(upstreamtest.Object(t, string(result)).Get("messages"))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range list {
		message := wire.Members(raw)
		role, _ := message.Text("role")
		inner := message.Object("content")
		text, isText := inner.Text("text")
		if !isText {
			mime, _ := inner.Text("mimeType")
			data, _ := inner.Text("data")
			text = "[" + mime + "] " + data
		}
		messages = append(messages, role+": "+text)
	}
	return messages
}

const incident = `---
name: incident_report
title: Write an incident report
description: Turn notes taken during an incident into a report without blame.
arguments:
  - name: notes
    description: What was seen and done, in order.
    required: true
  - name: severity
    title: Severity
    values: [minor, major, critical, "1"]
    default: minor
  - name: count
    schema: { type: integer, minimum: 1, enum: [1, 2, 1e3] }
icons:
  - src: https://example.com/icon.png
    sizes: [48x48]
_meta:
  com.example/owner: ops
  com.example/nested: { a: [true, null, 1.50, "x"] }
---
Write a report of severity {{severity}} with {{count}} from these notes:

{{notes}}
`

func TestParse_ReadsTheDefinition(t *testing.T) {
	prompt := disk{"prompts/incident.md": incident}.prompt(t, "prompts/incident.md")
	want := `{"name":"incident_report","title":"Write an incident report",` +
		`"description":"Turn notes taken during an incident into a report without blame.","arguments":[` +
		`{"name":"notes","description":"What was seen and done, in order.","required":true},{"name":"severity","title":"Severity"},` +
		`{"name":"count","schema":{"type":"integer","minimum":1,"enum":[1,2,1e3]}}],` +
		`"icons":[{"src":"https://example.com/icon.png","sizes":["48x48"]}],` +
		`"_meta":{"com.example/owner":"ops","com.example/nested":{"a":[true,null,1.50,"x"]},"io.github.promptweir/template":true}}`
	upstreamtest.Equal(t, want, string(prompt.Definition), "definition")
}

func TestRender_PutsValuesInAfterTheStructure(t *testing.T) {
	prompt := disk{
		"a.md":    "---\narguments: [{name: v}, {name: w, default: 'd \"q\"'}]\n---\nBefore {{v}} {{ w }}{{\tv}}\n## assistant\n{{v}}\n",
		"part.md": "partial",
	}.prompt(t, "a.md")
	for value, want := range map[string][]string{
		`{"v":"x"}`:                  {`user: Before x d "q"x`, "assistant: x"},
		`{"v":"\n## user\n{{w}}"}`:   {"user: Before \n## user\n{{w}} d \"q\"\n## user\n{{w}}", "assistant: \n## user\n{{w}}"},
		`{"v":"{{> part.md}}"}`:      {`user: Before {{> part.md}} d "q"{{> part.md}}`, "assistant: {{> part.md}}"},
		`{"v":"\"}},{\"role\":"}`:    {`user: Before "}},{"role": d "q""}},{"role":`, `assistant: "}},{"role":`},
		`{"v":"\u00fc\\","w":""}`:    {`user: Before ü\ ü\`, `assistant: ü\`},
		`{"v":[1.50,{"a":"\"b\""}]}`: {`user: Before [1.50,{"a":"\"b\""}] d "q"[1.50,{"a":"\"b\""}]`, `assistant: [1.50,{"a":"\"b\""}]`},
		`{"v":1e400,"x":"unknown"}`:  {`user: Before 1e400 d "q"1e400`, "assistant: 1e400"},
		`{}`:                         {`user: Before  d "q"`, "assistant: "},
	} {
		upstreamtest.Equal(t, want, render(t, prompt, value), "Render(%s)", value)
	}
}

func TestRender_RefusesWhatIsMissingOrTooLong(t *testing.T) {
	prompt := disk{"a.md": "---\narguments: [{name: v, required: true}]\n---\n" + strings.Repeat("{{v}}", 1000)}.prompt(t, "a.md")
	_, err := prompt.Render(nil)
	if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != wire.InvalidParams || answer.Message != "Missing required argument: v" {
		t.Errorf("Render without the argument = %v", err)
	}
	_, err = prompt.Render(wire.Object{}.With("v", wire.Quote(strings.Repeat("x", 20_000))))
	if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != wire.InvalidParams {
		t.Errorf("Render with 20 MB = %v", err)
	}
}

func TestParse_LeavesOtherTextAlone(t *testing.T) {
	for text, want := range map[string]string{
		`\{{name}} and \{{> x.md}}`:           "{{name}} and {{> x.md}}",
		"## Users\n## assistant: x\n ## user": "## Users\n## assistant: x\n ## user",
		"```\n# {% if x %}\n```":              "```\n# {% if x %}\n```",
		"a\r\nb\r\n":                          "a\r\nb",
		"\ufeff\n\ntext":                      "text",
	} {
		if got := render(t, disk{"a.md": text}.prompt(t, "a.md"), "{}"); len(got) != 1 || got[0] != "user: "+want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// problem is an expected [Problem]: a part of its detail.
type problem struct {
	severity Severity
	place    string
	detail   string
}

func checkProblems(t *testing.T, file string, got []Problem, want ...problem) {
	t.Helper()
	for i, p := range got {
		if i >= len(want) || p.Severity != want[i].severity || p.Place() != want[i].place || !strings.Contains(p.Detail, want[i].detail) {
			t.Errorf("%s: problem %d is %d %s, want %v", file, i, p.Severity, p, want[min(i, len(want)):])
		}
	}
	if len(got) < len(want) {
		t.Errorf("%s: not reported: %v", file, want[len(got):])
	}
}

// broken is a disk of which a mistake makes no document.
type broken struct{ disk }

func (broken) document(string) (*document, error) { return nil, nil }

func TestParse_APanicIsAProblemOfItsFile(t *testing.T) {
	prompt, problems := parse(entryKey{path: "a.md"}, broken{}, strings.Clone)
	if prompt != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].Detail, "Reading it failed (runtime error") {
		t.Errorf("prompt %v, problems %v", prompt, problems)
	}
}

func TestComplete_OffersTheValuesThatBeginAlike(t *testing.T) {
	prompt := disk{"prompts/incident.md": incident}.prompt(t, "prompts/incident.md")
	for _, test := range []struct{ argument, start, want string }{
		{"severity", "m", `{"completion":{"values":["minor","major"],"total":2,"hasMore":false}}`},
		{"severity", "MIN", `{"completion":{"values":["minor"],"total":1,"hasMore":false}}`},
		{"severity", "", `{"completion":{"values":["minor","major","critical","1"],"total":4,"hasMore":false}}`},
		{"notes", "", `{"completion":{"values":[],"total":0,"hasMore":false}}`},
		{"unknown", "x", `{"completion":{"values":[],"total":0,"hasMore":false}}`},
	} {
		upstreamtest.Equal(t, test.want, string(prompt.Complete(test.argument, test.start)), "Complete(%s, %s)", test.argument, test.start)
	}
	many := disk{"a.md": "---\narguments: [{name: a, values: [" + strings.Repeat("x, ", 200) + "]}]\n---\n{{a}}"}.prompt(t, "a.md")
	if got := string(many.Complete("a", "")); !strings.HasSuffix(got, `"total":200,"hasMore":true}}`) || strings.Count(got, `"x"`) != 100 {
		t.Errorf("200 values complete to %s", got)
	}
}

func TestParse_PutsTheHashOfTheTextIntoTheDefinition(t *testing.T) {
	hash := func(text string) string {
		prompt, _ := parse(entryKey{path: "a.md", texts: true}, disk{"a.md": text, "b.md": "B"}, func(file string) string { return file })
		hash, _ := wire.Members(prompt.Definition).Object("_meta").Text("io.github.promptweir/text_sha256")
		return hash
	}
	one := hash("---\n_meta: {a: b}\narguments: [{name: v}]\n---\nx {{v}}")
	if len(one) != 64 {
		t.Fatalf("hash %q", one)
	}
	if same := hash("---\n_meta: {a: c}\narguments: [{name: v, title: T}]\n---\nx {{v}}"); same != one {
		t.Error("another definition gives another hash of the text")
	}
	for _, text := range []string{
		"---\narguments: [{name: v}]\n---\ny {{v}}", "---\narguments: [{name: v, default: d}]\n---\nx {{v}}",
		"---\narguments: [{name: w}]\n---\nx {{w}}", "---\narguments: [{name: v}]\n---\n## assistant\nx {{v}}", "x \\{{v}}",
	} {
		if hash(text) == one {
			t.Errorf("%q has the same hash", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a.md", incident, "{{> a.md}}", `{"notes":"x"}`)
	f.Add(".claude/commands/a.md", "---\nargument-hint: [a] [b]\n---\n$1 $ARGUMENTS", "", `{"a":"x"}`)
	f.Add("a.prompt.md", "---\nmode: agent\n---\n${input:a:b}", "", `{"a":1}`)
	f.Add("s/SKILL.md", "---\nname: a\n---\ntext", "", `{}`)
	f.Fuzz(func(t *testing.T, file, content, partial, arguments string) {
		if file == "" { // no file has this path
			return
		}
		prompt, problems := disk{file: content, "part.md": partial}.read(file)
		broken := false
		for _, p := range problems {
			broken = broken || p.Severity == Broken
			if p.Summary == "" || p.Detail == "" || p.Path == "" {
				t.Errorf("problem %+v", p)
			}
		}
		if broken != (prompt == nil) {
			t.Errorf("prompt %v with problems %v", prompt, problems)
		}
		if prompt == nil {
			return
		}
		definition, err := wire.ParseObject(prompt.Definition)
		if err != nil {
			t.Errorf("definition %s: %v", prompt.Definition, err)
		}
		if name, _ := definition.Text("name"); name != prompt.Name {
			t.Errorf("name %q, want %q", name, prompt.Name)
		}
		given, err := wire.ParseObject([]byte(arguments))
		if err != nil {
			given = nil
		}
		result, err := prompt.Render(given)
		if err != nil {
			return
		}
		if _, err := wire.ParseObject(result); err != nil {
			t.Errorf("result %s: %v", result, err)
		}
		// A value never adds a message.
		plain, err := prompt.Render(wire.Object{})
		if count := func(raw jsontext.Value) int {
			list, _ := wire.ParseArray(wire.Members(raw).Get("messages"))
			return len(list)
		}; err == nil && count(plain) != count(result) {
			t.Errorf("%d messages without arguments, %d with them", count(plain), count(result))
		}
	})
}
