// Package catalog answers: which prompts exist, under which names, and who owns each?
//
//	Source ┐  exposed name,      ┌───────────────┐
//	Source ┼─ its namespace's ──▶│ claims on one │─ same definition ─▶ Entry ┐   sorted    visible?
//	Source ┘  owner, first of    │ exposed name  │                           ├─▶ Catalog ─────────▶ View ─▶ Page
//	          its list           └───────────────┘─ different ───────▶ Report ┘
//
// Promises:
//   - It is pure: no I/O, no clock, no goroutines. What it returns depends only on its arguments,
//     so every replica with the same lists has the same catalog.
//   - Catalogs, views and entries are immutable and safe for concurrent use. An entry's bytes are
//     encoded once and shared by every view and page. Arguments are retained: callers must not
//     change them afterwards.
//   - An entry's exposed name depends on its own upstream only and occurs once. Entries are sorted
//     by the bytes of their exposed names.
//   - The order of arrival never matters: whether a catalog was built by [Merge] or step by step by
//     [Catalog.With], it equals what Merge makes of the same sources.
//   - What policy decided about an entry travels with it ([Entry.VisibleTo]), so that the decision
//     is made once for each entry and not once for each request.
package catalog
