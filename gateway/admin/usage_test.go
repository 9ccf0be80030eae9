package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// usageLine is a line of an audit log, as written so many days ago.
func usageLine(days int, subject, prompt string) string {
	return fmt.Sprintf(`{"time":%q,"event":"get","subject":%q,"prompt":%q,"team":"eng","outcome":"ok"}`+"\n",
		time.Now().AddDate(0, 0, -days).Format(time.RFC3339), subject, prompt)
}

func TestUsage_ShowsWhatNobodyUsesFirst(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	for path, text := range map[string]string{
		log:        usageLine(1, "user:ann", "up.busy") + usageLine(0, "user:<b>bob", "up.busy"),
		log + ".1": usageLine(100, "user:eve", "up.old"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := gatewaytest.Serve(t, fmt.Sprintf("audit { path = %q }\n", log)+
		gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "busy", "new", "old")))
	var got audit.Report
	if err := json.Unmarshal([]byte(gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/usage", "", nil).Body), &got); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, p := range got.Prompts {
		rows = append(rows, fmt.Sprintf("%s unused=%t %s", p.Name, p.Unused, audit.Names(p.Users)))
	}
	want := []string{"up.new unused=true ", "up.old unused=true user:eve", "up.busy unused=false user:<b>bob, user:ann"}
	upstreamtest.Equal(t, want, rows, "usage")
	page := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/usage", "", nil)
	page.Want(t, http.StatusOK, "Unused for 90 days: 2 of 3 prompts", "never", `<span class="tag">unused</span>`, "user:&lt;b&gt;bob, user:ann", "2 ok")
	if strings.Index(page.Body, "up.new") > strings.Index(page.Body, "up.old") {
		t.Errorf("a used prompt comes first:\n%s", page.Body)
	}
	// The following part is read a minute later.
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/usage", "", nil).Want(t, http.StatusOK, "2 ok")
}

func TestUsage_SaysWhyThereIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "There is no audit log: add audit { path",
		"audit { path = \"stdout\" }\n": "run promptweir usage with the collected lines.",
		"audit { path = \"/nonexistent/audit.jsonl\" }\n": "part of the log cannot be read: open /nonexistent: no such file or directory",
	} {
		s := gatewaytest.Serve(t, text)
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/usage", "", nil).Want(t, http.StatusOK, want)
	}
}
