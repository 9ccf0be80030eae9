package kubernetes_test

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The API server would accept most of what is wrong here: the mistakes show when nobody is served.
func TestProduction_SelectorsSelectThePods(t *testing.T) {
	objects := render(t, production)
	pods := labels.Set(only[*apps.Deployment](t, objects).Spec.Template.Labels)
	selects := func(what string, selector *meta.LabelSelector, set labels.Set) {
		t.Helper()
		s, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(set) {
			t.Errorf("%s selects %v, %v, want %v selected and not everything", what, s, err, set)
		}
	}
	deployment := only[*apps.Deployment](t, objects)
	selects("the Deployment", deployment.Spec.Selector, pods)
	for _, constraint := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selects("the constraint about "+constraint.TopologyKey, constraint.LabelSelector, pods)
	}
	for name, service := range all[*core.Service](objects) {
		selects("the Service "+name, &meta.LabelSelector{MatchLabels: service.Spec.Selector}, pods)
	}
	selects("the PodDisruptionBudget", only[*policy.PodDisruptionBudget](t, objects).Spec.Selector, pods)
	selects("the NetworkPolicy", &only[*networking.NetworkPolicy](t, objects).Spec.PodSelector, pods)
	monitor := only[*monitoring.ServiceMonitor](t, objects)
	services := all[*core.Service](objects)
	selects("the ServiceMonitor", &monitor.Spec.Selector, services["promptweir-admin"].Labels)
	if s, _ := meta.LabelSelectorAsSelector(&monitor.Spec.Selector); s.Matches(labels.Set(services["promptweir"].Labels)) {
		t.Error("the ServiceMonitor selects the Service for clients, too: each pod would be scraped twice")
	}
	if services["promptweir-admin"].Labels[monitor.Spec.JobLabel] != "promptweir" {
		t.Errorf("the job of the metrics is the label %s, which the Service lacks", monitor.Spec.JobLabel)
	}
}

func TestProduction_PortsHaveTheirNames(t *testing.T) {
	objects := render(t, production)
	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	container := pod.Containers[0]
	named := map[string]int32{}
	for _, port := range container.Ports {
		named[port.Name] = port.ContainerPort
	}
	config := all[*core.ConfigMap](objects)["promptweir"].Data["gateway.hcl"]
	for _, name := range []string{"http", "admin"} {
		if listen := fmt.Sprintf("\"0.0.0.0:%d\"", named[name]); !strings.Contains(config, listen) {
			t.Errorf("the port %s is %d, but the configuration does not listen on %s", name, named[name], listen)
		}
	}
	has := func(what string, port intstr.IntOrString) {
		t.Helper()
		if port.Type != intstr.String || named[port.StrVal] == 0 {
			t.Errorf("%s means the port %q, want one of %v by its name", what, port.String(), slices.Sorted(maps.Keys(named)))
		}
	}
	for what, probe := range map[string]*core.Probe{
		"/healthz of the startup probe": container.StartupProbe, "/readyz of the readiness probe": container.ReadinessProbe,
		"/healthz of the liveness probe": container.LivenessProbe,
	} {
		has(what, probe.HTTPGet.Port)
		if want, _, _ := strings.Cut(what, " "); probe.HTTPGet.Path != want {
			t.Errorf("%s asks %s", what, probe.HTTPGet.Path)
		}
	}
	services := all[*core.Service](objects)
	for name, service := range services {
		for _, port := range service.Spec.Ports {
			has("the Service "+name, port.TargetPort)
		}
	}
	for _, rule := range only[*networking.NetworkPolicy](t, objects).Spec.Ingress {
		for _, port := range rule.Ports {
			has("the NetworkPolicy", *port.Port)
		}
	}
	hasPort := func(service, name string) bool {
		return services[service] != nil && slices.ContainsFunc(services[service].Spec.Ports, func(p core.ServicePort) bool { return p.Name == name })
	}
	backend := only[*networking.Ingress](t, objects).Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if !hasPort(backend.Name, backend.Port.Name) {
		t.Errorf("the Ingress means the port %s of the Service %s, which does not exist", backend.Port.Name, backend.Name)
	}
	for _, endpoint := range only[*monitoring.ServiceMonitor](t, objects).Spec.Endpoints {
		if !hasPort("promptweir-admin", endpoint.Port) {
			t.Errorf("the ServiceMonitor means the port %s, which the Service lacks", endpoint.Port)
		}
	}
}

// What is mounted exists, all of it is mounted, and a team has one file with blocks and no way to add another.
func TestOverlays_MountWhatExists(t *testing.T) {
	t.Run("production", func(t *testing.T) { mountsWhatExists(t, render(t, production)) })
	t.Run("store", func(t *testing.T) {
		objects := render(t, withStore)
		mountsWhatExists(t, slices.DeleteFunc(objects, func(o object) bool {
			return o.GetName() == "promptweir-store-users" || o.GetName() == "promptweir-store" && kindOf(o) == "ConfigMap"
		}))
	})
}

func mountsWhatExists(t *testing.T, objects []object) {
	t.Helper()
	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	configured, held := all[*core.ConfigMap](objects), all[*core.Secret](objects)
	mounted := map[string]string{} // by volume
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounted[mount.Name] = mount.MountPath
		if mount.ReadOnly != (mount.Name != "state") {
			t.Errorf("%s is mounted with readOnly: %t", mount.Name, mount.ReadOnly)
		}
		if mount.SubPath != "" {
			t.Errorf("%s is mounted with a subPath, so changes would not reach the gateway", mount.Name)
		}
	}
	used := map[string]bool{}
	for _, volume := range pod.Volumes {
		if mounted[volume.Name] == "" {
			t.Errorf("the volume %s is not mounted", volume.Name)
		}
		switch {
		case volume.ConfigMap != nil:
			source := configured[volume.ConfigMap.Name]
			if source == nil {
				t.Errorf("there is no ConfigMap %s", volume.ConfigMap.Name)
				continue
			}
			used[source.Name] = true
			var keys []string
			blocks := 0
			for _, item := range volume.ConfigMap.Items {
				keys = append(keys, item.Key)
				if path.Ext(item.Path) == ".hcl" && item.Path != "cluster.hcl" {
					blocks++
				}
			}
			slices.Sort(keys)
			if !slices.Equal(keys, slices.Sorted(maps.Keys(source.Data))) || blocks != 1 {
				t.Errorf("of ConfigMap %s, %q are mounted, want all keys and one .hcl", source.Name, keys)
			}
		case volume.Secret != nil:
			if held[volume.Secret.SecretName] == nil {
				t.Errorf("there is no Secret %s", volume.Secret.SecretName)
			}
			if mode := volume.Secret.DefaultMode; mode == nil || *mode != 0o440 {
				t.Errorf("the files of %s are not for the gateway's group alone", volume.Name)
			}
			used["Secret "+volume.Secret.SecretName] = true
		case volume.EmptyDir == nil:
			t.Errorf("the volume %s is of a kind that this test does not know", volume.Name)
		}
	}
	for name := range configured {
		if !used[name] {
			t.Errorf("the ConfigMap %s is not mounted", name)
		}
	}
	for name := range held {
		if !used["Secret "+name] {
			t.Errorf("the Secret %s is not mounted", name)
		}
	}
	if accounts := all[*core.ServiceAccount](objects); accounts[pod.ServiceAccountName] == nil {
		t.Errorf("there is no ServiceAccount %s", pod.ServiceAccountName)
	}
}

func TestProduction_ScalesTheDeployment(t *testing.T) {
	objects := render(t, production)
	deployment := only[*apps.Deployment](t, objects)
	scaler := only[*autoscaling.HorizontalPodAutoscaler](t, objects)
	if target := scaler.Spec.ScaleTargetRef; target.Kind != "Deployment" || target.Name != deployment.Name || target.APIVersion != "apps/v1" {
		t.Errorf("the autoscaler scales %+v, want the Deployment %s", target, deployment.Name)
	}
	if deployment.Spec.Replicas != nil {
		t.Errorf("the Deployment says %d replicas, which would undo what the autoscaler did with each apply", *deployment.Spec.Replicas)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if container.Resources.Requests.Cpu().IsZero() {
		t.Error("the container requests no CPU, of which the autoscaler's target is a part")
	}
	budget := only[*policy.PodDisruptionBudget](t, objects).Spec.MaxUnavailable
	if budget.IntVal != 1 || *scaler.Spec.MinReplicas <= budget.IntVal {
		t.Errorf("the budget allows %d of %d pods to be gone", budget.IntVal, *scaler.Spec.MinReplicas)
	}
}

// The grace period is longer than what the configuration has the gateway take, as cmd/promptweir/README.md says it.
func TestProduction_GivesTheGatewayTimeToDrain(t *testing.T) {
	objects := render(t, production)
	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	config := all[*core.ConfigMap](objects)["promptweir"].Data["gateway.hcl"]
	need, delay := 15*time.Second, time.Duration(0)
	for _, attribute := range []string{"drain_delay", "drain_timeout"} {
		match := regexp.MustCompile(attribute + ` *= "(\w+)"`).FindStringSubmatch(config)
		if match == nil {
			t.Fatalf("the configuration lacks %s", attribute)
		}
		length, err := time.ParseDuration(match[1])
		if err != nil {
			t.Fatal(err)
		}
		need += length
		if attribute == "drain_delay" {
			delay = length
		}
	}
	if hook := pod.Containers[0].Lifecycle; hook != nil {
		t.Errorf("a hook is in the way of the drain: %+v", hook)
	}
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < need {
		t.Errorf("the pod has %v to end, want at least %v", grace, need)
	}
	probe := pod.Containers[0].ReadinessProbe
	unready := time.Duration(probe.FailureThreshold*(probe.PeriodSeconds+probe.TimeoutSeconds)) * time.Second
	if unready >= delay {
		t.Errorf("the pod is found not ready after up to %v, want less than drain_delay %v", unready, delay)
	}
}

// What the profile "restricted" of the Pod Security Standards demands, and a root that cannot be written.
func TestProduction_IsRestricted(t *testing.T) {
	objects := render(t, production)
	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	container := pod.Containers[0]
	security := container.SecurityContext
	for what, holds := range map[string]bool{
		"not root":                  *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser == 65532,
		"seccomp":                   pod.SecurityContext.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault,
		"no escalation":             !*security.AllowPrivilegeEscalation,
		"a root that is read-only":  *security.ReadOnlyRootFilesystem,
		"no capabilities":           slices.Equal(security.Capabilities.Drop, []core.Capability{"ALL"}) && security.Capabilities.Add == nil,
		"no token of the API":       !*pod.AutomountServiceAccountToken,
		"nothing of the host":       !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"a limit of memory":         !container.Resources.Limits.Memory().IsZero(),
		"the profile is enforced":   only[*core.Namespace](t, objects).Labels["pod-security.kubernetes.io/enforce"] == "restricted",
		"one container, of v1.0.0":  len(pod.Containers) == 1 && strings.HasSuffix(container.Image, "/promptweir:v1.0.0"),
		"in a namespace of its own": only[*apps.Deployment](t, objects).Namespace == only[*core.Namespace](t, objects).Name,
	} {
		if !holds {
			t.Errorf("the pod has not: %s", what)
		}
	}
}

// Whatever is not named is refused in both directions.
func TestProduction_NetworkPolicyNamesBothDirections(t *testing.T) {
	network := only[*networking.NetworkPolicy](t, render(t, production)).Spec
	if want := []networking.PolicyType{networking.PolicyTypeIngress, networking.PolicyTypeEgress}; !slices.Equal(network.PolicyTypes, want) {
		t.Errorf("the policy is about %v, want %v", network.PolicyTypes, want)
	}
	if len(network.Egress) != 3 {
		t.Errorf("the policy lets the gateway reach %d things, want DNS, upstreams and HTTPS elsewhere", len(network.Egress))
	}
	if !slices.ContainsFunc(network.Ingress, func(rule networking.NetworkPolicyIngressRule) bool {
		from := rule.From[0].NamespaceSelector
		return from != nil && from.MatchLabels["prompts.example.com/clients"] == "true" && rule.Ports[0].Port.StrVal == "http"
	}) {
		t.Error("allowed_hosts invites clients in the cluster, which the policy keeps out")
	}
	for _, rule := range network.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) == 0 {
			t.Errorf("the policy lets everybody in: %+v", rule)
		}
	}
}
