package kubernetes_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// renderChart returns the chart's objects for values, as helm template does, each decoded strictly into its type.
func renderChart(t *testing.T, values map[string]any) []object {
	t.Helper()
	chart, err := loader.Load("chart")
	check(t, err)
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "promptweir", Namespace: "promptweir"}, nil)
	check(t, err)
	files, err := engine.Render(chart, all)
	check(t, err)
	objects, err := decode([]byte(strings.Join(slices.Collect(maps.Values(files)), "\n---\n")))
	check(t, err)
	return objects
}

// What the chart and the base both have is the same, so that a change of one is not forgotten in the other.
func TestChart_IsTheBase(t *testing.T) {
	chart, base := renderChart(t, nil), render(t, "base")
	same := func(what string, chart, base any) {
		t.Helper()
		if diff := cmp.Diff(base, chart); diff != "" {
			t.Errorf("%s (-base +chart):\n%s", what, diff)
		}
	}
	same("the NetworkPolicy", only[*networking.NetworkPolicy](t, chart).Spec, only[*networking.NetworkPolicy](t, base).Spec)
	same("the PodDisruptionBudget", only[*policy.PodDisruptionBudget](t, chart).Spec, only[*policy.PodDisruptionBudget](t, base).Spec)
	for name, service := range all[*core.Service](base) {
		same("the Service "+name, all[*core.Service](chart)[name].Spec, service.Spec)
	}
	deployment := only[*apps.Deployment](t, chart).Spec
	if image := &deployment.Template.Spec.Containers[0].Image; *image != "ghcr.io/promptweir/promptweir:v0.1.0" {
		t.Errorf("the image is %s", *image)
	} else {
		*image = "promptweir"
	}
	same("the Deployment", deployment, only[*apps.Deployment](t, base).Spec)
}

// The files that the chart's pods see are a configuration that loads.
func TestChart_MountsALoadableConfiguration(t *testing.T) {
	objects := renderChart(t, map[string]any{"teams": map[string]any{"docs": map[string]any{
		"docs.hcl": "team \"docs\" {\n  members = [\"group:docs\"]\n  upstream \"handbook\" { files = [\"*.md\"] }\n}\n", "hello.md": "Say hello.\n",
	}}})
	root, maps, pod := t.TempDir(), all[*core.ConfigMap](objects), only[*apps.Deployment](t, objects).Spec.Template.Spec
	write := func(path, text string) {
		path = filepath.Join(root, path)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			for _, item := range volume.ConfigMap.Items {
				text, ok := maps[volume.ConfigMap.Name].Data[item.Key]
				if !ok {
					t.Errorf("%s has no key %s", volume.ConfigMap.Name, item.Key)
				}
				write(filepath.Join(strings.TrimPrefix(mount.MountPath, "/etc/promptweir"), item.Path), text)
			}
		}
	}
	for name, text := range secrets()[production] {
		write(filepath.Join("secrets", name), text)
	}
	out, err := exec.CommandContext(t.Context(), buildCommand(t), "validate", "--config", root).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 team") {
		t.Errorf("promptweir validate: %v\n%s", err, out)
	}
}
