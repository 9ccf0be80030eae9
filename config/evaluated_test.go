package config

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// variants are texts that a file may have, by its path. The first are without mistakes; an empty
// one removes the file.
func variants() map[string][]string {
	const auth = "auth {\n  token \"ann\" { sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\" }\n}\n"
	gateway := func(listen, separator string) string {
		return auth + "gateway {\n  listen = " + listen + "\n  separator = \"" + separator + "\"\n}\n"
	}
	return map[string][]string{
		"gateway.hcl": {
			gateway(`"127.0.0.1:8090"`, "."), gateway(`"127.0.0.1:8090"`, "-"), gateway(`"example.com:443"`, "."),
			gateway(`file("listen")`, "."), gateway(`"127.0.0.1:8090"`, ".") + "hide \"h\" { prompts = [\"a.*\"] }\n", "gateway {",
		},
		"allow.hcl": {
			"", "allow \"a\" {\n  hosts = [\"*\"]\n  env = [\"HOME\"]\n}\nallow \"b\" { hosts = [\"*\"] }\nallow \"c\" { hosts = [\"*\"] }\n",
			"allow \"a\" { hosts = [\"example.com\"] }\n", "allow \"nobody\" {}\n",
			"allow \"a\" {\n  hosts = [\"*\"]\n  prefixes = [\"a*\"]\n}\nallow \"b\" {\n  hosts = [\"*\"]\n  max_prompts = 5\n}\n",
		},
		"listen": {"127.0.0.1:8090", "example.com:443", "example.com:444"},
		"teams/a.hcl": {
			teamFile("a", "a", ""), teamFile("a", "a", "# more"), teamFile("a", "a", `lock = "warn"`),
			teamFile("a", "a", "expose \"e\" {\n  prompts = [\"a.*\"]\n  to = [\"team:b\"]\n}"),
			teamFile("a", "a", "hide \"h\" { prompts = [\"nothing.*\"] }"), // a warning
			teamFile("a", "a", "upstream \"env\" {\n  url = \"https://example.com\"\n  headers = { x = env(\"HOME\") }\n}"),
			teamFile("a", "a", "upstream \"file\" {\n  url = \"https://example.com\"\n  headers = { x = file(\"../listen\") }\n}"),
			teamFile("a", "a", "upstream \"files\" { files = [\"*.md\"] }"),
			teamFile("a", "a", "prompt \"a.x\" { name = \"a.y\" }"), teamFile("a", "a", "prompt \"b.x\" { name = \"y\" }"),
			teamFile("a", "a", "colour = 1"), "team \"a\" {", teamFile("a", "a", "") + "admin {}\n", "",
		},
		"teams/b.hcl": {
			teamFile("b", "b", ""), teamFile("b", "a", ""), teamFile("b", "b", "upstream \"second\" {\n  url = \"https://example.com\"\n  prefix = \"a\"\n}"),
			teamFile("b", "c", ""), teamFile("a", "b", ""), teamFile("b", "а", ""), "",
		},
		"teams/c.hcl": {"", teamFile("c", "c", "prompt \"c.x\" { name = \"b.y\" }"), teamFile("c", "c", "prompt \"c.x\" { name = \"a.y\" }")},
	}
}

// Whatever changes, a load that reuses what was evaluated earlier comes out like one that does not.
func TestLoad_BeforeMakesNoDifference(t *testing.T) {
	t.Parallel()
	all := variants()
	dir := write(t, "teams/unchanged.hcl", teamFile("u", "u", "expose \"e\" {\n  prompts = [\"u.*\"]\n  to = [\"*\"]\n}"))
	names := []string{"gateway.hcl", "allow.hcl", "listen", "teams/a.hcl", "teams/b.hcl", "teams/c.hcl"}
	set := func(name string, variant int) {
		path, text := filepath.Join(dir, name), all[name][variant]
		if text == "" {
			_ = os.Remove(path) // it may not be there
		} else if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		set(name, 0)
	}
	compare := append(comparer(), cmp.Comparer(func(a, b *Files) bool {
		return a == b || a != nil && b != nil && a.shownPatterns() == b.shownPatterns() && a.Folder == b.Folder && a.Root == b.Root &&
			a.grants.same(b.grants) && maps.Equal(a.reserved, b.reserved)
	}))
	before, reused := load(t, dir), 0
	for range 600 {
		name := names[rand.IntN(len(names))]
		set(name, rand.IntN(len(all[name])))
		want, wantDiags := Load(dir, options())
		opts := options()
		opts.Before = before
		got, diags := Load(dir, opts)
		if diff := cmp.Diff(want, got, compare); diff != "" {
			t.Fatalf("after a change of %s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(printed(t, wantDiags), printed(t, diags)); diff != "" {
			t.Fatalf("after a change of %s (-want +got):\n%s", name, diff)
		}
		if got != nil {
			if shares(before, got) {
				reused++
			}
			before = got
		}
		if rand.IntN(2) == 0 { // most changes of what is right are to be seen, too
			set(name, 0)
		}
	}
	if reused < 20 {
		t.Errorf("only %d loads reused what was evaluated", reused)
	}
}

// shares reports whether both have a team that was evaluated once.
func shares(a, b *Config) bool {
	for path, file := range a.evaluated.files {
		if b.evaluated.files[path] == file {
			return true
		}
	}
	return false
}

// printed returns diagnostics as they are printed.
func printed(t *testing.T, diags Diagnostics) string {
	t.Helper()
	var out bytes.Buffer
	if err := diags.Write(&out, 100, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
