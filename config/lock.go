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
	"github.com/hashicorp/hcl/v2/hclwrite"
	"golang.org/x/text/unicode/norm"

	"github.com/promptweir/promptweir/config/internal/hclread"
	"github.com/promptweir/promptweir/config/safefile"
)

// LockMode is the action for a prompt with a definition that the lock file does not contain.
type LockMode string

// The values of the lock attribute.
const (
	LockOff     LockMode = ""        // does not compare definitions
	LockWarn    LockMode = "warn"    // lists the prompt and reports it
	LockEnforce LockMode = "enforce" // leaves out the prompt and reports it
)

// LockSetting is a lock attribute and the location of its block.
type LockSetting struct {
	Mode  LockMode
	Place Place
}

// LockFor returns the stricter of the settings of the gateway and the team: a team cannot loosen the
// gateway's setting.
func (c *Config) LockFor(team string) LockSetting {
	strictest := c.Gateway.Lock
	for i := range c.Teams {
		own := c.Teams[i].Lock
		// If both warn, the team's location is more useful in reports.
		if c.Teams[i].Name == team && own.Mode != LockOff && strictest.Mode != LockEnforce {
			strictest = own
		}
	}
	return strictest
}

// Lock contains the approved definitions, sorted by name. A file of an earlier version may have
// several definitions of a name, each from another upstream; all of them are approved. Make a Lock
// with [NewLock] or [ReadLock].
type Lock []LockedPrompt

// LockedPrompt is one approved definition.
type LockedPrompt struct {
	// Name is the exposed name without overrides: prefix, separator and the upstream's own name.
	Name string
	// Upstream is the label of the definition's upstream. Prompts of this name from other upstreams
	// are also compared with the definition.
	Upstream string
	// SHA256 is the hash of the definition without its name, in canonical JSON (RFC 8785, but integers keep
	// their spelling).
	SHA256 [sha256.Size]byte
	// Definition is the hashed JSON, for reviews and differences. It is empty in a [Config].
	Definition string
}

// NewLockedPrompt makes the entry of a definition, a JSON object without the member "name".
func NewLockedPrompt(name, upstream string, definition []byte) (LockedPrompt, error) {
	canonical := jsontext.Value(bytes.Clone(definition))
	// RFC 8785 would round large integers to floats, so two definitions could share a hash.
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return LockedPrompt{}, fmt.Errorf("definition of %q: %w", name, err)
	}
	return LockedPrompt{Name: name, Upstream: upstream, SHA256: sha256.Sum256(canonical), Definition: string(canonical)}, nil
}

// NewLock sorts prompts in place and returns them as a lock without duplicates.
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

// LockState is the result of comparing a definition with a lock file.
type LockState string

// The values of [LockState].
const (
	LockApproved LockState = "approved"
	LockDiffers  LockState = "differs"
	LockMissing  LockState = "not locked"
)

// State compares the hash of a definition's canonical JSON with the approved hashes.
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

// LockChange is one prompt's difference between two locks. Before is nil for a new prompt, and After is
// nil for a removed prompt.
type LockChange struct{ Before, After *LockedPrompt }

// DiffLocks returns the prompts that are new or removed, or have another hash, sorted by name.
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

// field returns the field of the lock attribute of a gateway or team block.
func (l *LockSetting) field() hclread.Field {
	return hclread.Custom("string", &l.Mode, func(b *hclread.Block) {
		if hclread.Set(b, "lock", &l.Mode, hclread.OneOf(LockEnforce, LockWarn)) {
			l.Place = placeOf(b.Range())
		}
	})
}

// LockFile is the name of the lock file beside the configuration.
const LockFile = "promptweir.lock.hcl"

// maxLockFile bounds the lock file, in bytes.
const maxLockFile = 256 << 20

// LockPath returns the path of the lock file for the configuration at path.
func LockPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, LockFile)
	}
	return filepath.Join(filepath.Dir(path), LockFile)
}

// readLockFile reads the lock file if a lock attribute requires it. It drops the definitions, because only
// hashes are compared.
func readLockFile(r *hclread.Reader, path string, opts Options) (Lock, hclread.Report) {
	asking := slices.DeleteFunc(slices.Concat(r.Blocks("gateway"), r.Blocks("team")), func(b *hclread.Block) bool { return !b.Has("lock") })
	if len(asking) == 0 || opts.SkipLockFile {
		return nil, hclread.Report{}
	}
	file := LockPath(path)
	if opts.OnRead != nil {
		opts.OnRead(file)
	}
	lock, diags, err := ReadLock(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Not an error: promptweir lock writes the first lock file for such a configuration.
		at := asking[0].Range()
		at.End = at.Start
		r.Warning(at, "No lock file",
			"There is no %s, so no definition is approved yet; write it with: promptweir lock --config %s --live", file, path)
	case err != nil:
		r.Unplaced("Cannot read the lock file", "%s.", err)
	}
	for i := range lock {
		lock[i].Definition = ""
	}
	return lock, diags.report
}

// ReadLock reads the lock file at path. The Lock is nil if the Diagnostics have errors. The error is
// non-nil if the file cannot be read.
func ReadLock(path string) (Lock, Diagnostics, error) {
	content, err := hclread.ReadLockFile(path, maxLockFile)
	if err != nil {
		return nil, Diagnostics{}, fmt.Errorf("%s: %w", path, safefile.Cause(err))
	}
	lock, report := parseLock(path, content)
	if report.Diagnostics.HasErrors() {
		lock = nil
	}
	return lock, Diagnostics{report}, nil
}

func lockSchema() hclread.Schema {
	return hclread.Schema{Blocks: []hclread.BlockSchema{{
		Type: "prompt", Labelled: true, Schema: hclread.Schema{Attributes: new(LockedPrompt).table(new(bool))},
	}}}
}

func (p *LockedPrompt) table(isHashed *bool) []hclread.Attribute {
	const remedy = "A prompt in a lock file needs it; " + lockAgain
	hash := hclread.Custom("string", nil, func(b *hclread.Block) { *isHashed = hclread.Set(b, "sha256", &p.SHA256, parseHash) })
	return []hclread.Attribute{
		hclread.Plain("upstream", hclread.String(&p.Upstream, hclread.AnyText), "").Required(remedy),
		hclread.Secret("sha256", hash, "").Required(remedy),
		hclread.Plain("definition", hclread.String(&p.Definition, hclread.AnyText), "").Required(remedy),
	}
}

func parseLock(path string, content []byte) (Lock, hclread.Report) {
	r := hclread.New(lockSchema(), hclread.Options{IsLock: true})
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

// lockAgain is the remedy for a changed lock file. promptweir lock keeps existing entries, so the file must be
// removed first.
const lockAgain = "restore the file, or remove it and approve all prompts again with: promptweir lock --config PATH --live"

func decodeLocked(b *hclread.Block) LockedPrompt {
	p, isHashed := LockedPrompt{Name: b.Label()}, false
	b.Decode(p.table(&isHashed))
	// An earlier version wrote one definition for each upstream, so a name may repeat for other upstreams.
	b.Unique("locked prompt of upstream "+p.Upstream, p.Name, b.LabelRange())
	if p.Definition == "" && b.Lacks("definition") || !isHashed {
		return p
	}
	// The gateway compares hashes but reviewers read definitions, so the hash must be the definition's.
	actual, err := NewLockedPrompt(p.Name, p.Upstream, []byte(p.Definition))
	if err != nil || actual.SHA256 != p.SHA256 {
		b.Error(b.ValueRange("sha256"), "Hash does not match", "The sha256 is not the hash of the definition below it; "+lockAgain)
		return p
	}
	return actual
}

// lockHeader begins every lock file.
const lockHeader = `# Every prompt's approved definition, written by "promptweir lock": review the difference, not the file.
`

// Format returns the lock as a file for [ReadLock]. Equal locks give equal bytes.
func (l Lock) Format() []byte {
	var out bytes.Buffer
	out.WriteString(lockHeader)
	for _, p := range l {
		fmt.Fprintf(&out, "\nprompt %s {\n  upstream = %q\n  sha256   = %q\n  definition = <<-JSON\n%s\n  JSON\n}\n",
			label(p.Name), p.Upstream, hex.EncodeToString(p.SHA256[:]), p.heredoc())
	}
	return hclwrite.Format(out.Bytes())
}

// heredoc returns the definition with one member per line, so that a review shows each change.
func (p LockedPrompt) heredoc() string {
	text := jsontext.Value(p.Definition)
	if err := text.Indent(jsontext.WithIndentPrefix("    "), jsontext.WithIndent("  ")); err != nil {
		panic(err) // impossible: NewLockedPrompt made the definition canonical JSON
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

// label quotes a name for HCL. For a character beyond the basic plane, HCL has one escape, unlike the two of JSON.
func label(name string) string {
	quoted := literal.Replace(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name))
	return `"` + legible(quoted, func(r rune) string {
		if r > 0xffff {
			return fmt.Sprintf(`\U%08x`, r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	}) + `"`
}

// literal escapes the beginnings of HCL templates.
var literal = strings.NewReplacer("${", "$${", "%{", "%%{") //nolint:gochecknoglobals // a constant

// legible escapes invisible characters, except line breaks. If the text is not in Unicode's composed form (NFC),
// it escapes all characters except ASCII, because HCL would compose them.
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
