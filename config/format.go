package config

import (
	"bytes"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Formatted is one file of a configuration, as it is and in canonical form.
type Formatted struct {
	Path          string
	Before, After []byte
}

// Changed reports whether the file is not in canonical form.
func (f Formatted) Changed() bool { return !bytes.Equal(f.Before, f.After) }

// maxPasses bounds how often a file is formatted until that changes nothing more.
const maxPasses = 4

// Format reads the file or the folder at path as [Load] does, but checks its syntax only, and returns its files with
// their layout in canonical form: nothing but white space differs, and comments stay. What does not parse is in the
// Diagnostics, and not among the files.
func Format(path string) ([]Formatted, Diagnostics) {
	l := newLoader(path, Options{})
	l.read(path)
	l.sort()
	var files []Formatted
	for _, src := range l.sources {
		if !src.broken {
			files = append(files, Formatted{src.path, src.file.Bytes, laidOut(src.file.Bytes)})
		}
	}
	return files, Diagnostics{l.diags, l.byPath}
}

func laidOut(content []byte) []byte {
	for range maxPasses {
		next := hclwrite.Format(content)
		if bytes.Equal(next, content) {
			break
		}
		content = next
	}
	return content
}
