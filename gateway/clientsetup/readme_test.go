package clientsetup

import (
	"os"
	"strings"
	"testing"
)

func TestReadme_HasEveryClient(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range For("URL", "prompts", Open, Registration{}) {
		if !strings.Contains(string(readme), "\n| "+c.Title+" | ") {
			t.Errorf("README lacks %s", c.Title)
		}
		if c.Where == "in a shell" && !strings.Contains(string(readme), strings.TrimSuffix(strings.Split(c.Text, " URL")[0], " --cli")) {
			t.Errorf("README says otherwise for %s than %s", c.Title, c.Text)
		}
	}
}
