package hclread

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// Masker decides what stands for the strings of a file that is shown. Its results must be valid
// where they stand, since what is shown can be loaded.
type Masker interface {
	// Secret returns the mask for a string in a secret attribute. The string is empty if it is not
	// known.
	Secret(attribute, text string) string
	// Words returns the strings of another attribute as they may be shown. The label is that of the
	// innermost block with one.
	Words(label, attribute string, words []string) []string
	// MayShowDefault reports whether the default of a variable may be shown in an attribute that is
	// not secret.
	MayShowDefault(attribute, variable string) bool
}

// Show returns those blocks of a file that are wanted as they are written, with masks for secrets
// and without comments, which may hold old ones. Calls of env and file stay calls: they can be
// loaded and show nothing. Blocks of the confined type are evaluated within bounds.
func (r *Reader) Show(
	path string, masker Masker, confined string, wants func(blockType, label string) bool,
) string {
	s := &shower{source: r.byPath[path], masker: masker, functions: r.standInFunctions()}
	s.dropComments()
	var wanted []hcl.Range
	for _, b := range s.source.blocks {
		label := slices.Concat(b.Labels, []string{""})[0]
		if !wants(b.Type, label) {
			continue
		}
		wanted = append(wanted, b.Range())
		s.isConfined = b.Type == confined
		schema, _ := r.schema.block(b.Type)
		s.body(b.Body, schema.Schema, label)
	}
	slices.SortFunc(s.edits, func(a, b edit) int {
		// An edit comes before those inside it, which edited then passes over.
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
	source     *source
	masker     Masker
	functions  *hcl.EvalContext
	isConfined bool
	edits      []edit
}

// edit puts a text in place of a run of bytes.
type edit struct {
	span

	text []byte
}

// standInFunctions are those of expressions, but env and file return a mask for whatever they would
// return.
func (r *Reader) standInFunctions() *hcl.EvalContext {
	standIn := function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "any", Type: cty.String, AllowUnknown: true},
		Type:     function.StaticReturnType(cty.String),
		Impl:     func([]cty.Value, cty.Type) (cty.Value, error) { return cty.StringVal(Masked), nil },
	})
	functions := maps.Clone(r.functions)
	functions["env"], functions["file"] = standIn, standIn
	return &hcl.EvalContext{Functions: functions}
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
			s.secret(name, a.Expr)
		} else {
			s.words(label, name, a.Expr)
		}
	}
	for _, b := range body.Blocks {
		inner, _ := schema.block(b.Type)
		s.body(b.Body, inner.Schema, slices.Concat(b.Labels, []string{label})[0])
	}
}

// secret masks all of an expression but the names of variables, of files and of a map's members.
func (s *shower) secret(name string, expr hclsyntax.Expression) {
	switch e := expr.(type) {
	case *hclsyntax.TupleConsExpr:
		for _, element := range e.Exprs {
			s.secret(name, element)
		}
		return
	case *hclsyntax.ObjectConsExpr:
		isComputed := func(item hclsyntax.ObjectConsItem) bool {
			_, diags := item.KeyExpr.Value(nil)
			return diags.HasErrors()
		}
		if !slices.ContainsFunc(e.Items, isComputed) {
			for _, item := range e.Items {
				s.secret(name, item.ValueExpr)
			}
			return
		}
	case *hclsyntax.FunctionCallExpr:
		parts := e.Args
		if e.Name == "env" && len(parts) == 2 && isText(parts[0]) {
			parts = parts[1:]
		} else if e.Name != "merge" && e.Name != "concat" {
			break
		}
		for _, part := range parts {
			s.secret(name, part)
		}
		return
	}
	if isReference(expr) {
		return
	}
	v, ok := s.eval(expr)
	if !ok {
		v = cty.StringVal("")
	}
	s.replace(expr, s.masked(name, v))
}

// masked returns a value with masks for all strings in it.
func (s *shower) masked(name string, v cty.Value) cty.Value {
	switch t := v.Type(); {
	case v.IsNull() || !v.IsKnown():
		return cty.NullVal(cty.DynamicPseudoType)
	case t.IsObjectType() || t.IsMapType():
		members := v.AsValueMap()
		for key, member := range members {
			members[key] = s.masked(name, member)
		}
		return cty.ObjectVal(members)
	case v.CanIterateElements():
		var elements []cty.Value
		for _, element := range v.AsValueSlice() {
			elements = append(elements, s.masked(name, element))
		}
		return cty.TupleVal(elements)
	}
	text, _ := textOf(v)
	return cty.StringVal(s.masker.Secret(name, text))
}

// words masks what an expression has of secrets: in the words that it makes, which a flag may
// precede that names one, and in each of its literals, since it may have several branches.
func (s *shower) words(label, name string, expr hclsyntax.Expression) {
	exprs := []hclsyntax.Expression{expr}
	if tuple, ok := expr.(*hclsyntax.TupleConsExpr); ok {
		exprs = tuple.Exprs
	}
	var words []string
	for _, e := range exprs {
		v, ok := s.eval(e)
		if text, isText := textOf(v); ok && isText {
			words = append(words, text)
			continue
		}
		words = append(words, "")
		if list, isList := wordsOf(v); ok && isList && len(exprs) == 1 {
			if shown := s.masker.Words(label, name, list); !slices.Equal(list, shown) {
				s.replace(e, listOf(shown))
			}
		}
	}
	for i, shown := range s.masker.Words(label, name, words) {
		if shown != words[i] && words[i] != "" {
			s.replace(exprs[i], cty.StringVal(shown))
		}
	}
	s.literals(label, name, expr)
}

func (s *shower) literals(label, name string, expr hclsyntax.Expression) {
	hide := func(e hclsyntax.Expression, text string) {
		if shown := s.masker.Words(label, name, []string{text})[0]; shown != text {
			s.replace(e, cty.StringVal(shown))
		}
	}
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch e := node.(type) {
		case *hclsyntax.FunctionCallExpr:
			if e.Name != "env" || len(e.Args) != 2 {
				break
			}
			variable, _ := s.eval(e.Args[0])
			if called, ok := textOf(variable); !ok || !s.masker.MayShowDefault(name, called) {
				s.replace(e.Args[1], cty.StringVal(Masked))
			}
		case *hclsyntax.TemplateExpr:
			v, _ := s.eval(e)
			if text, ok := textOf(v); ok {
				hide(e, text)
				break
			}
			for _, part := range e.Parts { // of a loop, whose variables are not known
				if literal, ok := part.(*hclsyntax.LiteralValueExpr); ok {
					text, _ := textOf(literal.Val)
					hide(e, text)
				}
			}
		}
		return nil
	})
}

// eval returns the value of an expression in which a mask stands for what comes from outside.
func (s *shower) eval(expr hclsyntax.Expression) (cty.Value, bool) {
	evaluate := func() (cty.Value, hcl.Diagnostics) { return expr.Value(s.functions) }
	if s.isConfined {
		evaluate = func() (cty.Value, hcl.Diagnostics) { return Evaluate(expr, s.functions, s.source.limit) }
	}
	v, diags := evaluate()
	return v, !diags.HasErrors()
}

func (s *shower) replace(expr hclsyntax.Expression, v cty.Value) {
	at := expr.Range()
	s.edits = append(s.edits, edit{span{at.Start.Byte, at.End.Byte}, hclwrite.TokensForValue(v).Bytes()})
}

// isReference reports whether an expression shows no more than the names of variables and files,
// and how a credential is sent.
func isReference(expr hclsyntax.Expression) bool {
	switch e := expr.(type) {
	case *hclsyntax.FunctionCallExpr:
		if e.Name == "env" || e.Name == "file" {
			return len(e.Args) == 1 && isText(e.Args[0])
		}
		return !slices.ContainsFunc(e.Args, func(arg hclsyntax.Expression) bool { return !isReference(arg) })
	case *hclsyntax.ParenthesesExpr:
		return isReference(e.Expression)
	case *hclsyntax.TemplateWrapExpr:
		return isReference(e.Wrapped)
	case *hclsyntax.TemplateExpr:
		return !slices.ContainsFunc(e.Parts, func(part hclsyntax.Expression) bool {
			literal, ok := part.(*hclsyntax.LiteralValueExpr)
			if !ok {
				return !isReference(part)
			}
			text, _ := textOf(literal.Val)
			return !scheme().MatchString(text)
		})
	}
	return false
}

// scheme matches what stands before a credential in a header.
var scheme = Lazily(`^(?i)(bearer|basic|token) $`)

// isText reports whether an expression is a string that is written out.
func isText(expr hclsyntax.Expression) bool {
	template, ok := expr.(*hclsyntax.TemplateExpr)
	return ok && template.IsStringLiteral()
}

// textOf returns a string as it is.
func textOf(v cty.Value) (string, bool) {
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// wordsOf returns the elements of a list of strings.
func wordsOf(v cty.Value) ([]string, bool) {
	list, err := convert.Convert(v, cty.List(cty.String))
	if err != nil || !list.IsWhollyKnown() || list.IsNull() {
		return nil, false
	}
	var words []string
	for _, element := range list.AsValueSlice() {
		text, _ := textOf(element)
		words = append(words, text)
	}
	return words, true
}

func listOf(words []string) cty.Value {
	var list []cty.Value
	for _, word := range words {
		list = append(list, cty.StringVal(word))
	}
	return cty.TupleVal(list)
}
