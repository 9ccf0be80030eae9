package kubernetes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// The real command with the volumes of the pod, as kubelet lays them out: the files are links into a folder that is a link, and a
// change of a ConfigMap swaps that.
func TestProduction_RunsWithWhatIsMounted(t *testing.T) {
	objects := render(t, production)
	root := t.TempDir()
	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	mounted := mount(t, root, objects, pod, "..2026_11_22_05_00_00.123", gatewayHere(root))
	promptweir := buildCommand(t)

	args := pod.Containers[0].Args
	config := filepath.Join(root, args[2])
	out, err := exec.CommandContext(t.Context(), promptweir, "validate", "--strict", "--config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "is valid: 2 teams, 2 upstreams") {
		t.Fatalf("promptweir validate: %v\n%s", err, out)
	}

	admin, stop := serve(t, promptweir, append([]string{args[0], args[1], config}, args[3:]...))
	await(t, "readiness", func() bool {
		code, _ := call(t, http.MethodGet, admin+"/readyz")
		return code == http.StatusOK
	})
	await(t, "two prompts", func() bool { return strings.Contains(page(t, admin+"/metrics"), "\npromptweir_catalog_entries 2\n") })
	if code, _ := call(t, http.MethodPost, admin+"/-/reload"); code != http.StatusForbidden && code != http.StatusUnauthorized {
		t.Errorf("anybody can reload: HTTP %d", code)
	}

	docs := all[*core.ConfigMap](objects)["team-docs"]
	docs.Data["incident_report.md"] = strings.ReplaceAll(docs.Data["incident_report.md"], "title: Write an incident report", "name: [")
	docs.Data["docs.hcl"] = strings.Replace(docs.Data["docs.hcl"], `["*.md"]`, `["shift*.md"]`, 1)
	mount(t, root, objects, pod, "..2026_11_22_06_00_00.456", gatewayHere(root))
	await(t, "the changed ConfigMap", func() bool {
		return strings.Contains(page(t, admin+"/metrics"), "\npromptweir_catalog_entries 1\n")
	})
	if len(mounted) != 3 {
		t.Errorf("%d ConfigMaps are mounted, want those of the platform and two teams", len(mounted))
	}
	stop()
}

// buildCommand builds the command.
func buildCommand(t *testing.T) (promptweir string) {
	t.Helper()
	promptweir = filepath.Join(t.TempDir(), "promptweir")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", promptweir, "./cmd/promptweir")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return promptweir
}

// gatewayHere are the changes to the configuration with which a gateway runs on this machine: its state is beneath root, and the ports
// are free ones.
func gatewayHere(root string, more ...string) *strings.Replacer {
	return strings.NewReplacer(append(more,
		"/var/lib/promptweir", root+"/var/lib/promptweir", "0.0.0.0:8080", "127.0.0.1:0", "0.0.0.0:8081", "127.0.0.1:0")...)
}

// mount lays out the volumes of a pod beneath root, in a new version, with changes to the ConfigMaps, and returns their folders.
func mount(
	t *testing.T, root string, objects []object, pod core.PodSpec, version string, local *strings.Replacer,
) (configMaps []string) {
	t.Helper()
	folders := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		folders[m.Name] = filepath.Join(root, m.MountPath)
		check(t, os.MkdirAll(folders[m.Name], 0o755))
	}
	for _, volume := range pod.Volumes {
		files := map[string]string{}
		switch {
		case volume.ConfigMap != nil:
			configMaps = append(configMaps, folders[volume.Name])
			for _, item := range volume.ConfigMap.Items {
				files[item.Path] = local.Replace(all[*core.ConfigMap](objects)[volume.ConfigMap.Name].Data[item.Key])
			}
		case volume.Secret != nil:
			for key, value := range all[*core.Secret](objects)[volume.Secret.SecretName].Data {
				files[key] = string(value)
			}
		default:
			continue
		}
		folder := folders[volume.Name]
		check(t, os.Mkdir(filepath.Join(folder, version), 0o755))
		for name, text := range files {
			check(t, os.WriteFile(filepath.Join(folder, version, name), []byte(text), 0o600))
			if link := filepath.Join(folder, name); !exists(link) {
				check(t, os.Symlink(filepath.Join("..data", name), link))
			}
		}
		check(t, os.Symlink(version, filepath.Join(folder, "..data_tmp")))
		check(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
	}
	return configMaps
}

// serve starts the command, and returns the address of its admin listener, and a function that has it drain and end.
func serve(t *testing.T, promptweir string, args []string) (admin string, stop func()) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), promptweir, args...)
	stderr, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		var record struct {
			Msg   string `json:"msg"`
			Admin string `json:"admin"`
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Errorf("the log is not JSON: %s", lines.Text())
		}
		if record.Msg == "listening" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return record.Admin, func() {
				t.Helper()
				check(t, cmd.Process.Signal(syscall.SIGTERM))
				if err := cmd.Wait(); err != nil {
					t.Errorf("the gateway ended with %v", err)
				}
			}
		}
	}
	t.Fatal("the gateway ended without listening")
	return "", nil
}

func page(t *testing.T, url string) string {
	t.Helper()
	_, text := call(t, http.MethodGet, url)
	return text
}

// call sends a request without a credential.
func call(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	return response.StatusCode, string(text)
}

// await polls until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 30 s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The commands that make the secrets are those for which the test has files.
func TestReadme_MakesTheSecrets(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	check(t, err)
	for _, files := range secrets() {
		for name := range files {
			if !regexp.MustCompile(`>secrets/` + regexp.QuoteMeta(name) + `\b`).Match(readme) {
				t.Errorf("the README does not make secrets/%s", name)
			}
		}
	}
}
