// Package schema answers: does a JSON value satisfy a JSON Schema that is not trusted?
//
// The validator is github.com/santhosh-tekuri/jsonschema. This package adds bounds, because both
// the schema, which comes from an upstream, and the value, which comes from a client, may be made
// to keep a validator busy forever.
//
// Promises:
//
//   - The dialect is JSON Schema 2020-12, or what $schema names: 2019-09, draft-07, -06 or -04.
//     Whether format is asserted follows the dialect: not since 2019-09.
//   - Nothing is ever loaded, neither from the network nor from a file. A schema that refers to
//     another document does not compile ([ErrExternal]). The meta-schemas of the dialects are built
//     in.
//   - Patterns are those of RE2, so that none backtracks. A pattern that RE2 does not support, such
//     as a lookahead, does not compile.
//   - Numbers are compared exactly, whatever their size.
//   - [Schema.Check] ends soon after a quarter of a second, whatever it is given.
package schema
