package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestAllow_GrantsFilesByTheirRealPath(t *testing.T) {
	certificate := secretFile(t, "ca.crt").Reveal() // what a tls block takes
	elsewhere := write(t, "secret", certificate, "mounted", certificate)
	dir := write(t,
		"secrets/..2026_01_31_10_11_12.3456/token", certificate,
		"secrets/payments/token", certificate,
		"..evil/secrets/payments/token", certificate,
		"..data/secrets/payments/token", certificate,
		"..2026_01_31_10_11_12.3456/secrets/payments/token", certificate,
		"secrets/..2026_01_31/payments/token", certificate,
		"teams/.keep", "",
	)
	link(t, "..2026_01_31_10_11_12.3456", filepath.Join(dir, "secrets", "..data"))
	link(t, "..data/token", filepath.Join(dir, "secrets", "token"))
	link(t, filepath.Join(elsewhere, "secret"), filepath.Join(dir, "secrets", "payments", "link"))
	link(t, elsewhere, filepath.Join(dir, "secrets", "payments", "folder"))

	loads := func(grant, upstream string) bool {
		policy := `allow "a" {` + "\n" + `files = ["` + grant + `"]` + "\n" + `commands = ["*"]` + "\n" + `hosts = ["*"]` + "\n}"
		team := `team "a" {` + "\n" + `upstream "u" {` + "\n" + upstream + "\n}\n}"
		writeFile(t, filepath.Join(dir, "gateway.hcl"), policy)
		writeFile(t, filepath.Join(dir, "teams", "a.hcl"), team)
		cfg, _ := Load(dir, options())
		return cfg != nil
	}
	may := func(grant, path string) bool {
		t.Helper()
		function := loads(grant, `command = ["x", file("`+path+`")]`)
		block := loads(grant, `url = "https://u"`+"\n"+`tls { ca_file = "`+path+`" }`)
		if function != block {
			t.Errorf("%q grants %q to file(): %t, to a tls block: %t", grant, path, function, block)
		}
		return function
	}
	allow := func(grant, path string) {
		t.Helper()
		if !may(grant, path) {
			t.Errorf("%q does not grant %q", grant, path)
		}
	}
	deny := func(grant, path string) {
		t.Helper()
		if may(grant, path) {
			t.Errorf("%q grants %q", grant, path)
		}
	}
	allow("secrets/payments/*", "../secrets/payments/token")
	allow("secrets/payments/*", "../teams/../secrets/payments/token")
	allow("secrets/payments/*", filepath.Join(dir, "secrets/payments/token"))
	allow("secrets/token", "../secrets/token") // as Kubernetes mounts it
	allow("secrets/token", "../secrets/..data/token")
	allow(elsewhere+"/m*", filepath.Join(elsewhere, "mounted"))
	deny("secrets/payments/*", "../secrets/token")
	deny("secrets/payments/*", "../secrets/payments/../token")
	deny("secrets/payments/*", "../secrets/payments/link")
	deny("*", "../secrets/payments/link")
	deny("*", "../secrets/payments/folder/secret")
	deny("*", filepath.Join(elsewhere, "secret"))
	deny("*", "../../"+filepath.Base(elsewhere)+"/secret")
	deny("../*", "../../"+filepath.Base(elsewhere)+"/secret")
	deny("secrets/payments/*", "../..evil/secrets/payments/token")
	allow("secrets/payments/*", "../..data/secrets/payments/token") // where the folder itself is a mount
	allow("secrets/payments/*", "../..2026_01_31_10_11_12.3456/secrets/payments/token")
	deny("secrets/payments/*", "../secrets/..2026_01_31/payments/token")
}

func TestAllow_LooksThroughKubernetesMounts(t *testing.T) {
	for grant, ok := range map[string]bool{`"token"`: true, `"other"`: false} {
		const version = "..2026_01_31_10_11_12.3456"
		dir := write(t,
			version+"/gateway.hcl", "allow \"a\" {\ncommands = [\"x\"]\nfiles = ["+grant+"]\n}",
			version+"/a.hcl", "team \"a\" {\nupstream \"u\" { command = [\"x\", file(\"token\")] }\n}",
			version+"/token", "content",
		)
		link(t, version, filepath.Join(dir, "..data"))
		for _, name := range []string{"gateway.hcl", "a.hcl", "token"} {
			link(t, "..data/"+name, filepath.Join(dir, name))
		}
		if cfg, diags := Load(dir, options()); (cfg != nil) != ok {
			t.Errorf("files = [%s]: %v", grant, diags.Err())
		}
	}
}

func TestAllow_BoundsTheDefaultsOfATeam(t *testing.T) {
	cfg := load(t, write(t, "gateway.hcl", `
allow "a" {
  hosts       = ["*"]
  max_prompts = 100
  concurrency = 1000
}
`, "a.hcl", `
team "a" {
  upstream "u" { url = "https://u.example.com" }
}
`))
	u := cfg.Teams[0].Upstreams[0]
	if u.MaxPrompts != 100 || u.Concurrency != DefaultConcurrency || u.MaxMessage != DefaultMaxMessage {
		t.Errorf("max_prompts = %d, concurrency = %d, max_message = %d, want 100 and the defaults", u.MaxPrompts, u.Concurrency, u.MaxMessage)
	}
}

func TestAllow_GrantsWorkingFoldersByTheirRealPath(t *testing.T) {
	elsewhere, err := filepath.EvalSymlinks(write(t, "granted/deep/.keep", "", "other/.keep", ""))
	if err != nil {
		t.Fatal(err)
	}
	root := write(t, "teams/a/own/.keep", "", "teams/b/.keep", "", "shared/tools/.keep", "")
	link(t, filepath.Join(elsewhere, "other"), filepath.Join(root, "teams", "a", "out"))
	link(t, "../../shared", filepath.Join(root, "teams", "a", "shared"))
	link(t, "own", filepath.Join(root, "teams", "a", "in"))
	file := filepath.Join("teams", "a", "a.hcl")
	const summary = "Not allowed for this team"
	refused := func(dir string) string {
		return fmt.Sprintf(`%s; Team "a" may not use the folder %q; the platform team can add it to dirs in allow "a".`, summary, dir)
	}
	for _, test := range []struct{ allow, dir, want string }{ // want is the folder, or the error
		{`dirs = []`, "own", "teams/a/own"},
		{`dirs = []`, ".", "teams/a"},
		{`dirs = []`, "../a/own/", "teams/a/own"},
		{`dirs = []`, "in", "teams/a/own"},
		{`dirs = []`, "..", refused("..")},
		{`dirs = []`, "../b", refused("../b")},
		{`dirs = []`, "../nowhere", refused("../nowhere")}, // whether it exists is not told
		{`dirs = []`, "out", refused("out")},
		{`dirs = []`, "shared/tools", refused("shared/tools")},
		{`dirs = []`, elsewhere, refused(elsewhere)},
		{`dirs = ["shared"]`, "shared/tools", "shared/tools"},
		{`dirs = ["shared"]`, "../../shared", "shared"},
		{`dirs = ["share"]`, "../../shared", refused("../../shared")},
		{`dirs = ["*"]`, "../b", "teams/b"},
		{`dirs = ["*"]`, "out", refused("out")},
		{`dirs = ["` + elsewhere + `/granted"]`, elsewhere + "/granted/deep", elsewhere + "/granted/deep"},
		{`dirs = ["` + elsewhere + `/granted"]`, elsewhere + "/granted/../other", refused(elsewhere + "/granted/../other")},
		{"", elsewhere + "/other", elsewhere + "/other"}, // without allow blocks
		{"", "out", elsewhere + "/other"},
	} {
		policy := "gateway {}\n"
		if test.allow != "" {
			policy += "allow \"a\" {\ncommands = [\"x\"]\n" + test.allow + "\n}\n"
		}
		team := fmt.Sprintf("team \"a\" {\nupstream \"u\" {\ncommand = [\"x\"]\ndir = %q\n}\n}\n", test.dir)
		writeFile(t, filepath.Join(root, "gateway.hcl"), policy)
		writeFile(t, filepath.Join(root, file), team)
		cfg, diags := Load(root, options())
		var got string
		if cfg != nil {
			if got = cfg.Teams[0].Upstreams[0].Dir; !filepath.IsAbs(got) {
				t.Errorf("dir = %q: Dir = %q, want an absolute path", test.dir, got)
			}
		} else {
			got = diags.Err().Error()
		}
		want := test.want
		switch actual, err := filepath.EvalSymlinks(root); {
		case err != nil:
			t.Fatal(err)
		case strings.HasPrefix(want, summary):
			want = filepath.Join(root, file) + ":4: " + strings.Replace(want, "; ", ": ", 1)
		case !filepath.IsAbs(want):
			want = filepath.Join(actual, filepath.FromSlash(want))
		}
		if got != want {
			t.Errorf("with %q, dir = %q:\ngot  %s\nwant %s", test.allow, test.dir, got, want)
		}
	}
}
