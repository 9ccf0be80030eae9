// Package syncdir answers: which files of a client's folder hold the prompts that a caller may see,
// and how does the folder get there?
//
//	Prompt ──▶ Target.render ──▶ files that should be there ─┐
//	                                                         ├─▶ plan ──▶ Folder.apply
//	folder ──▶ scan ──▶ files that are there ────────────────┘
//
// What callers may rely on:
//   - A text stays text: what a client would run, read or replace in it is escaped, and where the
//     format has no escape the prompt gets no file.
//   - Only a file that this package wrote for the same source is changed or removed, and only while
//     it is as it was written: each carries a seal, a hash of itself and its name.
//   - Files are written beneath one folder by renaming, and no link is followed. Whenever the process
//     ends, each file is whole, and the next run goes on from there.
//
// Rendering and planning work on values; only folder.go touches the disk.
package syncdir
