package hclread

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/mitchellh/go-wordwrap"
)

// Reporter collects diagnostics. The zero value is ready for use.
type Reporter struct {
	diags hcl.Diagnostics
	// reported counts all diagnostics, including those beyond maxOfFile.
	reported int
	seen     map[kind]int
	// errorsAt contains the offsets of the errors in diags, by file.
	errorsAt map[string][]int
}

// kind is the file and the severity of a diagnostic.
type kind struct {
	file     string
	severity hcl.DiagnosticSeverity
}

// maxOfFile bounds the errors of one file, and also its warnings. Without it, [Block.HasErrors] would be slow for a
// file with an error in every few bytes.
const maxOfFile = 100

const summaryMore = "Only some are shown"

// Error reports an error in a line of a file. The detail is a sentence with the remedy.
func (r *Reporter) Error(at hcl.Range, summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at})
}

// Conflict reports an error that is also one of the other location's file. The detail names that location.
func (r *Reporter) Conflict(at, other hcl.Range, summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at, Extra: inFile(other.Filename),
	})
}

// Warning reports valid configuration that was probably not intended.
func (r *Reporter) Warning(at hcl.Range, summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at})
}

// Unplaced reports an error without a location.
func (r *Reporter) Unplaced(summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...)})
}

// Report adds a diagnostic, unless its file has too many. The diagnostic must not contain a
// sensitive value.
func (r *Reporter) Report(d *hcl.Diagnostic) {
	if r.seen == nil {
		r.seen, r.errorsAt = map[kind]int{}, map[string][]int{}
	}
	k := kind{severity: d.Severity}
	if d.Subject != nil {
		k.file = d.Subject.Filename
	}
	r.reported++
	other, isConflict := d.Extra.(inFile)
	if isConflict = isConflict && d.Subject != nil; isConflict {
		r.errorsAt[string(other)] = append(r.errorsAt[string(other)], -1) // in the file, but in none of its blocks
	}
	if r.seen[k]++; r.seen[k] > maxOfFile && !isConflict { // a conflict must count for both files
		return
	}
	if d.Subject != nil && d.Severity == hcl.DiagError {
		r.errorsAt[k.file] = append(r.errorsAt[k.file], d.Subject.Start.Byte)
	}
	r.diags = append(r.diags, d)
}

// Reported returns the number of diagnostics so far. Compare it before and after a step to learn whether the step
// reported any.
func (r *Reporter) Reported() int { return r.reported }

// addCounts adds a diagnostic with the number of omitted diagnostics for each file that has any.
func (r *Reporter) addCounts() {
	for k, n := range r.seen {
		if n <= maxOfFile {
			continue
		}
		about := "There are"
		if k.file != "" {
			about = k.file + " has"
		}
		r.diags = append(r.diags, &hcl.Diagnostic{
			Severity: k.severity, Summary: summaryMore, Extra: inFile(k.file),
			Detail: fmt.Sprintf("%s %d of these, of which %d are shown; correct them, then look at the rest.", about, n, maxOfFile),
		})
	}
}

// location returns the beginning of a range as FILE:LINE.
func location(at hcl.Range) string { return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line) }

// Report contains the diagnostics of a [Reader], or those that [NewReport] makes of findings.
type Report struct {
	// Diagnostics are sorted by file and line after Finish. Those without a location come first.
	Diagnostics hcl.Diagnostics
	files       map[string]*File
}

// Finish returns the report. Do not use the Reader afterwards.
func (r *Reader) Finish() Report {
	r.addCounts()
	order := map[string]int{}
	for i, src := range r.files {
		order[src.Path] = i
	}
	// Sort, because blocks and attributes are not checked in the order of lines.
	at := func(d *hcl.Diagnostic) []int {
		if d.Subject == nil {
			return nil
		}
		return []int{order[d.Subject.Filename], d.Subject.Start.Byte}
	}
	slices.SortStableFunc(r.diags, func(a, b *hcl.Diagnostic) int {
		return cmp.Or(slices.Compare(at(a), at(b)), cmp.Compare(a.Summary, b.Summary), cmp.Compare(a.Detail, b.Detail))
	})
	return Report{r.diags, r.byPath}
}

// maxQuoted bounds the quoted lines of a diagnostic, in bytes.
const maxQuoted = 4096

// Merge returns both reports as one; r comes first.
func (r Report) Merge(other Report) Report {
	merged := Report{slices.Concat(r.Diagnostics, other.Diagnostics), map[string]*File{}}
	maps.Copy(merged.files, other.files)
	maps.Copy(merged.files, r.files)
	return merged
}

// Without returns the report without the diagnostics of a severity. Diagnostics in replaced files
// lose their location, which would point into another text. Those that name a location in a replaced
// file say which text that is.
func (r Report) Without(severity hcl.DiagnosticSeverity, replaced map[string]bool) Report {
	without := Report{files: r.files}
	for _, d := range r.Diagnostics {
		if d.Severity == severity {
			continue
		}
		other, _ := d.Extra.(inFile)
		switch {
		case d.Subject != nil && replaced[d.Subject.Filename]:
			d = &hcl.Diagnostic{
				Severity: d.Severity, Summary: d.Summary, Extra: inFile(d.Subject.Filename),
				Detail: fmt.Sprintf("In the previous text of %s: %s", d.Subject.Filename, d.Detail),
			}
		case replaced[string(other)]: // a conflict
			named := *d
			named.Detail += fmt.Sprintf(" That is in the previous text of %s, which would stay in use.", other)
			d = &named
		}
		without.Diagnostics = append(without.Diagnostics, d)
	}
	return without
}

// Write prints each diagnostic with its lines, for a terminal. If width is 0, it does not wrap the details.
func (r Report) Write(w io.Writer, width uint, color bool) error {
	for _, d := range r.Diagnostics {
		if _, err := io.WriteString(w, r.text(d, width, color)); err != nil {
			return fmt.Errorf("write diagnostics: %w", err)
		}
	}
	return nil
}

func (r Report) text(d *hcl.Diagnostic, width uint, color bool) string {
	severity, begin, end := "Error", "\x1b[31m", "\x1b[0m"
	if d.Severity == hcl.DiagWarning {
		severity, begin = "Warning", "\x1b[33m"
	}
	if !color {
		begin, end = "", ""
	}
	text := fmt.Sprintf("%s%s%s: %s\n\n", begin, severity, end, Printable(d.Summary))
	if d.Subject != nil {
		text += r.quote(d)
	}
	detail := Printable(d.Detail)
	if width > 0 {
		detail = wordwrap.WrapString(detail, width)
	}
	if detail != "" {
		text += detail + "\n\n"
	}
	return text
}

// quotedLine is the printable line of a [Finding].
type quotedLine string

// quote returns the location of a diagnostic as FILE:LINE:COLUMN, the name of the block around it, and its
// lines with a mark below the column. A diagnostic for a whole line has no column and no mark. Lines that
// are too long or may contain a secret are replaced by the reason.
func (r Report) quote(d *hcl.Diagnostic) string {
	at := d.Subject
	place, column := fmt.Sprintf("  on %s:%d", Printable(at.Filename), at.Start.Line), fmt.Sprintf(":%d", at.Start.Column)
	switch line, isFinding := d.Extra.(quotedLine); {
	case isFinding && line == "":
		return place + ":\n\n"
	case isFinding:
		return fmt.Sprintf("%s:\n%4d: %s\n\n", place, at.Start.Line, line)
	}
	src := r.files[at.Filename]
	content, block := src.Content, ""
	if nav, ok := src.nav.(interface{ ContextString(offset int) string }); ok {
		if block = nav.ContextString(at.Start.Byte); block != "" {
			block = ", in " + Printable(block)
		}
	}
	lines := linesOf(content, d)
	number := 1 + bytes.Count(content[:lines.start], []byte("\n"))
	if why := src.withholds(lines); why != "" {
		return fmt.Sprintf("%s%s%s:\n%4d: (not shown: %s)\n\n", place, column, block, number, why)
	}
	var quoted strings.Builder
	begin, isWhole := lines.start, true
	for line := range bytes.Lines(content[lines.start:lines.end]) {
		text := string(bytes.TrimRight(line, "\r\n"))
		if text != "" {
			fmt.Fprintf(&quoted, "%4d: %s\n", number, Printable(text))
		}
		from := min(max(at.Start.Byte-begin, 0), len(text))
		to := min(max(at.End.Byte-begin, from), len(text))
		if number == at.Start.Line && to-from < len(text) {
			isWhole = false
			fmt.Fprintf(&quoted, "      %s%s\n", blanks(text[:from]), strings.Repeat("^", max(utf8.RuneCountInString(text[from:to]), 1)))
		}
		begin, number = begin+len(line), number+1
	}
	if isWhole {
		column = ""
	}
	return place + column + block + ":\n" + quoted.String() + "\n"
}

// blanks returns white space that is as wide as a text.
func blanks(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, text)
}

// linesOf returns the lines that a diagnostic quotes.
func linesOf(content []byte, d *hcl.Diagnostic) span {
	begin, end := d.Subject.Start.Byte, d.Subject.End.Byte
	if d.Context != nil {
		begin, end = min(begin, d.Context.Start.Byte), max(end, d.Context.End.Byte)
	}
	begin, end = min(begin, len(content)), min(max(begin, end), len(content))
	begin = bytes.LastIndexByte(content[:begin], '\n') + 1
	if n := bytes.IndexByte(content[end:], '\n'); n >= 0 {
		return span{begin, end + n}
	}
	return span{begin, len(content)}
}

// WithErrors returns the paths of the files with errors, sorted. An error without a file has the path "".
func (r Report) WithErrors() []string {
	paths := map[string]bool{}
	for _, d := range r.Diagnostics {
		if d.Severity != hcl.DiagError {
			continue
		}
		if d.Subject != nil {
			paths[d.Subject.Filename] = true
		}
		if file, ok := d.Extra.(inFile); ok || d.Subject == nil {
			paths[string(file)] = true
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// Finding is a problem in a file that no Reader read.
type Finding struct {
	Path string
	// Line is 0 for the whole file. Source is the printable line.
	Line            int
	Source          string
	Summary, Detail string
	// IsWarning is true for a warning, false for an error.
	IsWarning bool
}

// NewReport returns a report of findings, in their order.
func NewReport(findings []Finding) Report {
	var all Reporter
	for _, f := range findings {
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: f.Summary, Detail: f.Detail}
		if f.IsWarning {
			d.Severity = hcl.DiagWarning
		}
		switch {
		case f.Line > 0:
			d.Subject = &hcl.Range{
				Filename: f.Path, Start: hcl.Pos{Line: f.Line, Column: 1}, End: hcl.Pos{Line: f.Line, Column: len(f.Source) + 1},
			}
			d.Extra = quotedLine(f.Source)
		case f.Path != "":
			d.Detail = f.Path + ": " + f.Detail
		}
		all.Report(d)
	}
	all.addCounts()
	return Report{Diagnostics: all.diags}
}
