package grafana_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func TestRules_PassPromtool(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v (it is in Debian's package prometheus)\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// examples/compose mounts the rules beside the configuration.
func TestCompose_PrometheusTakesItsConfiguration(t *testing.T) {
	folder := t.TempDir()
	for to, from := range map[string]string{"prometheus.yml": "../compose/prometheus.yaml", "rules.yaml": "rules.yaml"} {
		check(t, os.WriteFile(filepath.Join(folder, to), []byte(read(t, from)), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "config", filepath.Join(folder, "prometheus.yml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// prometheus is a real one that scrapes twice a second.
type prometheus struct {
	url     string
	targets string // the file that lists what it scrapes
}

func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	folder := t.TempDir()
	rules, err := filepath.Abs("rules.yaml")
	check(t, err)
	p := &prometheus{targets: filepath.Join(folder, "targets.json")}
	check(t, os.WriteFile(p.targets, []byte("[]"), 0o600))
	config := filepath.Join(folder, "prometheus.yml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: promptweir
    file_sd_configs: [{files: [%q], refresh_interval: 1s}]
`, rules, p.targets), 0o600))
	process := start(t, nil, "prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(folder, "data"),
		"--web.listen-address", "127.0.0.1:0")
	p.url = "http://" + process.log.find(t, `Listening on.*address=(127\.0\.0\.1:[1-9][0-9]*)`)
	await(t, "Prometheus", func() bool {
		response, err := get(t, p.url+"/-/ready")
		return err == nil && response.code == http.StatusOK
	})
	return p
}

// scrape has Prometheus scrape these addresses, and no others.
func (p *prometheus) scrape(t *testing.T, addresses ...string) {
	t.Helper()
	text, err := json.Marshal([]map[string][]string{{"targets": addresses}})
	check(t, err)
	check(t, os.WriteFile(p.targets+".new", text, 0o600))
	check(t, os.Rename(p.targets+".new", p.targets))
}

// api calls Prometheus' API, and decodes the data of its answer.
func (p *prometheus) api(t *testing.T, path string, query url.Values, data any) error {
	t.Helper()
	response, err := get(t, p.url+"/api/v1/"+path+"?"+query.Encode())
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(response.text), &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

// raised returns the names of the alerts whose condition holds, whether or not it has for long enough.
func (p *prometheus) raised(t *testing.T) (names []string) {
	t.Helper()
	var data struct {
		Alerts []struct{ Labels map[string]string }
	}
	check(t, p.api(t, "alerts", nil, &data))
	for _, alert := range data.Alerts {
		names = append(names, alert.Labels["alertname"])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The rules and the dashboard, against a real Prometheus that scrapes real gateways with each fault: all alerts are raised, none
// before its fault, and each query has an answer. Then the names in the queries are compared with those on the gateways' pages.
func TestPrometheus_SeesEachFault(t *testing.T) {
	p := startPrometheus(t)
	p.raises(t, "PromptweirAbsent", func() {})
	first, second := startFirst(t), startSecond(t)
	p.scrape(t, first.admin, second.admin)
	stream := first.listen(t)
	defer stream.Close()
	await(t, "metrics of both gateways", func() bool {
		return p.has(t, fmt.Sprintf(`count(promptweir_upstream_healthy{instance=~%q} == 1) == 5`, first.admin+"|"+second.admin))
	})
	first.get(t, "handbook.shift_handover", nil)
	second.list(t, "")
	await(t, "scrape of the list", func() bool {
		return p.has(t, `mcp_server_operation_duration_seconds_count{mcp_method_name="prompts/list"}`)
	})
	p.quiet(t)

	covered := []string{"PromptweirAbsent", "PromptweirDown"}
	// These are about gateways that share a store, which these two do not: rules_test.yaml has their series.
	covered = append(covered, "PromptweirStoreFlaps", "PromptweirStoreEvicts", "PromptweirConfigurationsDiffer")
	// About certificates, which they do not have either.
	covered = append(covered, "PromptweirCertificateExpires")
	for _, fault := range faults(first, second) {
		if fault.begin != nil {
			fault.begin(t)
		}
		for _, alert := range fault.alerts {
			p.raises(t, alert, func() {
				if fault.repeat != nil {
					fault.repeat(t)
				}
			})
		}
		covered = append(covered, fault.alerts...)
	}
	for _, r := range readRules(t) {
		if !slices.Contains(covered, r.Alert) {
			t.Errorf("no fault raises %s", r.Alert)
		}
	}

	await(t, "failed attempt to connect", func() bool { return p.has(t, `promptweir_upstream_connects_total{promptweir_reason!=""}`) })
	known := names(t, first.admin)
	for name, labels := range names(t, second.admin) {
		known[name] = append(known[name], labels...)
	}
	checkNames(t, known)
	for where, expr := range expressions(t) {
		if strings.HasPrefix(where, "panel") {
			await(t, "answer for "+where+": "+expr, func() bool { return p.has(t, expr) })
		}
	}
	second.process.stop()
	p.raises(t, "PromptweirDown", func() {})
}

// raises waits until an alert is raised, and repeats its fault until then: a rate needs two scrapes.
func (p *prometheus) raises(t *testing.T, alert string, repeat func()) {
	t.Helper()
	await(t, "alert "+alert, func() bool {
		repeat()
		return slices.Contains(p.raised(t), alert)
	})
}

// quiet waits until no alert is raised.
func (p *prometheus) quiet(t *testing.T) {
	t.Helper()
	var raised []string
	defer func() {
		if t.Failed() {
			t.Errorf("without a fault, these alerts are raised: %q", raised)
		}
	}()
	await(t, "Prometheus without an alert", func() bool {
		raised = p.raised(t)
		return len(raised) == 0
	})
}

// has reports whether a query has an answer.
func (p *prometheus) has(t *testing.T, query string) bool {
	t.Helper()
	var data struct{ Result []any }
	if err := p.api(t, "query", url.Values{"query": {query}}, &data); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return len(data.Result) > 0
}

// names returns the labels of each metric on a gateway's page.
func names(t *testing.T, admin string) map[string][]string {
	t.Helper()
	response, err := get(t, "http://"+admin+"/metrics")
	check(t, err)
	found := map[string][]string{}
	for _, sample := range regexp.MustCompile(`(?m)^(\w+)(\{.*\})? `).FindAllStringSubmatch(response.text, -1) {
		if found[sample[1]] == nil {
			found[sample[1]] = []string{"job", "instance", "namespace"} // which Prometheus adds
		}
		for _, label := range regexp.MustCompile(`[{,](\w+)="`).FindAllStringSubmatch(sample[2], -1) {
			found[sample[1]] = append(found[sample[1]], label[1])
		}
	}
	return found
}

// checkNames checks that each metric of the queries exists, with each label by which it is selected or grouped.
func checkNames(t *testing.T, known map[string][]string) {
	t.Helper()
	known["up"] = []string{"job", "instance", "namespace"} // of Prometheus itself, as is ALERTS
	// See cmd/promptweir's tests of the page.
	known["promptweir_certificate_expiry_timestamp_seconds"] = []string{"job", "instance", "namespace", "promptweir_team", "promptweir_upstream"}
	known["ALERTS"] = []string{"alertname"}
	metrics := 0
	for where, expr := range expressions(t) {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			switch node := node.(type) {
			case *parser.VectorSelector:
				metrics++
				if known[node.Name] == nil {
					t.Errorf("%s: there is no metric %s", where, node.Name)
					return nil
				}
				for _, matcher := range node.LabelMatchers {
					if matcher.Name != model.MetricNameLabel && !slices.Contains(known[node.Name], matcher.Name) {
						t.Errorf("%s: %s has no label %s", where, node.Name, matcher.Name)
					}
				}
			case *parser.AggregateExpr:
				var all []string // of one side or the other: the label may be that of either
				for _, selector := range parser.ExtractSelectors(node.Expr) {
					name := selector[slices.IndexFunc(selector, func(m *labels.Matcher) bool { return m.Name == model.MetricNameLabel })].Value
					all = append(all, known[name]...)
				}
				for _, label := range node.Grouping {
					if !slices.Contains(all, label) {
						t.Errorf("%s: no metric of %s has a label %s", where, node.Expr, label)
					}
				}
			}
			return nil
		})
	}
	if metrics == 0 {
		t.Error("the queries name no metrics")
	}
}
