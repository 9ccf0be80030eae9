package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// auditedGet returns a function that gets a prompt from a file, so that nothing else allocates, from a gateway with these settings of
// the audit log; "" for none.
func auditedGet(tb testing.TB, settings string) (once func(), last *recorder) {
	tb.Helper()
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	text := "auth {\n" + gatewaytest.Token("ann", "eng", "ops") + "}\nteam \"eng\" {\n members = [\"group:eng\"]\n upstream \"book\" { files = [\"p/*.md\"] }\n}\n"
	if settings != "" {
		text += fmt.Sprintf("audit {\n path = %q\n %s\n}\n", filepath.Join(tb.TempDir(), "audit.jsonl"), settings)
	}
	f := newPromptFolder(tb, text, "p/report.md", "---\narguments:\n  - name: notes\n  - name: a\n---\nSeverity {{a}}: {{notes}}\n")
	cfg, diagnostics := config.Load(filepath.Join(f.dir, "gateway.hcl"), config.Options{})
	if err := diagnostics.Err(); err != nil {
		tb.Fatal(err)
	}
	log, err := audit.Open(cfg.Audit, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(log.Close)
	s := gatewaytest.StartConfig(tb, cfg, gateway.Options{Audit: log})
	s.AwaitUpstreams()
	return handled(tb, s.Legacy("2025-11-25", "ann"), "prompts/get", `{"name":"book.report","arguments":{"notes":"x := 1","a":"minor"}}`)
}

func wantGot(tb testing.TB, last *recorder) {
	tb.Helper()
	if last.status != http.StatusOK || !strings.Contains(string(last.body), `"messages"`) {
		tb.Fatalf("%d %s", last.status, last.body)
	}
}

// What a line costs.
func BenchmarkAudit(b *testing.B) {
	for _, settings := range []string{"", `arguments = "names"`, `arguments = "hash"`, `arguments = "values"`, "required = true"} {
		b.Run(strings.ReplaceAll(settings, " ", ""), func(b *testing.B) {
			once, last := auditedGet(b, settings)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
			wantGot(b, last)
		})
	}
}
