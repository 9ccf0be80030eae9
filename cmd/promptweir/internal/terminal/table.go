package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// defaultWidth is the line length of diagnostics where there is no terminal.
const defaultWidth = 100

// Width returns how many columns a terminal has, and whether there is one.
func Width(w io.Writer) (columns int, isTerminal bool) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil || columns <= 0 {
		columns = defaultWidth
	}
	return columns, true
}

// Style returns the line length of diagnostics, and whether they may be coloured.
func Style(w io.Writer) (width uint, color bool) {
	columns, isTerminal := Width(w)
	if !isTerminal {
		return defaultWidth, false
	}
	return uint(columns), os.Getenv("NO_COLOR") == "" // see https://no-color.org
}

// columnGap separates the columns of a table.
const columnGap = 2

// WriteTable prints rows, of which the first has the heads, in columns that line up.
func WriteTable(w io.Writer, rows [][]string) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, columnGap, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Line(cell) // without a tab, which would begin another cell
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
