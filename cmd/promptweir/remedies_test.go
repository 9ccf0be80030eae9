package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// commandInText finds a command of this program in a sentence. It ends with the clause.
var commandInText = regexp.MustCompile(`promptweir ([a-z]+(?: (?:[^\s;,.:()<$"'` + "`" + `+\\]|\\?\.\w|:/|,\w)+)*)`)

// needs are the flags without which a command that a sentence names would have no configuration or gateway.
var needs = map[string]string{"lock": "config", "sync": "url"} //nolint:gochecknoglobals // a constant table

// Whoever is told a command can run it: it exists, has these flags, and is told with those that it needs.
func TestRemedies_NameCommandsThatRun(t *testing.T) {
	found := 0
	check := func(place, text string) {
		for _, match := range commandInText.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(match[1])
			root := newRoot(newApp(streams{}))
			command, rest, err := root.Find(words)
			if err != nil || command == root {
				continue // a sentence about the program
			}
			found++
			if err := command.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", place, match[0], err)
			}
			isMention := len(rest) == 0 && !strings.Contains(text, "with: ")
			if flag := needs[words[0]]; flag != "" && !isMention && !command.Flags().Changed(flag) {
				t.Errorf("%s: %q needs --%s", place, match[0], flag)
			}
		}
	}
	for _, folder := range []string{".", "../../config", "../../gateway", "../../upstream"} {
		walk(t, folder, ".go", func(path string) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if binary, ok := n.(*ast.BinaryExpr); ok && binary.Op == token.ADD {
					check(path, joined(binary))
					return false
				}
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					check(path, joined(literal))
				}
				return true
			})
		})
	}
	walk(t, "testdata", ".txtar", func(path string) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(archive.Comment)) {
			if strings.HasPrefix(line, "std") && !strings.Contains(line, "Examples:") { // what a command prints, not what the script runs
				check(path, line)
			}
		}
		for _, file := range archive.Files {
			check(path+": "+file.Name, string(file.Data))
		}
	})
	if found < 40 {
		t.Errorf("%d commands, want at least 40", found)
	}
}

// walk calls use with the paths of the files with some ending.
func walk(t *testing.T, folder, ending string, use func(path string)) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ending) {
			use(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// joined returns the text of a concatenation. What is no literal is a gap.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return joined(e.X) + joined(e.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	}
	return "GAP"
}

// At --url there is no block: no remedy names an attribute of one.
func TestConnectError_NeedsNoConfiguration(t *testing.T) {
	source, err := os.ReadFile("../../upstream/client/cause.go")
	if err != nil {
		t.Fatal(err)
	}
	ofBlock := regexp.MustCompile(`_file in|tls block|oauth|headers|concurrency|raise |protocol|remove transport|the upstream$|in the block|gateway's env`)
	isOfCommand := regexp.MustCompile(`^(Command|Interpreter|Folder|NoChildren|Exited|NotMessages|SilentChild|Credential(Empty|Refused)|Token|Address)`)
	checked := 0
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) += Kind\{"(.*)", "(.*)"\}$`).FindAllStringSubmatch(string(source), -1) {
		remedy := m[3]
		if isOfCommand.MatchString(m[1]) { // a child process, a credential of a block, or a guard of the gateway
			continue
		}
		checked++
		if other := urlRemedies[client.Kind{Problem: m[2], Remedy: remedy}]; other != "" {
			remedy = other
		}
		upstreamtest.Equal(t, "", ofBlock.FindString(remedy), "%s: what %q says to somebody without a configuration", m[1], remedy)
	}
	if checked < 25 {
		t.Errorf("%d kinds of causes, want at least 25", checked)
	}
}

// The remedy for an untrusted certificate can be carried out.
func TestList_TrustsACertificateByItsFile(t *testing.T) {
	a := newAuthority(t)
	p := serve(t, a.withTLS("", map[string]string{"team.hcl": "team \"a\" {\n  upstream \"notes\" { files = [\"*.md\"] }\n}\n", "note.md": "A note."}))
	_, stderr, code := runHere(t, "list", "--url", p.endpoint)
	if want := "pass the issuer's certificate with --ca-file, or in SSL_CERT_FILE"; code != exitFailed || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s, want %s", code, stderr, want)
	}
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte(a.PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := runHere(t, "list", "--url", p.endpoint, "--ca-file", path); code != exitDone || !strings.Contains(stdout, "notes.note") {
		t.Errorf("with --ca-file: exit code %d, %s%s", code, stdout, stderr)
	}
	for _, file := range []string{"none", "remedies_test.go"} {
		if _, stderr, code := runHere(t, "list", "--url", p.endpoint, "--ca-file", file); code != exitUsage || !strings.Contains(stderr, "--ca-file: ") {
			t.Errorf("--ca-file %s: exit code %d, %s", file, code, stderr)
		}
	}
}

// The instructions of serve at a terminal connect a client with the address and the token that it needs.
func TestServe_TellsHowToConnectAClient(t *testing.T) {
	const token = "auth {\n  token \"ann\" { sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" }\n}\n"
	for text, want := range map[string]string{
		"gateway {}\n":         "--transport http prompts http://127.0.0.1:8080/mcp\n",
		"gateway {}\n" + token: "http://127.0.0.1:8080/mcp --header \"Authorization: Bearer $",
		"gateway { public_url = \"https://prompts.example.com\" }\n" + token: "https://prompts.example.com/mcp --header \"Authorization: Bearer $",
	} {
		path := filepath.Join(t.TempDir(), "gateway.hcl")
		writeFile(t, filepath.Dir(path), "gateway.hcl", text)
		cfg, _ := config.Load(path, config.Options{})
		a := newApp(streams{})
		a.config = path
		said := a.whatNext(serving.Addresses{Endpoint: "http://127.0.0.1:8080/mcp", Config: cfg})
		_, use, _ := strings.Cut(said, "  use     ")
		use, _, _ = strings.Cut(use, "\n")
		stdout, stderr, code := runHere(t, strings.Fields(use)[1:]...)
		if code != exitDone || !strings.Contains(stdout, want) {
			t.Errorf("%s: %s: exit code %d, %s%s, want %s", text, use, code, stdout, stderr, want)
		}
	}
}
