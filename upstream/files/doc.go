// Package files answers one question: which prompts are in the Markdown files of a team, and what
// does a get of each return?
//
//	Team.Refresh     patterns ──▶ paths ──▶ bytes ──▶ prompts      reads changed files, and keeps the last good prompt of a file
//	                                                               that broke
//	parse            front matter ──▶ definition
//	                 text ──▶ messages of pieces ──▶ JSON with gaps
//	Prompt.Render    arguments ──▶ gaps ──▶ the result of a get
//
// The structure of a text is read before values are put in: what a get sends fills gaps inside of
// JSON strings, so that a value never makes a message, a partial or another gap.
//
// What callers may rely on:
//   - A file is opened beneath the root of its [config.Files] only, after [config.Files.Allow] has
//     granted both its path and where its links lead, and only if it is a regular Markdown, image
//     or audio file within the bounds below.
//   - A file that breaks costs no other file. What is wrong is a [Problem] with its source location
//     and remedy.
//   - The files of a team have at most [config.Files.Max] bytes together. That is checked before a
//     file is read; a pass over more changes nothing.
//   - However many links lead to a file, it is one prompt of an upstream.
//   - A link that leads out of the root is reported alike whatever it leads to, so nobody learns
//     what is outside.
//   - A pass reads each file once. An unchanged file, by size, time and inode, is not read again.
//   - A [Team] is for one goroutine. A [Prompt] and a [List] never change.
//
// Parsing and rendering work on bytes; only pass.go, walk.go, skill.go and open.go touch the disk.
// The package knows no HTTP and no JSON-RPC.
package files
