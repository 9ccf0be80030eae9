// Package syncdir brings a client's folder in line with the prompts that a caller may see.
//
//	Prompt ──▶ Target.render ──▶ wanted files ─┐
//	                                           ├─▶ plan ──▶ apply
//	folder ──▶ scan ──▶ existing files ────────┘
//
// Promises:
//   - A client shows a prompt's text literally: syntax of the client's format in it is escaped. If the format
//     has no escape, the prompt gets no file.
//   - The package changes and removes only files that it wrote for the same source and that were not edited
//     since. Each file contains a seal: a hash of its text and path.
//   - Files are written by renaming, below one folder, and no link is followed. If the process is
//     killed, each file is whole, and the next run continues.
//
// Rendering and planning work on values; only folder.go touches the disk.
package syncdir
