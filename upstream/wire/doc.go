// Package wire answers: what does a message of the Model Context Protocol look like, byte for byte?
//
// It knows the JSON-RPC envelope, the names that the protocol gives to methods, members and headers, and the
// protocol's revisions. It opens nothing, keeps no state and imports nothing else of this module.
//
// Promises:
//   - Reading is strict: duplicate member names, invalid UTF-8, lone surrogates, nesting deeper than [MaxDepth],
//     bytes after the value and members of the wrong type are errors, so that no two readers of the same bytes
//     can disagree about what they say (RFC 8259 leaves those cases open).
//   - Values that the caller does not change keep their bytes: number spelling, escapes, member order and unknown
//     members go out as they came in.
//   - Values returned by a Parse function alias its input. The input must not be changed while they are in use.
package wire
