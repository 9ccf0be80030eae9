// Package files makes prompts from the Markdown files of a team, and renders them.
//
//	Team.Refresh     patterns ──▶ paths ──▶ bytes ──▶ prompts      reads changed files; a broken file keeps its last good prompt
//	parse            front matter ──▶ definition
//	                 text ──▶ messages of pieces ──▶ JSON with gaps
//	Prompt.Render    arguments ──▶ gaps ──▶ the result of a get
//
// The structure of a text is read before a get sends values. The values fill gaps inside of JSON strings, so a
// value never becomes a message, a partial or another gap.
//
// Promises:
//   - A file is opened only below the root of its [config.Files], only after [config.Files.Allow] has
//     granted its path and [config.Files.AllowResolved] the target of its links, and only if it is a
//     regular file of an expected type and size.
//   - A broken file affects only prompts that include it. A [Problem] contains the location and the remedy.
//   - The prompt files of a team, with their images and sounds, total at most [config.Files.Max]
//     bytes. The bound is checked before a file is read. A pass beyond the bound changes nothing.
//   - Several links to one file make only one prompt of an upstream.
//   - All links that lead out of the root get the same report, which reveals nothing about the target.
//   - A prompt is read again only if the size, time, mode or inode of its file or of an included file
//     has changed, or if such a file was very new or could not be read.
//   - A [Team] is for one goroutine. A [Prompt] and a [List] never change.
//
// Parsing and rendering work on bytes; only open.go, pass.go, sign.go, skill.go and walk.go touch
// the disk. The package does not use HTTP.
package files
