package clientsetup

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/clients"
)

func TestReadme_HasEveryClient(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range For("URL", "prompts", Open) {
		if !strings.Contains(string(readme), "\n| "+c.Title+" | ") {
			t.Errorf("README lacks %s", c.Title)
		}
		if !strings.HasPrefix(c.Text, "{") && !strings.Contains(string(readme), strings.TrimSuffix(strings.Split(c.Text, " URL")[0], " --cli")) {
			t.Errorf("README says otherwise for %s than %s", c.Title, c.Text)
		}
	}
}

// The table of losses is that of package clients, row by row.
func TestReadme_HasWhatClientsLose(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "\n| client | seen | loses at the endpoint | at `/flat` | through `sync` |\n| --- | --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, c := range clients.All() {
		want = append(want, "| "+strings.Join(c.Row(), " | ")+" |")
	}
	if diff := cmp.Diff(want, strings.Split(table, "\n")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
