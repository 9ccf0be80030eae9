package config

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// load returns a configuration without mistakes.
func load(t *testing.T, path string) *Config {
	t.Helper()
	cfg, diags := Load(path, options())
	if err := diags.Err(); err != nil || cfg == nil {
		t.Fatalf("Load(%s): %v", path, err)
	}
	return cfg
}

// write makes a folder of files, given as name and content in turns.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir, all := t.TempDir(), fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		all[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	if err := os.CopyFS(dir, all); err != nil {
		t.Fatal(err)
	}
	return dir
}

// comparer compares configurations by value, secrets included.
func comparer() cmp.Options {
	return cmp.Options{
		cmp.AllowUnexported(Upstream{}),
		cmpopts.IgnoreFields(Config{}, "Files", "Folder", "Hash"),
		cmp.Comparer(func(a, b Pattern) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b *Condition) bool { return a == b || a != nil && b != nil && a.text == b.text }),
		cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() }),
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

// secretFile returns what the fixtures have in secrets/payments.
func secretFile(t *testing.T, name string) Secret {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "valid", "secrets", "payments", name))
	if err != nil {
		t.Fatal(err)
	}
	return NewSecret(string(content))
}

// upstream returns an upstream of the team payments with a change of the defaults.
func upstream(change func(*Upstream)) Upstream {
	u := newUpstream()
	u.Team = "payments"
	change(u)
	return *u
}

func TestLoad_DecodesEveryAttribute(t *testing.T) {
	here, err := filepath.EvalSymlinks(hclread.Absolute("."))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "valid", "everything.hcl")
	description := "Plan a day"
	want := &Config{
		Gateway: Gateway{
			Listen:         "0.0.0.0:8443",
			Path:           "/v1/mcp",
			PublicURL:      "https://prompts.example.com",
			Variants:       []Variant{VariantFlat, VariantTools},
			PageSize:       50,
			Separator:      "/",
			CursorKeys:     []Key{newKey([32]byte([]byte("0123456789abcdef0123456789abcdef"))), newKey([32]byte(bytes.Repeat([]byte{0xff}, 32)))},
			AllowedHosts:   []string{"prompts.example.com", "10.0.0.7", "[::1]", "fd00::7"},
			AllowedOrigins: []string{"https://app.example.com", "vscode-webview://panel", "chrome-extension://*", "http://localhost:3000"},
			Conflict:       ConflictFirst,
			Instructions:   "Ask in #prompts.",
			StateDir:       "/var/lib/promptweir",
			MaxBuffered:    "67108864",
			MaxFiles:       1 << 20,
			DrainTimeout:   time.Minute,
			Limit:          &Limit{Rate: 50, Burst: 50, Streams: 64, Block: "gateway"},
		},
		Admin: Admin{Listen: "localhost:0"},
		Audit: &Audit{Path: "/var/log/promptweir/audit.jsonl", Arguments: AuditHash, Required: true, Access: true},
		Cluster: &Cluster{
			Store: Store{
				Addresses: []string{"a.store.internal:26379", "b.store.internal:7000"}, Username: "gateway", Password: "p@ss/word",
				Encrypted: true, MasterSet: "prompts", SentinelPassword: "watch",
			},
			Advertise: "https://10.0.0.3:8443",
			TLS:       &TLS{ServerName: "store.internal"},
		},
		Auth: &Auth{
			Anonymous: true,
			Tokens:    []Token{{Subject: "ci", SHA256: sha256.Sum256([]byte("token")), Groups: []string{"ci", "payments", "x"}}},
		},
		Hides: []Rule{{Label: "never expose debug prompts", Prompts: patterns(t, "*/debug_*", "[!a-z]*")}},
		Teams: []Team{{
			Name:    "payments",
			Members: []Selector{{Group, "payments"}, {User, "alice@example.com"}},
			Upstreams: []Upstream{upstream(func(u *Upstream) {
				u.Name, u.Transport, u.TransportExplicit, u.Protocol = "billing", StreamableHTTP, true, "2025-06-18"
				u.URL, u.HostGrant = "https://billing.internal/mcp", HostByPattern
				u.Headers = map[string]Secret{"Authorization": NewSecret("Bearer hunter2-payments")}
				u.Timeout, u.Refresh, u.Concurrency = 20*time.Second, 90*time.Second, 4
				u.MaxPrompts, u.MaxMessage, u.Breaker = 100, 1<<20, Breaker{3, time.Second}
			}), upstream(func(u *Upstream) {
				u.Name, u.Prefix, u.Transport = "notes", "notes", Stdio
				u.Command, u.Dir = []string{"npx", "-y", "server", "--quiet"}, filepath.Join(here, "testdata", "valid", "secrets", "payments")
				u.Env = map[string]Secret{
					"LOG_LEVEL": NewSecret("warn"), "PORT": NewSecret("8080"), "TOKEN": NewSecret("hunter2-file"),
				}
			}), upstream(func(u *Upstream) {
				u.Name, u.Prefix, u.Transport, u.TransportExplicit = "ledger", "ledger", SSE, true
				u.URL, u.HostGrant = "https://a.ledger.internal/mcp", HostByPattern
				u.TLS = &TLS{
					CAs: secretFile(t, "ca.crt"), Certificate: secretFile(t, "client.crt"), Key: secretFile(t, "client.key"), ServerName: "ledger.internal",
				}
				u.OAuth = &OAuth{
					TokenURL: "https://sso.internal/token?tenant=1", HostGrant: HostByPattern, ClientID: "promptweir",
					ClientSecret: NewSecret("hunter2-payments"), Scopes: []string{"prompts:read", "prompts:list"}, Resource: "https://a.ledger.internal/mcp",
				}
				u.Rate, u.Attempts, u.WhenDown, u.Grace, u.Resources = 2.5, 3, WhenDownHide, 30*time.Second, ResourcesLinked
			})},
			Exposes: []Rule{{
				Label:   "reviews for everyone",
				Prompts: patterns(t, "review_*"),
				To:      []Selector{{Kind: Anybody}, {Group, "x"}, {User, "y"}, {TeamMembers, "payments"}},
			}, {
				Label:   "narrow",
				Prompts: patterns(t, "plan"),
				To:      []Selector{{Kind: Anybody}},
				When:    &Condition{text: `length(prompt.arguments) <= 5 && principal.claims.tier == "gold"`},
				Limit:   &Limit{Rate: 1, Burst: 10, Block: `team "payments" expose "narrow" 1`},
			}},
			Hides: []Rule{{Label: "half-finished", Prompts: patterns(t, "notes/wip_?")}},
			Overrides: []Override{{
				Prompt: "notes/plan", Name: "plan", Title: new(string), Description: &description,
				Fixed:    []ArgumentOverride{{"strict", jsontext.Value(`true`)}, {"year", jsontext.Value(`2026`)}},
				Defaults: []ArgumentOverride{{"lang", jsontext.Value(`"en"`)}},
			}},
			Limit:   &Limit{Rate: 2.5, Burst: 3, Concurrency: 4, Block: `team "payments"`},
			Screens: []Screen{{Label: "hidden orders", Patterns: []*regexp.Regexp{regexp.MustCompile(`(?i)ignore all`)}, Invisible: true, Action: ScreenStrip}, {Label: "form", WellFormed: true, Action: ScreenReject}},
			Lock:    LockSetting{Mode: LockEnforce},
		}},
		Lock: Lock{{Name: "notes/plan", Upstream: "notes", SHA256: sha256.Sum256([]byte("{}"))}},
	}
	if diff := cmp.Diff(want, load(t, path), comparer(), cmpopts.IgnoreTypes(Place{})); diff != "" {
		t.Errorf("Load(%s) (-want +got):\n%s", path, diff)
	}
}

func TestLoad_DecodesFilesSkillsAndGrants(t *testing.T) {
	cfg := load(t, "testdata/valid/more.hcl")
	docs, server := cfg.Upstreams()[0], cfg.Upstreams()[1]
	got := map[string]any{
		"gateway.lock": cfg.Gateway.Lock.Mode, "screen.content": cfg.Gateway.Screens[0].Content, "screen.max_size": cfg.Gateway.Screens[0].MaxSize,
		"screen.skills": cfg.Gateway.Screens[0].Skills, "jwt.issuer": cfg.Auth.JWTs[0].Issuer, "jwt.header": cfg.Auth.JWTs[0].Header,
		"hide.when": cfg.Hides[0].When.String(), "upstream.files": docs.Address(), "upstream.format": docs.Format, "upstream.texts": docs.Texts,
		"upstream.skills": docs.Skills, "oauth.resource": server.OAuth.Resource, "allow.prefixes": server.Prefix, "allow.max_message": server.MaxMessage,
		"allow.max_prompts": server.MaxPrompts, "allow.concurrency": server.Concurrency, "allow.max_files": docs.Files.Max,
	}
	want := map[string]any{
		"gateway.lock": LockWarn, "screen.content": []string{"text"}, "screen.max_size": 1000,
		"screen.skills": true, "jwt.issuer": "access.example.com", "jwt.header": "X-Access-Jwt",
		"hide.when": `prompt.title == ""`, "upstream.files": "*.md", "upstream.format": FormatClaude, "upstream.texts": true,
		"upstream.skills": SkillsOnly, "oauth.resource": "", "allow.prefixes": "", "allow.max_message": 1000,
		"allow.max_prompts": 100, "allow.concurrency": 10, "allow.max_files": 10000,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLoad_KnowsWhereBlocksAre has one block of each type with a location.
func TestLoad_KnowsWhereBlocksAre(t *testing.T) {
	cfg := load(t, "testdata/valid/everything.hcl")
	lines := strings.Split(fileText(t, "testdata/valid/everything.hcl"), "\n")
	team := cfg.Teams[0]
	for want, place := range map[string]Place{
		"gateway": cfg.Gateway.Place, "limit": cfg.Gateway.Limit.Place, "admin": cfg.Admin.Place, "token": cfg.Auth.Tokens[0].Place,
		"hide": cfg.Hides[0].Place, "team": team.Place, "upstream": team.Upstreams[0].Place, "expose": team.Exposes[0].Place,
		"prompt": team.Overrides[0].Place, "screen": team.Screens[0].Place,
	} {
		if line := strings.TrimSpace(lines[place.Line-1]); !strings.HasPrefix(line, want+" ") {
			t.Errorf("the %s block is at %s: %s", want, place, line)
		}
	}
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestLoad_GivesDefaultsForAnEmptyFile(t *testing.T) {
	want := &Config{Gateway: *newGateway(), Admin: *newAdmin()}
	if diff := cmp.Diff(want, load(t, "testdata/valid/empty.hcl"), comparer()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestLoad_AcceptsValidFixturesWithoutDiagnostics(t *testing.T) {
	paths, _ := filepath.Glob("testdata/valid/*.hcl")
	for _, path := range paths {
		if hclread.IsLockFile(path) {
			continue
		}
		if _, diags := Load(path, options()); len(diags.report.Diagnostics) > 0 {
			t.Errorf("Load(%s): %v", path, diags.Err())
		}
	}
}

func TestLoad_ReportsMistakesOfAllFilesInOneRun(t *testing.T) {
	dir := write(t,
		"a.hcl", "team \"a\" {\n  members = [\"nobody\"]\n  upstream \"x\" { url = \"x\" }\n}\n",
		"b.hcl", "team \"b\" {\n  colour = 1\n}\n",
		"c.hcl", "team \"c\" { members = [ }\n",
		"gateway.hcl", "gateway { page_size = 0 }\nadmin { listen = \"x\" }\n",
	)
	cfg, diags := Load(dir, options())
	if cfg != nil || len(diags.report.Diagnostics) != 6 {
		t.Errorf("%d diagnostics, want 6", len(diags.report.Diagnostics))
	}
	text := diags.Err().Error()
	for _, place := range []string{"a.hcl:2: ", "a.hcl:3: ", "b.hcl:2: ", "c.hcl:1: ", "gateway.hcl:1: ", "gateway.hcl:2: "} {
		if !strings.Contains(text, filepath.Join(dir, place)) {
			t.Errorf("nothing at %s in:\n%s", place, text)
		}
	}
}

// A platform's single file may have more.
func TestLoad_BoundsTheUpstreamsOfATeamsFile(t *testing.T) {
	var text strings.Builder
	for i := range maxUpstreams + 1 {
		fmt.Fprintf(&text, "upstream \"u%d\" {\n url = \"https://mcp.example.com/mcp\"\n}\n", i)
	}
	dir := write(t, "gateway.hcl", "gateway {}\n", "a.hcl", "team \"a\" {\n"+text.String()+"}\n", "b.hcl", "team \"b\" {}\n")
	if _, diags := Load(filepath.Join(dir, "a.hcl"), options()); diags.Err() != nil {
		t.Error(diags.Err())
	}
	_, diags := Load(dir, options())
	if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "a.hcl:3002: Too many upstreams: A file with a team block has up to 1000; move") {
		t.Errorf("a file with 1001 upstreams: %v", err)
	}
}

func TestLoad_LeavesValuesOfUnsetVariablesEmpty(t *testing.T) {
	dir := write(t, "x.hcl", `
gateway {
  public_url  = env("UNSET")
  cursor_keys = [env("UNSET")]
}
team "a" {
  upstream "u" {
    url     = "https://${env("UNSET")}/"
    headers = { Authorization = "Bearer ${env("UNSET")}" }
    tls { ca_file = env("UNSET") }
  }
}`)
	opts := options()
	opts.AllowUnsetEnv = true
	cfg, diags := Load(filepath.Join(dir, "x.hcl"), opts)
	if cfg == nil || diags.HasErrors() || len(diags.report.Diagnostics) != 5 {
		t.Fatalf("Load = %v, %v, %d diagnostics, want 5 warnings", cfg, diags.Err(), len(diags.report.Diagnostics))
	}
	u := cfg.Upstreams()[0]
	if cfg.Gateway.PublicURL != "" || len(cfg.Gateway.CursorKeys) != 0 || u.URL != "" || u.Headers["Authorization"].Reveal() != "" {
		t.Errorf("an unset variable gave a value: %+v %q", cfg.Gateway, u.URL)
	}
	if u.Transport != StreamableHTTP || u.Address() != masked {
		t.Errorf("transport %q at %q", u.Transport, u.Address())
	}
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newKey(bytes [32]byte) Key { return Key{bytes} }

func FuzzLoad(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/*.hcl")
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "x.hcl")
		writeFile(t, path, string(content))
		opts := options()
		for _, opts.AllowUnsetEnv = range []bool{false, true} {
			cfg, diags := Load(path, opts)
			if (cfg == nil) != diags.HasErrors() || (diags.Err() != nil) != diags.HasErrors() {
				t.Errorf("Load = %v with %v", cfg, diags.Err())
			}
			var out strings.Builder
			if err := diags.Write(&out, 80, true); err != nil {
				t.Error(err)
			}
			if text := out.String(); strings.Contains(text, "hunter2-env") && !strings.Contains(string(content), "hunter2") {
				t.Errorf("a secret shows in:\n%s", text)
			}
		}
	})
}

func TestLoad_ReportsEachPathBeforeItIsRead(t *testing.T) {
	dir := write(t,
		"gateway.hcl", "gateway {\n  instructions = file(\"text/motd\")\n  lock = \"warn\"\n}\n",
		"text/motd", "Hello.",
		"teams/eng.hcl", "team \"eng\" {\n  upstream \"up\" {\n    url = \"https://example.com/mcp\"\n    headers = { X-Key = file(\"none\") }\n  }\n}\n",
		"_draft.hcl", "nonsense",
	)
	var visited []string
	opts := options()
	opts.OnRead = func(path string) {
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(visited, relative) {
			visited = append(visited, relative)
		}
	}
	if _, diags := Load(dir, opts); !diags.HasErrors() {
		t.Fatal("a file is missing, and it loads")
	}
	slices.Sort(visited)
	if diff := cmp.Diff([]string{".", "gateway.hcl", "promptweir.lock.hcl", "teams", "teams/eng.hcl", "teams/none", "text", "text/motd"}, visited); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
