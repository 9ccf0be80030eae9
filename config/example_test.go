package config_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/promptweir/promptweir/config"
)

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "payments.hcl")
	err = os.WriteFile(path, []byte(`
team "payments" {
  members = ["group:payments"]
  upstream "billing" {
    url     = "https://billing.internal/mcp"
    headers = { Authorization = "Bearer ${env("PAYMENTS_TOKEN")}" }
  }
}
`), 0o600)
	if err != nil {
		log.Fatal(err)
	}

	cfg, diags := config.Load(path, config.Options{
		LookupEnv: func(name string) (string, bool) { return "hunter2", name == "PAYMENTS_TOKEN" },
	})
	if err := diags.Err(); err != nil {
		log.Fatal(err)
	}
	for _, u := range cfg.Upstreams() {
		fmt.Println(u, u.Timeout, u.Headers["Authorization"])
	}
	// Output: billing (https://billing.internal/mcp) 10s (sensitive)
}

// All mistakes are reported in one run, each with its place and a remedy.
func ExampleLoad_mistakes() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	err = os.WriteFile(filepath.Join(dir, "docs.hcl"), []byte(`
team "docs" {
  upstream "handbook" {
    url    = "guides.example.com"
    tiemout = "10s"
  }
}
`), 0o600)
	if err != nil {
		log.Fatal(err)
	}

	_, diags := config.Load(dir, config.Options{})
	fmt.Println(strings.ReplaceAll(diags.Err().Error(), dir+string(filepath.Separator), ""))
	// Output:
	// docs.hcl:4: Invalid upstream URL: "guides.example.com" is not an http or https URL with a host; write it like "https://mcp.example.com/mcp".
	// docs.hcl:5: Unknown attribute: upstream.tiemout does not exist. Did you mean "timeout"?
}

func ExamplePattern() {
	p, err := config.ParsePattern("billing.review_*")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Match("billing.review_invoice"), p.Match("billing.refund"))
	// Output: true false
}

func ExampleParseSelector() {
	s, err := config.ParseSelector("group:payments")
	fmt.Println(s.Kind, s.Name, err)
	_, err = config.ParseSelector("payments")
	fmt.Println(err)
	// Output:
	// group payments <nil>
	// selector "payments" selects no one; write "user:NAME", "group:NAME", "team:NAME" or "*"
}
