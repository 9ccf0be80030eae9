package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config/internal/hclread"
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

// Lock holds the approved definitions, sorted by name, then upstream. Make it with [NewLock] or
// [ReadLock].
type Lock []LockedPrompt

// LockedPrompt is one approved definition.
type LockedPrompt struct {
	// Name is the prompt's exposed name without overrides: prefix, separator and the upstream's own
	// name.
	Name string
	// Upstream is the label of the upstream that has the prompt.
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

// NewLock sorts prompts in place and returns them as a lock.
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

// LockChange is one prompt's difference between two locks: Before is nil for a new prompt, After
// for one that is gone.
type LockChange struct{ Before, After *LockedPrompt }

// DiffLocks returns the prompts that differ between two locks, sorted by name, then upstream.
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

// decodeLock decodes the lock attribute of the gateway or of a team.
func decodeLock(b *hclread.Block) LockSetting {
	lock := LockSetting{Place: placeOf(b.Range())}
	if !hclread.Set(b, "lock", &lock.Mode, hclread.OneOf(LockEnforce, LockWarn)) {
		return LockSetting{}
	}
	return lock
}
