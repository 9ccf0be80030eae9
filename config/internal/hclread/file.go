package hclread

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// File is one file of a configuration with its blocks.
type File struct {
	Path    string
	Content []byte
	// IsBroken is true if the file does not parse. Then blocks contains only the blocks before the first
	// error.
	IsBroken bool

	blocks     hclsyntax.Blocks
	dropped    hclsyntax.Blocks // see Block.Drop
	attributes hclsyntax.Attributes
	nav        any // finds the block at an offset. See Report.quote.
	// likelyTop contains the probable types of a broken file's top-level blocks. likely maps types to
	// the probable labels of blocks, at any level.
	likelyTop map[string]bool
	likely    map[string][]string
	// unquoted contains the parts of the file that no diagnostic may quote.
	unquoted []span
	// left is the remaining budget of the file's expressions, in bytes.
	left int
}

// span is a run of bytes in a file.
type span struct{ start, end int }

func newFile(path string, content []byte) *File {
	return &File{Path: path, Content: content, left: maxFileValues}
}

// parse sets the blocks and reports syntax errors.
func (f *File) parse(names attributeNames, isLock bool, report *Reporter) {
	before := report.Reported()
	// Ignore the lexer's errors: the parser also reports them.
	tokens, _ := hclsyntax.LexConfig(f.Content, f.Path, hcl.InitialPos)
	if d := tooMuch(tokens, isLock); d != nil && !f.IsBroken { // the parser would take too long
		f.IsBroken = true
		report.Report(d)
	} else if !f.IsBroken {
		f.parseBlocks(names, report)
	}
	if f.IsBroken || report.Reported() > before { // any line may belong to a secret attribute
		f.unquoted = []span{{0, len(f.Content)}}
	}
	if f.IsBroken {
		f.likelyTop, f.likely = names.likelyBlocks(tokens)
	}
}

func (f *File) parseBlocks(names attributeNames, r *Reporter) {
	file, diags := hclsyntax.ParseConfig(f.Content, f.Path, hcl.InitialPos)
	for _, d := range causes(diags) {
		r.Report(names.locate(withRemedy(explainSyntax(d, f.Content)), f.Content))
	}
	f.nav = file.Nav
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		f.storeBlocks(body, diags)
		f.hideSecrets(names, body)
	}
}

// causes removes the diagnostics that follow from another one. The lexer's diagnostics come first.
func causes(diags hcl.Diagnostics) (all hcl.Diagnostics) {
	misread := map[int]bool{} // the lines with an unknown character or operator
	for _, d := range diags {
		switch line := d.Subject.Start.Line; {
		case d.Summary == "Invalid character encoding" || isCurly(d): // all others follow
			return hcl.Diagnostics{d}
		case misread[line]:
		case d.Summary == summaryUnclosed: // the parser misreads the following texts
			return append(all, d)
		default:
			misread[line] = d.Summary == "Invalid character" || d.Summary == "Unsupported operator"
			all = append(all, d)
		}
	}
	return all
}

// hideSecrets keeps secret attributes at any level out of diagnostics.
func (f *File) hideSecrets(names attributeNames, body *hclsyntax.Body) {
	for name, a := range body.Attributes {
		if names[name] {
			f.hide(a.SrcRange)
		}
	}
	for _, b := range body.Blocks {
		f.hideSecrets(names, b.Body)
	}
}

// hide keeps the lines of a range out of diagnostics.
func (f *File) hide(at hcl.Range) {
	f.unquoted = append(f.unquoted, span{at.Start.Byte, at.End.Byte})
}

// withholds returns the reason for not printing lines, or "" if they may be printed.
func (f *File) withholds(lines span) (why string) {
	isIn := func(hidden span) bool { return hidden.start < lines.end && lines.start < hidden.end }
	switch {
	case lines.end-lines.start > maxQuoted:
		return "the line is too long"
	case slices.ContainsFunc(f.unquoted, isIn):
		return "the line may have a secret"
	}
	return ""
}

// storeBlocks stores the blocks of a body that end before the first syntax error. After an error, the parser guesses.
func (f *File) storeBlocks(body *hclsyntax.Body, diags hcl.Diagnostics) {
	limit := len(f.Content)
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Summary != "Attribute redefined" { // this error leaves the body intact
			f.IsBroken = true
			if d.Subject != nil {
				limit = min(limit, d.Subject.Start.Byte)
			}
		}
	}
	for _, b := range body.Blocks {
		if b.Range().End.Byte <= limit {
			f.blocks = append(f.blocks, b)
		}
	}
	if !f.IsBroken {
		f.attributes = body.Attributes
	}
}

// Declares reports whether the file has a top-level block or attribute called name. In a broken file,
// it considers only probable blocks.
func (f *File) Declares(name string) bool {
	if f.IsBroken {
		return f.likelyTop[name]
	}
	isNamed := func(b *hclsyntax.Block) bool { return b.Type == name }
	return f.attributes[name] != nil || slices.ContainsFunc(f.blocks, isNamed) || slices.ContainsFunc(f.dropped, isNamed)
}

// Labels returns the first label of each block of a type. In a broken file, these are the probable
// labels.
func (f *File) Labels(blockType string) []string {
	labels := slices.Clone(f.likely[blockType])
	if f.IsBroken {
		return labels
	}
	for _, b := range f.blocks {
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
