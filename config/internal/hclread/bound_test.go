package hclread

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

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

// mayAllocate is what a refusal may cost, however much the expression would make.
const mayAllocate = 16 << 20

// hostile are expressions that would take far more memory or time than a file may, and why they are
// refused.
func hostile() map[string]string {
	nested := func(leaf string) string { return strings.Repeat("{ a = ", 60) + leaf + strings.Repeat(" }", 60) }
	long := strings.Repeat("x", 20_000)
	objects := make([]string, 5_000)
	for i := range objects {
		objects[i] = "{ k" + strings.Repeat("x", i%50) + " = 1 }"
	}
	digits := strings.Repeat("7", 70_000)
	encoded := strings.Repeat("jsonencode(", maxCallDepth) + `"\""` + strings.Repeat(")", maxCallDepth)
	return map[string]string{
		`jsonencode(` + encoded + `)`:                            summaryDepth,
		`[` + strings.Repeat(encoded+",", 500) + `]`:             summaryResult,
		`urlencode(urlencode(file("large")))`:                    summaryResult,
		`base64encode(base64encode(file("large")))`:              summaryResult,
		`coalesce(` + strings.Repeat("null,", 5_000) + `1)`:      summaryBudget,
		`trim(file("large"), file("large"))`:                     summaryBudget,
		`"` + digits + `" < 1`:                                   summaryBudget,
		`[1]["` + digits + `"]`:                                  summaryBudget,
		`element([1], "` + digits + `")`:                         summaryBudget,
		`substr("abc", 0, "` + digits + `")`:                     summaryBudget,
		`regex("` + strings.Repeat(`\\pL`, 20_000) + `", "a")`:   summaryBudget,
		`format("%6000000000d", 1)`:                              summaryGone,
		`format("%[1]*d", 6000000000)`:                           summaryGone,
		`format(["%s", "a"]...)`:                                 summaryGone,
		`format("%d", "1e999999999")`:                            summaryGone,
		`format("%d", ["1e999999999"]...)`:                       summaryGone,
		`format("%% %s%d", 1, "1e999999999")`:                    summaryGone,
		`format("%x", "a")`:                                      summaryGone,
		`format("%s%s%s%s", file("large"))`:                      summaryResult,
		`join(file("large"), ["a", "b", "c", "d", "e"])`:         summaryResult,
		`join([file("large"), ["a", "b", "c", "d", "e"]]...)`:    summaryResult,
		`replace(file("large"), "", "0123456789")`:               summaryResult,
		`replace(file("large"), "x", "0123456789")`:              summaryResult,
		`replace([file("large"), "x", "0123456789"]...)`:         summaryResult,
		`split("", file("large"))`:                               summaryResult,
		`"${1e999999999}"`:                                       summaryResult,
		`1e4000 * 1e4000`:                                        summaryResult,
		`"${"1e999999999" * 1}"`:                                 summaryGone,
		`"${-"1e999999999"}"`:                                    summaryGone,
		`"` + strings.Repeat("${file(\"large\")}", 2) + `"`:      summaryResult,
		`"` + strings.Repeat("${file(\"large\")}", 2_000) + `"`:  summaryBudget,
		`[` + strings.Repeat("file(\"large\"),", 2_000) + `]`:    summaryBudget,
		`[for x in [1] : x]`:                                     summaryGone,
		`"%{ for a in [1] }x%{ endfor }"`:                        summaryGone,
		`[[1]][*][0]`:                                            summaryGone,
		`[{ a = [1] }][*].a[*]`:                                  summaryGone,
		`regex(".{0,999}b.{0,999}b.{0,999}c", "` + long + `")`:   summaryBudget,
		`regex("` + strings.Repeat("(a{999})", 3_000) + `", "")`: summaryBudget,
		`regex("` + strings.Repeat("(", 500) + "a" + strings.Repeat(")", 500) + `", "` + long + `")`: summaryBudget,
		`tolist([` + strings.Join(objects, ", ") + `])`:                                              summaryBudget,
		`true ? ` + nested("1") + ` : ` + nested("[]"):                                               summaryBudget,
	}
}

func TestEvaluate_RefusesBeforeAnythingIsMade(t *testing.T) {
	for expr, want := range hostile() {
		b := box(t, "size = "+expr, "large", strings.Repeat("x", maxValueFile))
		b.Confine()
		var ok bool
		bytes := allocated(func() { _, ok = eval(b, "size", cty.DynamicPseudoType) })
		diags, shown := b.Finish().Diagnostics, expr[:min(len(expr), 60)]
		if ok || len(diags) != 1 || diags[0].Summary != want {
			t.Errorf("%s: %v, want %q", shown, diags, want)
		}
		if bytes > mayAllocate {
			t.Errorf("%s took %d KiB", shown, bytes>>10)
		}
	}
}

// A file of 1 MiB is parsed into a hundred times its size, so these are refused before.
func TestRead_RefusesFilesOfCalls(t *testing.T) {
	for name, expr := range map[string]string{
		"references": `"` + strings.Repeat(`${file("x")}`, 70_000) + `"`,
		"list":       `[` + strings.Repeat(`file("x"), `, 70_000) + `]`,
		"encoders":   strings.Repeat("base64encode(", 70_000) + `"x"` + strings.Repeat(")", 70_000),
		"sequence":   `[` + strings.Repeat(strings.Repeat("urlencode(", 16)+`"x"`+strings.Repeat(")", 16)+",", 5_000) + `]`,
	} {
		dir := write(t, "x", strings.Repeat("x", maxValueFile), "x.hcl", "box \"a\" {\n  name = "+expr+"\n  token = \"hunter2\"\n}\n")
		var (
			report Report
			labels []string
		)
		bytes := allocated(func() {
			r := New(testSchema(), Options{LookupEnv: environment})
			r.ReadPath(filepath.Join(dir, "x.hcl"))
			r.Check()
			report, labels = r.Finish(), r.Labels("box")
		})
		if len(labels) != 1 {
			t.Errorf("%s: what the file declares is not found", name)
		}
		if got := report.Diagnostics.Error(); !strings.Contains(got, "Too many calls") {
			t.Errorf("%s: %s", name, got)
		}
		if bytes > mayAllocate {
			t.Errorf("%s took %d KiB", name, bytes>>10)
		}
	}
}

func TestEvaluate_TakesWhatTeamsWrite(t *testing.T) {
	wantValues(t, true, map[string]string{
		`"Bearer ${trimspace(file("value"))}"`:        "Bearer content",
		`join(",", split("-", "a-b"))`:                "a,b",
		`join(",", concat(["a"], ["b"]))`:             "a,b",
		`join(",", compact(["", "a"]))`:               "a",
		`join(",", [{ a = "b" }, { a = "c" }][*].a)`:  "b,c",
		`merge({ a = "1" }, { a = "2" }).a`:           "2",
		`replace("a-b", "-", "+")`:                    "a+b",
		`format("%s-%d %q %% %v", "a", 7, "b", true)`: `a-7 "b" % true`,
		`sha256("a")`:                                      "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
		`base64encode("user:${env("SECRET")}")`:            "dXNlcjpodW50ZXIyLWVudg==",
		`urlencode("a b")`:                                 "a+b",
		`jsonencode({ a = ["b"] })`:                        `{"a":["b"]}`,
		`regex("[0-9]+", "ab12")`:                          "12",
		`regex("(a)(b)", "ab")[1]`:                         "b",
		`length(split(",", "a,b")) * (2 + 1)`:              "6",
		`env("UNSET", "") == "" ? lower("A") : upper("b")`: "a",
		`coalesce(null, lookup({ a = "1" }, "a", "c"))`:    "1",
		`([{ a = "x" }, { a = "y" }][*].a)[1]`:             "y",
		`element(tolist(keys({ k = 1 })), 0)`:              "k",
	})
	large := strings.Repeat("x", maxValueFile)
	b := box(t, `token = file("large")`, "large", large)
	b.Confine()
	if got, ok := b.Text("token"); !ok || got.Value != large {
		t.Errorf("a file of %d bytes is refused: %v", maxValueFile, b.diags)
	}
}

func TestEvaluate_NamesWhatReplacesAFunction(t *testing.T) {
	library := newLibrary()
	for name, instead := range platformOnly {
		b := box(t, "size = "+name+"()")
		b.Confine()
		eval(b, "size", cty.DynamicPseudoType)
		if got := b.Finish().Diagnostics.Error(); !strings.Contains(got, "Only the platform's files may use "+name+"; "+instead) {
			t.Errorf("%s: %s", name, got)
		}
		delete(library, name)
	}
	// What is left is bounded by call, or returns no more than it takes.
	if n := len(library); n != 31 {
		t.Errorf("a team's file has %d functions besides env and file; each needs a bound", n)
	}
}

// Reading digits takes time in proportion to their square.
func TestNumbers_AreReadWithinBounds(t *testing.T) {
	digits := strings.Repeat("7", 70_000)
	for what, read := range map[string]func() Report{
		"a number": func() Report {
			r := New(testSchema(), Options{})
			r.Parse("x.hcl", []byte("box {\nsize = "+digits+"\n}\n"))
			return r.Finish()
		},
		"a file as a number": func() Report {
			b := box(t, `size = file("digits")`, "digits", digits)
			b.Confine()
			Int(b, "size", 1<<30, new(int))
			return b.Finish()
		},
	} {
		var report Report
		if bytes := allocated(func() { report = read() }); bytes > mayAllocate {
			t.Errorf("%s took %d KiB", what, bytes>>10)
		}
		if diags := report.Diagnostics; len(diags) != 1 || !strings.Contains(diags[0].Detail, "digits") {
			t.Errorf("%s: %v", what, diags)
		}
	}
}
