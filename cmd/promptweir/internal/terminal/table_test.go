package terminal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteTable_LinesUpCellsOfOneLine(t *testing.T) {
	var out strings.Builder
	err := WriteTable(&out, [][]string{
		{"NAME", "ARGUMENTS", "DESCRIPTION"}, {"a.b", "who*", "Says\thello\nand \x1b[31mbye."}, {"a.longer", "", "Nothing"}, {"c", "", ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME      ARGUMENTS  DESCRIPTION
a.b       who*       Says hello and �[31mbye.
a.longer             Nothing
c
`
	if diff := cmp.Diff(strings.ReplaceAll(want, `\ufffd`, "\ufffd"), out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
