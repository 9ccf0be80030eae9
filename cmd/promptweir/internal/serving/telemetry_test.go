package serving

import (
	"net/url"
	"testing"

	"golang.org/x/net/http/httpproxy"
)

func TestExemptCollectors_ReachesThemWithoutAnEgressProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.example.com:3128")
	t.Setenv("NO_PROXY", "inside.example.com")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example.com:4318")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs.example.com:4318/v1/logs")
	exemptCollectors()
	choose := httpproxy.FromEnvironment().ProxyFunc()
	for host, isDirect := range map[string]bool{
		"collector.example.com:4318": true, "logs.example.com:4318": true, "inside.example.com": true, "docs.example.com": false,
	} {
		proxy, err := choose(&url.URL{Scheme: "http", Host: host})
		if err != nil || (proxy == nil) != isDirect {
			t.Errorf("%s: %v, %v; want it direct: %t", host, proxy, err, isDirect)
		}
	}
}
