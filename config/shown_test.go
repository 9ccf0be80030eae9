package config

import (
	"go/token"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func everyBlock(string, string) bool { return true }

// What is shown loads again, and gives the same configuration but for masked secrets.
func TestShown_LoadsAgain(t *testing.T) {
	t.Setenv("FIXTURE_TEXT", "text from outside")
	paths, err := filepath.Glob("../examples/*/gateway.hcl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for i := range paths {
		paths[i] = filepath.Dir(paths[i])
	}
	for _, name := range []string{"everything", "outside", "identity", "labels", "minimal", "empty"} {
		paths = append(paths, filepath.Join("testdata", "valid", name+".hcl"))
	}
	paths = append(paths, filepath.Join(write(t, "secrets.hcl", secretsEverywhere), "secrets.hcl"))
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { checkLoadsAgain(t, path) })
	}
}

func checkLoadsAgain(t *testing.T, path string) {
	folder, dir, opts := path, t.TempDir(), Options{AllowUnsetEnv: true}
	if filepath.Ext(path) == ".hcl" {
		folder = filepath.Dir(path)
	}
	if strings.HasPrefix(path, "testdata") {
		opts = options()
	}
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, strings.TrimPrefix(path, folder))
	cfg, diags := Load(path, opts)
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range cfg.Shown(everyBlock) {
		writeFile(t, filepath.Join(dir, filepath.FromSlash(file.Name)), file.Text)
		all.WriteString(file.Text)
	}
	texts := all.String()
	for _, secret := range []string{"hunter", "0123456789abcdef", "p@ss", "p%40ss", "=watch", `("token")`, `("ci")`} {
		if strings.Contains(texts, secret) {
			t.Errorf("%q is shown in\n%s", secret, texts)
		}
	}
	again, diags := Load(path, opts)
	if err := diags.Err(); err != nil {
		t.Fatalf("what is shown does not load: %v\n%s", err, texts)
	}
	if diff := cmp.Diff(cfg, again, butForSecrets()); diff != "" {
		t.Errorf("what is shown is another configuration:\n%s\n%s", diff, texts)
	}
}

// butForSecrets compares configurations without what is secret in them, and without lines.
func butForSecrets() cmp.Options {
	return append(comparer()[2:5:5],
		cmpopts.IgnoreFields(Config{}, "Hash", "TeamFiles"),
		cmpopts.IgnoreFields(Store{}, "Username", "Password", "SentinelPassword"),
		cmpopts.IgnoreTypes(Place{}),
		cmp.FilterPath(func(p cmp.Path) bool {
			field, ok := p.Last().(cmp.StructField)
			return ok && !token.IsExported(field.Name())
		}, cmp.Ignore()),
		cmpopts.EquateComparable(netip.Prefix{}),
		cmp.Comparer(func(a, b PathPattern) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b Secret) bool { return true }),
		cmp.Comparer(func(a, b Key) bool { return true }),
		cmp.Comparer(func(a, b jsontext.Value) bool {
			return hideParameters(string(a)) == hideParameters(string(b))
		}),
		cmp.Comparer(func(a, b [32]byte) bool { return (a == [32]byte{}) == (b == [32]byte{}) }),
		cmp.FilterPath(func(p cmp.Path) bool {
			return slices.Contains([]string{".Command", ".URLs"}, p.Last().String())
		}, cmp.Comparer(func(a, b []string) bool { return len(a) == len(b) })),
	)
}

// secretsEverywhere has hunter in each of its secrets, in the forms that people write them in.
const secretsEverywhere = `
# The token was hunter1.
gateway {
  listen       = "127.0.0.1:0"   // hunter2
  public_url   = "https://prompts.example.com"
  instructions = env("FIXTURE_TEXT", "Ask.") /* hunter3 */
  cursor_keys  = [base64encode("hunter4-hunter4-hunter4-hunter4-")]
}
admin { token_sha256 = sha256("hunter5") }
auth {
  token "ci" { sha256 = sha256("hunter6") }
  token "cd" { sha256 = sha256(format("%s", "hunter7")) }
}
cluster { store = "rediss://:hunter8@a.internal:6379/2" }
team "eng" {
  members = ["group:ci"]
  upstream "up" {
    url     = "https://127.0.0.1/mcp?api_key=hunter9"
    headers = { Authorization = "Bearer ${env("FIXTURE_TEXT", "hunter10")}", X-Key = true ? "hunter11" : "hunter12" }
  }
  upstream "many" {
    urls    = ["https://a.example.com/?page=1", "https://b.example.com/${env("FIXTURE_TEXT")}?token=hunter13"]
    headers = { for name in ["A", "B"] : name => "hunter14" }
    oauth {
      token_url     = "https://sso.example.com/token"
      client_id     = "promptweir"
      client_secret = "hunter15"
    }
  }
  upstream "sh" {
    command = concat(["sh", "-c", "true", "--password"], ["hunter16", env("PW", "hunter17")])
    env     = merge({ KEY = "hunter18", PORT = 8080 }, { MODE = env("FIXTURE_TEXT", "hunter19") })
  }
  upstream "listed" {
    command = ["sh", "--password", "hunter20", # hunter21
      true ? "x-hunter22-long" : "postgres://app:hunter23@db/shop", "--token=hunter24${env("FIXTURE_TEXT")}",
    ]
    env = {
      KEY = "hunter22-long"
      PEM = <<-PEM
        hunter26
        hunter27
      PEM
    }
  }
  expose "all" {
    prompts = ["up.*"]
    to      = ["*"]
    when    = prompt.name != "x"
  }
  prompt "up.a" {
    description = <<-TEXT
      # This is no comment.

      Nor is that.
    TEXT
    arguments   = { year = 2026, db = "mysql://app:hunter25@db" }
  }
}
`

func TestShown_HasReferencesAndFewMasks(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {\n  listen = \"127.0.0.1:0\" # here\n  page_size = 7\n}\n",
		"teams/eng.hcl", `
# Ours.
team "eng" {
  upstream "up" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "Bearer ${env("A_TOKEN")}", X-Key = "hunter2", X-Id = sha256(env("SECRET")) }
  }
  upstream "child" {
    command = ["server", "--is=hunter2-and-more", "--is=hunter2-hunter2-"]
    env     = { SHORT = "hunter2-", LONG = "hunter2-and-more" }
  }
}
`)
	cfg := load(t, dir)
	want := []ShownFile{
		{Name: "gateway.hcl", Text: "gateway {\n  listen    = \"127.0.0.1:0\"\n  page_size = 7\n}\n"},
		{Name: "teams/eng.hcl", Text: `team "eng" {
  upstream "up" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "Bearer ${env("A_TOKEN")}", X-Key = "(sensitive)", X-Id = sha256(env("SECRET")) }
  }
  upstream "child" {
    command = ["server", "--is=(sensitive)", "--is=(sensitive)(sensitive)"]
    env     = { SHORT = "(sensitive)", LONG = "(sensitive)" }
  }
}
`},
	}
	if diff := cmp.Diff(want, cfg.Shown(everyBlock)); diff != "" {
		t.Error(diff)
	}
	if got := cfg.Shown(func(block, label string) bool { return label == "eng" }); len(got) != 1 || got[0].Name != "teams/eng.hcl" {
		t.Errorf("the team's files are %v", got)
	}
	// A file with a mistake is shown as it is in use.
	writeFile(t, filepath.Join(dir, "teams", "eng.hcl"), "team \"eng\" { oops = \"hunter2\" }")
	kept, _, _ := LoadLastGood(dir, options(), cfg.LastGood)
	want[1].Kept, want[1].Text = true, "# In use in place of this file, which has mistakes.\n"+want[1].Text
	if diff := cmp.Diff(want, kept.Shown(everyBlock)); diff != "" {
		t.Error(diff)
	}
}

// What stands for a store's address can be parsed, whatever comes from outside.
func TestMasker_KeepsTheFormOfAStore(t *testing.T) {
	for text, want := range map[string]string{
		"rediss://user:hunter@a.internal,b.internal:7000/?master_set=m&sentinel_password=hunter": "rediss://:(sensitive)@a.internal,b.internal:7000/?master_set=m&sentinel_password=(sensitive)",
		"redis://hunter@a.internal/2":         "redis://:(sensitive)@a.internal/2",
		"rediss://:hunter@(sensitive):6379/2": "rediss://masked.invalid",
		"":                                    "redis://masked.invalid",
	} {
		got := (&masker{}).Secret("store", text)
		if _, err := parseStore(got); got != want || err != nil {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

// Who writes a secret into an address or a command should not, and operators are not shown it all
// the same.
func TestShown_HidesWhatIsNamedLikeASecret(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example.com/mcp?api_key=hunter&page=2&access_token=x%20y#f": "https://a.example.com/mcp?api_key=(sensitive)&page=2&access_token=(sensitive)#f",
		"https://a.example.com/mcp?page=2":                                     "https://a.example.com/mcp?page=2",
		"a=b":                                                                  "a=b",
		"postgresql://app:hunter2@db/shop?x=1 and mysql://b:c@d":               "postgresql://app:(sensitive)@db/shop?x=1 and mysql://b:(sensitive)@d",
		"https://app@db.example.com:8080/a@b":                                  "https://app@db.example.com:8080/a@b",
		"Server=db;Password=hunter two;Encrypt=true":                           "Server=db;Password=(sensitive);Encrypt=true",
		"host=db pwd=hunter2 sslmode=require":                                  "host=db pwd=(sensitive) sslmode=require",
	} {
		if got := hideParameters(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, test := range [][2]string{
		{"server|--token=hunter|--name=x", "server|--token=(sensitive)|--name=x"},
		{"server|--api-key|hunter|--verbose|x", "server|--api-key|(sensitive)|--verbose|x"},
		{"server|--no-token|--name|x", "server|--no-token|--name|x"},
		{"env|API_TOKEN=hunter|HOME=/x|server", "env|API_TOKEN=(sensitive)|HOME=/x|server"},
		{"mcp-remote|https://a.example.com/?token=hunter|--header|Authorization: Bearer hunter", "mcp-remote|https://a.example.com/?token=(sensitive)|--header|Authorization: (sensitive)"},
		{"server|--token", "server|--token"},
		{"mysql|-pHunter2|-u|app|-p|-port|-p8080:80|-p=1", "mysql|-p(sensitive)|-u|app|-p|-port|-p8080:80|-p=1"},
	} {
		if got := strings.Join(hideWords(strings.Split(test[0], "|")), "|"); got != test[1] {
			t.Errorf("%s: %s, want %s", test[0], got, test[1])
		}
	}
}
