// Package clientfile answers: which team's file says what the configuration of an MCP client says?
//
//	Claude Desktop, Claude Code, Cursor, Windsurf: mcpServers ─┐
//	VS Code: servers and inputs ───────────────────────────────┴▶ servers ─▶ upstream blocks, comments ─▶ config.Load
//
// Promises:
//   - [Team] returns a formatted file that config.Load accepts as it is, apart from variables of
//     the environment that are not set.
//   - Nothing is left out in silence: what a team's file cannot say is a comment in it.
//   - A value that looks like a secret is not in the file: env("NAME") takes its place, and a
//     comment names the variable.
//   - [Apply] changes one member of a client's file, and keeps the rest as it is.
//   - Nothing is started or contacted, and no other file is read.
package clientfile
