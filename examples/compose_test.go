package examples_test

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// composition has the members of a compose file that examples/compose uses.
type composition struct {
	Name     string             `yaml:"name"`
	Services map[string]service `yaml:"services"`
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Command         []string          `yaml:"command"`
	Environment     map[string]string `yaml:"environment"`
	Volumes         []string          `yaml:"volumes"`
	Ports           []string          `yaml:"ports"`
	User            string            `yaml:"user"`
	ReadOnly        bool              `yaml:"read_only"`
	CapDrop         []string          `yaml:"cap_drop"`
	SecurityOpt     []string          `yaml:"security_opt"`
	NetworkMode     string            `yaml:"network_mode"`
	DependsOn       []string          `yaml:"depends_on"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Restart         string            `yaml:"restart"`
}

// decodeYAML decodes a file, in which each member has to be known.
func decodeYAML[T any](t *testing.T, path string) (value T) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text(t, path)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}

// A tag can be moved to other bytes, a digest can not.
func TestDockerfiles_PinTheCompilersImage(t *testing.T) {
	pinned := regexp.MustCompile(`(?m)^(?:ARG GO=|FROM )(golang:[0-9.]+@sha256:[0-9a-f]{64})\b`)
	images := map[string]bool{}
	for _, path := range []string{"../Dockerfile", "compose/handbook.Dockerfile"} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := pinned.FindSubmatch(content)
		if found == nil {
			t.Fatalf("%s names no image with a digest", path)
		}
		images[string(found[1])] = true
	}
	if len(images) > 1 {
		t.Errorf("several compilers: %v", images)
	}
}

func TestCompose_MountsAndBuildsWhatExists(t *testing.T) {
	services := decodeYAML[composition](t, "compose/compose.yaml").Services
	want := []string{"collector", "everything", "grafana", "handbook", "prometheus", "promptweir"}
	if diff := gocmp.Diff(want, slices.Sorted(maps.Keys(services))); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	exists := func(name, path string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join("compose", filepath.FromSlash(path))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, s := range services {
		if (s.Image == "") == (s.Build.Context == "") || strings.HasSuffix(s.Image, ":latest") || s.Image != "" && !strings.Contains(s.Image, ":") {
			t.Errorf("%s has the image %q, and is built from %q: want one of them, and a version", name, s.Image, s.Build.Context)
		}
		if s.Build.Context != "" {
			exists(name, s.Build.Context+"/"+cmp.Or(s.Build.Dockerfile, "Dockerfile"))
		}
		for _, volume := range s.Volumes {
			from, to, _ := strings.Cut(volume, ":")
			exists(name, from)
			if !strings.HasSuffix(to, ":ro") {
				t.Errorf("%s may write to %s", name, from)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is published beyond this machine: %s", name, port)
			}
		}
		other, shares := strings.CutPrefix(s.NetworkMode, "service:")
		for _, needed := range s.DependsOn {
			if services[needed].Restart == "" || shares && other != needed {
				t.Errorf("%s needs %s, which is not there", name, needed)
			}
		}
	}
}

// What each program is told of the others is true: names, ports, files.
func TestCompose_ProgramsFindEachOther(t *testing.T) {
	services := decodeYAML[composition](t, "compose/compose.yaml").Services
	is := func(what, address, service, port string) {
		t.Helper()
		u, err := url.Parse(address)
		if _, ok := services[service]; err != nil || !ok || u.Hostname() != service || u.Port() != port {
			t.Errorf("%s is at %s, want the service %s, port %s", what, address, service, port)
		}
	}
	gateway, diagnostics := config.Load("compose/promptweir", config.Options{})
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics.Err())
	}
	for _, u := range gateway.Upstreams() {
		if u.Name == "handbook" { // in the gateway's network, at its default address
			if services[u.Name].NetworkMode != "service:promptweir" || u.URL != "http://127.0.0.1:9090/mcp" {
				t.Errorf("the handbook is at %v", u.URL)
			}
			continue
		}
		is(u.Name, u.URL, u.Name, services[u.Name].Environment["PORT"])
	}
	if want := gateway.Gateway.DrainDelay + gateway.Gateway.DrainTimeout + 15*time.Second; services["promptweir"].StopGracePeriod != fmt.Sprintf("%.0fs", want.Seconds()) {
		t.Errorf("the gateway has %s to end, want %v", services["promptweir"].StopGracePeriod, want)
	}

	scraped := decodeYAML[struct {
		Global struct {
			Scrape   string `yaml:"scrape_interval"`
			Evaluate string `yaml:"evaluation_interval"`
		} `yaml:"global"`
		Rules   []string `yaml:"rule_files"`
		Scrapes []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}](t, "compose/prometheus.yaml")
	is("the metrics", "http://"+scraped.Scrapes[0].Static[0].Targets[0], "promptweir", portOf(t, gateway.Admin.Listen))
	if scraped.Scrapes[0].Job != "promptweir" {
		t.Errorf("the job is called %s, want promptweir as in the alert rules", scraped.Scrapes[0].Job)
	}
	if mounts := services["prometheus"].Volumes; !slices.Contains(mounts, "../grafana/rules.yaml:/etc/prometheus/"+scraped.Rules[0]+":ro") {
		t.Errorf("the rules are in %s, and mounted are %q", scraped.Rules[0], mounts)
	}

	source := decodeYAML[struct {
		Version int `yaml:"apiVersion"`
		Sources []struct {
			Name    string            `yaml:"name"`
			UID     string            `yaml:"uid"`
			Type    string            `yaml:"type"`
			Access  string            `yaml:"access"`
			URL     string            `yaml:"url"`
			Default bool              `yaml:"isDefault"`
			JSON    map[string]string `yaml:"jsonData"`
		} `yaml:"datasources"`
	}](t, "compose/grafana/datasource.yaml")
	is("Grafana's Prometheus", source.Sources[0].URL, "prometheus", "9090")
	boards := decodeYAML[struct {
		Version   int `yaml:"apiVersion"`
		Providers []struct {
			Name    string            `yaml:"name"`
			Type    string            `yaml:"type"`
			Options map[string]string `yaml:"options"`
		} `yaml:"providers"`
	}](t, "compose/grafana/dashboards.yaml")
	home := services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if path.Dir(home) != boards.Providers[0].Options["path"] || !slices.Contains(services["grafana"].Volumes, "../grafana/dashboard.json:"+home+":ro") {
		t.Errorf("Grafana begins with %s, which is not mounted there", home)
	}

	type pipeline struct {
		Receivers []string `yaml:"receivers"`
		Exporters []string `yaml:"exporters"`
	}
	collector := decodeYAML[struct {
		Receivers struct {
			OTLP struct {
				Protocols struct {
					HTTP struct {
						Endpoint string `yaml:"endpoint"`
					} `yaml:"http"`
				} `yaml:"protocols"`
			} `yaml:"otlp"`
		} `yaml:"receivers"`
		Exporters map[string]map[string]string `yaml:"exporters"`
		Service   struct {
			Pipelines map[string]pipeline `yaml:"pipelines"`
		} `yaml:"service"`
	}](t, "compose/collector.yaml")
	is("the collector", services["promptweir"].Environment["OTEL_EXPORTER_OTLP_ENDPOINT"], "collector", portOf(t, collector.Receivers.OTLP.Protocols.HTTP.Endpoint))
	for name, p := range collector.Service.Pipelines {
		if _, ok := collector.Exporters[p.Exporters[0]]; !ok || p.Receivers[0] != "otlp" {
			t.Errorf("the pipeline %s is %v", name, p)
		}
	}
}

// The gateway's own configuration, with the real handbook. The server from npm is not there.
func TestCompose_GatewayServesItsConfiguration(t *testing.T) {
	dir := t.TempDir()
	bin, folder := filepath.Join(dir, "bin"), filepath.Join(dir, "promptweir")
	proctest.Build(t, bin, "./cmd/promptweir", "./examples/servers/handbook")
	handbook := proctest.Start(t, dir, filepath.Join(bin, "handbook"), "-listen", "127.0.0.1:0", "-change-every", "0")
	proctest.CopyExample(t, folder, "compose/promptweir", "http://127.0.0.1:9090/mcp", handbook.Attr(t, "endpoint"),
		"0.0.0.0:8080", "127.0.0.1:0", "0.0.0.0:8081", "127.0.0.1:0")
	binary := filepath.Join(bin, "promptweir")
	gateway := proctest.Start(t, dir, binary, "serve", "--config", folder)
	run := example{binary: binary, endpoint: gateway.Attr(t, "endpoint")}
	run.lists(t, []string{"--token", "compose-alice"}, "handbook.incident_report", "handbook.shift_handover")

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.Attr(t, "admin")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "promptweir:8081" // as Prometheus calls it
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("Prometheus gets %s", response.Status)
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
