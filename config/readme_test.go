package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// row is one attribute or block in a table of the README.
type row struct{ name, typ, fallback, env, meaning string }

// readme is README.md by its headings: the rows below each, and the whole text.
type readme struct {
	rows map[string][]row
	text map[string]string
}

func readReadme(t *testing.T) readme {
	t.Helper()
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	r := readme{map[string][]row{}, map[string]string{}}
	for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(string(content), -1)[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		r.text[heading] = text
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
			if len(cells) != 5 || !strings.Contains(cells[0], "`") {
				continue
			}
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			r.rows[heading] = append(r.rows[heading], row{cells[0], cells[1], cells[2], cells[3], cells[4]})
		}
	}
	return r
}

// section returns the heading of a block, by its type and the block around it: "`tls` in
// `upstream`".
func (r readme) section(t *testing.T, outer, blockType string) string {
	t.Helper()
	var found []string
	for heading := range r.rows {
		name, rest, _ := strings.Cut(heading, " ")
		isAround := strings.Contains(rest, "`"+outer+"`")
		if outer == "" {
			isAround = rest == "" || strings.Contains(rest, "top level")
		}
		if name == "`"+blockType+"`" && isAround {
			found = append(found, heading)
		}
	}
	if len(found) != 1 {
		t.Errorf("README has %d sections for the block %s in %q, want one: %q", len(found), blockType, outer, found)
		return ""
	}
	return found[0]
}

// use is what the column env says of an attribute.
func use(s hclread.Schema, attribute string) string {
	switch {
	case slices.Contains(s.Secret, attribute):
		return "secret"
	case slices.Contains(s.External, attribute):
		return "yes"
	}
	return "no"
}

func TestReadme_HasEveryBlockAndAttribute(t *testing.T) {
	doc := readReadme(t)
	seen := map[string]bool{}
	var visit func(outer string, b hclread.BlockSchema)
	visit = func(outer string, b hclread.BlockSchema) {
		heading := doc.section(t, outer, b.Type)
		seen[heading] = true
		want, got := map[string]string{}, map[string]string{}
		for _, attribute := range b.Attributes() {
			want["`"+attribute+"`"] = use(b.Schema, attribute)
		}
		for _, inner := range b.Blocks {
			want["`"+inner.Type+"` block"] = ""
			visit(b.Type, inner)
		}
		help := strings.Join(strings.Fields(BlockHelp(b.Type)), " ")
		for _, r := range doc.rows[heading] {
			got[r.name] = r.env
			if said := plain(r.name) + " "; !strings.Contains(help, said) || !strings.Contains(help, plain(r.meaning)) {
				t.Errorf("the help about %s lacks %s", b.Type, r.name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("README, %q: attributes and where their values may come from (-schema +README):\n%s", heading, diff)
		}
	}
	for _, b := range rootSchema().Blocks {
		visit("", b)
	}
	for heading := range doc.rows {
		if !seen[heading] {
			t.Errorf("README describes %s, which the schema does not know", heading)
		}
	}
}

// defaultsOf are blocks that set as little as they can. Where a block must set one of several
// attributes, two of it do.
const defaultsOf = `
gateway {
  limit { rate = 1 }
  screen "a" { max_size = 1 }
  tls {
    cert_file = "client.crt"
    key_file  = "client.key"
  }
}
audit { path = "audit.jsonl" }
cluster { store = "redis://store" }
auth {
  token "a" { sha256 = sha256("a") }
  token "b" { sha256 = sha256("b") }
}
allow "a" {}
team "b" {
  limit { concurrency = 1 }
  screen "b" { invisible = true }
  upstream "u" {
    url = "https://u.example.com/mcp"
    breaker {}
    tls { server_name = "u" }
    oauth {
      token_url     = "https://u.example.com/token"
      client_id     = "u"
      client_secret = "u"
    }
    assertion {}
  }
  upstream "v" {
    url = "https://v.example.com/mcp"
    tls { ca_file = "client.crt" }
  }
  expose "e" {
    prompts = ["*"]
    to      = ["*"]
  }
  hide "h" { prompts = ["*"] }
  prompt "u.a" { title = "a" }
  prompt "u.b" { name = "b" }
}
`

// emptyBlocks lack all that can be missing. One block begins in each line, so that the place of a
// diagnostic names it.
const emptyBlocks = `
gateway {
  tls {}
}
audit {}
cluster {}
auth {
  token "t" {}
  jwt "j" {}
}
hide "h" {}
allow "a" {}
team "a" {
  upstream "u" {
    url = "https://u"
    retry {}
    oauth {}
    tls {}
  }
  expose "e" {}
  hide "h" {}
}
`

// requiredAttributes returns the attributes that Load reports as missing, by heading.
func requiredAttributes(t *testing.T, doc readme) map[string][]string {
	t.Helper()
	_, diags := Load(filepath.Join(write(t, "x.hcl", emptyBlocks), "x.hcl"), options())
	lines, required := strings.Split(emptyBlocks, "\n"), map[string][]string{}
	for _, d := range diags.report.Diagnostics {
		attribute, ok := strings.CutPrefix(d.Summary, "Missing ")
		if !ok || attribute == "as" { // only with several sources
			continue
		}
		var open []string
		for _, line := range lines[:d.Subject.Start.Line] {
			switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); {
			case strings.HasSuffix(line, "{"):
				open = append(open, word)
			case word == "}":
				open = open[:len(open)-1]
			}
		}
		line := strings.TrimSpace(lines[d.Subject.Start.Line-1])
		blockType, _, _ := strings.Cut(line, " ")
		outer := ""
		if len(open) > 0 {
			outer = open[len(open)-1]
		}
		heading := doc.section(t, outer, blockType)
		required[heading] = append(required[heading], attribute)
	}
	return required
}

// derived are defaults that follow from other attributes, or from nothing that a field shows.
var derived = map[string]string{ //nolint:gochecknoglobals // a constant table
	"upstream.url": "one of three", "upstream.command": "one of three", "upstream.files": "one of three",
	"upstream.transport": "inferred", "upstream.prefix": "the label",
	"oauth.resource": "the URL", "assertion.audience": "the URL", "assertion.claims": "–", "jwt.algorithms": "all of these", "jwt.request_scopes": "`scopes`", "limit.burst": "`rate` rounded up",
}

func TestReadme_HasTheDefaultOfEveryAttribute(t *testing.T) {
	doc := readReadme(t)
	dir := write(t, "x.hcl", defaultsOf, "client.crt", secretFile(t, "client.crt").Reveal(), "client.key", secretFile(t, "client.key").Reveal())
	d := newDecoder(filepath.Join(dir, "x.hcl"), options())
	cfg := d.config()
	team, most := cfg.Teams[0], d.allowed.grants["a"].most
	allow := struct {
		Env, Files, Commands, Dirs, Hosts, Audiences, Prefixes []Pattern
		MaxMessage, MaxPrompts, Concurrency, MaxFiles          int
	}{
		MaxMessage: most["max_message"], MaxPrompts: most["max_prompts"], Concurrency: most["concurrency"], MaxFiles: most["max_files"],
	}
	blocks := map[string][]any{
		"gateway": {cfg.Gateway}, "`tls` in `gateway`": {*cfg.Gateway.TLS, ServerTLS{}}, "admin": {cfg.Admin}, "audit": {*cfg.Audit}, "cluster": {*cfg.Cluster}, "auth": {*cfg.Auth},
		"token": {cfg.Auth.Tokens[0]}, "jwt": {JWT{SubjectClaim: DefaultSubjectClaim, GroupsClaim: DefaultGroupsClaim, Leeway: DefaultLeeway}},
		"hide": {team.Hides[0]}, "allow": {allow}, "team": {team},
		"upstream": {team.Upstreams[0]}, "breaker": {team.Upstreams[0].Breaker}, "retry": {team.Upstreams[0]},
		"`tls` in `upstream` or `cluster`": {*team.Upstreams[0].TLS, *team.Upstreams[1].TLS}, "oauth": {*team.Upstreams[0].OAuth}, "assertion": {*team.Upstreams[0].Assertion},
		"expose": {team.Exposes[0]}, "prompt": {team.Overrides[0], team.Overrides[1]},
		"limit": {*cfg.Gateway.Limit, *team.Limit}, "screen": {cfg.Gateway.Screens[0], team.Screens[0]},
	}
	required := requiredAttributes(t, doc)
	for heading, rows := range doc.rows {
		blockType := strings.Trim(strings.SplitN(heading, " ", 2)[0], "`")
		values := blocks[heading]
		if values == nil {
			values = blocks[blockType]
		}
		for _, r := range rows {
			if strings.HasSuffix(r.name, " block") {
				continue
			}
			name := strings.Trim(r.name, "`")
			want, isDerived := derived[blockType+"."+name]
			switch {
			case slices.Contains(required[heading], name):
				want = "required"
			case !isDerived:
				want = defaultOf(t, blockType, name, values)
			}
			if r.fallback != want {
				t.Errorf("README, %s: default of %s is %q, want %q", heading, name, r.fallback, want)
			}
		}
	}
}

// defaultOf returns the default of an attribute as the README writes it: the zero value if some
// block has it.
func defaultOf(t *testing.T, blockType, attribute string, blocks []any) string {
	t.Helper()
	texts := map[string]bool{}
	for _, block := range blocks {
		v := reflect.ValueOf(block)
		field := slices.IndexFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool {
			return strings.EqualFold(f.Name, fieldName(blockType, attribute))
		})
		if field < 0 {
			t.Errorf("%s.%s has no field in %s; add its name to fieldName", blockType, attribute, v.Type())
			return ""
		}
		texts[literalOf(v.Field(field))] = true
	}
	if texts["–"] || len(texts) != 1 {
		return first(texts, "–", "`false`")
	}
	return slices.Collect(maps.Keys(texts))[0]
}

// first returns the first of some texts that is in the set.
func first(set map[string]bool, texts ...string) string {
	for _, text := range texts {
		if set[text] {
			return text
		}
	}
	return fmt.Sprint(set)
}

// fieldName returns the name of the field that an attribute sets, in any case.
func fieldName(blockType, attribute string) string {
	names := map[string]string{
		"tls.ca_file": "CAs", "tls.client_ca_file": "ClientCAs", "tls.cert_file": "Certificate", "tls.key_file": "Key",
		"oauth.private_key_file": "PrivateKey", "prompt.arguments": "Fixed",
	}
	if name, ok := names[blockType+"."+attribute]; ok {
		return name
	}
	return strings.ReplaceAll(attribute, "_", "")
}

func literalOf(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Bool:
		return fmt.Sprintf("`%t`", v.Bool())
	case v.IsZero(), (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0:
		return "–"
	case v.Type() == reflect.TypeFor[time.Duration]():
		return "`\"" + regexp.MustCompile("m0s$").ReplaceAllString(time.Duration(v.Int()).String(), "m") + "\"`"
	case v.Kind() == reflect.String:
		return fmt.Sprintf("`%q`", v.String())
	case v.CanInt():
		return fmt.Sprintf("`%d`", v.Int())
	default:
		return fmt.Sprintf("%v", v)
	}
}

func TestReadme_HasTheBoundsOfTheCode(t *testing.T) {
	doc := readReadme(t)
	for attribute, bound := range map[string]string{
		"gateway.page_size": fmt.Sprintf("1 to %d", maxPageSize),
		"gateway.separator": fmt.Sprintf("1 to %d characters", maxSeparator),
		"upstream.prefix":   fmt.Sprintf("up to %d bytes", maxPrefix),
		"upstream.refresh":  fmt.Sprintf("at least `%q`", MinRefresh.String()),
		"upstream.rate":     fmt.Sprintf("%f to %.0f", minRate, maxRate),
		"limit.rate":        fmt.Sprintf("%f to %.0f", minRate, maxRate),
		"retry.attempts":    fmt.Sprintf("1 to %d", maxAttempts),
		"jwt.leeway":        fmt.Sprintf("to `\"%.0fm\"`", maxLeeway.Minutes()),
		"jwt.algorithms":    "`" + strings.Join(asymmetricAlgorithms(), "`, `") + "`",
		"prompt.name":       fmt.Sprintf("up to %d bytes", maxExposed),
		"screen.patterns":   fmt.Sprintf("up to %d bytes", hclread.MaxExpression),
	} {
		blockType, name, _ := strings.Cut(attribute, ".")
		found := false
		for heading, rows := range doc.rows {
			found = found || strings.HasPrefix(heading, "`"+blockType+"`") &&
				slices.ContainsFunc(rows, func(r row) bool { return r.name == "`"+name+"`" && strings.Contains(r.meaning, bound) })
		}
		if !found {
			t.Errorf("README does not say %q of %s", bound, attribute)
		}
	}
	if want := fmt.Sprintf("%d instructions", hclread.MaxInstructions); !strings.Contains(doc.text["Expressions and secrets"], want) {
		t.Errorf("README, expressions: no %q", want)
	}
	if want := fmt.Sprintf("up to %d steps", maxConditionSteps); !strings.Contains(doc.text["Conditions"], want) {
		t.Errorf("README, conditions: no %q", want)
	}
	for _, want := range []string{fmt.Sprintf("up to %d files", hclread.MaxFiles), fmt.Sprintf("up to %d upstreams", maxUpstreams)} {
		if !strings.Contains(doc.text["Files"], want) {
			t.Errorf("README, files: no %q", want)
		}
	}
	if want := fmt.Sprintf("up to %d bytes", maxExposed); !strings.Contains(doc.text["Names and who owns them"], want) {
		t.Errorf("README, names: no %q", want)
	}
	for heading, bound := range map[string]int{"Conditions": maxCondition, "Patterns": maxPattern} {
		if !strings.Contains(doc.text[heading], fmt.Sprintf("up to %d bytes", bound)) {
			t.Errorf("README, %q: no bound of %d bytes", heading, bound)
		}
	}
}

// codeSpans returns the identifiers in code spans of a text, sorted.
func codeSpans(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile("`([a-z0-9]+)`").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestReadme_HasEveryFunctionAndVariable(t *testing.T) {
	doc := readReadme(t)
	table, _, _ := strings.Cut(doc.text["Functions"], "\n\n`env(")
	want := append(slices.Collect(maps.Keys(hclread.Functions())), "env", "file")
	slices.Sort(want)
	if diff := cmp.Diff(want, codeSpans(table)); diff != "" {
		t.Errorf("functions (-code +README):\n%s", diff)
	}
	want = slices.Sorted(maps.Keys(whenFunctions()))
	if diff := cmp.Diff(want, codeSpans(doc.text["Functions in `when`"])); diff != "" {
		t.Errorf("functions in when (-code +README):\n%s", diff)
	}
	want = nil
	for name := range promptType().AttributeTypes() {
		want = append(want, "prompt."+name)
	}
	for name := range principalType().AttributeTypes() {
		want = append(want, "principal."+name)
	}
	slices.Sort(want)
	var got []string
	for _, m := range regexp.MustCompile("`((?:prompt|principal)\\.[a-z]+)`").FindAllStringSubmatch(doc.text["Conditions"], -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-code +README):\n%s", diff)
	}
}

func TestReadme_ExamplesLoad(t *testing.T) {
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(string(content), -1)
	upstreams := 0
	for _, sample := range samples {
		cfg := load(t, write(t, "sample.hcl", sample[1]))
		upstreams += len(cfg.Upstreams())
	}
	if len(samples) != 1 || upstreams != 3 {
		t.Errorf("%d examples with %d upstreams, want 1 with 3", len(samples), upstreams)
	}
}
