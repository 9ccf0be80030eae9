package console

import (
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/gateway/admin"
)

// spark is the last hour as a small picture: a bar for the gets of each minute, above a strip of how the upstream was. Each field
// is the data of an SVG path, in a grid of 60 by 20.
type spark struct {
	Gets, Errors    string
	Good, Poor, Bad string
	Summary         string
}

const (
	barsHeight = 14.0 // of the bars
	stripTop   = 16.0
	stripSize  = 4.0
)

// newSpark draws an hour; nil if there is nothing to draw.
func newSpark(hour *admin.Hour) *spark {
	if hour == nil {
		return nil
	}
	s := &spark{}
	var gets, errors strings.Builder
	strips := map[admin.Level]*strings.Builder{admin.Good: {}, admin.Poor: {}, admin.Bad: {}}
	most, poor, bad := max(1, hour.MostGets()), 0, 0
	for x, m := range hour {
		if m.Gets > 0 {
			height := max(1.5, barsHeight*float64(m.Gets)/float64(most))
			failed := height * float64(m.Errors) / float64(m.Gets)
			bar(&gets, x, barsHeight-height, height-failed)
			bar(&errors, x, barsHeight-failed, failed)
		}
		if m.Known {
			bar(strips[m.Level], x, stripTop, stripSize)
			switch m.Level {
			case admin.Bad:
				bad++
			case admin.Poor:
				poor++
			}
		}
	}
	s.Gets, s.Errors = gets.String(), errors.String()
	s.Good, s.Poor, s.Bad = strips[admin.Good].String(), strips[admin.Poor].String(), strips[admin.Bad].String()
	s.Summary = "Last hour: " + count(hour.Gets(), "get")
	if errors := hour.Errors(); errors > 0 {
		s.Summary += ", " + count(errors, "error")
	}
	if bad > 0 {
		s.Summary += ", down for " + count(bad, "minute")
	}
	if poor > 0 {
		s.Summary += ", in trouble for " + count(poor, "minute")
	}
	return s
}

// bar appends a bar to the data of a path.
func bar(path *strings.Builder, x int, y, height float64) {
	if height > 0 {
		fmt.Fprintf(path, "M%d %.1fh.8v%.1fh-.8z", x, y, height)
	}
}
