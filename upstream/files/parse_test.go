package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

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
	result, err := prompt.Render(members(t, arguments))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.ParseObject(result); err != nil {
		t.Fatalf("the result %s is not strict JSON: %v", result, err)
	}
	list, err := wire.ParseArray(members(t, string(result)).Get("messages"))
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

func members(t *testing.T, raw string) wire.Object {
	t.Helper()
	object, err := wire.ParseObject([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return object
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
Write a report of severity {{severity}} from these notes:

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
	if got := string(prompt.Definition); got != want {
		t.Errorf("definition\n%s, want\n%s", got, want)
	}
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
		if diff := cmp.Diff(want, render(t, prompt, value)); diff != "" {
			t.Errorf("Render(%s) (-want +got):\n%s", value, diff)
		}
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

func TestParse_ReadsMessagesMediaAndPartials(t *testing.T) {
	d := disk{
		"prompts/a.md":            "\n\nLook:\n![a diagram](img/a.png)\nand {{ > parts/_style.md }}.\n{{> parts/_talk.md}}\n## user\n\n  indented\n![not](b.txt) ![two](a.png)\n![remote](https://example.com/a.png)\n",
		"prompts/img/a.png":       "PNG",
		"prompts/parts/_style.md": "---\ndescription: not used\n---\nwell\n",
		"prompts/parts/_talk.md":  "## assistant\nYes.\n![](../img/b.MP3)\n",
		"prompts/img/b.MP3":       "ID3",
	}
	want := []string{
		"user: Look:", "user: [image/png] UE5H", "user: and well.", "assistant: Yes.", "assistant: [audio/mpeg] SUQz",
		"user:   indented\n![not](b.txt) ![two](a.png)\n![remote](https://example.com/a.png)",
	}
	if diff := cmp.Diff(want, render(t, d.prompt(t, "prompts/a.md"), "{}")); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestParse_LeavesOtherTextAlone(t *testing.T) {
	for text, want := range map[string]string{
		`\{{name}} and \{{> x.md}}`:          "{{name}} and {{> x.md}}",
		"## User\n## assistant: x\n ## user": "## User\n## assistant: x\n ## user",
		"```\n# {% if x %}\n```":             "```\n# {% if x %}\n```",
		"a\r\nb\r\n":                         "a\r\nb",
		"\ufeff\n\ntext":                     "text",
	} {
		if got := render(t, disk{"a.md": text}.prompt(t, "a.md"), "{}"); len(got) != 1 || got[0] != "user: "+want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// problem is what a test expects of a [Problem]: a part of its detail.
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

func TestParse_WarnsOfKeysThatItDoesNotKnow(t *testing.T) {
	prompt, problems := disk{"a.md": "---\nname: b\ndescr: c\n---\nx"}.read("a.md")
	checkProblems(t, "a.md", problems, problem{Doubtful, "a.md:3", `"descr" has no effect; the keys are: name, title, description, arguments`})
	if prompt == nil || prompt.Name != "b" {
		t.Errorf("the prompt is %+v, want b", prompt)
	}
}

func TestParse_WarnsOfBracesThatAreText(t *testing.T) {
	text := "---\narguments: [{name: v}]\n---\n{{x}} {{v}}\n{{ v }} {{\n\n{{{{v}}}} {{#if v}}\n"
	prompt, problems := disk{"a.md": text}.read("a.md")
	checkProblems(t, "a.md", problems,
		problem{Doubtful, "a.md:4", "{{x}} is text, as no argument has this name; declare it under arguments, or write \\{{"},
		problem{Doubtful, "a.md:5", "{{ without }} is text"},
		problem{Doubtful, "a.md:7", "{{{{v}} is text"},
		problem{Doubtful, "a.md:7", "{{#if v}} is text"})
	want := []string{"user: {{x}} 1\n1 {{\n\n{{1}} {{#if v}}"}
	if diff := cmp.Diff(want, render(t, prompt, `{"v":"1"}`)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestParse_RefusesBrokenFilesWithPlaceAndRemedy(t *testing.T) {
	deep := disk{}
	for i := range 10 {
		deep[fmt.Sprintf("%d.md", i)] = fmt.Sprintf("{{> %d.md}}", i+1)
	}
	for _, test := range []struct {
		name  string
		files disk
		place string
		want  string
	}{
		{"no text", disk{"a.md": "---\nname: a\n---\n\n"}, "a.md", "It has no text"},
		{"no end", disk{"a.md": "---\nname: a\n"}, "a.md:1", "The front matter has no end"},
		{"no YAML", disk{"a.md": "---\nname: a\ndescription: a: b\n---\nx"}, "a.md:3", "The front matter is not YAML"},
		{"a tab", disk{"a.md": "---\narguments:\n  - name: a\n\trequired: true\n---\nx"}, "a.md:4", "A tab indents this line of the front matter, which YAML does not allow; write blanks in its place"},
		{"a tab before a list", disk{"a.md": "---\narguments:\n\t- name: a\n---\nx"}, "a.md:3", "write blanks in its place"},
		{"a special character", disk{"a.md": "---\ntitle: @a\n---\nx"}, "a.md:2", "put values with special characters into quotes"},
		{"unlike indentation", disk{"a.md": "---\narguments:\n  - name: a\n   required: true\n---\nx"}, "a.md:2", "indent the lines of one entry alike"},
		{"no second quote", disk{"a.md": "---\ntitle: \"a\n---\nx"}, "a.md:3", "write the missing quote"},
		{"no second bracket", disk{"a.md": "---\ntitle: [a\n---\nx"}, "a.md:2", "write the missing bracket"},
		{"no UTF-8", disk{"a.md": "\xff\xfe"}, "a.md", "not UTF-8"},
		{"twice", disk{"a.md": "---\nname: a\nname: b\n---\nx"}, "a.md:3", "twice"},
		{"no list", disk{"a.md": "---\narguments: a\n---\nx"}, "a.md:2", `"arguments" must be a list`},
		{"no name", disk{"a.md": "---\narguments:\n  - description: a\n---\nx"}, "a.md:3", "An argument has no name"},
		{"odd name", disk{"a.md": "---\narguments:\n  - name: a}}\n---\nx"}, "a.md:3", "cannot stand between {{ and }}"},
		{"declared twice", disk{"a.md": "---\narguments:\n  - name: a\n  - name: a\n---\nx"}, "a.md:4", "declared twice"},
		{"required", disk{"a.md": "---\narguments:\n  - name: a\n    required: yes please\n---\nx"}, "a.md:4", `"required" must be true or false`},
		{"default", disk{"a.md": "---\narguments:\n  - name: a\n    required: true\n    default: x\n---\nx"}, "a.md:3", "its default has no effect"},
		{"values", disk{"a.md": "---\narguments:\n  - name: a\n    values: x\n---\nx"}, "a.md:4", `"values" must be a list`},
		{"schema", disk{"a.md": "---\narguments:\n  - name: a\n    schema: string\n---\nx"}, "a.md:4", `"schema" must be a JSON Schema`},
		{"number", disk{"a.md": "---\narguments:\n  - name: a\n    schema: {minimum: 0x10}\n---\nx"}, "a.md:4", "The value 0x10 is not a JSON number"},
		{"number in no ASCII", disk{"a.md": "---\narguments:\n  - name: a\n    schema: {minimum: !!int é}\n---\nx"}, "a.md:4", "The value é is not a JSON number"},
		{"icons", disk{"a.md": "---\nicons:\n  - sizes: [a]\n---\nx"}, "a.md:3", "An icon has no address"},
		{"meta", disk{"a.md": "---\n_meta: [a]\n---\nx"}, "a.md:2", `"_meta" must be a list of NAME: VALUE lines`},
		{"null", disk{"a.md": "---\nname:\n---\nx"}, "a.md:2", `"name" must be a text`},
		{"alias", disk{"a.md": "---\n_meta: &a {b: c}\nicons: *a\n---\nx"}, "a.md:3", "The alias *a is not supported"},
		{"deep", disk{"a.md": "---\n_meta: {a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "}\n---\nx"}, "a.md:2", "levels deep"},
		{"control character", disk{"a.md": "---\nname: \"a\\nb\"\n---\nx"}, "a.md:1", "line break or a control character"},
		{"missing partial", disk{"a.md": "x\n{{> b.md}}"}, "a.md:2", "Cannot read b.md: there is none"},
		{"outside", disk{"p/a.md": "{{> ../../b.md}}"}, "p/a.md:1", "leads out of the folder"},
		{"absolute", disk{"a.md": "![](/etc/a.png)"}, "a.md:1", "leads out of the folder"},
		{"no Markdown", disk{"a.md": "{{> a.env}}", "a.env": "SECRET"}, "a.md:1", "does not end in .md"},
		{"itself", disk{"a.md": "{{> a.md}}"}, "a.md:1", "includes itself"},
		{"cycle", disk{"a.md": "{{> b.md}}", "b.md": "x\n\n{{> a.md}}"}, "b.md:3", "includes itself"},
		{"too deep", deep, "8.md:1", "more than 8 deep"},
		{"missing image", disk{"a.md": "\n![](a.png)"}, "a.md:2", "Cannot read a.png"},
	} {
		file := "a.md"
		if _, ok := test.files[file]; !ok {
			file = "p/a.md"
		}
		if test.name == "too deep" {
			file = "0.md"
		}
		prompt, problems := test.files.read(file)
		if prompt != nil {
			t.Errorf("%s: it is served", test.name)
		}
		checkProblems(t, test.name, problems, problem{Broken, test.place, test.want})
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

func TestParse_TakesNoNamesFromALongHint(t *testing.T) {
	for size, want := range map[int]int{maxHint: 2, maxHint + 1: 0} {
		if names := namesIn("[a] [b]" + strings.Repeat(" ", size-len("[a] [b]"))); len(names) != want {
			t.Errorf("%q of a hint of %d bytes, want %d", names, size, want)
		}
	}
}

func TestParse_BoundsWhatHostileFilesCost(t *testing.T) {
	bomb := disk{}
	for i := range 8 {
		bomb[fmt.Sprintf("%d.md", i)] = strings.Repeat(fmt.Sprintf("{{> %d.md}}", i+1), 1000)
	}
	bomb["8.md"] = "x"
	const large = 1 << 16 // a file may be larger: the bounds are in proportion
	for name, d := range map[string]disk{
		"partials":        {"a.md": "{{> 0.md}}", "0.md": bomb["0.md"], "1.md": bomb["1.md"], "2.md": bomb["2.md"], "3.md": bomb["3.md"], "4.md": "x"},
		"empty partials":  {"a.md": strings.Repeat("{{> b.md}}", large/10), "b.md": ""},
		"braces":          {"a.md": strings.Repeat("{", large)},
		"closed braces":   {"a.md": strings.Repeat("{{", large/2) + "}}"},
		"lines":           {"a.md": strings.Repeat("{{\n", large/3)},
		"flow":            {"a.md": "---\n_meta: " + strings.Repeat("[", 60_000) + "\n---\nx"},
		"flow maps":       {"a.md": "---\n_meta: " + strings.Repeat("{a: ", 15_000) + "\n---\nx"},
		"sequences":       {"a.md": "---\n_meta: \n" + strings.Repeat("- ", 30_000) + "\n---\nx"},
		"keys":            {"a.md": "---\n" + strings.Repeat("? ", 30_000) + "\n---\nx"},
		"aliases":         {"a.md": "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n---\nx"},
		"anchors":         {"a.md": "---\n" + strings.Repeat("&a ", 20_000) + "\n---\nx"},
		"long key":        {"a.md": "---\n" + strings.Repeat("a", 60_000) + ": b\n---\nx"},
		"many keys":       {"a.md": "---\n" + strings.Repeat("a: b\n", 12_000) + "---\nx"},
		"scalar":          {"a.md": "---\ndescription: " + strings.Repeat("a", 100_000) + "\n---\nx"},
		"arguments":       {"a.md": "---\narguments:\n" + strings.Repeat("- {name: a}\n", 5_000) + "---\nx"},
		"foreign":         {".claude/commands/a.md": "---\n" + strings.Repeat("- ", 30_000) + "\n---\n" + strings.Repeat("$1 $ARGUMENTS @a/b !`x` ", large/25)},
		"foreign inputs":  {"a.prompt.md": strings.Repeat("${input:a:b} #file:x [a](b)\n", large/30)},
		"foreign skill":   {"s/SKILL.md": strings.Repeat("[a](b) $ARGUMENTS\n", large/20)},
		"many words":      {".claude/commands/a.md": "---\narguments: [" + strings.Repeat("a,", 10_000) + "]\n---\n" + strings.Repeat("$1$a", 10_000)},
		"dollars":         {"s/SKILL.md": "---\narguments: " + strings.Repeat("a", 100) + "\n---\n" + strings.Repeat("$A", large/2)},
		"many arguments":  {"a.prompt.md": manyInputs(20_000)},
		"quoted fallback": {".claude/commands/a.md": "---\n" + strings.Repeat("a: [b] [c]\n", 5_000) + "---\nx"},
	} {
		for file := range d {
			t.Log(name, file)
			checkBudget(t, d, file)
		}
	}
}

func manyInputs(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "${input:a%d} ", i)
	}
	return text.String()
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
		if got := string(prompt.Complete(test.argument, test.start)); got != test.want {
			t.Errorf("Complete(%s, %s) = %s, want %s", test.argument, test.start, got, test.want)
		}
	}
	many := disk{"a.md": "---\narguments: [{name: a, values: [" + strings.Repeat("x, ", 200) + "]}]\n---\nx"}.prompt(t, "a.md")
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
