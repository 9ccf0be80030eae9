package hclread

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/promptweir/promptweir/config/safefile"
)

// Block is one HCL block. Its diagnostics go to its Reader.
type Block struct {
	*Reader

	hcl    *hclsyntax.Block
	schema Schema
	scope  *scope
}

// Restrict sets the variables and files that the expressions of the block and of its inner blocks may read.
func (b *Block) Restrict(access Access) { b.scope.access = access }

// Type returns the word at the beginning of the block.
func (b *Block) Type() string { return b.hcl.Type }

// Labelled reports whether the block has a label. Check reports a missing label.
func (b *Block) Labelled() bool { return len(b.hcl.Labels) > 0 }

// Label returns the first label, or "" if the block has none.
func (b *Block) Label() string {
	if !b.Labelled() {
		return ""
	}
	return b.hcl.Labels[0]
}

// LabelRange returns the range of the label, or of the header if there is no label.
func (b *Block) LabelRange() hcl.Range {
	if !b.Labelled() {
		return b.Range()
	}
	return b.hcl.LabelRanges[0]
}

// Range returns the range of the block's header.
func (b *Block) Range() hcl.Range { return b.hcl.DefRange() }

// HasErrors reports whether an error was reported in the block so far, at any depth.
func (b *Block) HasErrors() bool {
	whole := b.hcl.Range()
	return slices.ContainsFunc(b.errorsAt[whole.Filename], func(at int) bool { return whole.Start.Byte <= at && at < whole.End.Byte })
}

// Withdraw removes the block's diagnostics that have this summary and returns their number. The caller reports their
// common cause.
func (b *Block) Withdraw(summary string) int {
	before := len(b.diags)
	b.diags = slices.DeleteFunc(b.diags, func(d *hcl.Diagnostic) bool { return d.Summary == summary && b.isAbout(d) })
	return before - len(b.diags)
}

// Drop removes a top-level block and its diagnostics. The caller reports an error that names the block. Call it
// before Check.
func (b *Block) Drop() {
	checker{b.Reader}.block(b.hcl, b.schema) // this hides misspelt secrets; the next line removes its diagnostics
	b.diags = slices.DeleteFunc(b.diags, b.isAbout)
	src := b.byPath[b.Range().Filename]
	src.blocks = slices.DeleteFunc(slices.Clone(src.blocks), func(other *hclsyntax.Block) bool { return other == b.hcl })
	src.dropped = append(src.dropped, b.hcl)
}

// isAbout reports whether a diagnostic lies in the block.
func (b *Block) isAbout(d *hcl.Diagnostic) bool {
	whole := b.hcl.Range()
	return d.Subject != nil && d.Subject.Filename == whole.Filename &&
		whole.Start.Byte <= d.Subject.Start.Byte && d.Subject.Start.Byte < whole.End.Byte
}

// IsEmpty reports whether the block has no attributes and no blocks.
func (b *Block) IsEmpty() bool { return len(b.hcl.Body.Attributes)+len(b.hcl.Body.Blocks) == 0 }

// Has reports whether an attribute is written.
func (b *Block) Has(name string) bool { return b.hcl.Body.Attributes[name] != nil }

// Lacks reports whether an attribute is absent. If Check reported a misspelling of the name, the attribute
// does not count as absent. Call it after Check.
func (b *Block) Lacks(name string) bool { return !b.Has(name) && !b.guesses[guess{b.hcl, name}] }

// Require reports an attribute that [Block.Lacks] finds absent. The detail is the remedy.
func (b *Block) Require(name, detail string, args ...any) {
	if b.Lacks(name) {
		b.Error(b.Range(), "Missing "+name, detail, args...)
	}
}

// HasBlock reports whether the block contains any block of these types, valid or not.
func (b *Block) HasBlock(types ...string) bool {
	return slices.ContainsFunc(b.hcl.Body.Blocks, func(inner *hclsyntax.Block) bool { return slices.Contains(types, inner.Type) })
}

// Inner returns the nested blocks of a type, including blocks with wrong labels: they may contain further
// errors.
func (b *Block) Inner(blockType string) []*Block {
	schema, _ := b.schema.block(blockType)
	var inner []*Block
	for _, nested := range b.hcl.Body.Blocks {
		if nested.Type == blockType {
			inner = append(inner, &Block{b.Reader, nested, schema.Schema, b.scope})
		}
	}
	return inner
}

// ValueRange returns the range of an attribute's value, or of the block's header if the attribute is absent.
func (b *Block) ValueRange(name string) hcl.Range {
	if attribute := b.hcl.Body.Attributes[name]; attribute != nil {
		return attribute.Expr.Range()
	}
	return b.Range()
}

// ElementRange returns the range of an element of a list, or of the whole value if the list is computed.
func (b *Block) ElementRange(name string, i int) hcl.Range {
	if tuple, ok := b.hcl.Body.Attributes[name].Expr.(*hclsyntax.TupleConsExpr); ok && i < len(tuple.Exprs) {
		return tuple.Exprs[i].Range()
	}
	return b.ValueRange(name)
}

// Expression returns the unevaluated value of an attribute and its source text. The attribute must be present.
func (b *Block) Expression(name string) (expr hclsyntax.Expression, source []byte) {
	expr = b.hcl.Body.Attributes[name].Expr
	return expr, expr.Range().SliceBytes(b.scope.file.Content)
}

// Literals returns the written-out strings in the value of an attribute: a single string, a list or
// a map. The key of a single string is the attribute's name; elements of a list have empty keys. A
// computed string is empty.
func (b *Block) Literals(name string) (keys []string, texts []Text) {
	add := func(key string, expr hclsyntax.Expression) {
		value, _ := Literal(expr)
		keys, texts = append(keys, key), append(texts, Text{Value: value, At: expr.Range()})
	}
	if !b.Has(name) {
		return nil, nil
	}
	switch e := b.hcl.Body.Attributes[name].Expr.(type) {
	case *hclsyntax.TupleConsExpr:
		for _, element := range e.Exprs {
			add("", element)
		}
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			if key, isWritten := Literal(item.KeyExpr); isWritten {
				add(key, item.ValueExpr)
			}
		}
	default:
		add(name, e)
	}
	return keys, texts
}

// Literal returns the string of an expression that is written out: without variables, env and file.
func Literal(expr hclsyntax.Expression) (text string, ok bool) {
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}

// WarnHidden is Warning for lines that no diagnostic may quote.
func (b *Block) WarnHidden(at hcl.Range, summary, detail string, args ...any) {
	b.hide(at)
	b.Warning(at, summary, detail, args...)
}

// ResolvePath joins a path to the folder of the block's file, unless the path is absolute.
func (b *Block) ResolvePath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(b.scope.dir, path)
}

// ResolveFolder returns the folder at a path relative to the block's file, with all links resolved.
func (b *Block) ResolveFolder(written Text) (actual string, err error) {
	path := b.ResolvePath(written.Value)
	if actual, err = filepath.EvalSymlinks(Absolute(path)); err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(actual); err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		// Report only a missing folder to OnRead: the contents of a folder do not change the configuration.
		b.options.OnRead(path)
		return "", &DiagnosticError{"No such folder", fmt.Sprintf("%s: %s; make the folder, or correct the "+
			"path, which is relative to the folder of this file.", written, safefile.Cause(err))}
	}
	return actual, nil
}

// Invalid reports a wrong value of an attribute. The error continues a sentence that begins with the value. A
// [DiagnosticError] is reported as it is.
func (b *Block) Invalid(name string, t Text, err error) {
	if p, ok := errors.AsType[*DiagnosticError](err); ok {
		b.Error(t.At, p.Summary, "%s", p.Detail)
		return
	}
	// A written-out value is not marked, but a password in a URL is a secret.
	if hasCredentials(t.Value) {
		t.Sensitive = true
		b.hide(t.At)
	}
	b.Error(t.At, "Invalid "+name, "%s %s", t, Sentence(err))
}

// DiagnosticError is an error with its own summary.
type DiagnosticError struct{ Summary, Detail string }

// Error returns the detail.
func (p *DiagnosticError) Error() string { return p.Detail }
