package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
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

	"github.com/promptweir/promptweir/config/internal/hclread"
	"github.com/promptweir/promptweir/config/regular"
)

// LockMode says what happens to a prompt whose definition is not the one in the lock file.
type LockMode string

// The values of the lock attribute.
const (
	LockOff     LockMode = ""        // definitions are not compared
	LockWarn    LockMode = "warn"    // the prompt is listed, and reported
	LockEnforce LockMode = "enforce" // the prompt is left out, and reported
)

// LockSetting is a lock attribute and the location of its block.
type LockSetting struct {
	Mode  LockMode
	Place Place
}

// LockFor returns the setting for a team's prompts: the stricter one of the gateway's and the
// team's own, so that a team cannot loosen the gateway's.
func (c *Config) LockFor(team string) LockSetting {
	strictest := c.Gateway.Lock
	for i := range c.Teams {
		own := c.Teams[i].Lock
		// If both warn, the team's own location is the better one to report.
		if c.Teams[i].Name == team && own.Mode != LockOff && strictest.Mode != LockEnforce {
			strictest = own
		}
	}
	return strictest
}

// Lock holds the approved definitions, one for each name, sorted. A file that an earlier version
// wrote may have several of a name, one for each upstream: each of them is approved. Make it with
// [NewLock] or [ReadLock].
type Lock []LockedPrompt

// LockedPrompt is one approved definition.
type LockedPrompt struct {
	// Name is the prompt's exposed name without overrides: prefix, separator and the upstream's own
	// name.
	Name string
	// Upstream is the label of the upstream that the definition is from. Others that offer the
	// prompt are compared with it, too.
	Upstream string
	// SHA256 is the hash of the definition without its name, in canonical JSON (RFC 8785, with
	// integers as they are spelled).
	SHA256 [sha256.Size]byte
	// Definition is the JSON that was hashed, for reviews and to show what changed. A [Config] does
	// not keep it.
	Definition string
}

// NewLockedPrompt makes the lock entry of a definition, which is a JSON object without the member
// "name".
func NewLockedPrompt(name, upstream string, definition []byte) (LockedPrompt, error) {
	canonical := jsontext.Value(bytes.Clone(definition))
	// RFC 8785 alone would round large integers to floats, so that two definitions could share a
	// hash.
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return LockedPrompt{}, fmt.Errorf("definition of %q: %w", name, err)
	}
	return LockedPrompt{Name: name, Upstream: upstream, SHA256: sha256.Sum256(canonical), Definition: string(canonical)}, nil
}

// NewLock sorts prompts in place and returns them as a lock, each definition of a name once.
func NewLock(prompts []LockedPrompt) Lock {
	slices.SortFunc(prompts, compareLocked)
	return slices.CompactFunc(prompts, func(a, b LockedPrompt) bool { return a.Name == b.Name && a.SHA256 == b.SHA256 })
}

func compareLocked(a, b LockedPrompt) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.SHA256[:], b.SHA256[:]), strings.Compare(a.Upstream, b.Upstream))
}

// Named returns the approved definitions of a name.
func (l Lock) Named(name string) Lock {
	compare := func(p LockedPrompt, name string) int { return strings.Compare(p.Name, name) }
	begin, _ := slices.BinarySearchFunc(l, name, compare)
	end := begin
	for end < len(l) && l[end].Name == name {
		end++
	}
	return l[begin:end]
}

// LockState is what a lock file says of a definition.
type LockState string

// The values of [LockState].
const (
	LockApproved LockState = "approved"
	LockDiffers  LockState = "differs"
	LockMissing  LockState = "not locked"
)

// State compares a definition, by the hash of its canonical JSON, with the approved one.
func (l Lock) State(name string, hash [sha256.Size]byte) LockState {
	approved := l.Named(name)
	switch {
	case len(approved) == 0:
		return LockMissing
	case !slices.ContainsFunc(approved, func(p LockedPrompt) bool { return p.SHA256 == hash }):
		return LockDiffers
	}
	return LockApproved
}

// LockChange is one prompt's difference between two locks: Before is nil for a new prompt, After
// for one that is gone.
type LockChange struct{ Before, After *LockedPrompt }

// DiffLocks returns the prompts that differ between two locks, sorted by name. Which upstream a
// definition is from makes no difference.
func DiffLocks(before, after Lock) []LockChange {
	var changes []LockChange
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].Name < after[0].Name:
			changes, before = append(changes, LockChange{Before: &before[0]}), before[1:]
		case len(before) == 0 || before[0].Name > after[0].Name:
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

// decodeLock decodes the lock attribute of the gateway or of a team.
func decodeLock(b *hclread.Block) LockSetting {
	lock := LockSetting{Place: placeOf(b.Range())}
	if !hclread.Set(b, "lock", &lock.Mode, hclread.OneOf(LockEnforce, LockWarn)) {
		return LockSetting{}
	}
	return lock
}

// LockFile is the name of the lock file beside the configuration.
const LockFile = "promptweir.lock.hcl"

// maxLockFile bounds the lock file, in bytes.
const maxLockFile = 256 << 20

// LockPath returns where the lock file of the configuration at path is.
func LockPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, LockFile)
	}
	return filepath.Join(filepath.Dir(path), LockFile)
}

// readLockFile reads the lock file of a configuration, if a lock attribute asks for it. The
// definitions are dropped, since the hashes are all that is compared.
func readLockFile(r *hclread.Reader, cfg *Config, path string, opts Options) (Lock, hclread.Report) {
	asks := cfg.Gateway.Lock
	for i := range cfg.Teams {
		if asks.Mode == LockOff {
			asks = cfg.Teams[i].Lock
		}
	}
	if asks.Mode == LockOff || opts.SkipLockFile {
		return nil, hclread.Report{}
	}
	file := LockPath(path)
	if opts.OnRead != nil {
		opts.OnRead(file)
	}
	content, err := hclread.ReadLockFile(file, maxLockFile)
	_, isTooLarge := errors.AsType[*regular.TooLargeError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Not an error: the first lock file is written from a configuration that already asks for
		// one.
		at := hcl.Pos{Line: asks.Place.Line, Column: 1}
		r.Warning(hcl.Range{Filename: asks.Place.File, Start: at, End: at}, "No lock file", "There is no %s, so no definition is approved yet; write "+
			"it with: promptweir lock --config %s --live", file, path)
	case isTooLarge:
		r.Unplaced("Lock file too large", "%s is larger than %d bytes.", file, maxLockFile)
	case err != nil:
		r.Unplaced("Cannot read the lock file", "%s: %s.", file, regular.Cause(err))
	default:
		lock, report := parseLock(file, content)
		for i := range lock {
			lock[i].Definition = ""
		}
		return lock, report
	}
	return nil, hclread.Report{}
}

// ReadLock reads the lock file at path, as [Load] does. The Lock is nil if the Diagnostics have
// errors. The error is that of the file system.
func ReadLock(path string) (Lock, Diagnostics, error) {
	content, err := hclread.ReadLockFile(path, maxLockFile)
	if err != nil {
		return nil, Diagnostics{}, fmt.Errorf("%s: %w", path, regular.Cause(err))
	}
	lock, diagnostics := parseLockFile(path, content)
	return lock, diagnostics, nil
}

// parseLockFile reads the content of a lock file. The Lock is nil if the Diagnostics have errors.
func parseLockFile(path string, content []byte) (Lock, Diagnostics) {
	lock, report := parseLock(path, content)
	if report.Diagnostics.HasErrors() {
		lock = nil
	}
	return lock, Diagnostics{report}
}

func lockSchema() hclread.Schema {
	prompt := hclread.Schema{Plain: []string{"upstream", "definition"}, Secret: []string{"sha256"}}
	return hclread.Schema{Blocks: []hclread.BlockSchema{{Type: "prompt", Labelled: true, Schema: prompt}}}
}

func parseLock(path string, content []byte) (Lock, hclread.Report) {
	r := hclread.New(lockSchema(), hclread.Options{TextsOnly: true})
	r.Parse(path, content)
	r.Check()
	var prompts []LockedPrompt
	for _, b := range r.Blocks("prompt") {
		if b.Labelled() {
			prompts = append(prompts, decodeLocked(b))
		}
	}
	return NewLock(prompts), r.Finish()
}

// lockAgain is the remedy for a lock file that is not as it was written. The command lock keeps to what is in a file, so that
// the file has to go first.
const lockAgain = "restore the file, or remove it and approve all prompts again with: promptweir lock --config PATH --live"

// decodeLocked decodes one approved definition.
func decodeLocked(b *hclread.Block) LockedPrompt {
	for _, name := range []string{"upstream", "sha256", "definition"} {
		b.Require(name, "A prompt in a lock file needs it; "+lockAgain)
	}
	p := LockedPrompt{Name: b.Label()}
	hclread.Set(b, "upstream", &p.Upstream, hclread.AnyText)
	// An earlier version wrote a definition for each upstream.
	b.Unique("locked prompt of upstream "+p.Upstream, p.Name, b.LabelRange())
	isHashed := hclread.Set(b, "sha256", &p.SHA256, parseHash)
	definition, ok := b.Text("definition")
	if !ok || !isHashed {
		return p
	}
	// The gateway compares the hash and a reviewer reads the definition, so the two must agree.
	actual, err := NewLockedPrompt(p.Name, p.Upstream, []byte(definition.Value))
	if err != nil || actual.SHA256 != p.SHA256 {
		b.Error(b.ValueRange("sha256"), "Hash does not match", "The sha256 is not the hash of "+
			"the definition below it; "+lockAgain)
		return p
	}
	return actual
}

// lockHeader begins every lock file.
const lockHeader = `# Every prompt's approved definition, written by "promptweir lock": review the difference, not the file.
`

// Format writes the lock as a file, which [ReadLock] reads. Equal locks give equal bytes.
func (l Lock) Format() []byte {
	var out bytes.Buffer
	out.WriteString(lockHeader)
	for _, p := range l {
		fmt.Fprintf(&out, "\nprompt %s {\n  upstream = %q\n  sha256   = %q\n  definition = <<-JSON\n%s\n  JSON\n}\n",
			label(p.Name), p.Upstream, hex.EncodeToString(p.SHA256[:]), p.heredoc())
	}
	return hclwrite.Format(out.Bytes())
}

// heredoc writes the definition with one member per line, so that a review shows what changed.
func (p LockedPrompt) heredoc() string {
	text := jsontext.Value(p.Definition)
	if err := text.Indent(jsontext.WithIndentPrefix("    "), jsontext.WithIndent("  ")); err != nil {
		panic(err) // NewLockedPrompt made it canonical JSON
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

// label quotes a name for HCL, which has one escape for a character that takes two in JSON.
func label(name string) string {
	quoted := literal.Replace(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name))
	return `"` + legible(quoted, func(r rune) string {
		if r > 0xffff {
			return fmt.Sprintf(`\U%08x`, r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	}) + `"`
}

// literal keeps HCL from reading templates in a string.
var literal = strings.NewReplacer("${", "$${", "%{", "%%{") //nolint:gochecknoglobals // a constant

// legible escapes characters that a reader cannot see. It escapes all that is not ASCII if the text
// is not in Unicode's composed form, into which HCL turns every string. The line breaks of indented
// JSON stay.
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
