package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Diagnostics are the mistakes and warnings that [Load] found, in the order of files and lines.
// They hold no sensitive value. The zero value is empty.
type Diagnostics struct{ report hclread.Report }

// HasErrors reports whether there is more than warnings.
func (d Diagnostics) HasErrors() bool { return d.report.Diagnostics.HasErrors() }

// Err returns nil without errors, else an [Error].
func (d Diagnostics) Err() error {
	if !d.HasErrors() {
		return nil
	}
	return &Error{d}
}

// Error is the error of [Diagnostics] that have errors.
type Error struct{ Diagnostics Diagnostics }

// Error returns a line for each error: PATH:LINE: Summary: detail.
func (e *Error) Error() string { return strings.Join(e.Diagnostics.lines(hcl.DiagError), "\n") }

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

// Write prints each diagnostic with its source, for a reader at a terminal. A width of 0 does not
// wrap lines.
func (d Diagnostics) Write(w io.Writer, width uint, color bool) error {
	for _, diag := range d.report.Diagnostics {
		shown, files := d.report.Quote(diag)
		var text bytes.Buffer
		err := hcl.NewDiagnosticTextWriter(&text, files, width, color).WriteDiagnostic(shown)
		if err == nil {
			_, err = io.WriteString(w, pointed(text.String(), shown.Subject, files))
		}
		if err != nil {
			return fmt.Errorf("write diagnostics: %w", err)
		}
	}
	return nil
}

// pointed writes the location in a diagnostic's text as FILE:LINE:COLUMN, and below the quoted line a mark at the column. A
// whole line has neither.
func pointed(text string, at *hcl.Range, files map[string]*hcl.File) string {
	if at == nil || files[at.Filename] == nil {
		return text
	}
	source := string(files[at.Filename].Bytes)
	begin := strings.LastIndexByte(source[:at.Start.Byte], '\n') + 1
	line, _, _ := strings.Cut(source[begin:], "\n")
	before, marked := line[:at.Start.Byte-begin], line[at.Start.Byte-begin:min(max(at.End.Byte-begin, at.Start.Byte-begin), len(line))]
	place := fmt.Sprintf("%s:%d", at.Filename, at.Start.Line)
	isHidden := strings.HasPrefix(line, hclread.NotShown)
	if marked != line || isHidden {
		place += fmt.Sprintf(":%d", at.Start.Column)
	}
	text = strings.Replace(text, fmt.Sprintf("%s line %d", at.Filename, at.Start.Line), place, 1)
	head, rest, isQuoted := strings.Cut(text, fmt.Sprintf("\n%4d: ", at.Start.Line))
	quoted, rest, _ := strings.Cut(rest, "\n")
	if !isQuoted || marked == line || isHidden {
		return text
	}
	blank := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	return fmt.Sprintf("%s\n%4d: %s\n      %s%s\n%s", head, at.Start.Line, quoted, blank, strings.Repeat("^", max(utf8.RuneCountInString(marked), 1)), rest)
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
	// UnsetVariable says that it is about an environment variable that is not set here, which is no
	// mistake in a file.
	UnsetVariable bool `json:"-"`
}

// Range is a part of a file. Lines and columns begin at 1; columns count what people call
// characters.
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
type Finding = hclread.Finding

// NewDiagnostics makes diagnostics of findings, in their order.
func NewDiagnostics(findings []Finding) Diagnostics { return Diagnostics{hclread.NewReport(findings)} }

// Suggest ends a sentence about a wrong name, with a question for the nearest of the known names if
// one is near, else with a period.
func Suggest(name string, known []string) string { return hclread.Suggest(name, known) }

// Formatted is one file of a configuration, as it is and in canonical form.
type Formatted struct {
	Path          string
	Before, After []byte
}

// Changed reports whether the file is not in canonical form.
func (f Formatted) Changed() bool { return !bytes.Equal(f.Before, f.After) }

// Format reads the file or the folder at path as [Load] does, but only checks its syntax, and
// returns its files in canonical form: only white space changes, and comments stay. Files that do
// not parse are in the Diagnostics only.
func Format(path string) ([]Formatted, Diagnostics) {
	d := newDecoder(path, Options{})
	var files []Formatted
	for _, f := range d.SoundFiles() {
		files = append(files, Formatted{f.Path, f.Content, canonicalForm(f.Content)})
	}
	return files, Diagnostics{d.Finish()}
}

// FormatText returns a text in canonical form, as [Format] does for files. Its name is for the
// Diagnostics.
func FormatText(name string, content []byte) (Formatted, Diagnostics) {
	r := hclread.New(rootSchema(), hclread.Options{})
	r.Parse(name, content)
	return Formatted{name, content, canonicalForm(content)}, Diagnostics{r.Finish()}
}

// maxPasses bounds how often a file is formatted until nothing changes. hclwrite sometimes needs
// more than one pass.
const maxPasses = 4

// canonicalForm formats until nothing changes.
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
