// Mutants changes one operator at a time in the packages that decide who sees what, and wants their
// tests to fail:
//
//	go run -modfile=.ci/tools.mod ./.ci/mutants [PACKAGE or FILE...]
//
// All mutants of a package are in one program, and a variable of the environment says which is on,
// so that each costs only the time that the tests take to fail. The file equivalent.txt beside it
// lists mutants that change nothing anybody could notice, each with the reason. Any other mutant that
// survives is printed and fails the run, and so does a line of the list without a mutant. Constants
// are not changed.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/tools/go/packages"
)

// suites are the tests of each package: its own, and those of packages above.
var suites = map[string][]suite{
	"gateway/policy":   {{".", "."}, {"../inspect", "."}},
	"gateway/seal":     {{".", "."}},
	"gateway/identity": {{".", "."}},
	"gateway/catalog":  {{".", "."}, {"..", "Skill"}},
	"gateway/screen":   {{".", "."}, {"..", "Skill"}},
	"config":           {{".", "Lock|ReportsEachMistake"}},
}

type suite struct{ dir, run string }

//go:embed equivalent.txt
var equivalent string

// other are the operators that take the place of one.
var other = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
}

// mutant is what is changed where.
type mutant struct{ at, change string }

// writer writes a file with its mutants.
type writer struct {
	*packages.Package

	source  []byte
	mutants *[]mutant
}

func main() {
	names := os.Args[1:]
	if len(names) == 0 {
		names = []string{"gateway/policy", "gateway/seal", "gateway/identity", "gateway/catalog", "gateway/screen", "config/lock.go"}
	}
	for _, arg := range names { // all first: a run takes minutes
		if err := check(split(arg)); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", arg, err)
			os.Exit(2)
		}
	}
	ok := true
	for _, arg := range names {
		name, file := split(arg)
		alive, err := try(name, file)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(2)
		}
		ok = ok && alive == 0
	}
	if !ok {
		os.Exit(1)
	}
}

// split returns the package of an argument, and its file if it names one.
func split(arg string) (name, file string) {
	if strings.HasSuffix(arg, ".go") {
		return filepath.Dir(arg), filepath.Base(arg)
	}
	return arg, ""
}

// check wants tests for the package, and the file to be there: without tests every mutant would
// survive, and without the file none would.
func check(name, file string) error {
	if len(suites[name]) == 0 {
		return fmt.Errorf("no tests are known for it; write one of %s, or a file of one, as in gateway/policy/explain.go",
			strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	}
	_, err := os.Stat(filepath.Join(name, file))
	return err
}

// try tries the mutants of a package or of a file of it, and returns how many lines are to be
// written or removed.
func try(name, file string) (wrong int, err error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	mutants, overlay, err := write(name, file, dir)
	if err != nil {
		return 0, err
	}
	tests := suites[name]
	for i, s := range tests {
		build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", filepath.Join(dir, fmt.Sprint(i)), "./"+filepath.Join(name, s.dir))
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%w\n%s", err, out)
		}
	}
	begun := time.Now()
	if found, out := fails(name, dir, 0, 10*time.Minute); found {
		return 0, fmt.Errorf("the tests fail without a mutant:\n%s", out)
	}
	bound := 10*time.Second + 10*time.Since(begun) // a mutant may loop forever, and the machine be busy
	found := make([]bool, len(mutants))
	next, workers := make(chan int), sync.WaitGroup{}
	for range 2 {
		workers.Go(func() {
			for i := range next {
				found[i], _ = fails(name, dir, i+1, bound)
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", mutants[i].at, mutants[i].change, found[i])
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	workers.Wait()
	return report(name, file, mutants, found), nil
}

// fails runs the tests with a mutant: first in short, as most are found by one of many cases.
func fails(name, dir string, mutant int, bound time.Duration) (bool, []byte) {
	for _, checks := range []string{"10", "100"} {
		for i, s := range suites[name] {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			// One that allocates without end must not take the machine with it.
			test := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 4194304 && exec "$0" -test.failfast -test.run "$1"`, filepath.Join(dir, fmt.Sprint(i)), s.run)
			test.Dir = filepath.Join(name, s.dir)
			test.WaitDelay = time.Second
			test.Env = append(os.Environ(), fmt.Sprint("MUTANT=", mutant), "RAPID_CHECKS="+checks, "RAPID_NOFAILFILE=1", "RAPID_SHRINKTIME=0s")
			if out, err := test.CombinedOutput(); err != nil {
				return true, out
			}
		}
	}
	return false, nil
}

// report prints what was not found and is not listed, or is listed and no such mutant.
func report(name, file string, mutants []mutant, found []bool) (wrong int) {
	listed := map[string]bool{}
	for line := range strings.Lines(equivalent) {
		what, _, _ := strings.Cut(line, " # ")
		path, _, _ := strings.Cut(what, ": ")
		if filepath.Dir(path) == name && (file == "" || filepath.Base(path) == file) {
			listed[strings.TrimSpace(what)] = false
		}
	}
	killed, same := 0, 0
	for i, m := range mutants {
		file, _, _ := strings.Cut(m.at, ":")
		line := file + ": " + m.change
		_, ok := listed[line]
		switch {
		case found[i]:
			killed++
		case ok:
			listed[line] = true
			same++
		default:
			wrong++
			fmt.Printf("not found: %s: %s\n", m.at, m.change)
		}
	}
	for line, used := range listed {
		if !used {
			wrong++
			fmt.Printf("listed, but found or gone: %s\n", line)
		}
	}
	fmt.Printf("%s: %d mutants, %d found by tests, %d equivalent; of others, extend a test or .ci/mutants/equivalent.txt\n",
		filepath.Join(name, file), len(mutants), killed, same)
	return wrong
}

// write writes the files of a package with mutants into a folder, and an overlay that has them.
func write(name, file, dir string) (all []mutant, overlay string, err error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax}, "./"+name)
	if err != nil {
		return nil, "", err
	}
	p := loaded[0]
	if len(p.Errors) > 0 {
		return nil, "", p.Errors[0]
	}
	replace := map[string]string{}
	put := func(path string, content []byte) {
		to := filepath.Join(dir, filepath.Base(path))
		replace[path] = to
		err = errors.Join(err, os.WriteFile(to, content, 0o600))
	}
	for i, path := range p.CompiledGoFiles {
		if file != "" && file != filepath.Base(path) {
			continue
		}
		source, readErr := os.ReadFile(path)
		if readErr != nil {
			return nil, "", readErr
		}
		w := &writer{p, source, &all}
		put(path, []byte(w.text(p.Syntax[i], 0, len(source))))
	}
	put(filepath.Join(filepath.Dir(p.CompiledGoFiles[0]), "zz_mutant.go"), fmt.Appendf(nil, "package %s\n\nimport (\n\"os\"\n\"strconv\"\n)\n\nvar mutantOn, _ = strconv.Atoi(os.Getenv(\"MUTANT\"))\n", p.Name))
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	overlay = filepath.Join(dir, "overlay.json")
	return all, overlay, errors.Join(err, os.WriteFile(overlay, text, 0o600))
}

// text returns the source of a node from one offset to another, with its mutants.
func (w *writer) text(node ast.Node, from, to int) string {
	var made strings.Builder
	ast.Inspect(node, func(n ast.Node) bool {
		if n == nil || n == node {
			return true
		}
		if g, ok := n.(*ast.GenDecl); ok && g.Tok == token.CONST {
			return false
		}
		if changed, ok := w.mutated(n); ok {
			start, end := w.offset(n.Pos()), w.offset(n.End())
			made.Write(w.source[from:start])
			made.WriteString(changed)
			from = end
			return false
		}
		return true
	})
	made.Write(w.source[from:to])
	return made.String()
}

func (w *writer) offset(p token.Pos) int { return w.Fset.Position(p).Offset }

func (w *writer) original(n ast.Node) string {
	return string(w.source[w.offset(n.Pos()):w.offset(n.End())])
}

// whole is text of a node that may be a mutant itself.
func (w *writer) whole(n ast.Node) string {
	if changed, ok := w.mutated(n); ok {
		return changed
	}
	return w.text(n, w.offset(n.Pos()), w.offset(n.End()))
}

// mutated returns an expression or statement that asks which mutant is on.
func (w *writer) mutated(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		tv := w.TypesInfo.Types[n]
		basic, ok := tv.Type.Underlying().(*types.Basic)
		if !ok || tv.Value != nil || n.Op == token.ADD && basic.Info()&types.IsString != 0 || len(other[n.Op]) == 0 {
			return "", false
		}
		x, y := w.original(n.X), w.original(n.Y)
		var cases strings.Builder
		for _, op := range other[n.Op] {
			fmt.Fprintf(&cases, "case %d: return (%s) %s (%s)\n", w.add(n, fmt.Sprintf("%s → %s", oneLine(w.original(n)), op)), x, op, y)
		}
		return fmt.Sprintf("func() %s { switch mutantOn {\n%s}; return %s %s %s }()", types.TypeString(types.Default(tv.Type), w.qualify), cases.String(), w.whole(n.X), n.Op, w.whole(n.Y)), true
	case *ast.UnaryExpr:
		if n.Op != token.NOT {
			return "", false
		}
		i := w.add(n, oneLine(w.original(n))+" → without !")
		return fmt.Sprintf("func() bool { if mutantOn == %d { return %s }; return !%s }()", i, w.original(n.X), w.whole(n.X)), true
	case *ast.IncDecStmt:
		kind := types.TypeString(w.TypesInfo.Types[n.X].Type, w.qualify)
		opposite := map[token.Token]string{token.INC: "-=", token.DEC: "+="}[n.Tok]
		step := map[token.Token]string{token.INC: "+=", token.DEC: "-="}[n.Tok]
		i := w.add(n, oneLine(w.original(n))+" → "+opposite)
		return fmt.Sprintf("%s %s func() %s { var one %s = 1; if mutantOn == %d { return -one }; return one }()", w.original(n.X), step, kind, kind, i), true
	}
	return "", false
}

func (w *writer) qualify(p *types.Package) string {
	if p == w.Types {
		return ""
	}
	return p.Name()
}

// add adds a mutant and returns its number, from 1.
func (w *writer) add(n ast.Node, change string) int {
	at := w.Fset.Position(n.Pos())
	wd, _ := os.Getwd()
	file, _ := filepath.Rel(wd, at.Filename)
	*w.mutants = append(*w.mutants, mutant{fmt.Sprintf("%s:%d", file, at.Line), change})
	return len(*w.mutants)
}

var blanks = regexp.MustCompile(`\s+`)

func oneLine(s string) string { return blanks.ReplaceAllString(s, " ") }
