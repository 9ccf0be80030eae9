package config

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

var update = flag.Bool("update", false, "rewrite the tables in README.md") //nolint:gochecknoglobals // a flag

// readme is README.md: the whole text of each heading, and its table of attributes.
type readme struct{ text, table map[string]string }

var attributeTable = regexp.MustCompile(`(?m)^\| attribute \|.*\n(\|.*\n)+`)

func readReadme(t *testing.T) readme {
	t.Helper()
	r := readme{map[string]string{}, map[string]string{}}
	for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(fileText(t, "README.md"), -1)[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		r.text[heading] = text
		if table := attributeTable.FindString(text); table != "" {
			r.table[heading] = table
		}
	}
	return r
}

// section returns the heading of a block, by its type and the block around it: "`tls` in
// `upstream`".
func (r readme) section(t *testing.T, outer, blockType string) string {
	t.Helper()
	var found []string
	for heading := range r.table {
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

// eachBlock visits the blocks of the schema with the type of the block around each.
func eachBlock(visit func(outer string, b hclread.BlockSchema)) {
	var walk func(outer string, b hclread.BlockSchema)
	walk = func(outer string, b hclread.BlockSchema) {
		visit(outer, b)
		for _, inner := range b.Blocks {
			walk(b.Type, inner)
		}
	}
	for _, b := range rootSchema().Blocks {
		walk("", b)
	}
}

// tableOf writes the table of a block as README.md has it.
func tableOf(t *testing.T, b hclread.BlockSchema) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("| attribute | type | default | env | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, a := range b.Attributes {
		if a.Meaning == "" {
			t.Errorf("%s.%s has no meaning", b.Type, a.Name)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", a.Name, a.Type, cmp.Or(a.Default, literalOf(a.Target)), a.Env, a.Meaning)
	}
	for _, inner := range b.Blocks {
		if inner.Meaning == "" {
			t.Errorf("the %s block in %s has no meaning", inner.Type, b.Type)
		}
		fmt.Fprintf(&out, "| `%s` block | | – | | %s |\n", inner.Type, inner.Meaning)
	}
	return out.String()
}

func TestReadme_HasTheTableOfEveryBlock(t *testing.T) {
	doc := readReadme(t)
	seen := map[string]bool{}
	eachBlock(func(outer string, b hclread.BlockSchema) {
		heading := doc.section(t, outer, b.Type)
		seen[heading] = true
		table := tableOf(t, b)
		if *update {
			writeFile(t, "README.md", strings.ReplaceAll(fileText(t, "README.md"), doc.table[heading], table))
			return // the help is of the page from before
		}
		if diff := gocmp.Diff(table, doc.table[heading]); diff != "" {
			t.Errorf("README, %q (-schema +README; -update rewrites it):\n%s", heading, diff)
		}
		help := strings.Join(strings.Fields(BlockHelp(b.Type)), " ")
		for _, a := range b.Attributes {
			if !strings.Contains(help, plain(a.Name+" ("+a.Type)) || !strings.Contains(help, plain(a.Meaning)) {
				t.Errorf("the help about %s lacks %s", b.Type, a.Name)
			}
		}
	})
	for heading := range doc.table {
		if !seen[heading] {
			t.Errorf("README describes %s, which the schema does not know", heading)
		}
	}
}

func TestFixtures_SetEveryAttribute(t *testing.T) {
	set := map[string]bool{}
	paths, _ := filepath.Glob("testdata/valid/*.hcl")
	for _, path := range paths {
		file, diags := hclsyntax.ParseConfig([]byte(fileText(t, path)), path, hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		var walk func(blockType string, body *hclsyntax.Body)
		walk = func(blockType string, body *hclsyntax.Body) {
			for name := range body.Attributes {
				set[blockType+"."+name] = true
			}
			for _, b := range body.Blocks {
				walk(b.Type, b.Body)
			}
		}
		walk("", file.Body.(*hclsyntax.Body))
	}
	eachBlock(func(_ string, b hclread.BlockSchema) {
		for _, a := range b.Attributes {
			if !set[b.Type+"."+a.Name] {
				t.Errorf("no file in testdata/valid sets %s.%s", b.Type, a.Name)
			}
		}
	})
}

// literalOf returns the value that a pointer leads to, as the README writes it.
func literalOf(target any) string {
	if target == nil {
		return "–"
	}
	v := reflect.ValueOf(target).Elem()
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
		for heading, table := range doc.table {
			row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*$").FindString(table)
			found = found || strings.HasPrefix(heading, "`"+blockType+"`") && strings.Contains(row, bound)
		}
		if !found {
			t.Errorf("README does not say %q of %s", bound, attribute)
		}
	}
	if want := fmt.Sprintf("%d instructions", hclread.MaxInstructions); !strings.Contains(doc.text["Expressions and secrets"], want) {
		t.Errorf("README, expressions: no %q", want)
	}
	for _, want := range []string{fmt.Sprintf("up to %d steps", hclread.MaxSteps), fmt.Sprintf("%d calls of `try`", maxTries)} {
		if !strings.Contains(doc.text["Conditions"], want) {
			t.Errorf("README, conditions: no %q", want)
		}
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
	if diff := gocmp.Diff(want, codeSpans(table)); diff != "" {
		t.Errorf("functions (-code +README):\n%s", diff)
	}
	want = slices.Sorted(maps.Keys(whenFunctions()))
	if diff := gocmp.Diff(want, codeSpans(doc.text["Functions in `when`"])); diff != "" {
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
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-code +README):\n%s", diff)
	}
}

func TestReadme_ExamplesLoad(t *testing.T) {
	samples := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(fileText(t, "README.md"), -1)
	upstreams := 0
	for _, sample := range samples {
		cfg := load(t, write(t, "sample.hcl", sample[1]))
		upstreams += len(cfg.Upstreams())
	}
	if len(samples) != 1 || upstreams != 3 {
		t.Errorf("%d examples with %d upstreams, want 1 with 3", len(samples), upstreams)
	}
}
