package hclread

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Masker decides what stands for the texts of a file that are no secrets by their attribute.
type Masker interface {
	// Words returns the texts of an attribute as they may be shown, in the order in which they are
	// written. The label is that of the innermost block with one.
	Words(label, attribute string, words []string) []string
	// MayShowDefault reports whether the default of a variable may be shown.
	MayShowDefault(attribute, variable string) bool
}

// Show returns those blocks of a file that are wanted as they are written, with masks for secrets
// and without comments, which may hold old ones. Nothing is evaluated: calls of env and file stay
// calls, which show nothing.
func (r *Reader) Show(path string, masker Masker, wants func(blockType, label string) bool) string {
	s := &shower{source: r.byPath[path], masker: masker, isKnown: map[hclsyntax.Expression]bool{}}
	s.dropComments()
	var wanted []hcl.Range
	for _, b := range s.source.blocks {
		label := slices.Concat(b.Labels, []string{""})[0]
		if wants(b.Type, label) {
			wanted = append(wanted, b.Range())
			schema, _ := r.schema.block(b.Type)
			s.body(b.Body, schema.Schema, label)
		}
	}
	slices.SortFunc(s.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var blocks [][]byte
	for _, at := range wanted {
		blocks = append(blocks, append(s.edited(at.Start.Byte, at.End.Byte), '\n'))
	}
	return string(hclwrite.Format(bytes.Join(blocks, []byte("\n"))))
}

// shower finds out what to change in the text of one file.
type shower struct {
	source *source
	masker Masker
	edits  []edit
	// isKnown has the names of variables, of files and of a map's members, which are shown.
	isKnown map[hclsyntax.Expression]bool
}

// edit puts a text in place of a run of bytes.
type edit struct {
	span

	text []byte
}

// edited returns a part of the file with its edits. One inside of another has no effect.
func (s *shower) edited(start, end int) []byte {
	var out []byte
	for _, e := range s.edits {
		if e.start < start || e.end > end {
			continue
		}
		out = append(append(out, s.source.file.Bytes[start:e.start]...), e.text...)
		start = e.end
	}
	return append(out, s.source.file.Bytes[start:end]...)
}

// dropComments removes comments, each with its line if there is nothing else in that.
func (s *shower) dropComments() {
	tokens, _ := hclsyntax.LexConfig(s.source.file.Bytes, s.source.path, hcl.InitialPos)
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenComment {
			continue
		}
		e := edit{span: span{t.Range.Start.Byte, t.Range.End.Byte}}
		before := bytes.TrimRight(s.source.file.Bytes[:e.start], " \t")
		switch {
		case !bytes.HasSuffix(t.Bytes, []byte("\n")):
			e.text = []byte(" ")
		case bytes.HasSuffix(before, []byte("\n")):
			e.start = len(before)
		default:
			e.text = []byte("\n")
		}
		s.edits = append(s.edits, e)
	}
}

func (s *shower) body(body *hclsyntax.Body, schema Schema, label string) {
	for name, a := range body.Attributes {
		if schema.isSecret(name) {
			s.secret(a.Expr)
		} else {
			s.words(label, name, a.Expr, !schema.isPlain(name))
		}
	}
	for _, b := range body.Blocks {
		inner, _ := schema.block(b.Type)
		s.body(b.Body, inner.Schema, slices.Concat(b.Labels, []string{label})[0])
	}
}

// visit visits the parts of an expression, without names that are shown.
func (s *shower) visit(expr hclsyntax.Expression, visit func(hclsyntax.Node)) {
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.FunctionCallExpr:
			if isOutside(n) && len(n.Args) > 0 && isText(n.Args[0]) {
				s.isKnown[n.Args[0]] = true
			}
		case *hclsyntax.ObjectConsKeyExpr:
			s.isKnown[n.Wrapped] = isText(n.Wrapped)
		}
		if text, ok := node.(*hclsyntax.TemplateExpr); !ok || !s.isKnown[text] {
			visit(node)
		}
		return nil
	})
}

// secret masks what is written out in the value of a secret.
func (s *shower) secret(expr hclsyntax.Expression) {
	s.visit(expr, func(node hclsyntax.Node) {
		switch n := node.(type) {
		case *hclsyntax.TemplateExpr:
			if !isReference(n) {
				s.replace(n, Masked)
			}
		case *hclsyntax.LiteralValueExpr:
			if n.Val.Type() == cty.Number {
				s.replace(n, Masked)
			}
		}
	})
}

// words masks what the texts of an expression have of secrets. A word may be one because of that
// before it, so what is computed of several, where a value may come from outside, is not shown.
func (s *shower) words(label, name string, expr hclsyntax.Expression, isExternal bool) {
	var texts []hclsyntax.Node
	var words []string
	s.visit(expr, func(node hclsyntax.Node) {
		switch n := node.(type) {
		case *hclsyntax.FunctionCallExpr:
			switch {
			case n.Name == "env" && len(n.Args) == 2 && !s.masker.MayShowDefault(name, textIn(n.Args[0])):
				s.replace(n.Args[1], Masked)
			case isExternal && !isOutside(n) && n.Name != "concat" && !isReference(n):
				s.replace(n, Masked)
			}
		case *hclsyntax.TemplateExpr:
			texts, words = append(texts, n), append(words, textIn(n))
		}
	})
	for i, shown := range s.masker.Words(label, name, words) {
		if shown != words[i] {
			s.replace(texts[i], shown)
		}
	}
}

func (s *shower) replace(n hclsyntax.Node, text string) {
	at := n.Range()
	s.edits = append(s.edits, edit{span{at.Start.Byte, at.End.Byte}, hclwrite.TokensForValue(cty.StringVal(text)).Bytes()})
}

// isOutside reports whether a function returns something from outside of the file.
func isOutside(n *hclsyntax.FunctionCallExpr) bool { return n.Name == "env" || n.Name == "file" }

// isReference reports whether an expression shows no more than the names of variables and files,
// and how a credential is sent.
func isReference(expr hclsyntax.Expression) bool {
	switch e := expr.(type) {
	case *hclsyntax.FunctionCallExpr:
		if isOutside(e) {
			return len(e.Args) == 1 && isText(e.Args[0])
		}
		return !slices.ContainsFunc(e.Args, func(arg hclsyntax.Expression) bool { return !isReference(arg) })
	case *hclsyntax.ParenthesesExpr:
		return isReference(e.Expression)
	case *hclsyntax.TemplateWrapExpr:
		return isReference(e.Wrapped)
	case *hclsyntax.TemplateExpr:
		return !slices.ContainsFunc(e.Parts, func(part hclsyntax.Expression) bool {
			if literal, ok := part.(*hclsyntax.LiteralValueExpr); ok {
				return !scheme().MatchString(literalText(literal))
			}
			return !isReference(part)
		})
	}
	return false
}

// scheme matches what stands before a credential in a header.
var scheme = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i)(bearer|basic|token) $`) })

// isText reports whether an expression is a string that is written out.
func isText(expr hclsyntax.Expression) bool {
	template, ok := expr.(*hclsyntax.TemplateExpr)
	return ok && template.IsStringLiteral()
}

// textIn returns what is written out of a text, with a mask for all else.
func textIn(expr hclsyntax.Expression) string {
	template, ok := expr.(*hclsyntax.TemplateExpr)
	if !ok {
		return ""
	}
	var text strings.Builder
	for _, part := range template.Parts {
		if literal, ok := part.(*hclsyntax.LiteralValueExpr); ok {
			text.WriteString(literalText(literal))
		} else {
			text.WriteString(Masked)
		}
	}
	return text.String()
}

func literalText(literal *hclsyntax.LiteralValueExpr) string {
	if literal.Val.Type() != cty.String {
		return Masked
	}
	return literal.Val.AsString()
}
