package clientsetup

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// What is for a shell, a shell reads as it is meant; what is for a file is JSON.
func TestFor_CanBePasted(t *testing.T) {
	const token = "hunter2"
	for _, endpoint := range []string{"http://127.0.0.1:8080/mcp", "https://prompts.example.com/a b/$(x)'\"<&>"} {
		for _, access := range []Access{Open, SignIn, Token, Certificate} {
			for _, c := range For(endpoint, "prompts", access) {
				if strings.HasPrefix(c.Text, "{") {
					var file any
					if err := json.Unmarshal([]byte(c.Text), &file); err != nil {
						t.Errorf("%s: %v:\n%s", c.Name, err, c.Text)
					}
					continue
				}
				program, arguments, _ := strings.Cut(c.Text, " ")
				shell := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+arguments)
				shell.Env = []string{TokenVariable + "=" + token}
				out, err := shell.Output()
				if err != nil || !strings.Contains(string(out), "\n"+endpoint+"\n") {
					t.Errorf("%s %s: a shell reads %q, %v", program, arguments, out, err)
				}
				if got := strings.Contains(string(out), "\nAuthorization: Bearer "+token+"\n"); got != (access == Token) {
					t.Errorf("%s: has a header: %t", c.Text, got)
				}
			}
		}
	}
}

func TestServePage_EscapesTheEndpoint(t *testing.T) {
	w := httptest.NewRecorder()
	ServePage(w, "http://localhost/<script>alert(1)</script>", Open)
	if body := w.Body.String(); w.Code != http.StatusOK || strings.Contains(body, "<script>") || !strings.Contains(body, "&lt;script&gt;") {
		t.Errorf("status %d:\n%s", w.Code, body)
	}
}
