// Package files answers one question: which prompts are in a folder of Markdown files, and what does a get of each return?
//
//	Folder.Refresh   patterns ──▶ paths ──▶ bytes ──▶ prompts      reads what changed, and keeps the last good prompt
//	parse            front matter ──▶ definition                    of a file that broke
//	                 text ──▶ messages of pieces ──▶ JSON with gaps
//	Prompt.Render    arguments ──▶ gaps ──▶ the result of a get
//
// The structure of a text is read before values are put in: what a get sends fills gaps inside of JSON strings, so that a value
// never makes a message, a partial or another gap.
//
// What callers may rely on:
//   - A file is opened beneath the root of its [config.Files] only, after [config.Files.Allow] has granted both its path and
//     where its links lead, and only if it is a regular Markdown, image or audio file within the bounds below.
//   - A file that breaks costs no other file. What is wrong is a [Problem] with its place and remedy.
//   - A [Folder] is for one goroutine. A [Prompt] and a [List] never change.
//
// Parsing and rendering work on bytes; only folder.go, scan.go and open.go touch the disk. The package knows no HTTP and no
// JSON-RPC.
package files
