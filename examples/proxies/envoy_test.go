// Package proxies_test decodes the configuration of Envoy. Those of HAProxy and nginx are run by examples/interop.
package proxies_test

import (
	"os"
	"strings"
	"testing"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreams "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// decode decodes a configuration strictly, and checks it against the rules of its types, also of those in an Any.
func decode(text string) (*bootstrap.Bootstrap, error) {
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	b := &bootstrap.Bootstrap{}
	if err := protojson.Unmarshal(asJSON, b); err != nil {
		return nil, err
	}
	return b, validate(b)
}

// validate checks a message and all that are in it.
func validate(m proto.Message) (err error) {
	if packed, ok := m.(*anypb.Any); ok {
		if m, err = packed.UnmarshalNew(); err != nil {
			return err
		}
	}
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		within := func(v protoreflect.Value) bool {
			if err == nil {
				err = validate(v.Message().Interface())
			}
			return err == nil
		}
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return within(v) })
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				within(value.List().Get(i))
			}
		default:
			within(value)
		}
		return err == nil
	})
	return err
}

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unpack returns the message that an Any has in it.
func unpack[T proto.Message](t *testing.T, packed *anypb.Any) T {
	t.Helper()
	m, err := packed.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	unpacked, ok := m.(T)
	if !ok {
		t.Fatalf("%T, want %T", m, unpacked)
	}
	return unpacked
}

func TestEnvoy_RoutesWithoutALimitOfTime(t *testing.T) {
	b, err := decode(example(t))
	if err != nil {
		t.Fatal(err)
	}
	filters := b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()
	m := unpack[*manager.HttpConnectionManager](t, filters[0].GetTypedConfig())
	if idle := m.GetStreamIdleTimeout().AsDuration(); idle < 60*time.Second {
		t.Errorf("a stream may be silent for %v, want more than 15 s and than a get takes", idle)
	}
	if !m.GetUseRemoteAddress().GetValue() {
		t.Error("X-Forwarded-For does not get the client's address")
	}
	route := m.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute()
	if timeout := route.GetTimeout(); timeout == nil || timeout.AsDuration() != 0 {
		t.Errorf("a response may take %v, want no limit, which is 0 and not unset", timeout)
	}
	if on := route.GetRetryPolicy().GetRetryOn(); on != "connect-failure" {
		t.Errorf("repeated on %q, want only what was never sent", on)
	}
	if policy := route.GetHashPolicy(); len(policy) != 1 || policy[0].GetHeader().GetHeaderName() != "Mcp-Session-Id" {
		t.Errorf("requests of one gateway are found by %v, want by their session", policy)
	}
	if name := route.GetCluster(); name != b.GetStaticResources().GetClusters()[0].GetName() {
		t.Errorf("the route leads to %q, which is no cluster", name)
	}
}

func TestEnvoy_TakesOutAReplicaThatDrains(t *testing.T) {
	b, err := decode(example(t))
	if err != nil {
		t.Fatal(err)
	}
	c := b.GetStaticResources().GetClusters()[0]
	if c.GetLbPolicy() != cluster.Cluster_RING_HASH {
		t.Errorf("requests are spread by %v, want by the hash of their session", c.GetLbPolicy())
	}
	check := c.GetHealthChecks()[0]
	if path := check.GetHttpHealthCheck().GetPath(); path != "/readyz" {
		t.Errorf("health is asked at %q, want /readyz", path)
	}
	const drainDelay = 5 * time.Second // unless it is set
	if noticed := check.GetInterval().AsDuration() + check.GetTimeout().AsDuration(); noticed >= drainDelay || check.GetUnhealthyThreshold().GetValue() != 1 {
		t.Errorf("a gateway that drains is noticed after up to %v, %d times, want less than %v", noticed, check.GetUnhealthyThreshold().GetValue(), drainDelay)
	}
	if first := check.GetNoTrafficInterval(); first.AsDuration() != check.GetInterval().AsDuration() {
		t.Errorf("before the first request health is asked every %v, want as often as later", first.AsDuration())
	}
	if threshold := c.GetCommonLbConfig().GetHealthyPanicThreshold(); threshold == nil || threshold.GetValue() != 0 {
		t.Errorf("below %v healthy ones, requests go to all", threshold)
	}
	options := unpack[*upstreams.HttpProtocolOptions](t, c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"])
	if idle := options.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration(); idle == 0 || idle >= 2*time.Minute {
		t.Errorf("idle connections are kept for %v, but the gateway closes them after 2 minutes", idle)
	}
	endpoints := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()
	if len(endpoints) < 2 {
		t.Errorf("%d gateways, want several", len(endpoints))
	}
	for _, e := range endpoints {
		admin := e.GetEndpoint().GetHealthCheckConfig().GetPortValue()
		if admin == 0 || admin == e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue() {
			t.Errorf("health is asked at port %d, want the admin listener's", admin)
		}
	}
}

// The three proxies say the same of the same gateways.
func TestExamples_AreOfTheSameGateways(t *testing.T) {
	for _, file := range []string{"haproxy.cfg", "nginx.conf", "envoy.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"10.0.0.11", "10.0.0.12", "prompts.example.com", "75s"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s", file, want)
			}
		}
	}
}

func TestDecode_RefusesMistakes(t *testing.T) {
	text := example(t)
	for _, mistake := range []struct{ old, mistaken string }{
		{"stream_idle_timeout", "stream_idle_timout"},
		{"RING_HASH", "RING_HUSH"},
		{"path: /readyz", "path: \"\""},
		{"domains: [\"*\"]", "domains: []"}, // within an Any
		{"v3.Router", "v3.Rooter"},
		{"connect_timeout: 5s", "connect_timeout: 5s\n      connect_timeout: 6s"},
		{"connect_timeout: 5s", "connect_timeout: 5"},
	} {
		if !strings.Contains(text, mistake.old) {
			t.Fatalf("envoy.yaml lacks %q", mistake.old)
		}
		if _, err := decode(strings.Replace(text, mistake.old, mistake.mistaken, 1)); err == nil {
			t.Errorf("%q is accepted, want an error", mistake.mistaken)
		}
	}
}
