package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of one configuration file. They keep a hostile file from exhausting the parser's stack.
const (
	maxFileSize = 1 << 20
	maxNesting  = 100
)

// Options say where values come from. The zero value is what serve needs.
type Options struct {
	// LookupEnv finds environment variables; nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// AllowUnsetEnv makes an unset variable without a default a warning, for the commands that start
	// nothing. What is computed from it is left empty and unchecked.
	AllowUnsetEnv bool
	// SkipLockFile leaves the lock file unread, for the command that writes it.
	SkipLockFile bool
	// OnRead is told each path just before it is read or looked for: folders, configuration files, and what they name in
	// file() and the like. Nil tells nobody.
	OnRead func(path string)
}

// Load reads the file or the folder at path. The Config is nil exactly when the Diagnostics have errors.
func Load(path string, opts Options) (*Config, Diagnostics) {
	l := newLoader(path, opts)
	l.read(path)
	cfg := l.decode()
	l.lock(cfg, path)
	l.sort()
	if l.diags.HasErrors() {
		cfg = nil
	}
	return cfg, Diagnostics{l.diags, l.byPath}
}

// AdminListen reads where the gateway of a configuration has its admin listener. Mistakes elsewhere do not matter: a gateway
// that runs may have been loaded before they were made.
func AdminListen(path string, opts Options) string {
	l := newLoader(path, opts)
	l.read(path)
	return l.decode().Admin.Listen
}

// loader is the state of one Load: what was read and what was found wrong.
type loader struct {
	options Options
	// root is the folder that the files of an allow block are relative to.
	root string
	// folder says that path is one, where a file of a team holds nothing else.
	folder  bool
	sources []*source
	byPath  map[string]*source
	diags   hcl.Diagnostics

	// plain and guarded are the functions other than env and file; guarded ones hide why they fail.
	plain, guarded library
	// unset are the variables that the expression under evaluation found unset.
	unset []string

	// What blocks that are decoded later need to know of those before.
	separator  string             // empty when it is wrong
	listeners  []listener         // the gateway's own
	teams      []string           // what team blocks declare, in broken files too
	grants     map[string]*grants // by team; nil when everybody is trusted
	identified []identified       // what makes principals
	taken      map[string]Place   // names that must be unique, see unique
	prefixes   map[string]claim   // who owns which namespace
	shapes     []shaped           // all prompt blocks
	reserved   map[string]bool    // what the cursor keys are made from, see reserve
	meant      map[intent]bool    // what names that do not exist were most likely meant to be
}

// source is one file.
type source struct {
	path   string
	file   *hcl.File
	blocks hclsyntax.Blocks
	attrs  hclsyntax.Attributes
	tokens hclsyntax.Tokens
	// broken says that it does not parse: blocks are those before the first mistake.
	broken  bool
	secrets []span
}

// claim is the first use of a prefix.
type claim struct {
	team  string
	place Place
}

func newLoader(path string, opts Options) *loader {
	if opts.LookupEnv == nil {
		opts.LookupEnv = os.LookupEnv
	}
	if opts.OnRead == nil {
		opts.OnRead = func(string) {}
	}
	return &loader{
		options:  opts,
		root:     path,
		byPath:   map[string]*source{},
		plain:    newLibrary(false),
		guarded:  newLibrary(true),
		taken:    map[string]Place{},
		prefixes: map[string]claim{},
		reserved: map[string]bool{},
		meant:    map[intent]bool{},
	}
}

// read fills the sources from a file or a folder.
func (l *loader) read(path string) {
	l.options.OnRead(path)
	info, err := os.Stat(path)
	if err != nil {
		l.unplaced("Cannot read the configuration", "%s: %s.", path, cause(err))
		return
	}
	if !info.IsDir() {
		l.root = filepath.Dir(path)
		l.readNamedFile(path)
		return
	}
	l.folder = true
	before := len(l.diags)
	l.readFolder(path, map[string]bool{})
	if len(l.sources) == 0 && len(l.diags) == before {
		l.unplaced("No configuration found", "The folder %s holds no .hcl file; put one there or correct --config.", path)
	}
}

func (l *loader) readNamedFile(path string) {
	if isLock(path) {
		l.unplaced("Not a configuration file", "%s is a lock file; name the configuration or its folder.", path)
		return
	}
	l.readFile(path)
}

// readFolder reads what is below a folder. Links are followed; seen are the real paths that were read, so
// that a loop of links ends and no file is loaded twice.
func (l *loader) readFolder(folder string, seen map[string]bool) {
	if !l.first(folder, seen) {
		return
	}
	l.options.OnRead(folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		l.unplaced("Cannot read the configuration", "%s: %s.", folder, cause(err))
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			l.readEntry(filepath.Join(folder, e.Name()), e, seen)
		}
	}
}

func (l *loader) readEntry(path string, entry fs.DirEntry, seen map[string]bool) {
	named := strings.HasSuffix(path, ".hcl") && !isLock(path)
	if !named && !entry.IsDir() && entry.Type()&fs.ModeSymlink == 0 {
		return
	}
	info, err := os.Stat(path) // follows the link
	switch {
	case err != nil && named:
		l.unplaced("Cannot read the configuration", "%s: %s.", path, cause(err))
	case err != nil:
		// A dangling link that is not called .hcl is none of our business.
	case info.IsDir():
		l.readFolder(path, seen)
	case named && !info.Mode().IsRegular():
		l.unplaced("Cannot read the configuration", "%s is not a regular file.", path)
	case named && l.first(path, seen):
		l.readFile(path)
	}
}

// first reports whether the file or folder at path was not read before under another name.
func (l *loader) first(path string, seen map[string]bool) bool {
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		l.unplaced("Cannot read the configuration", "%s: %s.", path, cause(err))
		return false
	}
	if seen[actual] {
		return false
	}
	seen[actual] = true
	return true
}

func isLock(path string) bool { return strings.HasSuffix(path, ".lock.hcl") }

func (l *loader) readFile(path string) {
	l.options.OnRead(path)
	content, err := os.ReadFile(path)
	if err != nil {
		l.unplaced("Cannot read the configuration", "%s: %s.", path, cause(err))
		return
	}
	if len(content) > maxFileSize {
		l.unplaced("Configuration file too large", "%s is over %d bytes; split it.", path, maxFileSize)
		return
	}
	l.parse(path, content)
}

// cause is an error of the file system without the path, which the message around it has.
func cause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// parse adds a source and reports its syntax errors.
func (l *loader) parse(path string, content []byte) {
	tokens, _ := hclsyntax.LexConfig(content, path, hcl.InitialPos) // the parser reports the same
	src := &source{path: path, tokens: tokens, secrets: secretSpans(tokens), file: &hcl.File{Bytes: content}}
	l.sources = append(l.sources, src)
	l.byPath[path] = src
	if at := tooDeep(tokens); at != nil {
		src.broken = true
		l.error(*at, "Nested too deeply", "More than %d brackets or operators are open here; simplify the expression.", maxNesting)
		return
	}
	file, diags := hclsyntax.ParseConfig(content, path, hcl.InitialPos)
	l.diags = append(l.diags, diags...)
	src.file = file
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		src.keep(body, diags)
	}
}

// keep takes from a body what can be trusted to mean what it says. A parser that met a syntax error guesses
// what comes after it, so only the blocks before it are looked at.
func (s *source) keep(body *hclsyntax.Body, diags hcl.Diagnostics) {
	limit := len(s.file.Bytes)
	for _, d := range diags {
		// This one alone leaves a sound body.
		if d.Severity == hcl.DiagError && d.Summary != "Attribute redefined" {
			s.broken = true
			if d.Subject != nil {
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
		s.attrs = body.Attributes
	}
}

// tooDeep returns where the nesting of a file passes its bound.
func tooDeep(tokens hclsyntax.Tokens) *hcl.Range {
	depth, operators := 0, 0
	for i := range tokens {
		switch t := tokens[i].Type; {
		case opens(t):
			depth++
		case closes(t):
			depth--
		case t == hclsyntax.TokenNewline && depth == 0:
			operators = 0
		case nests(t):
			operators++
		}
		if depth > maxNesting || operators > maxFileSize/100 {
			return &tokens[i].Range
		}
	}
	return nil
}

// nests reports whether a token makes an expression deeper without a bracket.
func nests(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenStar,
		hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
		hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan:
		return true
	default:
		return false
	}
}

// declared returns the labels of the blocks of a type. In a file that does not parse they are read from the
// tokens, so that one syntax error does not make every mention of a team there an error of its own; elsewhere
// they are not, because "for team in" is no declaration.
func (s *source) declared(blockType string) []string {
	if s.broken {
		return s.seemingly(blockType)
	}
	var labels []string
	for _, b := range s.blocks {
		if b.Type == blockType && len(b.Labels) > 0 {
			labels = append(labels, b.Labels[0])
		}
	}
	return labels
}

// seemingly returns what the tokens of a file say that it declares. A label may stand without quotes.
func (s *source) seemingly(blockType string) []string {
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

// declared returns the labels of the blocks of a type in all files.
func (l *loader) declared(blockType string) []string {
	var labels []string
	for _, s := range l.sources {
		labels = append(labels, s.declared(blockType)...)
	}
	return labels
}

// broken reports whether a file does not parse: then a block that is missing may well be there.
func (l *loader) broken() bool {
	return slices.ContainsFunc(l.sources, func(s *source) bool { return s.broken })
}

// error reports a mistake with its place. The detail is a sentence that says the remedy.
func (l *loader) error(at hcl.Range, summary, detail string, args ...any) {
	l.report(hcl.DiagError, at, summary, fmt.Sprintf(detail, args...))
}

// warning reports like error what is allowed and hardly meant.
func (l *loader) warning(at hcl.Range, summary, detail string, args ...any) {
	l.report(hcl.DiagWarning, at, summary, fmt.Sprintf(detail, args...))
}

func (l *loader) report(severity hcl.DiagnosticSeverity, at hcl.Range, summary, detail string) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: severity, Summary: summary, Detail: detail, Subject: &at})
}

// unplaced reports a mistake that is not in a line of a file.
func (l *loader) unplaced(summary, detail string, args ...any) {
	l.diags = append(l.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  summary,
		Detail:   fmt.Sprintf(detail, args...),
	})
}

// mask keeps a range out of every snippet.
func (l *loader) mask(r hcl.Range) {
	src := l.byPath[r.Filename]
	src.secrets = append(src.secrets, span{r.Start.Byte, r.End.Byte})
}

// sort puts the diagnostics in the order of files and lines; those without a place come first.
func (l *loader) sort() {
	order := map[string]int{}
	for i, src := range l.sources {
		order[src.path] = i
	}
	slices.SortStableFunc(l.diags, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return cmp.Compare(btoi(a.Subject != nil), btoi(b.Subject != nil))
		}
		return cmp.Or(
			cmp.Compare(order[a.Subject.Filename], order[b.Subject.Filename]),
			cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte),
			cmp.Compare(a.Summary, b.Summary),
			cmp.Compare(a.Detail, b.Detail),
		)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
