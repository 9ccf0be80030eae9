// Package clientfile converts the configuration of an MCP client to a team's file.
//
//	Claude Desktop, Claude Code, Cursor, Windsurf: mcpServers ─┐
//	VS Code: servers and inputs ───────────────────────────────┴▶ servers ─▶ upstream blocks, comments ─▶ config.Load
//
// Promises:
//   - [Team] returns a formatted file that config.Load accepts, once its variables are set.
//   - A setting that the gateway does not have becomes a comment.
//   - A value that looks like a secret is not in the file: env("NAME") takes its place, and a
//     comment names the variable.
//   - [Apply] changes one member of a client's file and nothing else.
//   - The package starts and contacts no server, and reads no file that a server's settings name.
package clientfile
