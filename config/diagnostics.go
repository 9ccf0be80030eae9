package config

import (
	"bytes"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Diagnostics are errors and warnings. [Load] sorts them by file and line. They contain no
// sensitive value. The zero value is empty.
type Diagnostics struct{ report hclread.Report }

// HasErrors reports whether there are errors, not just warnings.
func (d Diagnostics) HasErrors() bool { return d.report.Diagnostics.HasErrors() }

// Err returns an [Error], or nil if there are no errors.
func (d Diagnostics) Err() error {
	if !d.HasErrors() {
		return nil
	}
	return &Error{d}
}

// Error is the error of a configuration that did not load.
type Error struct{ Diagnostics Diagnostics }

// Error returns one line for each error: PATH:LINE: Summary: detail. It leaves out warnings.
func (e *Error) Error() string { return strings.Join(e.Diagnostics.lines(hcl.DiagError), "\n") }

// Warnings returns one line for each warning, in the format of [Error.Error].
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

// line formats a diagnostic as one line, for a log.
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

// Write prints each diagnostic with its source, for a terminal. If width is 0, it does not wrap lines.
func (d Diagnostics) Write(w io.Writer, width uint, color bool) error {
	return d.report.Write(w, width, color)
}

// The severities of a [Diagnostic].
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Diagnostic is an error or a warning for programs. It contains no sensitive value.
type Diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	// Range is nil if the diagnostic has no location in a file.
	Range *Range `json:"range,omitempty"`
	// UnsetVariable is true for a warning about an unset environment variable. To fix it, change the
	// environment rather than a file.
	UnsetVariable bool `json:"-"`
}

// Range is a part of a file. Lines and columns begin at 1. Columns count characters as people see them.
type Range struct {
	Filename string   `json:"filename"`
	Start    Position `json:"start"`
	End      Position `json:"end"`
}

// Position is one point of a file.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// All returns the diagnostics in their order, for programs.
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

// Finding is a problem in a file that is not configuration, such as a prompt file.
type Finding = hclread.Finding

// NewDiagnostics converts findings, in their order.
func NewDiagnostics(findings []Finding) Diagnostics { return Diagnostics{hclread.NewReport(findings)} }

// Suggest returns the end of a sentence about an unknown name: ". Did you mean …?" with the nearest known name, or "."
// if no known name is near.
func Suggest(name string, known []string) string { return hclread.Suggest(name, known) }

// OrList returns alternatives as a list: a, b or c. words must not be empty.
func OrList(words []string) string { return hclread.OrList(words) }

// Formatted is one file of a configuration in its original and its canonical form.
type Formatted struct {
	Path          string
	Before, After []byte
}

// Changed reports whether the file is not in canonical form.
func (f Formatted) Changed() bool { return !bytes.Equal(f.Before, f.After) }

// Format reads the file or the folder at path like [Load], checks only the syntax, and returns the files in
// canonical form. Only white space changes. A file that does not parse has an error and is not returned.
func Format(path string) ([]Formatted, Diagnostics) {
	d := newDecoder(Options{})
	d.ReadPath(path)
	files := exslices.CastFunc(d.SoundFiles(), func(f *hclread.File) Formatted {
		return Formatted{f.Path, f.Content, canonicalForm(f.Content)}
	})
	return files, Diagnostics{d.Finish()}
}

// FormatText is [Format] for a text in memory. The Diagnostics use name as its path.
func FormatText(name string, content []byte) (Formatted, Diagnostics) {
	r := hclread.New(rootSchema(), hclread.Options{})
	r.Parse(name, content)
	return Formatted{name, content, canonicalForm(content)}, Diagnostics{r.Finish()}
}

// maxPasses bounds the passes of canonicalForm: hclwrite sometimes changes its own output.
const maxPasses = 4

// canonicalForm formats content until nothing changes.
func canonicalForm(content []byte) []byte {
	for range maxPasses {
		next := hclwrite.Format(content)
		if bytes.Equal(next, content) {
			break
		}
		content = next
	}
	return content
}
