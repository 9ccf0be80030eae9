package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
)

// Place is where something is in the configuration.
type Place struct {
	// File is the path as it was found from the --config argument.
	File string
	Line int
}

// String writes a place as FILE:LINE.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// placeOf returns where a range begins.
func placeOf(r hcl.Range) Place { return Place{File: r.Filename, Line: r.Start.Line} }
