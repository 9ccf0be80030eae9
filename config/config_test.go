package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// load loads what has no mistakes.
func load(t *testing.T, path string) *Config {
	t.Helper()
	cfg, diags := Load(path, options())
	if err := diags.Err(); err != nil || cfg == nil {
		t.Fatalf("Load(%s): %v", path, err)
	}
	return cfg
}

// write makes a folder with files, from name and content in turns.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// comparer compares configurations by value, secrets included.
func comparer() cmp.Options {
	return cmp.Options{
		cmp.AllowUnexported(Upstream{}),
		cmp.Comparer(func(a, b Pattern) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b Secret) bool { return a == b }),
		cmp.Comparer(func(a, b Key) bool { return a == b }),
	}
}

func patterns(t *testing.T, globs ...string) []Pattern {
	t.Helper()
	var parsed []Pattern
	for _, g := range globs {
		p, err := ParsePattern(g)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, p)
	}
	return parsed
}

func TestEveryAttributeArrives(t *testing.T) {
	path := filepath.Join("testdata", "valid", "everything.hcl")
	at := func(line int) Place { return Place{path, line} }
	want := &Config{
		Gateway: Gateway{
			Listen:         "0.0.0.0:8443",
			Path:           "/v1/mcp",
			PublicURL:      "https://prompts.example.com",
			PageSize:       50,
			Separator:      "/",
			CursorKeys:     []Key{NewKey([32]byte([]byte("0123456789abcdef0123456789abcdef"))), NewKey([32]byte(bytes.Repeat([]byte{0xff}, 32)))},
			AllowedHosts:   []string{"prompts.example.com", "prompts.example.com:8443", "[::1]:80"},
			AllowedOrigins: []string{"https://app.example.com", "vscode-webview://panel", "http://localhost:3000"},
			Conflict:       ConflictFirst,
			Instructions:   "Ask in #prompts.",
		},
		Admin: Admin{Listen: "localhost:0"},
		Auth: &Auth{
			Anonymous: true,
			Tokens:    []Token{{Subject: "ci", SHA256: sha256.Sum256([]byte("token")), Groups: []string{"ci", "build"}, Place: at(16)}},
		},
		Hides: []Rule{{Label: "never expose debug prompts", Prompts: patterns(t, "*/debug_*", "[!a-z]*"), Place: at(21)}},
		Teams: []Team{{
			Name:    "payments",
			Members: []Selector{{Group, "payments"}, {User, "alice@example.com"}},
			Upstreams: []Upstream{{
				Name:        "billing",
				Team:        "payments",
				Transport:   StreamableHTTP,
				URL:         "https://billing.internal/mcp",
				Headers:     map[string]Secret{"Authorization": NewSecret("Bearer hunter2-payments")},
				Protocol:    "2025-06-18",
				Timeout:     20 * time.Second,
				Refresh:     90 * time.Second,
				Concurrency: 4,
				MaxPrompts:  100,
				MaxMessage:  1 << 20,
				Breaker:     Breaker{3, time.Second},
				Place:       at(30),
			}, {
				Name:      "notes",
				Team:      "payments",
				Transport: Stdio,
				Command:   []string{"npx", "-y", "server", "--quiet"},
				Env: map[string]Secret{
					"LOG_LEVEL": NewSecret("warn"), "PORT": NewSecret("8080"), "TOKEN": NewSecret("hunter2-file"),
				},
				Protocol:    "auto",
				Prefix:      "notes",
				Timeout:     DefaultTimeout,
				Refresh:     DefaultRefresh,
				Concurrency: DefaultConcurrency,
				MaxPrompts:  DefaultMaxPrompts,
				MaxMessage:  DefaultMaxMessage,
				Breaker:     Breaker{DefaultBreakerFailures, DefaultBreakerCooldown},
				Place:       at(47),
			}},
			Exposes: []Rule{{
				Label:   "reviews for everyone",
				Prompts: patterns(t, "review_*"),
				To:      []Selector{{Kind: Anybody}, {Group, "x"}, {User, "y"}, {TeamOf, "payments"}},
				Place:   at(51),
			}},
			Hides:        []Rule{{Label: "half-finished", Prompts: patterns(t, "notes/wip_?"), Place: at(55)}},
			Place:        at(28),
			MembersPlace: at(29),
		}},
	}
	if diff := cmp.Diff(want, load(t, path), comparer()); diff != "" {
		t.Errorf("Load(%s) (-want +got):\n%s", path, diff)
	}
}

func TestAnEmptyFileGivesTheDefaults(t *testing.T) {
	want := &Config{
		Gateway: Gateway{
			Listen:    DefaultListen,
			Path:      DefaultPath,
			PageSize:  DefaultPageSize,
			Separator: DefaultSeparator,
			Conflict:  ConflictDrop,
		},
		Admin: Admin{Listen: DefaultAdminListen},
	}
	if diff := cmp.Diff(want, load(t, "testdata/valid/empty.hcl"), comparer()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestValidFixturesLoadWithoutAWord(t *testing.T) {
	paths, _ := filepath.Glob("testdata/valid/*.hcl")
	for _, path := range paths {
		if _, diags := Load(path, options()); diags.Len() > 0 {
			t.Errorf("Load(%s): %v", path, diags.Err())
		}
	}
}

func TestTheSampleInThePackageCommentLoads(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, found := strings.Cut(string(doc), "# A team's file, annotated")
	if !found {
		t.Fatal("no sample in doc.go")
	}
	var hcl strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^//\t(.*)$`).FindAllStringSubmatch(sample, -1) {
		hcl.WriteString(line[1] + "\n")
	}
	cfg := load(t, write(t, "payments.hcl", hcl.String()))
	if got := len(cfg.Upstreams()); got != 2 {
		t.Errorf("the sample has %d upstreams, want 2", got)
	}
}

func TestMistakesOfAllFilesShowInOneRun(t *testing.T) {
	dir := write(t,
		"a.hcl", "team \"a\" {\n  members = [\"nobody\"]\n  upstream \"x\" { url = \"x\" }\n}\n",
		"b.hcl", "team \"b\" {\n  colour = 1\n}\n",
		"c.hcl", "team \"c\" { members = [ }\n",
		"gateway.hcl", "gateway { page_size = 0 }\nadmin { listen = \"x\" }\n",
	)
	cfg, diags := Load(dir, options())
	if cfg != nil || diags.Len() != 6 {
		t.Errorf("%d diagnostics, want 6", diags.Len())
	}
	text := diags.Err().Error()
	for _, place := range []string{"a.hcl:2: ", "a.hcl:3: ", "b.hcl:2: ", "c.hcl:1: ", "gateway.hcl:1: ", "gateway.hcl:2: "} {
		if !strings.Contains(text, filepath.Join(dir, place)) {
			t.Errorf("nothing at %s in:\n%s", place, text)
		}
	}
}

func TestSecretsDoNotShowInAConfig(t *testing.T) {
	for _, path := range []string{"everything.hcl", "outside.hcl"} {
		cfg := load(t, filepath.Join("testdata", "valid", path))
		cfg.Gateway.Instructions = "" // public by nature
		encoded, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		all.Write(encoded)
		for _, format := range []string{"%v", "%+v", "%#v"} {
			fmt.Fprintf(&all, format, *cfg)
			fmt.Fprintf(&all, format, cfg.Auth)
		}
		dumps := all.String()
		hash := sha256.Sum256([]byte("token"))
		for _, secret := range []string{"hunter2", "0123456789abcdef", hex.EncodeToString(hash[:8]), fmt.Sprint(hash)} {
			if strings.Contains(dumps, secret) {
				t.Errorf("%s: %q shows in:\n%s", path, secret, dumps)
			}
		}
	}
}

func TestAddressMasksWhatComesFromOutside(t *testing.T) {
	want := []string{"(sensitive)", "tool --key (sensitive) (sensitive)"}
	for i, u := range load(t, "testdata/valid/outside.hcl").Upstreams() {
		if got := u.Address(); got != want[i] {
			t.Errorf("Address of %s = %q, want %q", u.Name, got, want[i])
		}
		if u.URL != "https://docs.example.com/hunter2-env/mcp" && u.URL != "" {
			t.Errorf("URL = %q", u.URL)
		}
	}
}

func TestUnsetVariablesLeaveValuesEmptyWhereThatIsAllowed(t *testing.T) {
	dir := write(t, "x.hcl", `
gateway {
  public_url  = env("UNSET")
  cursor_keys = [env("UNSET")]
}
team "a" {
  upstream "u" {
    url     = "https://${env("UNSET")}/"
    headers = { Authorization = "Bearer ${env("UNSET")}" }
  }
}`)
	opts := options()
	opts.AllowUnsetEnv = true
	cfg, diags := Load(filepath.Join(dir, "x.hcl"), opts)
	if cfg == nil || diags.HasErrors() || diags.Len() != 4 {
		t.Fatalf("Load = %v, %v, %d diagnostics, want 4 warnings", cfg, diags.Err(), diags.Len())
	}
	u := cfg.Upstreams()[0]
	if cfg.Gateway.PublicURL != "" || len(cfg.Gateway.CursorKeys) != 0 || u.URL != "" || u.Headers["Authorization"].Reveal() != "" {
		t.Errorf("got values from nowhere: %+v %q", cfg.Gateway, u.URL)
	}
	if u.Transport != StreamableHTTP || u.Address() != masked {
		t.Errorf("transport %q at %q", u.Transport, u.Address())
	}
}
