package hclread

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// source is one file, and the part of it that can be trusted.
type source struct {
	path       string
	file       *hcl.File
	blocks     hclsyntax.Blocks
	discarded  hclsyntax.Blocks // see Block.Discard
	attributes hclsyntax.Attributes
	// broken means that the file does not parse: blocks holds only those before the first error.
	broken bool
	// likelyTop are the types of blocks that a broken file most likely has at its top level, and
	// likely has labels by the types of their blocks, at any level.
	likelyTop map[string]bool
	likely    map[string][]string
	// unquoted are the parts of the file whose lines no diagnostic quotes.
	unquoted []span
	// left is what its expressions may still take and make, in bytes.
	left int
}

// span is a run of bytes in a source.
type span struct{ start, end int }

func newSource(path string, content []byte) *source {
	return &source{path: path, file: &hcl.File{Bytes: content}, left: maxFileValues}
}

// parse fills in the blocks and reports syntax errors. Several sources may be parsed at once.
func (s *source) parse(names attributeNames, textsOnly bool, report *Reporter) {
	before := report.Reported()
	// The parser reports the same diagnostics.
	tokens, _ := hclsyntax.LexConfig(s.file.Bytes, s.path, hcl.InitialPos)
	check := tooMuch
	if textsOnly {
		check = noText
	}
	if d := check(tokens); d != nil && !s.broken { // what takes the parser too long is not given to it
		s.broken = true
		report.Report(d)
	} else if !s.broken {
		s.parseBlocks(names, report)
	}
	if s.broken || report.Reported() > before { // any line may have a secret: which attribute it is of is not certain
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
		reported = hcl.Diagnostics{&curly} // the others follow from it
	}
	for _, d := range reported {
		r.Report(names.locate(explainSyntax(d, s.file.Bytes), s.file.Bytes))
		if d.Summary == summaryUnclosed { // the text between two others is the next one to the parser
			break
		}
	}
	s.file = file
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		s.keep(body, diags)
		s.hideSecrets(names, body)
	}
}

// hideSecrets keeps secret attributes out of what is printed, wherever they stand.
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

// hide keeps the lines of a range out of everything that is printed.
func (s *source) hide(at hcl.Range) {
	s.unquoted = append(s.unquoted, span{at.Start.Byte, at.End.Byte})
}

// withholds says why lines are not printed; nothing if they may be.
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

// keep takes from a body what was certainly parsed as it was meant. A parser that met a syntax
// error guesses at what follows, so only the blocks before the error are kept.
func (s *source) keep(body *hclsyntax.Body, diags hcl.Diagnostics) {
	limit := len(s.file.Bytes)
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Summary != "Attribute redefined" { // which leaves the body intact
			s.broken = true
			if d.Subject != nil { // the earliest error of all
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

// declares reports whether there is a block of a type, or an attribute, at the top level of the file.
func (s *source) declares(name string) bool {
	if s.broken {
		return s.likelyTop[name]
	}
	isNamed := func(b *hclsyntax.Block) bool { return b.Type == name }
	return s.attributes[name] != nil || slices.ContainsFunc(s.blocks, isNamed) || slices.ContainsFunc(s.discarded, isNamed)
}

// labels returns the first labels of the blocks of a type.
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

// likelyBlocks reads what a broken file declares from its tokens, where a label may stand without
// quotes.
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
