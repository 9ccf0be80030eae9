package terminal

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
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
	upstreamtest.Equal(t, strings.ReplaceAll(want, `\ufffd`, "\ufffd"), out.String(), "table")
}

func TestColoured_FollowsTheSigns(t *testing.T) {
	got := coloured("# about\n+ new\n- gone\n! other\n\n")
	upstreamtest.Equal(t, "# about\n\x1b[32m+ new\x1b[0m\n\x1b[31m- gone\x1b[0m\n\x1b[33m! other\x1b[0m\n\n", got, "coloured")
}
