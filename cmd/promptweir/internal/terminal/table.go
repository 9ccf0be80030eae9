package terminal

import (
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
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

const (
	columnGap = 2
	// minLast is the least that is shown of a table's last column, even if the line then is too
	// long for the terminal.
	minLast = 20
)

// Table is a table for people. Its columns line up where a terminal shows some characters two
// columns wide and some without width.
type Table struct {
	Heads []string
	// Widths bound the width of each column but the last, in percent of the table's; nil for a
	// table without a bound.
	Widths []int
	rows   [][]string
}

// Add adds a row, with a cell for each head.
func (t *Table) Add(cells ...string) {
	for i, cell := range cells {
		cells[i] = Line(cell)
	}
	t.rows = append(t.rows, cells)
}

// Write prints the table within a width; 0 is no bound. Cells of the first column are never cut, so
// that names can be copied: one that is too long moves what follows in its own row, and no other
// row. Other cells are cut.
func (t *Table) Write(w io.Writer, width int) error {
	widths := t.widths(width)
	var text strings.Builder
	for _, row := range append([][]string{t.Heads}, t.rows...) {
		text.WriteString(tableLine(row, widths, width) + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// widths returns the width of each column but the last.
func (t *Table) widths(width int) []int {
	natural, sum := make([]int, len(t.Heads)), (len(t.Heads)-1)*columnGap
	for i, head := range t.Heads {
		natural[i] = uniseg.StringWidth(head)
		for _, row := range t.rows {
			natural[i] = max(natural[i], uniseg.StringWidth(row[i]))
		}
		sum += natural[i]
	}
	widths := natural[:len(natural)-1]
	if width == 0 || sum <= width {
		return widths
	}
	for i, percent := range t.Widths {
		bound, widest := width*percent/100, uniseg.StringWidth(t.Heads[i])
		for _, row := range t.rows {
			cell := uniseg.StringWidth(row[i])
			switch {
			case cell <= bound:
				widest = max(widest, cell)
			case i > 0: // it will be cut
				widest = max(widest, bound)
			}
		}
		widths[i] = widest
	}
	return widths
}

func tableLine(row []string, widths []int, width int) string {
	var text strings.Builder
	at, start := 0, 0 // where the text ends, and where the column begins
	for i, cell := range row {
		column := start // of the cell
		if at > 0 {
			column = max(start, at+columnGap)
		}
		switch {
		case width == 0 || i == 0:
		case i < len(widths):
			cell = cut(cell, widths[i])
		default:
			cell = cut(cell, max(width-column, minLast))
		}
		if cell != "" {
			text.WriteString(strings.Repeat(" ", column-at) + cell)
			at = column + uniseg.StringWidth(cell)
		}
		if i < len(widths) {
			start += widths[i] + columnGap
		}
	}
	return text.String()
}

// cut shortens a text to a width, the mark of the cut included.
func cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var kept strings.Builder
	state := -1
	for at := 0; text != ""; {
		var cluster string
		var columns int
		cluster, text, columns, state = uniseg.FirstGraphemeClusterInString(text, state)
		if at += columns; at > width-1 {
			break
		}
		kept.WriteString(cluster)
	}
	return strings.TrimRight(kept.String(), " ") + "…"
}
