package config

import (
	"bytes"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Formatted is one file of a configuration, as it is and in canonical form.
type Formatted struct {
	Path          string
	Before, After []byte
}

// Changed reports whether the file is not in canonical form.
func (f Formatted) Changed() bool { return !bytes.Equal(f.Before, f.After) }

// Format reads the file or the folder at path as [Load] does, but only checks its syntax, and returns its files in canonical
// form: only white space changes, and comments stay. Files that do not parse are in the Diagnostics only.
func Format(path string) ([]Formatted, Diagnostics) {
	d := newDecoder(path, Options{})
	var files []Formatted
	for _, f := range d.SoundFiles() {
		files = append(files, Formatted{f.Path, f.Content, canonicalForm(f.Content)})
	}
	return files, Diagnostics{d.Finish()}
}

// FormatText returns a text in canonical form, as [Format] does for files. Its name is for the Diagnostics.
func FormatText(name string, content []byte) (Formatted, Diagnostics) {
	r := hclread.New(rootSchema(), hclread.Options{})
	r.Parse(name, content)
	return Formatted{name, content, canonicalForm(content)}, Diagnostics{r.Finish()}
}

// maxPasses bounds how often a file is formatted until nothing changes. hclwrite sometimes needs more than one pass.
const maxPasses = 4

// canonicalForm formats until nothing changes.
func canonicalForm(content []byte) []byte {
	for range maxPasses {
		next := hclwrite.Format(content)
		if bytes.Equal(next, content) {
			break
		}
		content = next
	}
	return content
}
