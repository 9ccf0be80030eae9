package config

import (
	"strings"
	"testing"
)

// Where skills are served, patterns match names of one kind only. Else a prompt may have any name.
func TestSkills_HavePatternsOfTheirOwn(t *testing.T) {
	for _, test := range []struct {
		skills, pattern, name string
		want                  bool
	}{
		{`"only"`, "*", "skill:a.x", false},
		{"true", "*", "a.x", true},
		{"true", "skill:*", "skill:a.x", true},
		{"true", "skill:*", "a.x", false},
		{"true", "[s]kill:*", "skill:a.x", false},
		{"false", "*", "skill:a.x", true},
	} {
		path := write(t, "config.hcl", `team "t" {
  upstream "a" {
    url    = "https://a.example.com"
    skills = `+test.skills+`
  }
  hide "h" { prompts = ["`+test.pattern+`"] }
}`)
		cfg, diags := Load(path, Options{})
		if cfg == nil {
			t.Fatal(diags.Err())
		}
		if got := cfg.Teams[0].Hides[0].Matches(test.name); got != test.want || cfg.HasSkills() != (test.skills != "false") {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestSkills_RefusesWhatWouldBreakDigests(t *testing.T) {
	const strip = "screen \"s\" {\n invisible = true\n action = \"strip\"\n}\n"
	const upstream = "upstream \"a\" {\n url = \"https://a.example.com\"\n skills = true\n}\n"
	for text, want := range map[string]string{
		"gateway {\n" + strip + "}\nteam \"t\" {\n" + upstream + "}":           ".hcl:10: Skills cannot be stripped", // the team's mistake
		"team \"t\" {\n" + upstream + strip + "}":                              "Skills cannot be stripped",
		"team \"t\" {\n" + strings.Replace(upstream, "true", `"all"`, 1) + "}": `must be true, false or "only"`,
		"team \"t\" {\n" + upstream + "}\nteam \"u\" {\n" + strip + "}":        "",
	} {
		_, diags := Load(write(t, "config.hcl", text), Options{})
		if err := diags.Err(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
