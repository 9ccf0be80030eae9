package terminal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable_FitsTheTerminal(t *testing.T) {
	long := "billing." + strings.Repeat("x", 112)
	for _, test := range []struct {
		name  string
		width int
		rows  [][3]string
		want  string
	}{
		{"short cells", 60, [][3]string{{"a.b", "who*", "Says hello."}, {"a.longer", "", "Nothing"}}, `
NAME      ARGUMENTS  DESCRIPTION
a.b       who*       Says hello.
a.longer             Nothing
`},
		{"a long name moves only its own row", 60, [][3]string{{"a.b", "who*", "Says hello."}, {long, "x", "Long"}, {"c.d", "", "After"}}, `
NAME  ARGUMENTS  DESCRIPTION
a.b   who*       Says hello.
` + long + `  x  Long
c.d              After
`},
		{"a description is cut at the edge", 40, [][3]string{{"a.b", "who*", "Says hello to everybody who cares to read it."}}, `
NAME  ARGUMENTS  DESCRIPTION
a.b   who*       Says hello to everybod…
`},
		{"many arguments are cut too, if they must be", 60, [][3]string{{"a", "one two three four five six", "Text that needs much place too"}}, `
NAME  ARGUMENTS        DESCRIPTION
a     one two three…   Text that needs much place too
`},
		{"and not if there is place", 60, [][3]string{{"a", "one two three four five six", "Text"}}, `
NAME  ARGUMENTS                    DESCRIPTION
a     one two three four five six  Text
`},
		{"wide characters take two places", 50, [][3]string{{"報告.作成", "誰*", "週報を書くための長い説明文がここに入ります。"}, {"a", "b", "c"}, {"e\u0301", "b", "👋 waves"}}, `
NAME       ARGUMENTS  DESCRIPTION
報告.作成  誰*        週報を書くための長い説明文…
a          b          c
` + "e\u0301" + `          b          👋 waves
`},
		{"no bound", 0, [][3]string{{long, "one two three four five six seven", strings.Repeat("word ", 30) + "end"}, {"a", "b", "c"}}, `
NAME` + strings.Repeat(" ", 118) + `ARGUMENTS                          DESCRIPTION
` + long + `  one two three four five six seven  ` + strings.Repeat("word ", 30) + `end
a` + strings.Repeat(" ", 121) + `b                                  c
`},
	} {
		table := Table{Heads: []string{"NAME", "ARGUMENTS", "DESCRIPTION"}, Widths: []int{40, 25}}
		for _, row := range test.rows {
			table.Add(row[:]...)
		}
		var out strings.Builder
		if err := table.Write(&out, test.width); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
