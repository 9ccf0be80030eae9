package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// maxValueFile bounds what file() and a tls block read.
const maxValueFile = 1 << 20

// mark is what sensitive values carry through every expression.
type mark string

const sensitive mark = "sensitive"

// scope says whose expressions these are: where their files are, and what they may use.
type scope struct {
	*loader
	// dir is the folder of the file that the expression stands in.
	dir string
	// grants is nil for whoever is trusted with everything.
	grants *grants
	plain  *hcl.EvalContext
	hidden *hcl.EvalContext
}

func (l *loader) newScope(at hcl.Range, g *grants) *scope {
	s := &scope{loader: l, dir: filepath.Dir(at.Filename), grants: g}
	s.plain, s.hidden = s.context(l.plain), s.context(l.guarded)
	return s
}

// context adds the functions that depend on the place to the others. There are no variables.
func (s *scope) context(functions library) *hcl.EvalContext {
	all := maps.Clone(functions)
	all["env"] = s.envFunction()
	all["file"] = s.fileFunction()
	return &hcl.EvalContext{Functions: all}
}

func (s *scope) envFunction() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowMarked: true, AllowUnknown: true},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].IsMarked() {
				return cty.NilVal, errors.New("the name of a variable may not come from env or file")
			}
			if len(args) > 2 {
				return cty.NilVal, errors.New("it takes a name and one default")
			}
			v, err := s.env(args[0].AsString(), args[1:])
			return v.Mark(sensitive), err
		},
	})
}

// env looks a variable up. An unset one without default is unknown where that is allowed: then whatever is
// computed from it is unknown too, and is not checked.
func (s *scope) env(name string, fallback []cty.Value) (cty.Value, error) {
	if err := s.allowEnv(name); err != nil {
		return cty.DynamicVal, err
	}
	if value, ok := s.options.LookupEnv(name); ok {
		return cty.StringVal(value), nil
	}
	if len(fallback) > 0 {
		return fallback[0], nil
	}
	s.unset = append(s.unset, name)
	if s.options.AllowUnsetEnv {
		return cty.UnknownVal(cty.String), nil
	}
	return cty.DynamicVal, &problem{
		"Environment variable not set",
		fmt.Sprintf("%s is not set; set it or give a default: env(%q, \"…\").", name, name),
	}
}

func (s *scope) fileFunction() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := newText(args[0], hcl.Range{}, false)
			content, err := s.file(path)
			return cty.StringVal(content).Mark(sensitive), err
		},
	})
}

// file reads a text file that the scope may use.
func (s *scope) file(name text) (string, error) {
	content, err := s.read(name)
	if err == nil && !utf8.ValidString(content) {
		return "", unreadable(name, errors.New("it is not UTF-8 text"))
	}
	return content, err
}

// read reads a file that the scope may use. Links are resolved before the second check and not after it.
func (s *scope) read(name text) (string, error) {
	path := name.value
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	if err := s.grants.allowFile(s.root, path, name); err != nil {
		return "", err
	}
	s.options.OnRead(path)
	actual, err := filepath.EvalSymlinks(path)
	if err == nil {
		err = s.allowResolved(actual, name)
	}
	if _, ok := errors.AsType[*problem](err); ok {
		return "", err
	}
	if err == nil {
		var content string
		if content, err = readValue(actual); err == nil {
			return content, nil
		}
	}
	return "", unreadable(name, err)
}

func unreadable(name text, err error) error {
	return &problem{"Cannot read file", fmt.Sprintf("%s: %s; paths are relative to the folder of this file.", name, cause(err))}
}

// readValue reads a small file, and never a pipe or a device that could block.
func readValue(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxValueFile+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxValueFile:
		return "", fmt.Errorf("it is over %d bytes", maxValueFile)
	}
	return string(content), nil
}

// library is functions by the name they are called with.
type library = map[string]function.Function

// newLibrary returns all functions but env and file. With hide, none of them says why it failed: its
// arguments may be literal secrets.
func newLibrary(hide bool) library {
	functions := library{
		"base64decode": stringFunction(decodeBase64),
		"base64encode": stringFunction(func(s string) (string, error) {
			return base64.StdEncoding.EncodeToString([]byte(s)), nil
		}),
		"chomp":        stdlib.ChompFunc,
		"coalesce":     stdlib.CoalesceFunc,
		"coalescelist": stdlib.CoalesceListFunc,
		"compact":      stdlib.CompactFunc,
		"concat":       stdlib.ConcatFunc,
		"contains":     stdlib.ContainsFunc,
		"csvdecode":    stdlib.CSVDecodeFunc,
		"distinct":     stdlib.DistinctFunc,
		"element":      stdlib.ElementFunc,
		"flatten":      stdlib.FlattenFunc,
		"format":       stdlib.FormatFunc,
		"formatlist":   stdlib.FormatListFunc,
		"indent":       stdlib.IndentFunc,
		"join":         stdlib.JoinFunc,
		"jsondecode":   stdlib.JSONDecodeFunc,
		"jsonencode":   stdlib.JSONEncodeFunc,
		"keys":         stdlib.KeysFunc,
		"length":       stdlib.LengthFunc,
		"lookup":       stdlib.LookupFunc,
		"lower":        stdlib.LowerFunc,
		"max":          stdlib.MaxFunc,
		"merge":        stdlib.MergeFunc,
		"min":          stdlib.MinFunc,
		"regex":        stdlib.RegexFunc,
		"regexall":     stdlib.RegexAllFunc,
		"regexreplace": stdlib.RegexReplaceFunc,
		"replace":      stdlib.ReplaceFunc,
		"reverse":      stdlib.ReverseListFunc,
		"setunion":     stdlib.SetUnionFunc,
		"sha256": stringFunction(func(s string) (string, error) {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:]), nil
		}),
		"slice":      stdlib.SliceFunc,
		"sort":       stdlib.SortFunc,
		"split":      stdlib.SplitFunc,
		"strlen":     stdlib.StrlenFunc,
		"substr":     stdlib.SubstrFunc,
		"title":      stdlib.TitleFunc,
		"tobool":     stdlib.MakeToFunc(cty.Bool),
		"tolist":     stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":      stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber":   stdlib.MakeToFunc(cty.Number),
		"toset":      stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring":   stdlib.MakeToFunc(cty.String),
		"trim":       stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc,
		"trimspace":  stdlib.TrimSpaceFunc,
		"trimsuffix": stdlib.TrimSuffixFunc,
		"upper":      stdlib.UpperFunc,
		"urlencode":  stringFunction(func(s string) (string, error) { return url.QueryEscape(s), nil }),
		"values":     stdlib.ValuesFunc,
		"zipmap":     stdlib.ZipmapFunc,
	}
	for name, f := range functions {
		functions[name] = guard(f, hide)
	}
	return functions
}

// guard keeps values out of a function's errors when they are sensitive or when hide says so.
func guard(f function.Function, hide bool) function.Function {
	spec := &function.Spec{
		Description: f.Description(),
		Type: func(args []cty.Value) (cty.Type, error) {
			t, err := f.ReturnTypeForValues(args)
			return t, conceal(err, args, hide)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			return v, conceal(err, args, hide)
		},
	}
	for _, p := range f.Params() {
		spec.Params = append(spec.Params, passing(p))
	}
	if p := f.VarParam(); p != nil {
		passed := passing(*p)
		spec.VarParam = &passed
	}
	return function.New(spec)
}

// passing returns a parameter that leaves all special values for the guarded function to treat.
func passing(p function.Parameter) function.Parameter {
	p.AllowNull, p.AllowUnknown, p.AllowDynamicType, p.AllowMarked = true, true, true, true
	return p
}

func conceal(err error, args []cty.Value, hide bool) error {
	if err == nil {
		return nil
	}
	for _, v := range args {
		hide = hide || v.ContainsMarked()
	}
	if hide {
		return errors.New("a sensitive value, which is not shown, does not suit it")
	}
	return err
}

func stringFunction(f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

// decodeBase64 reads the standard and the URL alphabet, padded or not.
func decodeBase64(s string) (string, error) {
	b, err := parseBase64(s)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", errors.New("what it decodes to is not UTF-8 text")
	}
	return string(b), nil
}
