package hclread

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// source is one file with its blocks.
type source struct {
	path       string
	file       *hcl.File
	blocks     hclsyntax.Blocks
	dropped    hclsyntax.Blocks // see Block.Drop
	attributes hclsyntax.Attributes
	// broken is true if the file does not parse. Then blocks contains only the blocks before the first
	// error.
	broken bool
	// likelyTop are the probable types of a broken file's top-level blocks. likely contains the
	// probable labels by type, at any level.
	likelyTop map[string]bool
	likely    map[string][]string
	// unquoted contains the parts of the file that no diagnostic may quote.
	unquoted []span
	// left is the remaining budget of the file's expressions, in bytes.
	left int
}

// span is a run of bytes in a source.
type span struct{ start, end int }

func newSource(path string, content []byte) *source {
	return &source{path: path, file: &hcl.File{Bytes: content}, left: maxFileValues}
}

// parse sets the blocks and reports syntax errors.
func (s *source) parse(names attributeNames, isLock bool, report *Reporter) {
	before := report.Reported()
	// Ignore the lexer's errors: the parser also reports them.
	tokens, _ := hclsyntax.LexConfig(s.file.Bytes, s.path, hcl.InitialPos)
	if d := tooMuch(tokens, isLock); d != nil && !s.broken { // the parser would take too long
		s.broken = true
		report.Report(d)
	} else if !s.broken {
		s.parseBlocks(names, report)
	}
	if s.broken || report.Reported() > before { // any line may belong to a secret attribute
		s.unquoted = []span{{0, len(s.file.Bytes)}}
	}
	if s.broken {
		s.likelyTop, s.likely = names.likelyBlocks(tokens)
	}
}

func (s *source) parseBlocks(names attributeNames, r *Reporter) {
	file, diags := hclsyntax.ParseConfig(s.file.Bytes, s.path, hcl.InitialPos)
	reported := diags
	if i := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool { return strings.Contains(d.Detail, "Curly quotes") }); i >= 0 {
		curly := *diags[i]
		curly.Detail = `This is a curly quote; write " in its place, and in the place of all others of the file.`
		reported = hcl.Diagnostics{&curly} // the other errors follow from it
	}
	if i := slices.IndexFunc(reported, func(d *hcl.Diagnostic) bool { return d.Summary == summaryUnclosed }); i >= 0 {
		reported = reported[:i+1] // after an unclosed text, the parser misreads the next ones
	}
	for _, d := range causes(reported) {
		r.Report(names.locate(explainSyntax(d, s.file.Bytes), s.file.Bytes))
	}
	s.file = file
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		s.keep(body, diags)
		s.hideSecrets(names, body)
	}
}

// causes removes the diagnostics that follow from another diagnostic: about text that is not UTF-8,
// or about an unknown character or operator in the same line.
func causes(diags hcl.Diagnostics) hcl.Diagnostics {
	lexical := map[int]*hcl.Diagnostic{} // by line
	for _, d := range diags {
		switch {
		case d.Summary == "Invalid character encoding":
			return hcl.Diagnostics{d}
		case d.Subject == nil || lexical[d.Subject.Start.Line] != nil:
		case d.Summary == "Invalid character" || d.Summary == "Unsupported operator":
			lexical[d.Subject.Start.Line] = d
		}
	}
	return slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool {
		return d.Subject != nil && lexical[d.Subject.Start.Line] != nil && lexical[d.Subject.Start.Line] != d
	})
}

// hideSecrets keeps secret attributes at any level out of diagnostics.
func (s *source) hideSecrets(names attributeNames, body *hclsyntax.Body) {
	for name, a := range body.Attributes {
		if names[name] {
			s.hide(a.SrcRange)
		}
	}
	for _, b := range body.Blocks {
		s.hideSecrets(names, b.Body)
	}
}

// hide keeps the lines of a range out of diagnostics.
func (s *source) hide(at hcl.Range) {
	s.unquoted = append(s.unquoted, span{at.Start.Byte, at.End.Byte})
}

// withholds returns the reason for not printing lines, or "".
func (s *source) withholds(lines span) (why string) {
	isIn := func(hidden span) bool { return hidden.start < lines.end && lines.start < hidden.end }
	switch {
	case lines.end-lines.start > maxQuoted:
		return "the line is too long"
	case slices.ContainsFunc(s.unquoted, isIn):
		return "the line may have a secret"
	}
	return ""
}

// keep stores the blocks of a body that end before the first syntax error. After an error, the parser guesses.
func (s *source) keep(body *hclsyntax.Body, diags hcl.Diagnostics) {
	limit := len(s.file.Bytes)
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Summary != "Attribute redefined" { // this error leaves the body intact
			s.broken = true
			if d.Subject != nil {
				limit = min(limit, d.Subject.Start.Byte)
			}
		}
	}
	for _, b := range body.Blocks {
		if b.Range().End.Byte <= limit {
			s.blocks = append(s.blocks, b)
		}
	}
	if !s.broken {
		s.attributes = body.Attributes
	}
}

// declares reports whether the file has a top-level block or attribute called name. In a broken file,
// it considers only probable blocks.
func (s *source) declares(name string) bool {
	if s.broken {
		return s.likelyTop[name]
	}
	isNamed := func(b *hclsyntax.Block) bool { return b.Type == name }
	return s.attributes[name] != nil || slices.ContainsFunc(s.blocks, isNamed) || slices.ContainsFunc(s.dropped, isNamed)
}

// labels returns the first labels of the blocks of a type. In a broken file, these are the probable
// labels.
func (s *source) labels(blockType string) []string {
	labels := slices.Clone(s.likely[blockType])
	if s.broken {
		return labels
	}
	for _, b := range s.blocks {
		if b.Type == blockType && len(b.Labels) > 0 {
			labels = append(labels, b.Labels[0])
		}
	}
	return labels
}

// likelyBlocks finds declarations in the tokens of a broken file. A label may lack its quotes.
func (names attributeNames) likelyBlocks(tokens hclsyntax.Tokens) (top map[string]bool, likely map[string][]string) {
	top, likely = map[string]bool{}, map[string][]string{}
	depth, begins := 0, true
	for i := range tokens {
		t := tokens[i:]
		name := string(t[0].Bytes)
		if _, isKnown := names[name]; isKnown && t[0].Type == hclsyntax.TokenIdent {
			top[name] = top[name] || depth == 0 && begins
			switch {
			case len(t) > 1 && t[1].Type == hclsyntax.TokenIdent:
				likely[name] = append(likely[name], string(t[1].Bytes))
			case len(t) > 2 && t[1].Type == hclsyntax.TokenOQuote && t[2].Type == hclsyntax.TokenQuotedLit:
				likely[name] = append(likely[name], string(t[2].Bytes))
			}
		}
		depth = max(depth+bracket(t[0].Type), 0)
		begins = t[0].Type == hclsyntax.TokenNewline || t[0].Type == hclsyntax.TokenComment
	}
	return top, likely
}
