package config

import (
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
