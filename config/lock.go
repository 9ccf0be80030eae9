package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"golang.org/x/text/unicode/norm"
)

// LockFile is the name of the file beside the configuration that holds every definition that was approved.
const LockFile = "promptweir.lock.hcl"

// maxLockFile bounds the lock file, in bytes.
const maxLockFile = 256 << 20

// LockMode says what becomes of a prompt whose definition is not the one in the lock file.
type LockMode string

// The values of the lock attribute.
const (
	LockOff     LockMode = ""        // nobody looks
	LockWarn    LockMode = "warn"    // it is listed, and reported
	LockEnforce LockMode = "enforce" // it is left out, and reported
)

// LockSetting is a lock attribute and the block that it stands in.
type LockSetting struct {
	Mode  LockMode
	Place Place
}

// LockFor returns what holds for a team's prompts: the stricter one of the gateway's and the team's own, so that a
// team cannot loosen what the gateway asks for.
func (c *Config) LockFor(team string) LockSetting {
	strictest := c.Gateway.Lock
	for i := range c.Teams {
		own := c.Teams[i].Lock
		if c.Teams[i].Name == team && own.Mode != LockOff && strictest.Mode != LockEnforce {
			strictest = own
		}
	}
	return strictest
}

// Lock is the definitions that were approved, sorted by name, then upstream. Make it with [NewLock] or [ParseLock].
type Lock []LockedPrompt

// LockedPrompt is one approved definition.
type LockedPrompt struct {
	// Name is the prompt's exposed name before a prompt block changes it: prefix, separator and the upstream's own name.
	Name string
	// Upstream is the label of the one that has it.
	Upstream string
	// SHA256 is that of the canonical definition (RFC 8785, integers as they are spelled) without its name.
	SHA256 [sha256.Size]byte
	// Definition is what was hashed, for people and to show what changed. A [Config] does not keep it.
	Definition string
}

// NewLockedPrompt returns what stands in a lock for a definition, which is a JSON object without the member "name".
func NewLockedPrompt(name, upstream string, definition []byte) (LockedPrompt, error) {
	canonical := jsontext.Value(bytes.Clone(definition))
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return LockedPrompt{}, fmt.Errorf("definition of %q: %w", name, err)
	}
	return LockedPrompt{Name: name, Upstream: upstream, SHA256: sha256.Sum256(canonical), Definition: string(canonical)}, nil
}

// NewLock sorts prompts into a lock. It keeps the slice.
func NewLock(prompts []LockedPrompt) Lock {
	slices.SortFunc(prompts, compareLocked)
	return prompts
}

func compareLocked(a, b LockedPrompt) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Upstream, b.Upstream))
}

// Find returns the approved definition of an upstream's prompt.
func (l Lock) Find(name, upstream string) (LockedPrompt, bool) {
	at, found := slices.BinarySearchFunc(l, LockedPrompt{Name: name, Upstream: upstream}, compareLocked)
	if !found {
		return LockedPrompt{}, false
	}
	return l[at], true
}

// LockChange is one prompt's difference between two locks: Before is nil where it is new, After where it is gone.
type LockChange struct{ Before, After *LockedPrompt }

// DiffLocks returns what is different in a later lock, sorted by name, then upstream.
func DiffLocks(before, after Lock) []LockChange {
	var changes []LockChange
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && compareLocked(before[0], after[0]) < 0:
			changes, before = append(changes, LockChange{Before: &before[0]}), before[1:]
		case len(before) == 0 || compareLocked(before[0], after[0]) > 0:
			changes, after = append(changes, LockChange{After: &after[0]}), after[1:]
		default:
			if before[0].SHA256 != after[0].SHA256 {
				changes = append(changes, LockChange{&before[0], &after[0]})
			}
			before, after = before[1:], after[1:]
		}
	}
	return changes
}

const lockHeader = `# The definition of every prompt as it was approved. Written by "promptweir lock": review the difference, not the file.
`

// Format writes the lock as a file. Equal locks give equal bytes, and [ParseLock] reads them.
func (l Lock) Format() []byte {
	var out bytes.Buffer
	out.WriteString(lockHeader)
	for _, p := range l {
		fmt.Fprintf(&out, "\nprompt %s {\n  upstream = %q\n  sha256   = %q\n  definition = <<-JSON\n%s\n  JSON\n}\n",
			label(p.Name), p.Upstream, hex.EncodeToString(p.SHA256[:]), p.heredoc())
	}
	return hclwrite.Format(out.Bytes())
}

// heredoc is the definition as it stands in the file, a member a line, so that a review shows what changed.
func (p LockedPrompt) heredoc() string {
	text := jsontext.Value(p.Definition)
	if err := text.Indent(jsontext.WithIndentPrefix("    "), jsontext.WithIndent("  ")); err != nil {
		panic(err) // a LockedPrompt's definition is canonical JSON
	}
	visible := legible(string(text), func(r rune) string {
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
	return "    " + literal.Replace(visible)
}

// label quotes a name as HCL does, which has an escape of its own for what JSON needs two for.
func label(name string) string {
	quoted := literal.Replace(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name))
	return `"` + legible(quoted, func(r rune) string {
		if r > 0xffff {
			return fmt.Sprintf(`\U%08x`, r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	}) + `"`
}

// literal keeps HCL from reading a template in a string.
var literal = strings.NewReplacer("${", "$${", "%{", "%%{") //nolint:gochecknoglobals // a constant

// legible escapes what a reader could not see, and all that is not ASCII where HCL would change it: HCL turns every
// string into Unicode's composed form. The line breaks of indented JSON stay.
func legible(text string, escape func(rune) string) string {
	normal := norm.NFC.IsNormalString(text)
	var out strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) && (normal || r < 0x80) {
			out.WriteRune(r)
		} else {
			out.WriteString(escape(r))
		}
	}
	return out.String()
}

// LockPath returns where the lock file of the configuration at path is.
func LockPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, LockFile)
	}
	return filepath.Join(filepath.Dir(path), LockFile)
}

// ParseLock reads the content of a lock file. The Lock is nil when the Diagnostics have errors.
func ParseLock(path string, content []byte) (Lock, Diagnostics) {
	l := newLoader(path, Options{})
	lock := l.parseLock(path, content)
	l.sort()
	if l.diags.HasErrors() {
		lock = nil
	}
	return lock, Diagnostics{l.diags, l.byPath}
}

// lock reads the lock file of a configuration that asks for one.
func (l *loader) lock(cfg *Config, path string) {
	asks := cfg.Gateway.Lock
	for i := range cfg.Teams {
		if asks.Mode == LockOff {
			asks = cfg.Teams[i].Lock
		}
	}
	if asks.Mode == LockOff || l.options.SkipLockFile {
		return
	}
	file := LockPath(path)
	l.options.OnRead(file)
	content, err := os.ReadFile(file)
	switch {
	case os.IsNotExist(err):
		at := hcl.Range{Filename: asks.Place.File, Start: hcl.Pos{Line: asks.Place.Line}}
		l.warning(at, "No lock file", "There is no %s, so no definition is approved yet; write it with: promptweir lock", file)
	case err != nil:
		l.unplaced("Cannot read the lock file", "%s: %s.", file, cause(err))
	case len(content) > maxLockFile:
		l.unplaced("Lock file too large", "%s is over %d bytes.", file, maxLockFile)
	default:
		cfg.Lock = l.parseLock(file, content)
		for i := range cfg.Lock {
			cfg.Lock[i].Definition = ""
		}
	}
}

func (l *loader) parseLock(path string, content []byte) Lock {
	l.parse(path, content)
	src := l.byPath[path]
	known := schema{labelled: []string{"prompt"}}
	l.checkAttributes(src.attrs, known, "")
	l.checkBlocks(src.blocks, known, "")
	nothing := &scope{loader: l, plain: &hcl.EvalContext{}, hidden: &hcl.EvalContext{}}
	var prompts []LockedPrompt
	for _, b := range src.blocks {
		if b.Type == "prompt" && len(b.Labels) == 1 {
			prompts = append(prompts, l.lockedPrompt(fields{l, b, nothing}))
		}
	}
	return NewLock(prompts)
}

func (l *loader) lockedPrompt(f fields) LockedPrompt {
	f.items(schema{attributes: []string{"upstream", "sha256", "definition"}})
	for _, name := range []string{"upstream", "sha256", "definition"} {
		if f.lacks(name) {
			f.error(f.block.DefRange(), "Missing "+name, "A prompt in a lock file needs it; write the file anew with: promptweir lock")
		}
	}
	p := LockedPrompt{Name: f.label()}
	field(f, "upstream", shown, &p.Upstream, checked(anything))
	l.unique("locked prompt of upstream "+p.Upstream, p.Name, f.labelRange())
	hashed := field(f, "sha256", secret, &p.SHA256, parseHash)
	definition, ok := f.string("definition", shown)
	if !ok || !hashed {
		return p
	}
	// The hash decides and the definition is what a reviewer reads: they must not tell two stories.
	actual, err := NewLockedPrompt(p.Name, p.Upstream, []byte(definition.value))
	if err != nil || actual.SHA256 != p.SHA256 {
		f.error(f.at("sha256"), "Hash does not match", "The sha256 is not that of the definition below it; write the file anew with: promptweir lock")
		return p
	}
	return actual
}

// locking reads the lock attribute of the gateway or of a team.
func (f fields) locking() LockSetting {
	lock := LockSetting{Place: f.place()}
	if !f.has("lock") || !field(f, "lock", shown, &lock.Mode, oneOf([]LockMode{LockEnforce, LockWarn})) {
		return LockSetting{}
	}
	return lock
}
