package wire

import "slices"

// The protocol's revisions that have prompts.
const (
	Rev20241105 = "2024-11-05"
	Rev20250326 = "2025-03-26"
	Rev20250618 = "2025-06-18"
	Rev20251125 = "2025-11-25"
	Rev20260728 = "2026-07-28"
)

// LatestLegacy is the newest revision of the legacy era, in which a session begins with an
// initialize handshake.
const LatestLegacy = Rev20251125

// Revisions returns every supported revision, newest first.
func Revisions() []string {
	return []string{Rev20260728, Rev20251125, Rev20250618, Rev20250326, Rev20241105}
}

// Modern reports whether a revision is of the modern era, in which each request carries its
// metadata and there is no initialize handshake. Revisions are dates, so a later one that is not
// known yet is modern too.
func Modern(revision string) bool { return revision >= Rev20260728 }

// KnownLegacy reports whether revision is a known one of the legacy era: initialize can agree on
// it.
func KnownLegacy(revision string) bool {
	return !Modern(revision) && slices.Contains(Revisions(), revision)
}
