package hclread

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/promptweir/promptweir/config/safefile"
)

// maxValueFile bounds the files that a configuration names, in bytes.
const maxValueFile = 1 << 20

// Access decides which variables and files the expressions of a block may read. A [DiagnosticError]
// that it returns is reported unchanged.
type Access interface {
	// AllowEnv checks an environment variable.
	AllowEnv(name string) error
	// AllowFile checks a path before any file system call; written is the path in the block.
	AllowFile(path string, written Text) error
	// AllowResolvedFile checks the target of an allowed path's links.
	AllowResolvedFile(path string, written Text) error
}

// scope is the environment of the expressions in one top-level block.
type scope struct {
	*Reader

	// dir is the folder of the block's file.
	dir    string
	file   *File  // nil if the block is absent
	access Access // nil allows everything
	// unset contains the unset variables of the last evaluation.
	unset []string

	functions *hcl.EvalContext // nil until context makes it
}

// context returns the functions for an expression, which has no variables.
func (s *scope) context() *hcl.EvalContext {
	if s.functions == nil {
		// env and file obey the access of this block.
		s.functions = &hcl.EvalContext{Functions: maps.Clone(s.Reader.functions)}
		s.functions.Functions["env"], s.functions.Functions["file"] = s.envFunction(), s.fileFunction()
	}
	return s.functions
}

// envFunction returns the function env. It marks its result as sensitive, including a default, which usually is a
// placeholder for a secret.
func (s *scope) envFunction() Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowMarked: true, AllowUnknown: true},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].IsMarked() {
				return cty.NilVal, &DiagnosticError{"Invalid use of env", "Write it out: the " +
					"name of a variable may not come from env or file."}
			}
			if len(args) > 2 {
				return cty.NilVal, &DiagnosticError{"Invalid use of env", `Write env("NAME", "…"): env takes a name and one default.`}
			}
			v, err := s.env(args[0].AsString(), args[1:])
			if err == nil {
				err = s.spend(v)
			}
			return v.Mark(sensitive), err
		},
	})
}

// env looks up a variable. With AllowUnsetEnv, an unset variable without a default is unknown, and so are all
// values computed from it.
func (s *scope) env(name string, fallback []cty.Value) (cty.Value, error) {
	s.references.Env[name] = true
	if s.access != nil {
		if err := s.access.AllowEnv(name); err != nil {
			return cty.DynamicVal, err
		}
	}
	if value, ok := s.options.LookupEnv(name); ok { // a variable with an empty value is set
		return cty.StringVal(value), nil
	}
	if len(fallback) > 0 {
		return fallback[0], nil
	}
	s.unset = append(s.unset, name)
	if s.options.AllowUnsetEnv {
		return cty.UnknownVal(cty.String), nil
	}
	return cty.DynamicVal, &DiagnosticError{
		"Environment variable not set",
		fmt.Sprintf("%s is not set; set it or give a default: env(%q, \"…\").", name, name),
	}
}

// fileFunction returns the function file. It reads only UTF-8 text, because HCL has no type for bytes.
func (s *scope) fileFunction() Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if err := s.spend(); err != nil { // the budget is spent
				return cty.NilVal, err
			}
			path := newText(args[0], hcl.Range{}, false)
			content, err := s.read(path)
			if err == nil && !utf8.ValidString(content) {
				content, err = "", unreadable(path, errors.New("it is not UTF-8 text"))
			}
			v := cty.StringVal(content)
			if err == nil {
				err = s.spend(v)
			}
			return v.Mark(sensitive), err
		},
	})
}

// read reads a file after checking the written and the resolved path.
func (s *scope) read(written Text) (string, error) {
	path := written.Value
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	if s.access != nil {
		if err := s.access.AllowFile(path, written); err != nil {
			return "", err
		}
	}
	s.options.OnRead(path)
	actual, err := filepath.EvalSymlinks(Absolute(path))
	if err != nil {
		return "", unreadable(written, err)
	}
	if s.access != nil {
		if err := s.access.AllowResolvedFile(actual, written); err != nil {
			return "", unreadable(written, err)
		}
	}
	content, err := safefile.ReadActual(actual, actual, maxValueFile, os.OpenFile)
	if err != nil {
		return "", unreadable(written, err)
	}
	s.valueFiles[Absolute(actual)], s.references.Files[Absolute(actual)] = true, true
	return string(content), nil
}

// unreadable turns an error into a [DiagnosticError].
func unreadable(written Text, err error) error {
	if p, ok := errors.AsType[*DiagnosticError](err); ok {
		return p
	}
	return &DiagnosticError{"Cannot read file", fmt.Sprintf("%s: %s; paths are relative to the "+
		"folder of this file.", written, safefile.Cause(err))}
}

// Absolute makes a path absolute, or returns it unchanged if the working directory is unknown.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
