package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
)

func TestBudget_FailsAndDecidesNothing(t *testing.T) {
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
	now := time.Now()
	for name, spent := range map[string]*Budget{"steps": {0, now.Add(time.Hour)}, "time": {1 << 30, now}} {
		var reported []Failure
		p := New(cfg).ReportFailures(func(f Failure) { reported = append(reported, f) })
		bob := p.Audience(Principal{Subject: "user:bob"})
		for prompt, sees := range map[string]bool{"u.x": true, "u.y": false, "u.other": false} {
			title := "user:bob"
			if prompt == "u.other" {
				title = "else"
			}
			v := p.Visibility("a", "u", prompt, []byte(`{"title":"`+title+`"}`))
			if err := bob.Decide(v, spent); !errors.Is(err, ErrBudget) {
				t.Errorf("%s: Decide = %v", name, err)
			}
			if err := bob.Decide(v, NewBudget(1)); err != nil {
				t.Errorf("%s: Decide = %v", name, err)
			}
			if got := bob.Sees(v); got != sees {
				t.Errorf("%s: Sees(%s) = %v", name, prompt, got)
			}
			if err := bob.Decide(v, spent); err != nil { // it costs nothing any more
				t.Errorf("%s: Decide = %v", name, err)
			}
		}
		if len(reported) != 1 || !errors.Is(reported[0].Err, ErrBudget) || reported[0].Rule != path+":5" {
			t.Errorf("%s: %+v is reported", name, reported)
		}
	}
}

func TestNewBudget_GrowsWithTheCatalog(t *testing.T) {
	if few, many := NewBudget(1), NewBudget(100); few.steps >= many.steps {
		t.Errorf("%d steps for one entry, %d for a hundred", few.steps, many.steps)
	}
}
