package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Diagnostics are the mistakes and warnings that [Load] found, in the order of files and lines. They hold no sensitive value.
// The zero value is empty.
type Diagnostics struct{ report hclread.Report }

// HasErrors reports whether there is more than warnings.
func (d Diagnostics) HasErrors() bool { return d.report.Diagnostics.HasErrors() }

// Err returns nil without errors, else one error with a line for each: PATH:LINE: Summary: detail.
func (d Diagnostics) Err() error {
	lines := d.lines(hcl.DiagError)
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Warnings returns a line for each warning, as in [Diagnostics.Err].
func (d Diagnostics) Warnings() []string { return d.lines(hcl.DiagWarning) }

func (d Diagnostics) lines(severity hcl.DiagnosticSeverity) []string {
	var lines []string
	for _, diag := range d.report.Diagnostics {
		if diag.Severity == severity {
			lines = append(lines, line(diag))
		}
	}
	return lines
}

// line writes a diagnostic for a log.
func line(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text += ": " + strings.Join(strings.Fields(d.Detail), " ")
	}
	if d.Subject != nil {
		text = placeOf(*d.Subject).String() + ": " + text
	}
	return hclread.Printable(text)
}

// Write prints each diagnostic with its source, for a reader at a terminal. A width of 0 does not wrap lines.
func (d Diagnostics) Write(w io.Writer, width uint, color bool) error {
	for _, diag := range d.report.Diagnostics {
		shown, files := d.report.Masked(diag)
		if err := hcl.NewDiagnosticTextWriter(w, files, width, color).WriteDiagnostic(shown); err != nil {
			return fmt.Errorf("write diagnostics: %w", err)
		}
	}
	return nil
}

// The severities of a [Diagnostic].
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Diagnostic is one mistake or warning, for programs. It holds no sensitive value.
type Diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	// Range is nil where no line of a file is to blame.
	Range *Range `json:"range,omitempty"`
	// UnsetVariable says that it is about an environment variable that is not set here, which is no mistake in a file.
	UnsetVariable bool `json:"-"`
}

// Range is a part of a file. Lines and columns begin at 1; columns count what people call characters.
type Range struct {
	Filename string   `json:"filename"`
	Start    Position `json:"start"`
	End      Position `json:"end"`
}

// Position is a place in a file.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// All returns each diagnostic.
func (d Diagnostics) All() []Diagnostic {
	all := make([]Diagnostic, 0, len(d.report.Diagnostics))
	for _, diag := range d.report.Diagnostics {
		one := Diagnostic{
			Severity: SeverityError, Summary: diag.Summary, Detail: diag.Detail, UnsetVariable: hclread.IsUnsetVariable(diag),
		}
		if diag.Severity == hcl.DiagWarning {
			one.Severity = SeverityWarning
		}
		if at := diag.Subject; at != nil {
			one.Range = &Range{at.Filename, Position(at.Start), Position(at.End)}
		}
		all = append(all, one)
	}
	return all
}

// Finding is something in a file that is no configuration.
type Finding struct {
	Path string
	// Line is 0 for the whole file, and Source the line as it may be shown.
	Line            int
	Source          string
	Summary, Detail string
	// IsWarning says that it is no mistake.
	IsWarning bool
}

// NewDiagnostics makes diagnostics of findings, in their order.
func NewDiagnostics(findings []Finding) Diagnostics {
	quotes := make([]hclread.Quote, len(findings))
	for i, f := range findings {
		quotes[i] = hclread.Quote{
			Severity: hcl.DiagError, Summary: f.Summary, Detail: f.Detail, Path: f.Path, Line: f.Line, Source: f.Source,
		}
		if f.IsWarning {
			quotes[i].Severity = hcl.DiagWarning
		}
	}
	return Diagnostics{hclread.NewReport(quotes)}
}
