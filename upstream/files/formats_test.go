package files

import (
	"cmp"
	"flag"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/promptweir/promptweir/upstream/wire"
)

var update = flag.Bool("update", false, "rewrite the archives in testdata") //nolint:gochecknoglobals // a flag

// The archives have files for each case: a prompt file and what it includes, the arguments of a get, and the prompt's
// definition, its messages and its problems. Prompts in broken.txtar are not served.
func TestParse_ReadsWhatPeopleWrite(t *testing.T) {
	severities := map[Severity]string{Broken: "broken", Unserved: "unserved", Doubtful: "doubtful"}
	for _, file := range []string{"testdata/formats.txtar", "testdata/broken.txtar"} {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files, first, arguments := disk{}, "", "{}"
		for i, part := range archive.Files {
			name, path, isInput := strings.Cut(part.Name, "/")
			switch {
			case isInput:
				files[path], first = string(part.Data), cmp.Or(first, path)
				continue
			case strings.HasSuffix(name, " gets"):
				arguments = string(part.Data)
				continue
			}
			is := []string{"not served"}
			prompt, problems := files.read(first)
			if prompt != nil {
				if _, err := wire.ParseObject(prompt.Definition); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				is = append([]string{string(prompt.Definition)}, render(t, prompt, arguments)...)
			}
			for _, p := range problems {
				is = append(is, severities[p.Severity]+": "+p.String())
			}
			got := strings.Join(is, "\n") + "\n"
			if diff := gocmp.Diff(string(part.Data), got); diff != "" && !*update {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			archive.Files[i].Data = []byte(got)
			files, first, arguments = disk{}, "", "{}"
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A command line has the same effect as in Claude Code 2.1, from which these results were copied.
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
	// They have the same text and definition, and a pass keeps a prompt that is the same.
	const file = ".claude/commands/w.md"
	if (disk{file: "$0"}).prompt(t, file).same(disk{file: "---\narguments: arguments\n---\n$0"}.prompt(t, file)) {
		t.Error("a line is the same as an argument")
	}
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
