package hclread

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Reporter collects diagnostics. The zero value is ready for use.
type Reporter struct {
	diags hcl.Diagnostics
	// reported counts all, those that were left out included.
	reported int
	seen     map[kind]int
	// errorsAt has the offsets of the errors that were not left out, by file.
	errorsAt map[string][]int
}

// kind is the file and the severity of a diagnostic.
type kind struct {
	file     string
	severity hcl.DiagnosticSeverity
}

// maxOfFile bounds the errors of one file, and its warnings: a file may have an error in every few
// bytes, and each block looks at those of its file.
const maxOfFile = 100

const summaryMore = "Only some are shown"

// Error reports a mistake in a line of a file. The detail is a sentence that says how to correct
// it.
func (r *Reporter) Error(at hcl.Range, summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at})
}

// Warning reports something that is allowed but most likely not meant.
func (r *Reporter) Warning(at hcl.Range, summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at})
}

// Unplaced reports a mistake that is not in a line of a file.
func (r *Reporter) Unplaced(summary, detail string, args ...any) {
	r.Report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...)})
}

// Report adds a diagnostic, which must hold no sensitive value, unless there are too many of its file.
func (r *Reporter) Report(d *hcl.Diagnostic) { r.add(withRemedy(d)) }

func (r *Reporter) add(d *hcl.Diagnostic) {
	if r.seen == nil {
		r.seen, r.errorsAt = map[kind]int{}, map[string][]int{}
	}
	k := kind{severity: d.Severity}
	if d.Subject != nil {
		k.file = d.Subject.Filename
	}
	r.reported++
	if r.seen[k]++; r.seen[k] > maxOfFile {
		return
	}
	if d.Subject != nil && d.Severity == hcl.DiagError {
		r.errorsAt[k.file] = append(r.errorsAt[k.file], d.Subject.Start.Byte)
	}
	r.diags = append(r.diags, d)
}

// Reported counts the diagnostics so far, so that a caller can tell whether a step added any.
func (r *Reporter) Reported() int { return r.reported }

// addCounts adds for each file of which some diagnostics were left out how many there are.
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

// location writes where a range begins, as FILE:LINE.
func location(at hcl.Range) string { return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line) }

// Report is what a Reader found wrong.
type Report struct {
	// Diagnostics are in the order of files and lines; those without a source location come first.
	Diagnostics hcl.Diagnostics
	sources     map[string]*source
}

// Finish returns what was reported. The Reader is not to be used afterwards.
func (r *Reader) Finish() Report {
	r.addCounts()
	order := map[string]int{}
	for i, src := range r.sources {
		order[src.path] = i
	}
	// Checks run block by block and attributes come from a map, so the order of reporting means
	// nothing.
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

// NotShown begins what stands in place of a line that is not quoted.
const NotShown = "(not shown: "

// maxQuoted bounds the lines that a diagnostic quotes, in bytes.
const maxQuoted = 4096

// Merge returns both reports as one, with the diagnostics and the sources of r first.
func (r Report) Merge(other Report) Report {
	merged := Report{slices.Concat(r.Diagnostics, other.Diagnostics), maps.Clone(other.sources)}
	if merged.sources == nil {
		merged.sources = map[string]*source{}
	}
	maps.Copy(merged.sources, r.sources)
	return merged
}

// Without returns the diagnostics of the other severity. Those in files that were replaced have no
// source location, since that would point into another text.
func (r Report) Without(severity hcl.DiagnosticSeverity, replaced map[string]bool) Report {
	without := Report{sources: r.sources}
	for _, d := range r.Diagnostics {
		if d.Severity == severity {
			continue
		}
		if d.Subject != nil && replaced[d.Subject.Filename] {
			d = &hcl.Diagnostic{
				Severity: d.Severity, Summary: d.Summary, Extra: inFile(d.Subject.Filename),
				Detail: fmt.Sprintf("In the previous text of %s: %s", d.Subject.Filename, d.Detail),
			}
		}
		without.Diagnostics = append(without.Diagnostics, d)
	}
	return without
}

// Quote returns a diagnostic as it may be shown, and the file with the lines that it quotes. In place
// of lines that may have a secret, or that are too long, the file has a sentence.
func (r Report) Quote(diag *hcl.Diagnostic) (*hcl.Diagnostic, map[string]*hcl.File) {
	shown := *diag // the diagnostic itself is printed again, in logs
	shown.Summary, shown.Detail = Printable(diag.Summary), Printable(diag.Detail)
	if diag.Subject == nil {
		return &shown, nil
	}
	shown.Subject, shown.Context = printableRange(diag.Subject), printableRange(diag.Context)
	src := r.sources[diag.Subject.Filename]
	if src == nil {
		return &shown, nil
	}
	content := src.file.Bytes
	lines := linesOf(content, diag)
	before := bytes.Count(content[:lines.start], []byte("\n"))
	// Other lines are empty: hcl's writer counts the characters of a whole file for each diagnostic in it.
	text := bytes.Repeat([]byte("\n"), before)
	if why := src.withholds(lines); why != "" {
		text = fmt.Appendf(text, NotShown+"%s)", why)
		shown.Subject.Start.Byte, shown.Subject.End.Byte, shown.Context = before, len(text), nil
	} else {
		text = append(text, printableSource(content[lines.start:lines.end])...)
		for _, at := range []*hcl.Range{shown.Subject, shown.Context} {
			if at != nil {
				at.Start.Byte -= lines.start - before
				at.End.Byte -= lines.start - before
			}
		}
	}
	nav := blockName(Printable(nameOfBlock(src.file, diag.Subject.Start.Byte)))
	return &shown, map[string]*hcl.File{shown.Subject.Filename: {Bytes: text, Nav: nav}}
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

// printableRange returns a range whose file name may be shown.
func printableRange(at *hcl.Range) *hcl.Range {
	if at == nil {
		return nil
	}
	shown := *at
	shown.Filename = Printable(at.Filename)
	return &shown
}

// blockName answers hcl's writer when it asks in which block a diagnostic is.
type blockName string

// ContextString ignores the offset, which is one of the text that was cut out.
func (n blockName) ContextString(int) string { return string(n) }

func nameOfBlock(file *hcl.File, offset int) string {
	if nav, ok := file.Nav.(interface{ ContextString(offset int) string }); ok {
		return nav.ContextString(offset)
	}
	return ""
}

// Mistakes returns the summaries of the errors by the paths of their files; those that are in none
// have an empty path.
func (r Report) Mistakes() map[string][]string {
	mistakes := map[string][]string{}
	for _, d := range r.Diagnostics {
		if d.Severity != hcl.DiagError {
			continue
		}
		path := ""
		if file, ok := d.Extra.(inFile); ok {
			path = string(file)
		} else if d.Subject != nil {
			path = d.Subject.Filename
		}
		mistakes[path] = append(mistakes[path], d.Summary)
	}
	return mistakes
}

// Files returns the files that were read, by path.
func (r Report) Files() map[string]File {
	files := make(map[string]File, len(r.sources))
	for path, src := range r.sources {
		files[path] = File{path, src.file.Bytes, src}
	}
	return files
}

// File is a file that was read.
type File struct {
	Path    string
	Content []byte

	source *source
}

// Declares reports whether there is a block of a type at the top level of the file, as far as that
// can be seen in one that does not parse; not in a file that was not read.
func (f File) Declares(blockType string) bool { return f.source != nil && f.source.declares(blockType) }

// Labels returns the first labels of the blocks of a type, as far as they can be seen; none of a
// file that was not read.
func (f File) Labels(blockType string) []string {
	if f.source == nil {
		return nil
	}
	return f.source.labels(blockType)
}

// SoundFiles returns the files that parse, in order.
func (r *Reader) SoundFiles() []File {
	var files []File
	for _, src := range r.sources {
		if !src.broken {
			files = append(files, File{src.path, src.file.Bytes, src})
		}
	}
	return files
}

// Finding is something in a file that no Reader has read.
type Finding struct {
	Path string
	// Line is 0 for the whole file, and Source the line as it may be shown.
	Line            int
	Source          string
	Summary, Detail string
	// IsWarning says that it is no mistake.
	IsWarning bool
}

// maxQuotedLine is the last line of findings that a report shows: hcl's writer wants all lines
// before it, too.
const maxQuotedLine = 10_000

// NewReport returns a report of findings in their order.
func NewReport(findings []Finding) Report {
	r, all := Report{sources: map[string]*source{}}, Reporter{}
	starts := map[Finding]int{} // of their lines, in files whose other lines are empty
	byLine := func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) }
	for _, f := range slices.SortedFunc(slices.Values(findings), byLine) {
		if f.Line == 0 || f.Line > maxQuotedLine {
			continue
		}
		src := r.sources[f.Path]
		if src == nil {
			src = &source{path: f.Path, file: &hcl.File{}}
			r.sources[f.Path] = src
		}
		text := src.file.Bytes
		text = append(text, bytes.Repeat([]byte("\n"), f.Line-1-bytes.Count(text, []byte("\n")))...)
		starts[f] = bytes.LastIndexByte(text, '\n') + 1
		// In the place of what another finding has of the same line.
		src.file.Bytes = append(text[:starts[f]], f.Source...)
	}
	for _, f := range findings {
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: f.Summary, Detail: f.Detail}
		if f.IsWarning {
			d.Severity = hcl.DiagWarning
		}
		switch begin, isQuoted := starts[f]; {
		case isQuoted:
			d.Subject = &hcl.Range{
				Filename: f.Path, Start: hcl.Pos{Line: f.Line, Column: 1, Byte: begin},
				End: hcl.Pos{Line: f.Line, Column: len(f.Source) + 1, Byte: begin + len(f.Source)},
			}
		case f.Line > 0:
			d.Detail = fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Detail)
		case f.Path != "":
			d.Detail = f.Path + ": " + f.Detail
		}
		all.Report(d)
	}
	all.addCounts()
	r.Diagnostics = all.diags
	return r
}
