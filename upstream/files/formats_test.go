package files

import (
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
			name: "command", file: ".claude/commands/fix-issue.md",
			content:    "---\ndescription: Fix an issue\nargument-hint: [issue]\n---\n\nFix issue $ARGUMENTS. {{x}}\n## user\nAnd $ARGUMENTS again.\n",
			definition: `{"name":"fix-issue","description":"Fix an issue","arguments":[{"name":"arguments","description":"[issue]"}]}`,
			arguments:  `{"arguments":"12 high"}`,
			messages:   []string{"user: Fix issue 12 high. {{x}}\n## user\nAnd 12 high again."},
		}, {
			name: "command with words", file: "x/.claude/commands/git/review.md",
			content:    "---\nargument-hint: [pr-number] [priority] <assignee name>\n---\nReview #$1 ($2) for $3, costs $100.",
			definition: `{"name":"git:review","description":"Review #$1 ($2) for $3, costs $100.","arguments":[{"name":"pr-number"},{"name":"priority"},{"name":"assignee-name"}]}`,
			arguments:  `{"pr-number":"7","assignee-name":"bo"}`,
			messages:   []string{"user: Review #7 () for bo, costs $100."},
		}, {
			name: "command with all and single words", file: ".claude/commands/c.md",
			content:    "All: $ARGUMENTS; awk '{print $2}' $1 $9.",
			definition: `{"name":"c","description":"All: $ARGUMENTS; awk '{print $2}' $1 $9.","arguments":[{"name":"arguments"}]}`,
			arguments:  `{"arguments":"\u0061 \"b\"\n c"}`,
			messages:   []string{"user: All: a \"b\"\n c; awk '{print \"b\"}' a ."},
		}, {
			name: "command with what a prompt cannot have", file: ".claude/commands/a.md",
			content:    "---\nallowed-tools: Bash(git add:*), Bash(git status:*)\ndescription: Make a commit: fast\nmodel: opus\ndisable-model-invocation: true\n---\n# Commit\n\n- status: !`git status`\nSee @src/main.go and a@b.example, $ARGUMENTS[0]\n",
			definition: `{"name":"a","description":"Make a commit: fast"}`,
			arguments:  `{}`,
			messages:   []string{"user: # Commit\n\n- status: !`git status`\nSee @src/main.go and a@b.example, $ARGUMENTS[0]"},
			problems: []problem{
				{Unserved, ".claude/commands/a.md:2", `"allowed-tools" of the front matter has no place in a prompt`},
				{Unserved, ".claude/commands/a.md:4", `"model" of the front matter`},
				{Unserved, ".claude/commands/a.md:9", "A prompt runs no commands"},
				{Unserved, ".claude/commands/a.md:10", "A prompt brings no files along"},
				{Unserved, ".claude/commands/a.md:10", "$ARGUMENTS[0] is text"},
			},
		}, {
			name: "command without front matter", file: ".claude/commands/b.md",
			content:    "# Find $1\n---\nText",
			definition: `{"name":"b","description":"Find $1","arguments":[{"name":"arg1"}]}`,
			arguments:  `{"arg1":"it"}`,
			messages:   []string{"user: # Find it\n---\nText"},
		}, {
			name: "prompt file", file: ".github/prompts/readme.prompt.md",
			content:    "---\nmode: 'agent'\ntools: ['codebase', 'search']\ndescription: 'Create a README'\n---\nWrite ${input:title:the title: of it} for ${input:who}, ${input:title}. Look at ${selection} and #file:src/a.ts\n[style](../style.md) [web](https://example.com) ${HOME}\n",
			definition: `{"name":"readme","description":"Create a README","arguments":[{"name":"title","description":"the title: of it","required":true},{"name":"who","required":true}]}`,
			arguments:  `{"title":"T","who":"W"}`,
			messages:   []string{"user: Write T for W, T. Look at ${selection} and #file:src/a.ts\n[style](../style.md) [web](https://example.com) ${HOME}"},
			problems: []problem{
				{Unserved, ".github/prompts/readme.prompt.md:2", `"mode" of the front matter`},
				{Unserved, ".github/prompts/readme.prompt.md:3", `"tools" of the front matter`},
				{Unserved, ".github/prompts/readme.prompt.md:6", "#file:src/a.ts means something only in VS Code"},
				{Unserved, ".github/prompts/readme.prompt.md:6", "Only the editor knows what ${selection} is"},
				{Unserved, ".github/prompts/readme.prompt.md:7", "The linked file ../style.md does not go along"},
			},
		}, {
			name: "skill", file: "skills/pdf/SKILL.md",
			content:    "---\nname: pdf-forms\ndescription: Fill in forms. Use it when: a PDF comes up\nlicense: MIT\n---\n\n# PDF\n\n    indented {{x}} $1\n\nSee [forms](FORMS.md).\n",
			definition: `{"name":"pdf-forms","description":"Fill in forms. Use it when: a PDF comes up"}`,
			arguments:  `{}`,
			messages:   []string{"user: # PDF\n\n    indented {{x}} $1\n\nSee [forms](FORMS.md)."},
			problems: []problem{
				{Unserved, "skills/pdf/SKILL.md:4", `"license" of the front matter`},
				{Unserved, "skills/pdf/SKILL.md:11", "The linked file FORMS.md does not go along"},
			},
		}, {
			name: "skill with hopeless front matter", file: "a/SKILL.md",
			content:    "---\n- [\n---\nText",
			definition: `{"name":"a"}`,
			arguments:  `{}`,
			messages:   []string{"user: Text"},
			problems:   []problem{{Unserved, "a/SKILL.md:1", "Nothing of the front matter counts, since the front matter is not YAML"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			prompt, problems := disk{test.file: test.content}.read(test.file)
			if prompt == nil {
				t.Fatal(problems)
			}
			if got := string(prompt.Definition); got != test.definition {
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
