package hclread

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// allocated returns the bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// mayAllocate bounds the memory for a refusal.
const mayAllocate = 256 << 20

// soon is far longer than a refusal takes, and far shorter than what is refused.
const soon = 10 * time.Second

func TestParse_RefusesFilesThatTakeLong(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"dollars in a header":   {`box "` + strings.Repeat("$", 250_000) + `" {}`, "Too many tokens"},
		"a few of them":         {`box "` + strings.Repeat("$", maxParts+1) + `" {}`, "Text too long"},
		"a heredoc of lines":    {"a = <<EOT\n" + strings.Repeat("x\n", 40_000) + "EOT\n", "Text too long"},
		"templates in one text": {`a = "` + strings.Repeat("${1}", maxParts+1) + `"`, "Text too long"},
		"blocks":                {strings.Repeat("expose \"\" {}\n", 18_000), "Too many tokens"},
		"calls":                 {`a = [` + strings.Repeat(`file("x"),`, 25_000) + `]`, "Too many tokens"},
		"brackets":              {"a = " + strings.Repeat("[", maxNesting+1), "Nested too deeply"},
		"templates":             {"a = \"" + strings.Repeat("${\"", maxNesting), "Nested too deeply"},
		"blocks in blocks":      {strings.Repeat("a {\n", maxNesting+1), "Nested too deeply"},
		"digits":                {"a = " + strings.Repeat("7", maxDigits+1), summaryNumber},
		"a large exponent":      {"a = 1e999", summaryNumber},
		"a small exponent":      {"a = 1e-99999999999999999999", summaryNumber},
	} {
		r, begun := New(testSchema(), Options{}), time.Now()
		bytes := allocated(func() { r.Parse("x.hcl", []byte("team \"a\" {}\n"+test.content)) })
		if took := time.Since(begun); took > soon || bytes > mayAllocate {
			t.Errorf("%s: took %v and %d KiB", name, took, bytes>>10)
		}
		if labels := r.Labels("team"); !slices.Contains(labels, "a") {
			t.Errorf("%s: what the file declares is not found", name)
		}
		if diags := r.Finish().Diagnostics; len(diags) != 1 || diags[0].Summary != test.want {
			t.Errorf("%s: %v, want %s", name, diags, test.want)
		}
	}
}

// Parsing a text within the bounds does not exhaust the stack.
func TestParse_EndsForWhatIsWithinTheBounds(t *testing.T) {
	n := maxTokens - 10
	for _, expr := range []string{
		strings.Repeat("!", n) + "true", strings.Repeat("-", n) + "1", strings.Repeat("1+", n/2) + "1",
		strings.Repeat("b ? c : ", n/4) + "1", "b" + strings.Repeat("[*]", n/3), "b" + strings.Repeat(".c", n/2),
		`"` + strings.Repeat("$", maxParts) + `"`,
	} {
		begun := time.Now()
		eval(box(t, "size = "+expr), "size", cty.DynamicPseudoType)
		if took := time.Since(begun); took > soon {
			t.Errorf("%.20s… took %v", expr, took)
		}
	}
}

// A lock file has as much text as its size allows, and nothing else.
func TestParse_TakesTextsOnlyOfALockFile(t *testing.T) {
	text := strings.Repeat("x\n", 5*maxParts)
	for content, want := range map[string]string{
		"box {\n  name = <<EOT\n" + text + "EOT\n}\n" + strings.Repeat("box {}\n", maxTokens/4): "",
		"box {\n  name = file(\"x\")\n}\n":      "Not in a lock file",
		"box {\n  name = \"${1}\"\n}\n":         "Not in a lock file",
		"box {\n  name = - - 1\n}\n":            "Not in a lock file",
		strings.Repeat("box {\n", maxNesting+1): "Nested too deeply",
		"box {\n  words = [\"x\"]\n}\n":         "Not in a lock file",
	} {
		r := New(testSchema(), Options{IsLock: true})
		r.Parse("x.lock.hcl", []byte(content))
		var got string
		for _, b := range r.Blocks("box") {
			if b.Has("name") {
				Set(b, "name", &got, AnyText)
			}
		}
		if diags := r.Finish().Diagnostics; want == "" && got != text || (want == "") != (len(diags) == 0) || want != "" && diags[0].Summary != want {
			t.Errorf("%.40q: %v, want %q", content, diags, want)
		}
	}
}

func TestFunctions_RefuseWhatIsTooLarge(t *testing.T) {
	for expr, want := range map[string]string{
		`base64encode(base64encode(file("large")))`:                            summaryResult,
		`format("%6000000000d", 1)`:                                            summaryResult,
		`format("%.60000000f", 1)`:                                             summaryResult,
		`format("%[1]s%[1]s%[1]s", file("large"))`:                             summaryResult,
		`formatlist("%s${file("large")}", split("", "abc"))`:                   summaryResult,
		`join(file("large"), ["a", "b", "c", "d", "e"])`:                       summaryResult,
		`join([file("large"), ["a", "b", "c", "d", "e"]]...)`:                  summaryResult,
		`replace(file("large"), "", "0123456789")`:                             summaryResult,
		`replace(file("large"), "x", "0123456789")`:                            summaryResult,
		`indent(2000000000, "a\nb")`:                                           summaryResult,
		`split("", file("large"))`:                                             summaryResult,
		`split("", format("%5000s", "x"))`:                                     summaryResult,
		`regexall("", file("large"))`:                                          summaryResult,
		`regexall("` + strings.Repeat("()", 500) + `", format("%3000s", "x"))`: summaryResult,
		`regexreplace(file("large"), "x", "0123456789")`:                       summaryResult,
		`regexreplace(file("large"), "(.*)", "$1$1$1$1")`:                      summaryResult,
		`regex("` + strings.Repeat("(a{999})", 100) + `", "")`:                 "Invalid pattern",
		`regex("` + strings.Repeat(`\\pL`, 20_000) + `", "a")`:                 "Invalid pattern",
		`jsondecode(format("%s", replace(format("%100000s", ""), " ", "[")))`:  "Error in function call",
		`jsondecode("1e999999999")`:                                            summaryNumber,
		`tonumber("1e999999999")`:                                              summaryNumber,
		`"1e999999999" * 1`:                                                    "Operation failed",
		`"${-"1e600000000"}"`:                                                  "Operation failed",
		`1e300 * 1e300`:                                                        "Operation failed",
		`[for x in [1] : x]`:                                                   summaryLoop,
		`"%{ for a in [1] }x%{ endfor }"`:                                      summaryLoop,
		`[` + strings.Repeat("1,", maxElements+1) + `]`:                        summaryResult,
		`"` + strings.Repeat("${file(\"large\")}", 2) + `"`:                    summaryResult,
		`"` + strings.Repeat("${file(\"large\")}", 900) + `"`:                  summaryBudget,
		`[` + strings.Repeat("file(\"large\"),", 2_000) + `]`:                  summaryBudget,
	} {
		b := box(t, "size = "+expr, "large", strings.Repeat("x", maxValueFile))
		var ok bool
		begun := time.Now()
		bytes := allocated(func() { _, ok = eval(b, "size", cty.DynamicPseudoType) })
		diags, took := b.Finish().Diagnostics, time.Since(begun)
		if ok || len(diags) == 0 || slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool { return d.Summary != want && d.Summary != summaryMore }) {
			t.Errorf("%.60s: %.300v, want %q", expr, diags, want)
		}
		if bytes > mayAllocate || took > soon {
			t.Errorf("%.60s took %v and %d KiB", expr, took, bytes>>10)
		}
	}
}

func TestFunctions_TakeAWholeFile(t *testing.T) {
	large := strings.Repeat("x", maxValueFile)
	if got, ok := box(t, `token = file("large")`, "large", large).Text("token"); !ok || got.Value != large {
		t.Errorf("a file of %d bytes is refused", maxValueFile)
	}
}

// All expressions of a file count together.
func TestFunctions_CountForTheWholeFile(t *testing.T) {
	dir := write(t, "large", strings.Repeat("x", maxValueFile), "a.hcl", strings.Repeat("box { token = file(\"large\") }\n", 5), "b.hcl", "box { token = file(\"large\") }\n")
	r := New(testSchema(), Options{})
	r.ReadPath(dir)
	read := map[string]int{}
	for _, b := range r.Blocks("box") {
		if _, ok := b.Text("token"); ok {
			read[filepath.Base(b.Range().Filename)]++
		}
	}
	if want := map[string]int{"a.hcl": 5, "b.hcl": 1}; fmt.Sprint(read) != fmt.Sprint(want) {
		t.Errorf("read %v, want %v", read, want)
	}
	for range 10 { // each takes two: the file's text, and the attribute's value
		r.Blocks("box")[0].Text("token")
	}
	if diags := r.Finish().Diagnostics; len(diags) == 0 || diags[0].Summary != summaryBudget {
		t.Errorf("the file has no limit: %v", diags)
	}
}
