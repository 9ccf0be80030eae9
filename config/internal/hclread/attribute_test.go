package hclread

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func environment(name string) (string, bool) {
	return "hunter2-env", name == "SECRET"
}

// box returns a block with some attributes, beside further files.
func box(t *testing.T, attributes string, files ...string) *Block {
	t.Helper()
	dir := write(t, append(files, "x.hcl", "box {\n"+attributes+"\n}\n")...)
	r := New(testSchema(), Options{LookupEnv: environment})
	r.ReadPath(filepath.Join(dir, "x.hcl"))
	r.Check()
	return r.Blocks("box")[0]
}

func TestSecretMap_EvaluatesExpressions(t *testing.T) {
	for expr, want := range map[string]string{
		`trimprefix("abc", "a")`:                           "bc",
		`trimsuffix("abc", "c")`:                           "ab",
		`trim("xax", "x")`:                                 "a",
		`format("%s-%02d", "a", 7)`:                        "a-07",
		`substr("abcdef", 1, 2)`:                           "bc",
		`tostring(length(["a", "b"]))`:                     "2",
		`tostring(contains(["a"], "a"))`:                   "true",
		`join(",", keys({ a = 1, b = 2 }))`:                "a,b",
		`join(",", values({ a = 1, b = 2 }))`:              "1,2",
		`lookup({ a = "1" }, "b", "c")`:                    "c",
		`join(",", flatten([["b"], ["a"]]))`:               "b,a",
		`join(",", sort(distinct(["b","a"])))`:             "a,b",
		`tostring(tonumber("1") + 1)`:                      "2",
		`jsondecode("{\"a\":\"b\"}").a`:                    "b",
		`base64decode("YQ")`:                               "a",
		`env("SECRET")`:                                    "hunter2-env",
		`env("UNSET", "default")`:                          "default",
		`env("UNSET", "")`:                                 "",
		`"<${trimspace(file("value"))}>"`:                  "<content>",
		`true ? env("SECRET") : "x"`:                       "hunter2-env",
		`join(",", split("-", "a-b"))`:                     "a,b",
		`join(",", concat(["a"], ["b"]))`:                  "a,b",
		`join(",", [{ a = "b" }, { a = "c" }][*].a)`:       "b,c",
		`merge({ a = "1" }, { a = "2" }).a`:                "2",
		`replace("a-b", "-", "+")`:                         "a+b",
		`format("%s-%d %q %% %v", "a", 7, "b", true)`:      `a-7 "b" % true`,
		`sha256("a")`:                                      "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
		`jsonencode({ a = ["b"] })`:                        `{"a":["b"]}`,
		`regex("(a)(b)", "ab")[1]`:                         "b",
		`join(",", regexall("[0-9]+", "1 22"))`:            "1,22",
		`regexreplace("a1", "([0-9])", "<$1>")`:            "a<1>",
		`indent(2, "a\nb")`:                                "a\n  b",
		`length(split(",", "a,b")) * (2 + 1)`:              "6",
		`env("UNSET", "") == "" ? lower("A") : upper("b")`: "a",
		`coalesce(null, lookup({ a = "1" }, "a", "c"))`:    "1",
		`tostring(3 > "2")`:                                "true",
	} {
		b := box(t, "env = { V = "+expr+" }", "value", "content\n")
		got := SecretMap(b, "env", SameKey, func(_, value string) (string, error) { return value, nil })["V"]
		if got != want || len(b.diags) > 0 {
			t.Errorf("%s = %q, want %q; %v", expr, got, want, b.diags)
		}
	}
}

func TestSet_KeepsTheDefaultOfAWrongValue(t *testing.T) {
	b := box(t, `name = "yellow"`)
	colour := "red"
	if Set(b, "name", &colour, OneOf("red", "blue")) || colour != "red" {
		t.Errorf("Set took %q", colour)
	}
	if got := b.Finish().Diagnostics.Error(); !strings.Contains(got, `"yellow" is not one of: red, blue`) {
		t.Errorf("diagnostics: %s", got)
	}
}

func TestReadFile_AsksForAccessTwice(t *testing.T) {
	b := box(t, `path = "value"`, "value", "content")
	access := &recorder{}
	b.Restrict(access)
	if content, _, ok := b.ReadFile("path"); !ok || content != "content" {
		t.Errorf("ReadFile = %q, %t", content, ok)
	}
	if len(access.files) != 2 {
		t.Errorf("asked for %q, want the path as written and the resolved one", access.files)
	}
}

func TestReadFile_ReadsWhatWasChecked(t *testing.T) {
	for _, replaced := range []string{"value", "folder/value"} {
		b := box(t, `path = "`+replaced+`"`, "value", "content", "folder/value", "content", "secret/value", "hunter2")
		b.Restrict(&swapper{t: t, path: filepath.Join(b.scope.dir, strings.TrimSuffix(replaced, "/value")), to: b.scope.dir})
		if content, _, ok := b.ReadFile("path"); ok || content != "" {
			t.Errorf("ReadFile(%q) = %q, %t after a link took its place", replaced, content, ok)
		}
		if got := b.Finish().Diagnostics.Error(); !strings.Contains(got, "replaced while it was read") {
			t.Errorf("ReadFile(%q): %s", replaced, got)
		}
	}
}

// swapper puts a link in place of a file or folder once it has allowed it.
type swapper struct {
	recorder

	t        *testing.T
	path, to string
}

func (s *swapper) AllowResolvedFile(string, Text) error {
	if err := os.Rename(s.path, s.path+"-old"); err != nil {
		s.t.Fatal(err)
	}
	target := filepath.Join(s.to, "secret")
	if filepath.Base(s.path) == "value" {
		target = filepath.Join(target, "value")
	}
	link(s.t, target, s.path)
	return nil
}

// recorder allows everything.
type recorder struct{ files []string }

func (r *recorder) AllowEnv(string) error { return nil }

func (r *recorder) AllowFile(path string, _ Text) error {
	r.files = append(r.files, path)
	return nil
}

func (r *recorder) AllowResolvedFile(path string, _ Text) error {
	r.files = append(r.files, path)
	return nil
}
