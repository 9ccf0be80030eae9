package files

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/wire"
)

func TestParse_ServesTheFormatsThatPeopleHave(t *testing.T) {
	for _, test := range []struct {
		name, file, content string
		definition          string
		arguments           string
		messages            []string
		problems            []problem
	}{
		{
			name: "skill with a description of two keys", file: "s/SKILL.md",
			content:    "---\nwhen_to_use: a PDF comes up\n---\n# Fill in\n",
			definition: `{"name":"s","description":"Fill in - a PDF comes up","arguments":[{"name":"arguments"}]}`,
			arguments:  `{}`, messages: []string{"user: # Fill in"},
		}, {
			name: "one mistake costs one key", file: ".claude/commands/k.md",
			content:    "---\ndescription: one\nname: [\ndescription: two\n\targument-hint: x\nargument-hint:\t<a>: b\nglobs: *.ts\nmodel:\n---\nx",
			definition: `{"name":"k","description":"one","arguments":[{"name":"arguments","description":"<a>: b"}]}`,
			arguments:  `{}`, messages: []string{"user: x"},
			problems: []problem{
				{Doubtful, ".claude/commands/k.md:3", "name"},
				{Unserved, ".claude/commands/k.md:4", `"description" in the front matter is `},
				{Doubtful, ".claude/commands/k.md:7", "globs"},
			},
		}, {
			name: "names that are no arguments", file: ".claude/commands/n.md",
			content:    "---\narguments: file, mode $QUERY\n---\n$file, and $mode $QUERY $0",
			definition: `{"name":"n","description":"$file, and $mode $QUERY $0","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"a.go fast x"}`, messages: []string{"user: a.go and fast $QUERY a.go"},
			problems: []problem{{Unserved, ".claude/commands/n.md:1", `Arguments: "file," cannot name an argument, so the whole line is one`}},
		}, {
			name: "arguments that are maps, and a hint that is one", file: ".claude/commands/m.md",
			content:    "---\narguments:\n  - name: a\nargument-hint: {x: y}\n---\n$ARGUMENTS",
			definition: `{"name":"m","description":"$ARGUMENTS","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"x"}`, messages: []string{"user: x"},
		}, {
			name: "command of OpenCode with a name", file: ".opencode/command/a.md", content: "---\nname: b\n---\n$ARGUMENTS",
			definition: `{"name":"b","description":"$ARGUMENTS","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"x"}`, messages: []string{"user: x"},
		}, {
			name: "empty command", file: ".claude/commands/e.md", content: "---\ndescription: E\n---\n",
			definition: `{"name":"e","description":"E","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"x"}`, messages: []string{"user: \n\nARGUMENTS: x"},
		}, {
			name: "command in Latin-1", file: ".claude/commands/l.md", content: "Caf\xe9 $ARGUMENTS",
			definition: "{\"name\":\"l\",\"description\":\"Caf\ufffd $ARGUMENTS\",\"arguments\":[{\"name\":\"arguments\"}]}",
			arguments:  `{"arguments":"x"}`, messages: []string{"user: Caf\ufffd x"},
			problems: []problem{{Doubtful, ".claude/commands/l.md", "It is not UTF-8 text"}},
		}, {
			name: "command", file: ".claude/commands/fix-issue.md",
			content:    "---\ndescription: Fix an issue\nargument-hint: [issue]\n---\n\nFix issue $ARGUMENTS. {{x}}\n## user\nAnd $ARGUMENTS again.\n",
			definition: `{"name":"fix-issue","description":"Fix an issue","arguments":[{"name":"arguments","description":"[issue]"}]}`,
			arguments:  `{"arguments":"12 high"}`,
			messages:   []string{"user: Fix issue 12 high. {{x}}\n## user\nAnd 12 high again."},
		}, {
			name: "command with words", file: "x/.claude/commands/git/review.md",
			content:    "---\nargument-hint: [pr-number] [priority] <assignee name>\n---\nReview #$0 ($1) for $2, costs $100, $1x.",
			definition: `{"name":"git:review","description":"Review #$0 ($1) for $2, costs $100, $1x.","arguments":[{"name":"pr-number"},{"name":"priority"},{"name":"assignee-name"}]}`,
			arguments:  `{"pr-number":"7","assignee-name":"bo"}`,
			messages:   []string{"user: Review #7 ($1) for bo, costs $100, $1x."},
		}, {
			name: "command with all and single words", file: ".claude/commands/c.md",
			content:    "All: $ARGUMENTS; $ARGUMENTS[1], awk '{print \\$2}' $0 $9.",
			definition: `{"name":"c","description":"All: $ARGUMENTS; $ARGUMENTS[1], awk '{print \\$2}' $0 $9.","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"\u0061 \"b b\"\n c"}`,
			messages:   []string{"user: All: a \"b b\"\n c; b b, awk '{print $2}' a $9."},
		}, {
			name: "command as it was once written", file: ".claude/commands/old.md",
			content:    "---\nargument-hint: [issue] [priority]\n---\nFix\n$1 ($2)",
			definition: `{"name":"old","description":"Fix","arguments":[{"name":"arguments","description":"[issue] [priority]"}]}`,
			arguments:  `{"arguments":"12 high"}`,
			messages:   []string{"user: Fix\nhigh ($2)"},
			problems:   []problem{{Doubtful, ".claude/commands/old.md:5", "$1 is word number 2: Claude Code counts from $0"}},
		}, {
			name: "command with what a prompt cannot have", file: ".claude/commands/a.md",
			content:    "---\nallowed-tools: Bash(git add:*), Bash(git status:*)\ndescription: Make a commit: fast\nmodel: opus\ndisable-model-invocation: true\n---\n# Commit\n\n- status: !`git status`\nSee @src/main.go and a@b.example, ${CLAUDE_EFFORT}\n",
			definition: `{"name":"a","description":"Make a commit: fast","arguments":[{"name":"arguments"}]}`,
			arguments:  `{}`,
			messages:   []string{"user: # Commit\n\n- status: !`git status`\nSee @src/main.go and a@b.example, ${CLAUDE_EFFORT}"},
			problems: []problem{
				{Unserved, ".claude/commands/a.md:2", `"allowed-tools" in the front matter has no effect in a prompt`},
				{Unserved, ".claude/commands/a.md:4", `"model" in the front matter`},
				{Unserved, ".claude/commands/a.md:9", "A prompt runs no commands"},
				{Unserved, ".claude/commands/a.md:10", "A prompt includes no files"},
				{Unserved, ".claude/commands/a.md:10", "Only Claude Code has a value for ${CLAUDE_EFFORT}"},
			},
		}, {
			name: "command without front matter", file: ".claude/commands/b.md",
			content:    "# Find $0\n---\nText",
			definition: `{"name":"b","description":"Find $0","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"it"}`,
			messages:   []string{"user: # Find it\n---\nText"},
		}, {
			name: "prompt file", file: ".github/prompts/readme.prompt.md",
			content:    "---\nmode: 'agent'\ntools: ['codebase', 'search']\ndescription: 'Create a README'\n---\nWrite ${input:title:the title: of it} for ${input:who}, ${input:title}. Look at ${selection} and #file:src/a.ts\n[style](../style.md) [web](https://example.com) ${HOME}\n",
			definition: `{"name":"readme","description":"Create a README","arguments":[{"name":"title","description":"the title: of it"},{"name":"who"},{"name":"arguments"}]}`,
			arguments:  `{"title":"T","arguments":"in \"Go\""}`,
			messages:   []string{"user: Write T for ${input:who}, T. Look at ${selection} and #file:src/a.ts\n[style](../style.md) [web](https://example.com) ${HOME}\n\nin \"Go\""},
			problems: []problem{
				{Doubtful, ".github/prompts/readme.prompt.md:2", "mode"},
				{Doubtful, ".github/prompts/readme.prompt.md:3", "tools"},
				{Unserved, ".github/prompts/readme.prompt.md:6", "Only VS Code resolves #file:src/a.ts"},
				{Unserved, ".github/prompts/readme.prompt.md:6", "Only the editor has a value for ${selection}"},
				{Unserved, ".github/prompts/readme.prompt.md:7", "The linked file ../style.md is not part of the prompt"},
			},
		}, {
			name: "prompt file with inputs that are none, and its own arguments", file: "a.prompt.md",
			content:    "---\nargument-hint: [what]\n---\n${input:Category|Technical} ${input:} ${input:arguments:all}",
			definition: `{"name":"a","arguments":[{"name":"arguments","description":"all"}]}`,
			arguments:  `{"arguments":"x"}`,
			messages:   []string{"user: ${input:Category|Technical} ${input:} x"},
		}, {
			name: "prompt file without inputs", file: "b.prompt.md", content: "---\nargument-hint: [what]\n---\nPlan.",
			definition: `{"name":"b","arguments":[{"name":"arguments","description":"[what]"}]}`,
			arguments:  `{"arguments":"x"}`,
			messages:   []string{"user: Plan.\n\nx"},
		}, {
			name: "command without a placeholder", file: ".claude/commands/plain.md", content: "Plan.",
			definition: `{"name":"plain","description":"Plan.","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"all of it"}`,
			messages:   []string{"user: Plan.\n\nARGUMENTS: all of it"},
		}, {
			name: "skill", file: "skills/pdf/SKILL.md",
			content:    "---\nname: pdf-forms\ndescription: Fill in forms. Use it when: a PDF comes up\nlicense: MIT\n---\n\n# PDF\n\n    indented {{x}} \\$1\n\nSee [forms](FORMS.md).\n",
			definition: `{"name":"pdf","title":"pdf-forms","description":"Fill in forms. Use it when: a PDF comes up","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"form 7"}`,
			messages:   []string{"user: # PDF\n\n    indented {{x}} $1\n\nSee [forms](FORMS.md).\n\nARGUMENTS: form 7"},
			problems: []problem{
				{Doubtful, "skills/pdf/SKILL.md:4", "license"},
				{Unserved, "skills/pdf/SKILL.md:11", "The linked file FORMS.md is not part of the prompt"},
			},
		}, {
			name: "skill with named arguments", file: "skills/fix/SKILL.md",
			content:    "---\ndescription: Fix\nargument-hint: \"[issue] [branch]\"\narguments: [issue, issue-branch]\n---\nFix $issue on $issue-branch, $issues, \\$issue: $1 of $ARGUMENTS; $HOME\n",
			definition: `{"name":"fix","description":"Fix","arguments":[{"name":"issue"},{"name":"issue-branch"}]}`,
			arguments:  `{"issue":"login page"}`,
			messages:   []string{"user: Fix login page on , $issues, $issue: $1 of login page; $HOME"},
		}, {
			name: "command of OpenCode", file: "x/.opencode/command/git/log.md",
			content:    "---\ndescription: Log\nagent: build\n---\n$1: $2 of !`git log` @src/a.go",
			definition: `{"name":"git/log","description":"Log","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"a 'b c' d"}`,
			messages:   []string{"user: a: b c d of !`git log` @src/a.go"},
			problems: []problem{
				{Unserved, "x/.opencode/command/git/log.md:3", `"agent" in the front matter`},
				{Unserved, "x/.opencode/command/git/log.md:5", "A prompt runs no commands"},
				{Unserved, "x/.opencode/command/git/log.md:5", "A prompt includes no files"},
			},
		}, {
			name: "command of OpenCode without placeholders", file: ".opencode/commands/fix.md", content: "Fix it.\n",
			definition: `{"name":"fix","description":"Fix it.","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"the \"login\""}`,
			messages:   []string{"user: Fix it.\n\nthe \"login\""},
		}, {
			name: "command of Cursor", file: ".cursor/commands/tidy.md", content: "# Tidy\n$1 $ARGUMENTS {{x}}",
			definition: `{"name":"tidy","description":"Tidy","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"now"}`,
			messages:   []string{"user: # Tidy\n$1 $ARGUMENTS {{x}}\n\nnow"},
		}, {
			name: "command of Gemini CLI", file: ".gemini/commands/git/commit.toml",
			content:    "description = \"Commit\"\nmodel = 1\nprompt = \"\"\"\nCommit {{args}}:\n!{git diff} @{a.md}\n\"\"\"\n",
			definition: `{"name":"git:commit","description":"Commit","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"{{args}} !{x}"}`,
			messages:   []string{"user: Commit {{args}} !{x}:\n!{git diff} @{a.md}"},
			problems: []problem{
				{Unserved, ".gemini/commands/git/commit.toml:5", "A prompt runs no commands"},
				{Unserved, ".gemini/commands/git/commit.toml:5", "A prompt includes no files"},
			},
		}, {
			name: "command of Gemini CLI over lines", file: ".gemini/commands/lines.toml",
			content:    "prompt = \"\"\"{{args}}\n!{\ngit diff\n}\n@{\na.md}\"\"\"\n",
			definition: `{"name":"lines","description":"{{args}}","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"x"}`,
			messages:   []string{"user: x\n!{\ngit diff\n}\n@{\na.md}"},
			problems: []problem{
				{Unserved, ".gemini/commands/lines.toml:2", "A prompt runs no commands"},
				{Unserved, ".gemini/commands/lines.toml:5", "A prompt includes no files"},
			},
		}, {
			name: "command of OpenCode over lines", file: ".opencode/command/lines.md", content: "$ARGUMENTS !`\ngit log\n`.",
			definition: `{"name":"lines","description":"$ARGUMENTS !` + "`" + `","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"x"}`,
			messages:   []string{"user: x !`\ngit log\n`."},
			problems:   []problem{{Unserved, ".opencode/command/lines.md:1", "A prompt runs no commands"}},
		}, {
			name: "command of Gemini CLI without a placeholder", file: ".gemini/commands/plan.toml", content: `prompt = "Plan."`,
			definition: `{"name":"plan","description":"Plan.","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"a b"}`,
			messages:   []string{"user: Plan.\n\n/plan a b"},
		}, {
			name: "skill with hopeless front matter", file: "a/SKILL.md",
			content:    "---\n- [\n---\nText",
			definition: `{"name":"a","description":"Text","arguments":[{"name":"arguments"}]}`,
			arguments:  `{}`,
			messages:   []string{"user: Text"},
			problems:   []problem{{Unserved, "a/SKILL.md:1", "The front matter is ignored: the front matter is not YAML"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			prompt, problems := disk{test.file: test.content}.read(test.file)
			if prompt == nil {
				t.Fatal(problems)
			}
			if got := strings.Replace(string(prompt.Definition), `,"_meta":{"io.github.promptweir/template":true}`, "", 1); got != test.definition {
				t.Errorf("definition\n%s, want\n%s", got, test.definition)
			}
			if diff := cmp.Diff(test.messages, render(t, prompt, test.arguments)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			checkProblems(t, test.file, problems, test.problems...)
			if _, err := wire.ParseObject(prompt.Definition); err != nil {
				t.Error(err)
			}
		})
	}
}

// What people write after a command arrives as in Claude Code 2.1 from its own folder. From there it has been read off.
func TestRender_ReadsCommandLinesAsClaudeCode(t *testing.T) {
	words := disk{".claude/commands/w.md": "$0|$1|$2 $ARGUMENTS"}.prompt(t, ".claude/commands/w.md")
	for typed, want := range map[string]string{
		``: `$0|$1|$2`, `a`: `a|$1|$2 a`, `"login page" b`: `login page|b|$2 "login page" b`, `  a    b`: `a|b|$2   a    b`,
		`"" b`: `|b|$2 "" b`, `'it''s' "a\"b" c\ d`: `its|a\"b|c d 'it''s' "a\"b" c\ d`, `a"b c"d e`: `ab cd|e|$2 a"b c"d e`,
		`"open x y`: `"open x y|$1|$2 "open x y`, `don't x`: `don't x|$1|$2 don't x`, `$0 $ARGUMENTS`: `$0|$ARGUMENTS|$2 $0 $ARGUMENTS`,
		`a=b >c;d #e`: `a=b|>c;d|#e a=b >c;d #e`, "a\nb": "a|b|$2 a\nb", `x\`: `x\|$1|$2 x\`,
	} {
		got := render(t, words, string(wire.Object{}.With("arguments", wire.Quote(typed)).JSON()))
		if want = "user: " + want; strings.TrimRight(got[0], " ") != want {
			t.Errorf("%s gives %s, want %s", typed, got[0], want)
		}
	}
	for _, test := range []struct{ name, content, arguments, want string }{
		{"pieces of quoted words", "---\narguments: a b c\n---\n$a|$b|$2 [$ARGUMENTS]", `{"a":"\"login","b":"page\"","c":"high"}`, `login page|high|$2 ["login page" high]`},
		{"a quoted word", "---\narguments: a b\n---\n$a|$b", `{"a":"\"x\"","b":"y"}`, `x|y`},
		{"fields with blanks", "---\narguments: a b\n---\n$a|$b", `{"a":"\"login","b":"the \"page\""}`, `"login|the "page"`},
		{"an apostrophe", "---\narguments: a b\n---\n$a|$b", `{"a":"don't","b":"x"}`, `don't|x`},
		{"a field left out", "---\narguments: a b\n---\n$a|$b|$0", `{"b":"'x'"}`, `|'x'|$0`},
		{"not a text", "---\narguments: a\n---\n$a", `{"a":[1,"b"]}`, `[1,"b"]`},
		{"a line that no placeholder gets", "---\nargument-hint: [words]\n---\nHelp.\n", `{"arguments":"a \"b\""}`, "Help.\n\nARGUMENTS: a \"b\""},
		{"a line without the word of a placeholder", "Only \\$0 and $0 and $5", `{"arguments":""}`, "Only $0 and $0 and $5"},
		{"a word that the text does not reach", "---\narguments: a\n---\nHelp", `{"a":"b"}`, "Help\n\nARGUMENTS: b"},
		{"two backslashes", `\\$0 \$HOME`, `{"arguments":"a"}`, `\\a \$HOME`},
	} {
		prompt, _ := disk{"s/SKILL.md": test.content}.read("s/SKILL.md")
		if got := render(t, prompt, test.arguments); got[0] != "user: "+test.want {
			t.Errorf("%s: %s, want %s", test.name, got[0], test.want)
		}
	}
	// They have the same text and definition, and a pass keeps a prompt that is the same.
	const file = ".claude/commands/w.md"
	if (disk{file: "$0"}).prompt(t, file).same(disk{file: "---\narguments: arguments\n---\n$0"}.prompt(t, file)) {
		t.Error("a line is the same as an argument")
	}
}

func TestParse_SaysWhichPromptsAreTemplates(t *testing.T) {
	for _, test := range []struct {
		file, content string
		want          bool
	}{
		{"a.md", "---\narguments: [{name: v, default: d}]\n---\n{{v}}", true},
		{".claude/commands/all.md", "All: $ARGUMENTS", true},
		{".claude/commands/named.md", "---\narguments: a b\n---\n$b $a $1 $9", true},
		{".claude/commands/rest.md", "---\nargument-hint: [words]\n---\nHelp.", true},
		{".claude/commands/words.md", "$0 of $ARGUMENTS", false}, // one argument is cut into words
		{".opencode/command/rest.md", "$1 and $2", false},
		{".gemini/commands/a.toml", "prompt = \"{{args}}\"", true},
	} {
		definition := string(disk{test.file: test.content}.prompt(t, test.file).Definition)
		if got := strings.Contains(definition, `"io.github.promptweir/template":true`); got != test.want {
			t.Errorf("%s is a template: %t, want %t", test.file, got, test.want)
		}
	}
}

func TestParse_ServesNoPromptThatPeopleCannotChoose(t *testing.T) {
	prompt, problems := disk{"s/SKILL.md": "---\nuser-invocable: false\nmodel: x\n---\nx"}.read("s/SKILL.md")
	if prompt != nil || len(problems) > 0 {
		t.Errorf("%+v, %v, want neither a prompt nor a problem", prompt, problems)
	}
}

func TestParse_RefusesPromptsOfCodexWithARemedy(t *testing.T) {
	prompt, problems := disk{".codex/prompts/a.md": "$1"}.read(".codex/prompts/a.md")
	if prompt != nil {
		t.Errorf("it is served: %+v", prompt)
	}
	checkProblems(t, "a.md", problems, problem{Broken, ".codex/prompts/a.md", "Custom prompts are no longer read by Codex; move it to the folder of a skill"})
}

func TestParse_ReportsOnlyMentionsOfFiles(t *testing.T) {
	for text, want := range map[string]bool{
		"See @src/main.go.": true, "(@README.md)": true, "@./scripts and": true, "@docs/api/v2": true, "@~/notes.md": true,
		"@types/node": false, "@app.get(\"/a.md\")": false, "@pytest.mark.slow": false, "@dataclass": false, "a@b.example": false,
		"```\n@src/main.go\n```": false, "```\n```\n@src/main.go": true,
	} {
		_, problems := disk{".claude/commands/a.md": text}.read(".claude/commands/a.md")
		if got := len(problems) == 1 && strings.HasPrefix(problems[0].Detail, "A prompt includes no files"); got != want || len(problems) > 1 {
			t.Errorf("%s: %v, want a report %t", text, problems, want)
		}
	}
}

func TestParse_ReportsTheLinksOfAFileOnce(t *testing.T) {
	_, problems := disk{"s/SKILL.md": "[a](a.md)\n[b](b.md) [c](c.md)\n[d](d.md) [e](e.md)"}.read("s/SKILL.md")
	checkProblems(t, "links", problems, problem{Unserved, "s/SKILL.md:1", "The linked files a.md, b.md, c.md and 2 more are not part of the prompt"})
}

func TestParse_RefusesTOMLThatIsNoCommand(t *testing.T) {
	const file = ".gemini/commands/a.toml"
	for content, want := range map[string]string{
		"\nprompt = [":                      "a.toml:2",
		"prompt = 3":                        "Prompt is not a string; write it like prompt",
		"prompt = \"x\"\ndescription = [1]": "Description is not a string; write it like description",
		"description = \"x\"":               "It has no text; write it like prompt",
		"prompt = \"" + strings.Repeat("x", maxTOML) + "\"": "larger than 65536 bytes",
		"x = " + strings.Repeat("[", maxTOML-10):            "a.toml:1",
	} {
		prompt, problems := disk{file: content}.read(file)
		if prompt != nil || len(problems) != 1 || !strings.Contains(problems[0].Place()+problems[0].Detail, want) {
			t.Errorf("%.20s: %v, want one with %s", content, problems, want)
		}
	}
}
