package hclread

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"golang.org/x/sync/errgroup"
)

// Options say where a [Reader] finds values.
type Options struct {
	// LookupEnv finds environment variables; nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// AllowUnsetEnv makes an unset variable without a default a warning. What an expression
	// computes from it is unset too.
	AllowUnsetEnv bool
	// OnRead is called with each path just before the Reader reads it or looks for it. It may be
	// nil.
	OnRead func(path string)
	// Texts are read in place of files of the folder, by their paths in it, with slashes.
	Texts map[string]string
	// TextsOnly accepts blocks and texts only, without a bound except the file's size: a lock file.
	TextsOnly bool
}

// Reader reads one set of files and collects what is wrong with them. [New] makes one.
type Reader struct {
	Reporter

	options    Options
	schema     Schema
	attributes attributeNames

	// root is the folder at the path that was read, or the folder of the file there.
	root     string
	isFolder bool
	// hasDiscarded is set by Block.Discard.
	hasDiscarded bool

	sources []*source
	byPath  map[string]*source

	functions  map[string]Function
	evaluating *source              // the file whose expression is being evaluated, see spend
	names      map[string]hcl.Range // see Unique
	contested  map[string]bool      // the names that several files have
	guesses    map[guess]bool       // see Block.Lacks
	valueFiles map[string]bool      // see ValueFiles
	uses       Uses                 // see Record
}

// New returns a Reader for files whose top level is described by schema.
func New(schema Schema, options Options) *Reader {
	if options.LookupEnv == nil {
		options.LookupEnv = os.LookupEnv
	}
	if options.OnRead == nil {
		options.OnRead = func(string) {}
	}
	r := &Reader{
		options:    options,
		schema:     schema,
		attributes: attributeNames{},
		byPath:     map[string]*source{},
		names:      map[string]hcl.Range{},
		contested:  map[string]bool{},
		guesses:    map[guess]bool{},

		valueFiles: map[string]bool{},
		uses:       newUses(),
	}
	schema.collectNames(r.attributes)
	r.functions = r.library()
	return r
}

// ReadPath reads the file or the folder at path.
func (r *Reader) ReadPath(path string) {
	f := &finder{Reader: r}
	f.find(path)
	r.parse(f.found)
}

// Parse adds a file that the caller has read.
func (r *Reader) Parse(path string, content []byte) { r.parse([]found{{path: path, content: content}}) }

// parse adds files in their order. Parsing is half of the time that a configuration of many files
// takes.
func (r *Reader) parse(files []found) {
	// Each reports for itself: a Reporter is for one goroutine.
	sources, reports := make([]*source, len(files)), make([]Reporter, len(files))
	var parsing errgroup.Group
	parsing.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range files {
		parsing.Go(func() error {
			sources[i] = newSource(file.path, file.content)
			sources[i].broken = file.isCut
			sources[i].parse(r.attributes, r.options.TextsOnly, &reports[i])
			return nil
		})
	}
	_ = parsing.Wait() // mistakes are in the reports
	for i, src := range sources {
		r.sources = append(r.sources, src)
		r.byPath[src.path] = src
		for _, d := range reports[i].diags {
			r.add(d)
		}
	}
}

// Paths are those of the files that were read, in order.
func (r *Reader) Paths() []string {
	paths := make([]string, len(r.sources))
	for i, src := range r.sources {
		paths[i] = src.path
	}
	return paths
}

// Root is the folder at the path that was read, or the folder of the file there.
func (r *Reader) Root() string { return r.root }

// InFolder returns the path of a file in the folder that was read, with slashes.
func (r *Reader) InFolder(path string) string {
	relative, err := filepath.Rel(r.root, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(relative)
}

// IsFolder reports whether the path that was read is a folder.
func (r *Reader) IsFolder() bool { return r.isFolder }

// Broken reports whether some file does not parse, or some block may not stand where it does: then
// a block that is missing may well be there.
func (r *Reader) Broken() bool {
	return r.hasDiscarded || slices.ContainsFunc(r.sources, func(s *source) bool { return s.broken }) ||
		slices.ContainsFunc(r.diags, func(d *hcl.Diagnostic) bool { return d.Summary == unknownBlock || d.Summary == misplacedBlock })
}

// Check reports every name in every block that the schema does not allow there. Call it once,
// before blocks are decoded.
func (r *Reader) Check() {
	c := checker{r}
	var all hclsyntax.Blocks
	for _, src := range r.sources {
		c.attributes(src.attributes, r.schema, "")
		all = append(all, src.blocks...)
	}
	c.blocks(all, r.schema, "")
}

// Knows reports whether there are blocks of a type at the top level.
func (r *Reader) Knows(blockType string) bool {
	_, ok := r.schema.block(blockType)
	return ok
}

// TopBlocks returns the blocks at the top level of all files, in order, those of unknown types
// included.
func (r *Reader) TopBlocks() []*Block {
	var all []*Block
	for _, src := range r.sources {
		for _, b := range src.blocks {
			all = append(all, r.open(b))
		}
	}
	return all
}

// Blocks returns the blocks of one type at the top level of all files, in order. Those with the
// wrong labels are among them, since they may hold further mistakes.
func (r *Reader) Blocks(blockType string) []*Block {
	return slices.DeleteFunc(r.TopBlocks(), func(b *Block) bool { return b.Type() != blockType })
}

// Absent returns an empty block, to decode the defaults of a block that is not there.
func (r *Reader) Absent(blockType string) *Block {
	return r.open(&hclsyntax.Block{Type: blockType, Body: &hclsyntax.Body{}})
}

func (r *Reader) open(b *hclsyntax.Block) *Block {
	schema, _ := r.schema.block(b.Type)
	return &Block{Reader: r, hcl: b, schema: schema.Schema, scope: newScope(r, b.DefRange())}
}

// Labels returns the labels of all blocks of one type, broken files included: otherwise one syntax
// error would make an error of every mention of what the broken file declares.
func (r *Reader) Labels(blockType string) []string {
	var labels []string
	for _, src := range r.sources {
		labels = append(labels, src.labels(blockType)...)
	}
	return labels
}

// LabelsByFile is [Reader.Labels] by the paths of files.
func (r *Reader) LabelsByFile(blockType string) map[string][]string {
	labels := map[string][]string{}
	for _, src := range r.sources {
		labels[src.path] = src.labels(blockType)
	}
	return labels
}

// BrokenLabels is [Reader.LabelsByFile] of the files that do not parse.
func (r *Reader) BrokenLabels(blockType string) map[string][]string {
	labels := r.LabelsByFile(blockType)
	maps.DeleteFunc(labels, func(path string, _ []string) bool { return !r.byPath[path].broken })
	return labels
}

// HasErrorsIn reports whether there is an error in a file so far.
func (r *Reader) HasErrorsIn(path string) bool { return len(r.errorsAt[path]) > 0 }

// LabelsWithout is [Reader.Labels] of the files of a folder that have no block of another type.
func (r *Reader) LabelsWithout(blockType, other string) []string {
	var labels []string
	for _, src := range r.sources {
		if !r.isFolder || len(src.labels(other)) == 0 {
			labels = append(labels, src.labels(blockType)...)
		}
	}
	return labels
}

// ValueFiles returns the files that were read as values, by file or for an attribute that names
// one. They are resolved and absolute.
func (r *Reader) ValueFiles() map[string]bool { return r.valueFiles }

// Uses are the variables and the files that expressions have used, resolved and absolute.
type Uses struct{ Env, Files map[string]bool }

func newUses() Uses { return Uses{map[string]bool{}, map[string]bool{}} }

// Record returns what expressions use that are evaluated by a function. HCL evaluates both results
// of a conditional, so that it is all that they can use.
func (r *Reader) Record(evaluate func()) Uses {
	uses := newUses()
	r.uses = uses
	evaluate()
	r.uses = newUses() // what is evaluated later is not part of it
	return uses
}

// SummaryDuplicate is that of what [Reader.Unique] reports.
const SummaryDuplicate = "Duplicate name"

// Unique reports the second use of a name, with the source location of the first; in another file,
// it reports the first one, too. At the same location, it is the same use.
func (r *Reader) Unique(kind, name string, at hcl.Range) {
	key := kind + " " + name
	first, isKnown := r.names[key]
	if !isKnown || first == at {
		r.names[key] = at
		return
	}
	report := func(at, other hcl.Range) {
		r.Error(at, SummaryDuplicate, "The %s %q is already defined at %s; rename one or merge the two.", kind, name, location(other))
	}
	report(at, first)
	if at.Filename != first.Filename && !r.contested[key] {
		r.contested[key] = true
		report(first, at)
	}
}

// hide keeps the lines of a range out of everything that is printed.
func (r *Reader) hide(at hcl.Range) { r.byPath[at.Filename].hide(at) }
