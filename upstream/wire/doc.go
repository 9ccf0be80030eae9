// Package wire is JSON-RPC and MCP as bytes.
//
// It knows the JSON-RPC envelope, the names that the protocol gives to methods, members, headers
// and capabilities, and the protocol's revisions. It does no I/O, keeps no state and imports no
// other package of this module.
//
// Promises:
//   - Reading is strict: duplicate member names, invalid UTF-8, lone surrogates, nesting deeper
//     than [MaxDepth], bytes after the value and members of the wrong type are errors, so that no
//     two readers of the same bytes can disagree about what they say (RFC 8259 leaves those cases
//     open). Only [ParseList] lets the elements of one list pass, for their readers to refuse.
//   - Values that the caller does not change keep their bytes: number spelling, escapes, member
//     order and unknown members go out as they came in.
//   - Values returned by a Parse function alias its input, which must not change while they are in
//     use.
package wire
