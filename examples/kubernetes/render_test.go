// Package kubernetes_test renders the manifests as kubectl does, decodes them strictly, and runs a gateway with what is mounted.
package kubernetes_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The overlays. The second one adds a store to the first.
const (
	production = "overlays/production"
	withStore  = "overlays/store"
)

// object is any Kubernetes object, such as *apps.Deployment.
type object interface {
	runtime.Object
	meta.Object
}

// secrets are the files that the README has people make, by overlay.
func secrets() map[string]map[string]string {
	const sha256OfSecret = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	return map[string]map[string]string{
		production: {
			"promptweir/cursor-keys":        "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n",
			"promptweir/admin-token-sha256": sha256OfSecret + "\n",
			"team-payments/token":           "secret\n",
		},
		withStore: {
			"store/password":  "secret",
			"store/users.acl": "user default on #" + sha256OfSecret + " ~promptweir:* +@all -@admin -@dangerous +info\n",
		},
	}
}

// render returns the objects of a kustomization, each decoded into its type. An unknown or repeated member is an error.
func render(t *testing.T, kustomization string) []object {
	t.Helper()
	folder := t.TempDir()
	for _, part := range []string{"base", "overlays"} {
		if err := os.CopyFS(filepath.Join(folder, part), os.DirFS(part)); err != nil {
			t.Fatal(err)
		}
	}
	for overlay, files := range secrets() {
		for name, text := range files {
			file := filepath.Join(folder, overlay, "secrets", name)
			check(t, os.MkdirAll(filepath.Dir(file), 0o700))
			check(t, os.WriteFile(file, []byte(text), 0o600))
		}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(folder, kustomization))
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// decode decodes YAML documents strictly.
func decode(text []byte) (objects []object, err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, autoscaling.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		decoded, _, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, buffer[:n])
		}
		objects = append(objects, decoded.(object))
	}
}

// all returns the objects of one kind by their names.
func all[T object](objects []object) map[string]T {
	found := map[string]T{}
	for _, o := range objects {
		if o, ok := o.(T); ok {
			found[o.GetName()] = o
		}
	}
	return found
}

// only returns the one object of a kind.
func only[T object](t *testing.T, objects []object) T {
	t.Helper()
	found := all[T](objects)
	if len(found) != 1 {
		t.Fatalf("%d objects of the kind %T, want 1", len(found), *new(T))
	}
	for _, o := range found {
		return o
	}
	panic("unreachable")
}

func TestDecode_RefusesWhatTheTypesLack(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 80}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nmetadata: {name: b}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {endpoint: []}\n",
		"apiVersion: apps/v1beta1\nkind: Deployment\n",
	} {
		if objects, err := decode([]byte(text)); err == nil {
			t.Errorf("decode(%q) = %v, want an error", text, objects)
		}
	}
}

func TestBase_HasWhatEveryGatewayNeeds(t *testing.T) {
	objects := render(t, "base")
	only[*core.ServiceAccount](t, objects)
	only[*policy.PodDisruptionBudget](t, objects)
	only[*networking.NetworkPolicy](t, objects)
	if replicas := only[*apps.Deployment](t, objects).Spec.Replicas; replicas == nil || *replicas < 2 {
		t.Errorf("the base has %v replicas, want several", replicas)
	}
	if len(objects) != 6 {
		t.Errorf("the base has %d objects, want these, a Deployment and two Services", len(objects))
	}
}

// The page about the alert rules has a command that makes a manifest of them.
func TestGrafana_RulesAreAPrometheusRule(t *testing.T) {
	readme, err := os.ReadFile("../grafana/README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?s)\{ printf .*?rules\.yaml; \}`).Find(readme)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", string(command))
	cmd.Dir = "../grafana"
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if groups := only[*monitoring.PrometheusRule](t, objects).Spec.Groups; len(groups) != 1 || len(groups[0].Rules) == 0 {
		t.Errorf("the PrometheusRule has %d groups, want one with rules", len(groups))
	}
}
