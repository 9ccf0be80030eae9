package kubernetes_test

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kindOf returns the kind of an object, such as "ConfigMap".
func kindOf(o object) string { return o.GetObjectKind().GroupVersionKind().Kind }

func TestStore_OnlyGatewaysReachIt(t *testing.T) {
	objects := render(t, withStore)
	gateways := labels.Set(only[*apps.Deployment](t, objects).Spec.Template.Labels)
	set := only[*apps.StatefulSet](t, objects)
	stores := labels.Set(set.Spec.Template.Labels)
	port := set.Spec.Template.Spec.Containers[0].Ports[0]
	selects := func(what string, selector *meta.LabelSelector, wanted, other labels.Set) {
		t.Helper()
		s, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || !s.Matches(wanted) || s.Matches(other) {
			t.Errorf("%s selects %v, %v, want the one kind of pods and not the other", what, s, err)
		}
	}
	policies := all[*networking.NetworkPolicy](objects)
	own, gateway := policies["promptweir-store"].Spec, policies["promptweir"].Spec
	selects("the StatefulSet", set.Spec.Selector, stores, gateways)
	selects("the store's policy", &own.PodSelector, stores, gateways)
	selects("the gateways' policy", &gateway.PodSelector, gateways, stores)
	if len(own.Ingress) != 1 || len(own.Ingress[0].From) != 1 || len(own.Egress) != 0 || len(own.PolicyTypes) != 2 {
		t.Fatalf("the store's policy lets more in or out than the gateways: %+v", own)
	}
	selects("who may reach the store", own.Ingress[0].From[0].PodSelector, gateways, stores)
	if allowed := own.Ingress[0].Ports[0].Port; allowed.StrVal != port.Name {
		t.Errorf("the store's policy means the port %s, want %s", allowed, port.Name)
	}
	last := gateway.Egress[len(gateway.Egress)-1]
	selects("what gateways may reach", last.To[0].PodSelector, stores, gateways)
	if last.Ports[0].Port.IntVal != port.ContainerPort {
		t.Errorf("gateways may reach the port %s, want %d", last.Ports[0].Port, port.ContainerPort)
	}
	if env := only[*apps.Deployment](t, objects).Spec.Template.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "POD_IP" ||
		env[0].ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("environment %v, want the pod's address for advertise", env)
	}
	others := gateway.Ingress[len(gateway.Ingress)-1]
	selects("who else reaches the gateways", others.From[0].PodSelector, gateways, stores)
	to := gateway.Egress[len(gateway.Egress)-2]
	selects("what gateways may reach beside the store", to.To[0].PodSelector, gateways, stores)
	if others.Ports[0].Port.StrVal != "http" || to.Ports[0].Port.StrVal != "http" {
		t.Errorf("gateways reach each other at %v and %v, want the port of clients", others.Ports, to.Ports)
	}
	services := all[*core.Service](objects)
	selects("the Service", &meta.LabelSelector{MatchLabels: services["promptweir-store"].Spec.Selector}, stores, gateways)
	selects("the Service of the gateways", &meta.LabelSelector{MatchLabels: services["promptweir"].Spec.Selector}, gateways, stores)
	if want := fmt.Sprintf("@promptweir-store:%d\"", services["promptweir-store"].Spec.Ports[0].Port); !strings.Contains(
		all[*core.ConfigMap](objects)["promptweir"].Data["cluster.hcl"], want) {
		t.Errorf("the configuration does not name the Service %s", want)
	}
	// Neither has the other's secrets.
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName != "promptweir-store-users" {
			t.Errorf("the store has the secret %s", volume.Secret.SecretName)
		}
	}
}

func TestStore_IsRestricted(t *testing.T) {
	set := only[*apps.StatefulSet](t, render(t, withStore))
	pod := set.Spec.Template.Spec
	security := pod.Containers[0].SecurityContext
	for what, holds := range map[string]bool{
		"one at a time":            *set.Spec.Replicas == 1 && len(set.Spec.VolumeClaimTemplates) == 0,
		"not root":                 *pod.SecurityContext.RunAsNonRoot,
		"seccomp":                  pod.SecurityContext.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault,
		"no escalation":            !*security.AllowPrivilegeEscalation,
		"a root that is read-only": *security.ReadOnlyRootFilesystem,
		"no capabilities":          slices.Equal(security.Capabilities.Drop, []core.Capability{"ALL"}),
		"no token of the API":      !*pod.AutomountServiceAccountToken,
		"a limit of memory":        !pod.Containers[0].Resources.Limits.Memory().IsZero(),
	} {
		if !holds {
			t.Errorf("the store has not: %s", what)
		}
	}
}

// The real programs with the volumes of the pods: the store as its users and configuration have it, and two gateways that share it.
func TestStore_RunsWithWhatIsMounted(t *testing.T) {
	t.Setenv("POD_IP", "127.0.0.1")
	objects := render(t, withStore)
	store, gateway := t.TempDir(), t.TempDir()
	set := only[*apps.StatefulSet](t, objects).Spec.Template.Spec
	mount(t, store, objects, set, "..2026_11_22_05_00_00.123", strings.NewReplacer("/etc/valkey-users", filepath.Join(store, "etc/valkey-users")))
	address := startStore(t, filepath.Join(store, set.Containers[0].Command[1]))

	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	mount(t, gateway, objects, pod, "..2026_11_22_05_00_00.123", gatewayHere(gateway, "promptweir-store:6379", address))
	promptweir, args := buildCommand(t), pod.Containers[0].Args
	args[2] = filepath.Join(gateway, args[2])
	for range 2 {
		admin, stop := serve(t, promptweir, args)
		await(t, "gateway that uses the store", func() bool {
			return strings.Contains(page(t, admin+"/metrics"), "\npromptweir_cluster_connected 1\n")
		})
		defer stop()
	}
	if said := command(t, address, "PING"); !strings.HasPrefix(said, "-NOAUTH") {
		t.Errorf("the store answers %q to somebody without the password", said)
	}
	for _, refused := range []string{"FLUSHALL", "CONFIG GET *", "SET other 1"} {
		if said := command(t, address, "AUTH secret", refused); !strings.Contains(said, "-NOPERM") {
			t.Errorf("the store answers %q to %s", said, refused)
		}
	}
}

// startStore runs a store with a configuration, at a free port of this machine, until the test ends.
func startStore(t *testing.T, configuration string) (address string) {
	t.Helper()
	program := "valkey-server"
	if _, err := exec.LookPath(program); err != nil {
		program = "redis-server"
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	address = l.Addr().String()
	check(t, l.Close())
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(t.Context(), program, configuration, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir())
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: apt-get install redis-server", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		if <-ended; t.Failed() { // the end of the test's context kills it
			t.Log(log.String())
		}
	})
	await(t, "store", func() bool { return command(t, address, "PING") != "" })
	return address
}

// command returns what the store answers to commands, the last of them in full.
func command(t *testing.T, address string, commands ...string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	var said []byte
	buffer := make([]byte, 4096)
	for _, c := range commands {
		_, err := conn.Write([]byte(c + "\r\n"))
		check(t, err)
		n, err := conn.Read(buffer)
		check(t, err)
		said = append(said, buffer[:n]...)
	}
	return string(said)
}
