package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// module is a checkout.
type module struct {
	path, dir string
	packages  []*packages.Package // without tests
	files     []*file             // with tests
}

// file is one source file.
type file struct {
	path string // relative to the module
	text []byte
	ast  *ast.File
	fset *token.FileSet
	// comments and inside hold the lines that carry a comment, and those of them within the body of a function.
	comments, inside map[int]bool
	code             map[int]string // the text of lines that hold code, with normalised white space
}

// load reads a checkout, without nested modules.
func load(ctx context.Context, dir string) (*module, error) {
	m := &module{dir: dir}
	var err error
	m.packages, err = packages.Load(&packages.Config{
		Context: ctx, Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedDeps | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, err
	}
	for _, p := range m.packages {
		for _, err := range p.Errors {
			return nil, err
		}
		m.path = p.Module.Path
	}
	return m, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skip(path, dir, entry.Name())
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := read(path)
		if err != nil {
			return err
		}
		f.path = strings.TrimPrefix(path, dir+string(filepath.Separator))
		m.files = append(m.files, f)
		return nil
	})
}

func skip(path, root, name string) error {
	if path == root {
		return nil
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if err == nil || strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
		return filepath.SkipDir
	}
	return nil
}

func read(path string) (*file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &file{text: text, fset: token.NewFileSet(), comments: map[int]bool{}, inside: map[int]bool{}, code: map[int]string{}}
	if f.ast, err = parser.ParseFile(f.fset, path, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	bodies := f.bodies()
	bare := bytes.Clone(text) // the text with its comments blanked out
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			within := slices.ContainsFunc(bodies, func(b *ast.BlockStmt) bool { return b.Pos() < c.Pos() && c.End() <= b.End() })
			for line := f.line(c.Pos()); line <= f.line(c.End()); line++ {
				f.comments[line] = true
				if within {
					f.inside[line] = true
				}
			}
			for i := f.fset.Position(c.Pos()).Offset; i < f.fset.Position(c.End()).Offset; i++ {
				if bare[i] != '\n' {
					bare[i] = ' '
				}
			}
		}
	}
	for i, line := range strings.Split(string(bare), "\n") {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			f.code[i+1] = line
		}
	}
	return f, nil
}

func (f *file) line(p token.Pos) int { return f.fset.Position(p).Line }

func (f *file) bodies() []*ast.BlockStmt {
	var bodies []*ast.BlockStmt
	for _, d := range f.ast.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	return bodies
}

// printSizes prints the figures that are counted file by file.
func printSizes(m *module) {
	fmt.Print("\n## Lines\n\n| | code that ships | examples | tests |\n| --- | --- | --- | --- |\n")
	parts := [3][]*file{}
	for _, f := range m.files {
		switch {
		case forTests(f.path):
			parts[2] = append(parts[2], f)
		case strings.HasPrefix(f.path, "examples/"):
			parts[1] = append(parts[1], f)
		default:
			parts[0] = append(parts[0], f)
		}
	}
	row := func(name string, of func([]*file) string) {
		fmt.Printf("| %s | %s | %s | %s |\n", name, of(parts[0]), of(parts[1]), of(parts[2]))
	}
	sum := func(files []*file, of func(*file) int) (n int) {
		for _, f := range files {
			n += of(f)
		}
		return n
	}
	all := func(f *file) int { return bytes.Count(f.text, []byte("\n")) }
	comments := func(f *file) int { return len(f.comments) }
	number := func(name string, of func([]*file) int) {
		row(name, func(files []*file) string { return strconv.Itoa(of(files)) })
	}
	number("files", func(files []*file) int { return len(files) })
	number("lines", func(files []*file) int { return sum(files, all) })
	number("lines of code", func(files []*file) int { return sum(files, func(f *file) int { return len(f.code) }) })
	row("lines with a comment, of all", func(files []*file) string { return share(sum(files, comments), sum(files, all)) })
	row("of them inside bodies", func(files []*file) string {
		return share(sum(files, func(f *file) int { return len(f.inside) }), sum(files, comments))
	})
	number("functions", func(files []*file) int { return len(functionLines(files)) })
	row("lines of a function: median / p90 / p99 / max", func(files []*file) string {
		lines := functionLines(files)
		if len(lines) == 0 {
			return "–"
		}
		at := func(percent int) int { return lines[min(len(lines)*percent/100, len(lines)-1)] }
		return fmt.Sprintf("%d / %d / %d / %d", at(50), at(90), at(99), at(100))
	})
	number(fmt.Sprintf("lines in runs of %d or more that occur elsewhere too", duplicateRun), duplicates)
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// functionLines returns the lengths of functions and methods, from func to the closing brace, in ascending order.
func functionLines(files []*file) []int {
	var lines []int
	for _, f := range files {
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				lines = append(lines, f.line(d.End())-f.line(d.Pos())+1)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// duplicateRun is how many equal lines of code in a row count as a duplicate. Imports do not count.
const duplicateRun = 6

// duplicates counts the lines of code in runs that occur more than once.
func duplicates(files []*file) int {
	type place struct {
		f    *file
		line int
	}
	runs := map[string][][]place{}
	for _, f := range files {
		first := 0
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
				first = f.line(d.End())
			}
		}
		numbers := slices.DeleteFunc(slices.Sorted(maps.Keys(f.code)), func(n int) bool { return n <= first })
		for ; len(numbers) >= duplicateRun; numbers = numbers[1:] {
			var key strings.Builder
			var places []place
			for _, n := range numbers[:duplicateRun] {
				key.WriteString(f.code[n] + "\n")
				places = append(places, place{f, n})
			}
			runs[key.String()] = append(runs[key.String()], places)
		}
	}
	repeated := map[place]bool{}
	for _, run := range runs {
		for _, places := range run {
			for _, p := range places {
				if len(run) > 1 {
					repeated[p] = true
				}
			}
		}
	}
	return len(repeated)
}

// printPackages prints a row for each package that ships.
func printPackages(m *module, orders orderFlag, printOrders bool) {
	fmt.Print("\n## Packages\n\n" +
		"A reference is a pair of files, the first of which uses a name that the second declares. It runs back if the second stands\n" +
		"before the first in the reading order of doc.go; *alphabetical* where doc.go has none. \"At least\" is what a search over all\n" +
		"orders of the package found to be unavoidable. Exported names that no other package of the module uses include methods\n" +
		"that an interface wants.\n\n" +
		"| package | files | exported names (unused elsewhere) | largest type: methods (files) | references | run back | at least | order |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	used := usedElsewhere(m)
	var all, allBack, allLeast int
	best := map[string][]string{}
	for _, p := range m.packages {
		name := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, m.path), "/")
		if len(p.Syntax) == 0 || strings.HasPrefix(name, "examples/") || forTests(name+"/doc.go") {
			continue
		}
		largest, methods, files := largestType(p)
		typeText := "–"
		if methods > 0 {
			typeText = fmt.Sprintf("%s: %d (%d)", largest, methods, files)
		}
		refs := references(p)
		order, how := readingOrder(p, orders[name])
		back := refs.back(order)
		least, found := refs.least(order)
		all, allBack, allLeast = all+len(refs), allBack+back, allLeast+least
		if least < back {
			best[name] = found
		}
		exported, unused := exportedNames(p, used)
		fmt.Printf("| %s | %d | %d (%d) | %s | %d | %d, %s | %s | %s |\n", name, len(p.Syntax), exported, unused, typeText, len(refs),
			back, share(back, len(refs)), share(least, len(refs)), how)
	}
	fmt.Printf("| all | | | | %d | %d, %s | %s | |\n", all, allBack, share(allBack, all), share(allLeast, all))
	if printOrders {
		fmt.Print("\nOrders with the fewest references back:\n\n")
		for _, name := range slices.Sorted(maps.Keys(best)) {
			fmt.Printf("- %s: %s\n", name, strings.Join(best[name], ", "))
		}
	}
}

// usedElsewhere returns the objects that a package other than their own uses; tests do not count.
func usedElsewhere(m *module) map[string]bool {
	used := map[string]bool{}
	for _, p := range m.packages {
		for _, o := range p.TypesInfo.Uses {
			if o.Pkg() != nil && o.Pkg() != p.Types {
				used[objectKey(o)] = true
			}
		}
	}
	return used
}

// objectKey returns a name for an object: a package that imports it may hold another *types.Object than the one that declares it.
func objectKey(o types.Object) string {
	key := o.Pkg().Path() + "."
	if f, ok := o.(*types.Func); ok {
		return f.FullName()
	}
	return key + o.Name()
}

// exportedNames counts the exported names of a package at its top level, and the exported methods of its types.
func exportedNames(p *packages.Package, used map[string]bool) (exported, unused int) {
	count := func(o types.Object) {
		if !o.Exported() {
			return
		}
		exported++
		if !used[objectKey(o)] {
			unused++
		}
	}
	for _, name := range p.Types.Scope().Names() {
		o := p.Types.Scope().Lookup(name)
		count(o)
		if named, ok := o.Type().(*types.Named); ok && o.Exported() {
			if _, isType := o.(*types.TypeName); isType && named.Obj() == o {
				for method := range named.Methods() {
					count(method)
				}
			}
		}
	}
	return exported, unused
}

func largestType(p *packages.Package) (name string, methods, files int) {
	for _, n := range p.Types.Scope().Names() {
		named, ok := p.Types.Scope().Lookup(n).Type().(*types.Named)
		if !ok || named.Obj().Pkg() != p.Types || named.NumMethods() <= methods {
			continue
		}
		in := map[string]bool{}
		for method := range named.Methods() {
			in[p.Fset.Position(method.Pos()).Filename] = true
		}
		name, methods, files = named.Obj().Name(), named.NumMethods(), len(in)
	}
	return name, methods, files
}

// edges are pairs of files, of which the first uses a name of the second.
type edges map[[2]string]bool

func references(p *packages.Package) edges {
	refs := edges{}
	for id, o := range p.TypesInfo.Uses {
		if o.Pkg() != p.Types {
			continue
		}
		from, to := filepath.Base(p.Fset.Position(id.Pos()).Filename), filepath.Base(p.Fset.Position(o.Pos()).Filename)
		if from != to {
			refs[[2]string{from, to}] = true
		}
	}
	return refs
}

// back counts the references to a file that comes earlier in the order.
func (e edges) back(order []string) int {
	at := map[string]int{}
	for i, name := range order {
		at[name] = i
	}
	n := 0
	for ref := range e {
		if at[ref[1]] < at[ref[0]] {
			n++
		}
	}
	return n
}

// least looks for the order with the fewest references back: it moves one file at a time to its best place until no move
// helps. Starting from several orders makes a poor local optimum unlikely.
func (e edges) least(order []string) (back int, best []string) {
	byUses := slices.Clone(order)
	slices.SortStableFunc(byUses, func(a, b string) int { return e.uses(b) - e.uses(a) })
	reversed := slices.Clone(order)
	slices.Reverse(reversed)
	back, best = e.descend(order)
	for _, start := range [][]string{byUses, reversed} {
		if n, found := e.descend(start); n < back {
			back, best = n, found
		}
	}
	return back, best
}

// uses is how many more files a file uses than use it.
func (e edges) uses(name string) (n int) {
	for ref := range e {
		switch name {
		case ref[0]:
			n++
		case ref[1]:
			n--
		}
	}
	return n
}

func (e edges) descend(order []string) (back int, found []string) {
	best := e.back(order)
	for improved := true; improved; {
		improved = false
		for from := range order {
			for to := range order {
				moved := slices.Delete(slices.Clone(order), from, from+1)
				moved = slices.Insert(moved, to, order[from])
				if n := e.back(moved); n < best {
					best, order, improved = n, moved, true
				}
			}
		}
	}
	return best, order
}

var orderLine = regexp.MustCompile(`(?s)Reading order: (.*?)(\.\s|\.$|\n\n|$)`)

// readingOrder returns the files of a package in the order of its doc.go, and where the order comes from. A file that the
// line leaves out follows, except for doc.go, which comes first.
func readingOrder(p *packages.Package, given []string) (order []string, how string) {
	order, how = given, "given"
	for _, f := range p.Syntax {
		if match := orderLine.FindStringSubmatch(f.Doc.Text()); order == nil && match != nil {
			order, how = splitOrder(strings.ReplaceAll(match[1], "\n", " ")), "doc.go"
		}
	}
	if order == nil {
		how = "*alphabetical*"
	}
	var names []string
	for _, f := range p.Syntax {
		names = append(names, filepath.Base(p.Fset.Position(f.Package).Filename))
	}
	slices.Sort(names)
	if err := unknown(order, names); err != nil {
		how += ", " + err.Error()
	}
	rest := slices.DeleteFunc(names, func(n string) bool { return slices.Contains(order, n) })
	order = append(slices.Clone(order), rest...)
	if i := slices.Index(order, "doc.go"); i > 0 && how != "given" {
		order = slices.Insert(slices.Delete(order, i, i+1), 0, "doc.go")
	}
	return order, how
}

// unknown reports the files of a reading order that the package does not have or that the order leaves out.
func unknown(order, names []string) error {
	var missing, left []string
	for _, name := range order {
		if !slices.Contains(names, name) {
			missing = append(missing, name)
		}
	}
	for _, name := range names {
		if order != nil && name != "doc.go" && !slices.Contains(order, name) {
			left = append(left, name)
		}
	}
	var err error
	if missing != nil {
		err = errors.Join(err, fmt.Errorf("**no %s**", strings.Join(missing, ", ")))
	}
	if left != nil {
		err = errors.Join(err, fmt.Errorf("**without %s**", strings.Join(left, ", ")))
	}
	return err
}
