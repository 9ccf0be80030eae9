package main

import (
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

const (
	columnGap = 2
	// minLast is the least that is shown of a table's last column, even if the line then is too long for the terminal.
	minLast = 20
)

// columns is a table for people. They line up where a terminal shows some characters two places wide and some without width.
type columns struct {
	heads []string
	// shares bound the width of each column but the last, in percent of the table's.
	shares []int
	rows   [][]string
}

// add adds a row, with a cell for each head.
func (t *columns) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = shownLine(cell)
	}
	t.rows = append(t.rows, cells)
}

// write prints the table within a width; 0 is no bound. Cells of the first column are never cut, so that names can be copied: one
// that is too long moves what follows in its own row, and no other row. Other cells are cut.
func (t *columns) write(w io.Writer, width int) error {
	widths := t.widths(width)
	var text strings.Builder
	for _, row := range append([][]string{t.heads}, t.rows...) {
		text.WriteString(line(row, widths, width) + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// natural returns the width of the table if nothing is cut.
func (t *columns) natural() int {
	sum := len(t.shares) * columnGap
	for i, head := range t.heads {
		widest := uniseg.StringWidth(head)
		for _, row := range t.rows {
			widest = max(widest, uniseg.StringWidth(row[i]))
		}
		sum += widest
	}
	return sum
}

// widths returns the width of each column but the last.
func (t *columns) widths(width int) []int {
	if t.natural() <= width {
		width = 0
	}
	widths := make([]int, len(t.shares))
	for i, share := range t.shares {
		widths[i] = uniseg.StringWidth(t.heads[i])
		for _, row := range t.rows {
			cell, bound := uniseg.StringWidth(row[i]), width*share/100
			switch {
			case width == 0 || cell <= bound:
				widths[i] = max(widths[i], cell)
			case i > 0: // it will be cut
				widths[i] = max(widths[i], bound)
			}
		}
	}
	return widths
}

// line writes a row.
func line(row []string, widths []int, width int) string {
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
		var places int
		cluster, text, places, state = uniseg.FirstGraphemeClusterInString(text, state)
		if at += places; at > width-1 {
			break
		}
		kept.WriteString(cluster)
	}
	return strings.TrimRight(kept.String(), " ") + "…"
}
