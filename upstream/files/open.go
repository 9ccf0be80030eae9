package files

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/safefile"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxFile bounds a Markdown file, and maxMedia bounds an image or a sound, both in bytes.
	maxFile  = 1 << 20
	maxMedia = 4 << 20
)

// opener opens files below one folder, the root. A link may lead to another file below the root, if
// the configuration allows both paths.
type opener struct {
	files  *config.Files
	actual string // the path of the root, with its links resolved
	within *os.Root
}

// open returns an opener for the root of files. Close it after use.
func open(files *config.Files) (*opener, error) {
	actual, err := filepath.EvalSymlinks(files.Root)
	if err == nil {
		actual, err = filepath.Abs(actual)
	}
	if err != nil {
		return nil, safefile.Cause(err)
	}
	within, err := os.OpenRoot(actual)
	if err != nil {
		return nil, safefile.Cause(err)
	}
	return &opener{files, actual, within}, nil
}

func (o *opener) close() { _ = o.within.Close() } // nothing was written, so an error means no loss

// text returns the content of a text file, by its path from the root. If isForeign is true, its name may begin with a dot.
func (o *opener) text(file string, isForeign bool) (string, error) {
	check := checkHidden
	if isForeign {
		check = func(file string) error {
			folder, name := path.Split(file)
			return checkHidden(folder + strings.TrimLeft(name, "."))
		}
	}
	content, err := o.read(file, maxFile, check, func(file string) bool {
		return path.Ext(file) == ".md" || path.Ext(file) == ".toml" && strings.Contains("/"+file, "/commands/")
	})
	return string(content), err
}

// media returns the content of an image or a sound.
func (o *opener) media(file string) ([]byte, error) {
	return o.read(file, maxMedia, checkHidden, func(file string) bool { _, ok := mediaOf(file); return ok })
}

// skill returns the content of a file in a skill's folder.
func (o *opener) skill(folder, file string) ([]byte, error) {
	actual, err := filepath.EvalSymlinks(filepath.Join(o.actual, filepath.FromSlash(folder)))
	if err != nil {
		return nil, o.outside(file)
	}
	// Check only the path below the skill's folder for hidden parts, because the folder itself may
	// be in .claude.
	return o.read(file, wire.MaxSkillBytes, func(string) error { return nil }, func(resolved string) bool {
		relative, err := filepath.Rel(actual, filepath.Join(o.actual, filepath.FromSlash(resolved)))
		isHidden := strings.HasPrefix(relative, ".") || strings.Contains(filepath.ToSlash(relative), "/.")
		return err == nil && filepath.IsLocal(relative) && !isHidden
	})
}

func (o *opener) read(file string, most int64, check func(string) error, isKind func(string) bool) ([]byte, error) {
	written := onDisk(o.files, file)
	if err := check(file); err != nil {
		return nil, err
	}
	if err := o.files.Allow(written); err != nil {
		return nil, err
	}
	actual, err := filepath.EvalSymlinks(filepath.Join(o.actual, filepath.FromSlash(file)))
	if err != nil {
		// If the link leads out of the root, the error must not reveal whether its target exists.
		if _, inside := o.within.Stat(filepath.FromSlash(file)); isOfSystem(inside) {
			return nil, fmt.Errorf("cannot read %s: %w", file, safefile.Cause(err))
		}
		return nil, o.outside(file)
	}
	relative, err := filepath.Rel(o.actual, actual)
	if err != nil || !filepath.IsLocal(relative) {
		return nil, o.outside(file)
	}
	// Kubernetes mounts the files of a ConfigMap behind links through hidden folders. Ignore these
	// folders.
	slashed := config.WithoutMounts(relative)
	if !isKind(slashed) {
		return nil, fmt.Errorf("the file %s is a link to a file of another kind, or of another skill; put a copy in its place", path.Base(file))
	}
	// Check the target, too: a link must not reveal a hidden file.
	if err := check(slashed); err != nil {
		return nil, err
	}
	if err := o.files.AllowResolved(written, actual); err != nil {
		return nil, err
	}
	// If a link replaces the file or a folder above it at this moment, [os.Root] still keeps the
	// path inside the root.
	content, err := safefile.ReadActual(relative, actual, most, o.within.OpenFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, safefile.Cause(err))
	}
	return content, nil
}

func (o *opener) outside(file string) error {
	return fmt.Errorf("the file %s is a link that leads out of %s; put a copy in its place", path.Base(file), o.files.Root)
}

// isOfSystem reports whether an error comes from the file system, rather than from [os.Root] for a link that leads out of the root.
func isOfSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// checkHidden refuses hidden files and files in hidden folders, except in the folders of clients' formats.
func checkHidden(file string) error {
	if signOf("/"+file, "", "", noManifest).isForeign() {
		return nil
	}
	for name := range strings.SplitSeq(file, "/") {
		if strings.HasPrefix(name, ".") {
			return fmt.Errorf("the file %s is hidden, as %s begins with a dot; put it elsewhere", path.Base(file), name)
		}
	}
	return nil
}

// textTypes contains the MIME types of texts in a skill's folder, by extension.
var textTypes = map[string]string{ //nolint:gochecknoglobals // a constant table
	".md": "text/markdown", ".txt": "text/plain", ".csv": "text/csv", ".json": "application/json",
	".yaml": "application/yaml", ".yml": "application/yaml", ".html": "text/html", ".xml": "application/xml",
}

// MimeType returns the MIME type of a file by its name, or "" for an unknown extension.
func MimeType(name string) string {
	if m, ok := mediaOf(name); ok {
		return m.mime
	}
	return textTypes[strings.ToLower(path.Ext(name))]
}
