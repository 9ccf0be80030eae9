package hclread

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// digits is a list of a hundred elements, as an expression.
var digits = `split("", "` + strings.Repeat("0123456789", 10) + `")` //nolint:gochecknoglobals // a constant

// hostile are expressions that would take far more memory or time than a file may.
func hostile() map[string]string {
	loop := "1"
	for range 5 {
		loop = "[for x in " + digits + " : " + loop + "]"
	}
	nested := func(leaf string) string { return strings.Repeat("{ a = ", 60) + leaf + strings.Repeat(" }", 60) }
	long := strings.Repeat("x", 500_000)
	objects := make([]string, 5_000)
	for i := range objects {
		objects[i] = "{ k" + strings.Repeat("x", i%50) + " = 1 }"
	}
	return map[string]string{
		`indent(6000000000, "a\nb")`:                             summaryResult,
		`indent("6000000000", "a\nb")`:                           summaryResult,
		`format("%6000000000d", 1)`:                              summaryResult,
		`format("%.6000000000f", 1)`:                             summaryResult,
		`format("%-06000000000s", "a")`:                          summaryResult,
		`formatlist("%2000000s", ["a", "b"])`:                    summaryResult,
		`join("` + long + `", ["a", "b", "c", "d", "e"])`:        summaryResult,
		`replace("` + long + `", "", "0123456789")`:              summaryResult,
		`replace("` + long + `", "x", "0123456789")`:             summaryResult,
		`regexreplace("` + long + `", "", "0123456789")`:         summaryResult,
		`split("", "` + long + `")`:                              summaryResult,
		`jsondecode("[` + strings.Repeat("1,", 400_000) + `1]")`: summaryResult,
		`jsondecode("` + strings.Repeat("[", 400_000) + `")`:     summaryResult,
		`"${1e999999999}"`:                                       summaryResult,
		`1e4000 * 1e4000`:                                        summaryResult,
		`"` + strings.Repeat("${file(\"large\")}", 20) + `"`:     summaryResult,
		`"` + strings.Repeat("${file(\"large\")}", 30_000) + `"`: summaryBudget,
		`[for x in ` + digits + ` : "` + long + `"]`:             summaryResult,
		loop: "Nested for",
		`"%{ for a in ` + digits + ` }%{ for b in ` + digits + ` }x%{ endfor }%{ endfor }"`: "Nested for",
		`{ for a in ` + digits + ` : a => [for b in ` + digits + ` : b] }`:                  "Nested for",
		`{ ("${[for a in [1] : [for b in [1] : b]][0][0]}") = 1 }`:                          "Nested for",
		`regex(".{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}c", "` + long + `")`:            summaryBudget,
		`regexall(".*y|.", "` + long + `")`:                                                 summaryBudget,
		`regex("` + strings.Repeat("(a{999})", 3_000) + `", "a")`:                           summaryBudget,
		`tolist([` + strings.Join(objects, ", ") + `])`:                                     summaryBudget,
		`true ? ` + nested("1") + ` : ` + nested("[]"):                                      summaryBudget,
		`[` + nested("1") + `, ` + nested("[]") + `][*]`:                                    "",
		`distinct([` + strings.Join(objects, ", ") + `])`:                                   summaryBudget,
	}
}

func TestEvaluate_IsBoundedForHostileExpressions(t *testing.T) {
	large := strings.Repeat("x", maxValueFile)
	for expr, want := range hostile() {
		shown := expr[:min(len(expr), 60)]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		b := box(t, "size = "+expr, "large", large)
		_, ok := eval(b, "size", cty.DynamicPseudoType)
		took := time.Since(begun)
		runtime.ReadMemStats(&after)
		diags := b.Finish().Diagnostics
		if want != "" && (ok || len(diags) != 1 || diags[0].Summary != want) {
			t.Errorf("%s: %v, want %q", shown, diags, want)
		}
		// Far above what it takes, far below what it would take.
		if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 5*time.Minute || allocated > 2000 {
			t.Errorf("%s took %v and %d MiB", shown, took, allocated)
		} else {
			t.Logf("%s took %v and %d MiB", shown, took, allocated)
		}
	}
}
