// Package catalog answers: which prompts are there, under which names, and who owns each?
//
//	Source ┐  exposed name,      ┌───────────────┐
//	Source ┼─ its namespace's ──▶│ claims on one │─ same definition ─▶ Entry ┐   sorted    visible?
//	Source ┘  owner, first of    │ exposed name  │                           ├─▶ Snapshot ─────────▶ View ─▶ Page
//	          its list           └───────────────┘─ different ───────▶ Report ┘
//
// Promises:
//   - It is pure: no I/O, no clock, no goroutines. What it returns depends on its arguments only, so every replica
//     with the same lists has the same catalog.
//   - Snapshots, views and entries are immutable and safe for concurrent use. The bytes of an entry are encoded once
//     and shared by every view and page. What is passed in is kept: nobody may change it afterwards.
//   - An entry's exposed name depends on its own upstream only, and is there once. Entries are sorted by the bytes of
//     the exposed name.
//   - Order of arrival never matters: however a snapshot was reached, by [Merge] or by [Snapshot.With], it is the one
//     that Merge would make of the same sources.
package catalog
