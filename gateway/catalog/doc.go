// Package catalog answers: which prompts exist, under which names, and who owns each?
//
//	Source ┐  exposed name,      ┌───────────────┐
//	Source ┼─ its namespace's ──▶│ claims on one │─ same definition ─▶ Entry ┐   sorted    visible?
//	Source ┘  owner, first of    │ exposed name  │                           ├─▶ Catalog ─────────▶ View ─▶ Page
//	          its list           └───────────────┘─ different ───────▶ Report ┘
//
// Promises:
//   - The package is pure: no I/O, no clock, no goroutines. Results depend only on arguments, so replicas
//     with the same lists have the same catalog.
//   - Catalogs, views and entries are immutable and safe for concurrent use. An entry's bytes are
//     encoded once and shared by every view and page. The package keeps its arguments in use; callers
//     must not change them afterwards.
//   - An entry's exposed name depends only on its own upstream and occurs once. Entries are sorted by
//     the bytes of their exposed names.
//   - The order of arrival does not matter: [Merge] and a series of [Catalog.With] make the same
//     catalog of the same sources.
//   - The policy decides about an entry once, and not at each request. The entry contains the decision,
//     see [Entry.VisibleTo].
package catalog
