// Package wire reads and writes the JSON of JSON-RPC and MCP.
//
// It defines the JSON-RPC envelope, the protocol's names for methods, members, headers and capabilities, and
// its revisions. It does no I/O, keeps no state and imports no other package of this module.
//
// Promises:
//   - Reading is strict: duplicate member names, invalid UTF-8, lone surrogates, nesting deeper
//     than [MaxDepth], bytes after the value and members of the wrong type are errors. RFC 8259
//     leaves such cases open, so two readers could understand the same bytes differently. There are
//     two exceptions. [ParseList] accepts invalid elements of a list, which the caller must check.
//     [ClaimedIDs] finds ids in invalid text.
//   - Unchanged values keep their bytes: number spelling, escapes, member order and unknown
//     members.
//   - Values returned by a Parse function alias its input, which must not change while they are in
//     use.
package wire
