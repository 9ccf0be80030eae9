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
	"github.com/promptweir/promptweir/config/regular"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxFile bounds a Markdown file, and maxMedia an image or a sound; in bytes.
	maxFile  = 1 << 20
	maxMedia = 4 << 20
)

// opener opens files beneath one folder. A link may lead to another file beneath it, if the
// configuration allows both.
type opener struct {
	files  *config.Files
	actual string // the root without links
	within *os.Root
}

// open returns an opener, which must be closed.
func open(files *config.Files) (*opener, error) {
	actual, err := filepath.EvalSymlinks(files.Root)
	if err == nil {
		actual, err = filepath.Abs(actual)
	}
	if err != nil {
		return nil, regular.Cause(err)
	}
	within, err := os.OpenRoot(actual)
	if err != nil {
		return nil, regular.Cause(err)
	}
	return &opener{files, actual, within}, nil
}

func (o *opener) close() { _ = o.within.Close() } // it was only read

// text returns the content of a file of text by its path from the root. Names of files in a client's
// format may begin with a dot.
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

// skill returns the content of a file in the folder of a skill.
func (o *opener) skill(folder, file string) ([]byte, error) {
	actual, err := filepath.EvalSymlinks(filepath.Join(o.actual, filepath.FromSlash(folder)))
	if err != nil {
		return nil, o.outside(file)
	}
	// What is hidden counts only from the skill's folder on, which may itself be in .claude.
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
		// Nobody is told whether there is something at the end of a link that leads out.
		if _, inside := o.within.Stat(filepath.FromSlash(file)); isOfSystem(inside) {
			return nil, fmt.Errorf("cannot read %s: %w", path.Base(file), regular.Cause(err))
		}
		return nil, o.outside(file)
	}
	relative, err := filepath.Rel(o.actual, actual)
	if err != nil || !filepath.IsLocal(relative) {
		return nil, o.outside(file)
	}
	// A mounted ConfigMap has each file behind links through hidden folders, which are not the
	// team's doing.
	slashed := config.WithoutMounts(relative)
	if !isKind(slashed) {
		return nil, fmt.Errorf("the file %s is a link to a file of another kind, or of another skill; put a copy in its place", path.Base(file))
	}
	// Again, for where links lead: a link must not make a hidden file seen.
	if err := check(slashed); err != nil {
		return nil, err
	}
	if err := o.files.AllowResolved(written, actual); err != nil {
		return nil, err
	}
	// If a link has taken the place of the file or of a folder above it since, [os.Root] does not
	// follow it out of the root.
	content, err := regular.ReadActual(relative, actual, most, o.within.OpenFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path.Base(file), regular.Cause(err))
	}
	return content, nil
}

func (o *opener) outside(file string) error {
	return fmt.Errorf("the file %s is a link that leads out of %s; put a copy in its place", path.Base(file), o.files.Root)
}

// isOfSystem reports whether an error is one of the file system, and none of [os.Root] because a
// link leads out.
func isOfSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// checkHidden refuses what is in a hidden folder, or hidden itself, except for the formats that are
// at home there.
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

// textTypes are the MIME types of texts that skills have beside their SKILL.md.
var textTypes = map[string]string{ //nolint:gochecknoglobals // a constant table
	".md": "text/markdown", ".txt": "text/plain", ".csv": "text/csv", ".json": "application/json",
	".yaml": "application/yaml", ".yml": "application/yaml", ".html": "text/html", ".xml": "application/xml",
}

// MimeType returns the MIME type of a file by its name; empty for an unknown one.
func MimeType(name string) string {
	if m, ok := mediaOf(name); ok {
		return m.mime
	}
	return textTypes[strings.ToLower(path.Ext(name))]
}
