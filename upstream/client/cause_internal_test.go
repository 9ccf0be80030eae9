package client

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestCauses_AreInTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	verb := regexp.MustCompile(`%[sd]`)
	for kind, text := range causes {
		shown := verb.ReplaceAllString(text.problem, "…")
		if shown == "…" { // what happened says it all
			continue
		}
		if row := "| " + shown + " | " + text.remedy + " |\n"; !strings.Contains(string(readme), row) {
			t.Errorf("%s: there is no row\n%s", kind, row)
		}
		if text.remedy == "" || strings.HasSuffix(text.remedy, ".") {
			t.Errorf("%s: remedy is %q, want a clause", kind, text.remedy)
		}
	}
}
