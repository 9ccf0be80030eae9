package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Diagnostics are what [Load] has to say about a configuration, in the order of its files and lines.
// The zero value says nothing. It holds no sensitive value.
type Diagnostics struct {
	list    hcl.Diagnostics
	sources map[string]*source
}

// Len counts errors and warnings.
func (d Diagnostics) Len() int { return len(d.list) }

// HasErrors reports whether there is more than warnings.
func (d Diagnostics) HasErrors() bool { return d.list.HasErrors() }

// Err returns nil without errors, else one error with a line for each: PATH:LINE: Summary; detail.
func (d Diagnostics) Err() error {
	var lines []string
	for _, diag := range d.list {
		if diag.Severity == hcl.DiagError {
			lines = append(lines, line(diag))
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Warnings returns a line for each warning, as in [Diagnostics.Err].
func (d Diagnostics) Warnings() []string {
	var lines []string
	for _, diag := range d.list {
		if diag.Severity == hcl.DiagWarning {
			lines = append(lines, line(diag))
		}
	}
	return lines
}

// Write prints each diagnostic with its source for a reader at a terminal. A width of 0 does not wrap.
func (d Diagnostics) Write(w io.Writer, width uint, color bool) error {
	for _, diag := range d.list {
		shown, files := d.masked(diag)
		if err := hcl.NewDiagnosticTextWriter(w, files, width, color).WriteDiagnostic(shown); err != nil {
			return fmt.Errorf("write diagnostics: %w", err)
		}
	}
	return nil
}

// masked returns a diagnostic, and the file it points into, as they may be shown.
func (d Diagnostics) masked(diag *hcl.Diagnostic) (*hcl.Diagnostic, map[string]*hcl.File) {
	if diag.Subject == nil || d.sources[diag.Subject.Filename] == nil {
		return diag, nil
	}
	src := d.sources[diag.Subject.Filename]
	m := maskSource(src.file.Bytes, src.secrets)
	shown := *diag
	shown.Subject = m.shift(diag.Subject)
	shown.Context = m.shift(diag.Context)
	nav := contextAt(contextString(src.file, diag.Subject.Start.Byte))
	return &shown, map[string]*hcl.File{src.path: {Bytes: m.text, Nav: nav}}
}

// contextAt is the answer to which block a diagnostic stands in. It is found in the source before masking,
// because masking moves the offsets.
type contextAt string

// ContextString is what hcl's writer asks for.
func (c contextAt) ContextString(int) string { return string(c) }

func contextString(file *hcl.File, offset int) string {
	if nav, ok := file.Nav.(interface{ ContextString(offset int) string }); ok {
		return nav.ContextString(offset)
	}
	return ""
}

// line writes a diagnostic for a log.
func line(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text += "; " + strings.Join(strings.Fields(d.Detail), " ")
	}
	if d.Subject == nil {
		return text
	}
	return placeOf(*d.Subject).String() + ": " + text
}

func placeOf(r hcl.Range) Place { return Place{File: r.Filename, Line: r.Start.Line} }
