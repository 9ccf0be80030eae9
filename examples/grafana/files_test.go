// Package grafana_test checks the dashboard and the alert rules against each other, the gateway and a real Prometheus.
package grafana_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rule is an alert in rules.yaml.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "rules.yaml")))
	decoder.KnownFields(true)
	check(t, decoder.Decode(&file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("rules.yaml has %d groups, want one with rules", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// panel is one of the dashboard, or a row of them.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Grid        struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []struct {
		Expr  string `json:"expr"`
		RefID string `json:"refId"`
	} `json:"targets"`
}

// dashboard has those parts of the file that the tests are about.
type dashboard struct {
	Panels      []panel `json:"panels"`
	Annotations struct {
		List []struct {
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	check(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &d))
	return d
}

// expressions returns the PromQL of the dashboard and of the rules, by where it is. Grafana's variables have values.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, r := range readRules(t) {
		found["alert "+r.Alert] = r.Expr
	}
	variables := strings.NewReplacer("$job", ".*", "$team", ".*", "$upstream", ".*", "$__rate_interval", "1m", "$__range", "1h")
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			found["panel "+p.Title+" "+target.RefID] = variables.Replace(target.Expr)
		}
	}
	for _, annotation := range d.Annotations.List {
		found["annotation"] = variables.Replace(annotation.Expr)
	}
	return found
}

func TestDashboard_HasWhatAReaderNeeds(t *testing.T) {
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("the panel %d %q has the number of another, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
			for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("the panel %q covers %q, or is too wide", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			bySeries := strings.Contains(target.Expr, "promptweir_upstream") && p.Type != "stat" && p.Type != "table"
			if bySeries && (!strings.Contains(target.Expr, "topk(") && !strings.Contains(target.Expr, "bottomk(") ||
				!strings.Contains(target.Expr, `promptweir_upstream=~"$upstream"`)) {
				t.Errorf("the panel %q shows all upstreams: %s", p.Title, target.Expr)
			}
		}
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("the panel %q has no description, or no query", p.Title)
		}
	}
	for where, expr := range expressions(t) {
		if strings.Contains(expr, "$") {
			t.Errorf("%s has a variable that the dashboard does not define: %s", where, expr)
		}
	}
}

func TestRules_SayHowBadAndWhatToDo(t *testing.T) {
	tests := read(t, "rules_test.yaml")
	for _, r := range readRules(t) {
		if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || !strings.HasSuffix(r.Annotations["runbook_url"], "#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s has no summary, or leads to %q", r.Alert, r.Annotations["runbook_url"])
		}
		if !strings.Contains(tests, "alertname: "+r.Alert+"\n") {
			t.Errorf("%s is not tested in rules_test.yaml", r.Alert)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	return string(text)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
