package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestDecide_FailsAndDecidesNothingAfterTheRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.hcl")
	err := os.WriteFile(path, []byte(`
auth { anonymous = true }
team "a" {
  upstream "u" { command = ["u"] }
  expose "x" {
    prompts = ["*"]
    to      = ["*"]
    when    = principal.subject == prompt.title
  }
  hide "y" {
    prompts = ["u.y"]
    when    = principal.subject == prompt.title
  }
}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, diagnostics := config.Load(path, config.Options{})
	if err := diagnostics.Err(); err != nil {
		t.Fatal(err)
	}
	spent, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	var reported []Failure
	p := New(cfg).ReportFailures(func(f Failure) { reported = append(reported, f) })
	bob := p.Audience(Principal{Subject: "user:bob"})
	for prompt, sees := range map[string]bool{"u.x": true, "u.y": false, "u.other": false} {
		title := "user:bob"
		if prompt == "u.other" {
			title = "else"
		}
		v := p.Visibility("a", "u", prompt, []byte(`{"title":"`+title+`"}`))
		if err := bob.Decide(spent, v); !errors.Is(err, ErrBudget) {
			t.Errorf("Decide = %v", err)
		}
		if err := bob.Decide(t.Context(), v); err != nil {
			t.Errorf("Decide = %v", err)
		}
		upstreamtest.Equal(t, sees, bob.Sees(v), "Sees(%s)", prompt)
		if err := bob.Decide(spent, v); err != nil { // it costs nothing any more
			t.Errorf("Decide = %v", err)
		}
	}
	if len(reported) != 1 || !errors.Is(reported[0].Err, ErrBudget) || reported[0].Rule != path+":5" {
		t.Errorf("%+v is reported", reported)
	}
}
