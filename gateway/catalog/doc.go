// Package catalog answers: which prompts exist, under which names, and who owns each?
//
//	Source ┐  exposed name,      ┌───────────────┐
//	Source ┼─ its namespace's ──▶│ claims on one │─ same definition ─▶ Entry ┐   sorted    visible?
//	Source ┘  owner, first of    │ exposed name  │                           ├─▶ Catalog ─────────▶ View ─▶ Page
//	          its list           └───────────────┘─ different ───────▶ Report ┘
//
// Promises:
//   - It is pure: no I/O, no clock, no goroutines. Results depend only on arguments, so replicas with
//     the same lists have the same catalog.
//   - Catalogs, views and entries are immutable and safe for concurrent use. An entry's bytes are
//     encoded once and shared by every view and page. Arguments are retained; callers must not change
//     them afterwards.
//   - An entry's exposed name depends only on its own upstream and occurs once. Entries are sorted by
//     the bytes of their exposed names.
//   - The order of arrival does not matter: [Merge] and a series of [Catalog.With] make the same
//     catalog of the same sources.
//   - An entry contains the policy's decision about it ([Entry.VisibleTo]), which is made once per
//     entry and not once per request.
package catalog
