package hclread

import (
	"bytes"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of parsing.
const (
	// maxNesting bounds the brackets that are open at one point of a file.
	maxNesting = 100
	// maxCalls bounds the calls of a file. They are counted as parentheses, in comments too, before
	// there are tokens: these take a hundred times the memory of their text.
	maxCalls = 20_000
	// likelyPart is how much of a file with too many calls is read to find out whose it is, in
	// bytes.
	likelyPart = 16 << 10
)

// source is one file, and the part of it that can be trusted.
type source struct {
	path       string
	file       *hcl.File
	blocks     hclsyntax.Blocks
	attributes hclsyntax.Attributes
	tokens     hclsyntax.Tokens // of a broken file
	// broken means that the file does not parse: blocks holds only those before the first error.
	broken bool
	// unquoted are the parts of the file whose lines no diagnostic quotes.
	unquoted []span
	// limit is for the expressions of the file.
	limit *Limit
}

// span is a run of bytes in a source.
type span struct{ start, end int }

func newSource(path string, content []byte) *source {
	s := &source{path: path, file: &hcl.File{Bytes: content}, limit: fileLimit(content)}
	if s.hasTooManyCalls() {
		content = content[:min(len(content), likelyPart)]
	}
	// The parser reports the same diagnostics.
	s.tokens, _ = hclsyntax.LexConfig(content, path, hcl.InitialPos)
	return s
}

func (s *source) hasTooManyCalls() bool { return bytes.Count(s.file.Bytes, []byte("(")) > maxCalls }

// parse fills in the blocks and reports syntax errors. Several sources may be parsed at once.
func (s *source) parse(names attributeNames, report *Reporter) {
	before := report.Reported()
	s.parseBlocks(names, report)
	if report.Reported() > before { // any line may have a secret: which attribute it is of is not certain
		s.unquoted = []span{{0, len(s.file.Bytes)}}
	}
	if !s.broken {
		s.tokens = nil // which take more memory than all the rest
	}
}

func (s *source) parseBlocks(names attributeNames, r *Reporter) {
	before := r.Reported()
	if s.hasTooManyCalls() {
		at := hcl.Range{Filename: s.path, Start: hcl.InitialPos, End: hcl.InitialPos}
		r.Error(at, "Too many calls", "A file may have at most %d function calls; split it, or "+
			"write values out.", maxCalls)
	} else if at := tooDeep(s.tokens); at != nil {
		r.Error(*at, "Nested too deeply", "More than %d brackets or operators are open here; "+
			"simplify the expression.", maxNesting)
	} else if at := tooManyDigits(s.tokens); at != nil {
		r.Error(*at, "Number too long", "A number may have at most %d digits.", maxDigits)
	}
	// What takes the parser too long is not given to it.
	if s.broken = r.Reported() > before; s.broken {
		return
	}
	file, diags := hclsyntax.ParseConfig(s.file.Bytes, s.path, hcl.InitialPos)
	for _, d := range diags {
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

// topLevel returns the types of blocks, and the attributes, at the top level of the file.
func (s *source) topLevel() map[string]bool {
	if s.broken {
		return s.likelyTopLevel()
	}
	found := map[string]bool{}
	for name := range s.attributes {
		found[name] = true
	}
	for _, b := range s.blocks {
		found[b.Type] = true
	}
	return found
}

// likelyTopLevel returns the identifiers with which lines outside of brackets begin.
func (s *source) likelyTopLevel() map[string]bool {
	found, depth, begins := map[string]bool{}, 0, true
	for i := range s.tokens {
		t := &s.tokens[i]
		if depth == 0 && begins && t.Type == hclsyntax.TokenIdent {
			found[string(t.Bytes)] = true
		}
		depth = max(depth+bracket(t.Type), 0)
		begins = t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenComment
	}
	return found
}

// labels returns the first labels of the blocks of a type.
func (s *source) labels(blockType string) []string {
	if s.broken {
		return s.likelyLabels(blockType)
	}
	var labels []string
	for _, b := range s.blocks {
		if b.Type == blockType && len(b.Labels) > 0 {
			labels = append(labels, b.Labels[0])
		}
	}
	return labels
}

// likelyLabels reads the labels of a broken file from its tokens, where a label may stand without
// quotes.
func (s *source) likelyLabels(blockType string) []string {
	// In a sound file that would go wrong: "for team in" declares nothing.
	var labels []string
	for i := 0; i+2 < len(s.tokens); i++ {
		t := s.tokens[i:]
		switch {
		case t[0].Type != hclsyntax.TokenIdent || string(t[0].Bytes) != blockType:
		case t[1].Type == hclsyntax.TokenIdent:
			labels = append(labels, string(t[1].Bytes))
		case t[1].Type == hclsyntax.TokenOQuote && t[2].Type == hclsyntax.TokenQuotedLit:
			labels = append(labels, string(t[2].Bytes))
		}
	}
	return labels
}

// tooDeep returns where the nesting of a file exceeds its bound.
func tooDeep(tokens hclsyntax.Tokens) *hcl.Range {
	// HCL's parser recurses, and Go cannot recover from an exhausted stack.
	depth, operators := 0, 0
	for i := range tokens {
		t := tokens[i].Type
		depth += bracket(t)
		switch {
		case t == hclsyntax.TokenNewline && depth == 0:
			operators = 0 // the expression has ended
		case isOperator(t):
			operators++
		}
		if depth > maxNesting || operators > maxFileSize/100 {
			return &tokens[i].Range
		}
	}
	return nil
}

// tooManyDigits returns where a number is that the parser would take long to read.
func tooManyDigits(tokens hclsyntax.Tokens) *hcl.Range {
	for i := range tokens {
		if t := &tokens[i]; t.Type == hclsyntax.TokenNumberLit && len(t.Bytes) > maxDigits {
			return &t.Range
		}
	}
	return nil
}

// isOperator reports whether a token nests an expression without a bracket.
func isOperator(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenStar,
		hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
		hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan:
		return true
	}
	return false
}

// bracket is 1 for an opening bracket, -1 for a closing one, and 0 for anything else. Templates and
// heredocs have brackets, too.
func bracket(t hclsyntax.TokenType) int {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
		hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return 1
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
		hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
		return -1
	}
	return 0
}
