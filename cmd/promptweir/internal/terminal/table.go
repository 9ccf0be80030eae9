package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// defaultWidth is the line length of diagnostics without a terminal.
const defaultWidth = 100

// Width returns the number of columns of a terminal, or defaultWidth if it cannot be determined. If w is not a
// terminal, isTerminal is false.
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

// Style returns the line length of diagnostics on w, and whether they may have colours.
func Style(w io.Writer) (width uint, color bool) {
	columns, isTerminal := Width(w)
	if !isTerminal {
		return defaultWidth, false
	}
	return uint(columns), os.Getenv("NO_COLOR") == "" // see https://no-color.org
}

// signColours contains the ANSI colour codes of lines that begin with the sign of a difference.
var signColours = map[byte]string{'+': "32", '-': "31", '!': "33", '~': "33"} //nolint:gochecknoglobals // a constant table

// WriteDiff prints lines that begin with signs of differences, in colour at a terminal that allows it.
func WriteDiff(w io.Writer, text string) error {
	_, color := Style(w)
	text = strings.Map(orReplacement, text)
	if color {
		text = coloured(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

func coloured(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if code := signColours[line[0]]; code != "" {
			line = "\x1b[" + code + "m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
		}
		lines.WriteString(line)
	}
	return lines.String()
}

// columnGap is the number of spaces between the columns of a table.
const columnGap = 2

// WriteTable prints rows in aligned columns. It changes the cells of rows.
func WriteTable(w io.Writer, rows [][]string) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, columnGap, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Line(cell) // removes tabs, which would separate cells
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // a builder never fails
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
