package hclread

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Options control the sources of values.
type Options struct {
	// LookupEnv finds environment variables; nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// AllowUnsetEnv makes an unset variable without a default a warning. Texts computed from it have
	// [Text.Unset].
	AllowUnsetEnv bool
	// OnRead is called with each path before the Reader reads it or looks for it, and with each
	// folder that an attribute names and that is missing. It may be nil.
	OnRead func(path string)
	// Texts replace the contents of files in the folder. The keys are paths relative to the folder,
	// with slashes.
	Texts map[string]string
	// IsLock allows only blocks and texts, as in a lock file. Only the size of the file bounds them.
	IsLock bool
}

// Reader reads one set of files and collects diagnostics. Make it with [New].
type Reader struct {
	Reporter

	options    Options
	schema     Schema
	attributes attributeNames

	// root is the folder that was read, or the folder of the file.
	root     string
	isFolder bool

	files  []*File
	byPath map[string]*File

	functions  map[string]Function
	evaluating *File                // the file whose expression is evaluated. See spend.
	names      map[string]hcl.Range // see Unique
	guesses    map[guess]bool       // see Block.Lacks
	valueFiles map[string]bool      // see ValueFiles
	references References           // see Field.Recorded
}

// New returns a Reader for files whose top level the schema describes.
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
		byPath:     map[string]*File{},
		names:      map[string]hcl.Range{},
		guesses:    map[guess]bool{},

		valueFiles: map[string]bool{},
		references: NewReferences(),
	}
	schema.collectNames(r.attributes)
	r.functions = r.library()
	return r
}

// ReadPath reads the file or the folder at path.
func (r *Reader) ReadPath(path string) {
	f := &finder{Reader: r}
	f.find(path)
	for _, file := range f.found {
		r.parse(file)
	}
}

// Parse adds a file from memory.
func (r *Reader) Parse(path string, content []byte) { r.parse(newFile(path, content)) }

func (r *Reader) parse(file *File) {
	file.parse(r.attributes, r.options.IsLock, &r.Reporter)
	r.files = append(r.files, file)
	r.byPath[file.Path] = file
}

// Files returns the files in the order in which they were read. Do not change the slice.
func (r *Reader) Files() []*File { return r.files }

// SoundFiles returns the files that parse.
func (r *Reader) SoundFiles() []*File {
	return slices.DeleteFunc(slices.Clone(r.files), func(f *File) bool { return f.IsBroken })
}

// Root returns the folder that was read, or the folder of the file.
func (r *Reader) Root() string { return r.root }

// InFolder returns the path of a file relative to Root, with slashes.
func (r *Reader) InFolder(path string) string { return Relative(r.root, path) }

// Relative returns a path relative to a folder, with slashes. If that is impossible, it returns the path unchanged.
func Relative(folder, path string) string {
	relative, err := filepath.Rel(folder, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(relative)
}

// IsFolder reports whether ReadPath read a folder.
func (r *Reader) IsFolder() bool { return r.isFolder }

// Broken reports whether a file does not parse, or a block is unknown, misplaced or dropped. If so,
// blocks that seem to be missing may only be unreadable.
func (r *Reader) Broken() bool {
	return slices.ContainsFunc(r.files, func(s *File) bool { return s.IsBroken || len(s.dropped) > 0 }) ||
		slices.ContainsFunc(r.diags, func(d *hcl.Diagnostic) bool { return d.Summary == unknownBlock || d.Summary == misplacedBlock })
}

// Check reports every name that the schema does not allow. Call it once, before decoding blocks.
func (r *Reader) Check() {
	c := checker{r}
	var all hclsyntax.Blocks
	for _, src := range r.files {
		c.attributes(src.attributes, r.schema, "")
		all = append(all, src.blocks...)
	}
	c.blocks(all, r.schema, "")
}

// Knows reports whether the schema has a block type at the top level.
func (r *Reader) Knows(blockType string) bool {
	_, ok := r.schema.block(blockType)
	return ok
}

// TopBlocks returns the top-level blocks of all files, in order, including blocks of unknown types.
func (r *Reader) TopBlocks() []*Block {
	var all []*Block
	for _, src := range r.files {
		for _, b := range src.blocks {
			all = append(all, r.open(b))
		}
	}
	return all
}

// Blocks returns the top-level blocks of one type, in order. It includes blocks with wrong labels, which may
// contain further errors.
func (r *Reader) Blocks(blockType string) []*Block {
	return slices.DeleteFunc(r.TopBlocks(), func(b *Block) bool { return b.Type() != blockType })
}

// Has reports whether any top-level block of the given type has the named attribute.
func (r *Reader) Has(blockType, name string) bool {
	return slices.ContainsFunc(r.Blocks(blockType), func(b *Block) bool { return b.Has(name) })
}

// Absent returns an empty block of a type. Decoding it yields the defaults.
func (r *Reader) Absent(blockType string) *Block {
	return r.open(&hclsyntax.Block{Type: blockType, Body: &hclsyntax.Body{}})
}

func (r *Reader) open(b *hclsyntax.Block) *Block {
	schema, _ := r.schema.block(b.Type)
	file := b.DefRange().Filename
	return &Block{Reader: r, hcl: b, schema: schema.Schema, scope: &scope{Reader: r, dir: filepath.Dir(file), file: r.byPath[file]}}
}

// Labels returns the labels of all blocks of one type, also in broken files. So a syntax error in a file causes
// no errors at references to its blocks.
func (r *Reader) Labels(blockType string) []string {
	var labels []string
	for _, src := range r.files {
		labels = append(labels, src.Labels(blockType)...)
	}
	return labels
}

// HasErrorsIn reports whether there is an error in a file so far.
func (r *Reader) HasErrorsIn(path string) bool { return len(r.errorsAt[path]) > 0 }

// ValueFiles returns the files that were read as values, by the function file or an attribute. The
// paths are absolute and without links.
func (r *Reader) ValueFiles() map[string]bool { return r.valueFiles }

// References contains variables and files to which expressions refer. Paths are absolute and without links.
type References struct{ Env, Files map[string]bool }

// NewReferences returns an empty set.
func NewReferences() References { return References{map[string]bool{}, map[string]bool{}} }

// SummaryDuplicate is the summary of the errors that [Reader.Unique] reports.
const SummaryDuplicate = "Duplicate name"

// Unique reports the second use of a name, with the location of the first use. A second call for the same location
// reports nothing.
func (r *Reader) Unique(kind, name string, at hcl.Range) {
	key := kind + " " + name
	first, isUsed := r.names[key]
	if !isUsed || first == at {
		r.names[key] = at
		return
	}
	r.Conflict(at, first, SummaryDuplicate, "The %s %q is already defined at %s; rename one or merge the two.", kind, name, location(first))
}

// hide keeps the lines of a range out of all diagnostics.
func (r *Reader) hide(at hcl.Range) { r.byPath[at.Filename].hide(at) }
