package upstreamtest_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestViolation_AcceptsOnlyWhatARevisionDefines(t *testing.T) {
	t.Parallel()
	const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	legacy := []string{wire.Rev20241105, wire.Rev20250326, wire.Rev20250618, wire.Rev20251125}
	all := append(legacy[:4:4], wire.Rev20260728)
	for _, test := range []struct {
		revisions    []string
		method, body string
		violates     string // the definition that the error names; empty where there is none
	}{
		{all, "prompts/list", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","prompts":[{"name":"p"}]}}`, ""},
		{all, "prompts/list", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","prompts":[{"title":"p"}]}}`, "ListPromptsResult"},
		{legacy, "", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}`, ""},
		{all[4:], "", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p",` + modernMeta + `}}`, ""},
		{all[4:], "", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`, "GetPromptRequest"},
		{all, "", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}`, "ProgressNotification"},
		{all, "", `{"jsonrpc":"2.0","id":1,"error":{"code":"-32602","message":"m"}}`, "JSONRPCError"},
		{[]string{"1999-12-31"}, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "1999-12-31.json"},
		{all, "", ``, "not a JSON object"},
	} {
		for _, revision := range test.revisions {
			err := upstreamtest.Violation(revision, test.method, []byte(test.body))
			if test.violates == "" && err != nil || test.violates != "" && (err == nil || !strings.Contains(err.Error(), test.violates)) {
				t.Errorf("Violation(%s, %s) = %v, want an error that names %q", revision, test.body, err, test.violates)
			}
		}
	}
}
